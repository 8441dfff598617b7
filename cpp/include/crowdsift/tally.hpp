// What can be counted of votes, in one pass: how far each worker agrees with an order of the items,
// how often each item appears, and which ways its votes go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/range_sums.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

struct Tally {
    // Weights of a worker's decided votes that agree with the order of items, and of all decided
    // ones.
    std::vector<double> agreed, decided;
    // Of every item, the weights of its votes; 1 where a vote is (partly) for it, plus 2 where one
    // is against it.
    std::vector<double> appearances;
    std::vector<std::uint8_t> ways;
};

// Two bits an item, so that those of a million stay in the second-level cache.
class TwoBits {
public:
    explicit TwoBits(std::size_t n) : words_((n + 15) / 16, 0U) {}

    std::uint32_t at(std::size_t j) const { return words_[j / 16] >> 2 * (j % 16) & 3U; }

    void add(std::size_t j, std::uint32_t bits) {
        const std::uint32_t held = words_[j / 16], with = held | bits << 2 * (j % 16);
        if (with != held) words_[j / 16] = with;  // soon it is there
    }

private:
    std::vector<std::uint32_t> words_;
};

constexpr std::size_t kTallyBlock = 1024;

// Of one block: the weights of rows that agree with the order, 1 where the first item is above the
// second and -1 where it is below, and of decided ones; which ways a row goes for its first item
// (1: for it, 2: against it).
CROWDSIFT_CLONES
inline void tally_block(std::size_t count, const float* CROWDSIFT_RESTRICT above,
                        const float* CROWDSIFT_RESTRICT outcome,
                        const float* CROWDSIFT_RESTRICT weight, float* CROWDSIFT_RESTRICT agreed,
                        float* CROWDSIFT_RESTRICT decided, std::uint32_t* CROWDSIFT_RESTRICT way) {
    for (std::size_t j = 0; j < count; ++j) {
        const float lean = outcome[j] - 0.5F;
        agreed[j] = lean * above[j] > 0.0F ? weight[j] : 0.0F;
        decided[j] = lean != 0.0F ? weight[j] : 0.0F;
        way[j] = (outcome[j] != 0.0F ? 1U : 0U) | (outcome[j] != 1.0F ? 2U : 0U);
    }
}

// Sum of a few numbers in four chains.
CROWDSIFT_INLINE double sum_short(const float* values, std::size_t count) {
    double lane[4] = {0, 0, 0, 0};
    std::size_t j = 0;
    for (; j + 4 <= count; j += 4)
        for (std::size_t l = 0; l < 4; ++l) lane[l] += static_cast<double>(values[j + l]);
    for (; j < count; ++j) lane[0] += static_cast<double>(values[j]);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

// Counts the votes of workers [from, to); Real is that of its sums.
template <class Real>
void tally_range(const Votes& votes, std::size_t from, std::size_t to, const std::uint32_t* rank,
                 RangeSums::Lane<Real>& lane, TwoBits& ways, Tally& out) {
    Real* const sums = lane.sums();
    float above[kTallyBlock], agreed[kTallyBlock], decided[kTallyBlock];
    std::uint32_t way[kTallyBlock];
    const std::size_t last = votes.begin_of(to);
    std::size_t s = from;
    for (std::size_t at = votes.begin_of(from); at < last; at += kTallyBlock) {
        const std::size_t count = std::min(kTallyBlock, last - at);
        const std::uint32_t* const first = votes.first + at;
        const std::uint32_t* const second = votes.second + at;
        for (std::size_t j = 0; j < count; ++j) {
            if (sizeof(Real) == sizeof(float)) {
                const std::size_t ahead = std::min(j + kAhead, last - 1 - at);
                will_read(rank + first[ahead]);
                will_read(rank + second[ahead]);
            }
            above[j] = static_cast<float>((rank[second[j]] > rank[first[j]]) -
                                          (rank[second[j]] < rank[first[j]]));
        }
        tally_block(count, above, votes.outcome + at, votes.weight + at, agreed, decided, way);
        for (std::size_t j = 0; j < count;) {
            while (at + j >= votes.begin_of(s + 1)) ++s;
            const std::size_t end = std::min(count, votes.begin_of(s + 1) - at);
            const std::size_t own = end - j;
            out.agreed[s] += sum_short(agreed + j, own);
            out.decided[s] += sum_short(decided + j, own);
            j = end;
        }
        for (std::size_t j = 0; j < count; ++j) {
            if (sizeof(Real) == sizeof(float)) {
                const std::size_t ahead = std::min(j + kAhead, last - 1 - at);
                will_write(sums + first[ahead]);
                will_write(sums + second[ahead]);
            }
            const Real n = static_cast<Real>(votes.weight[at + j]);
            sums[first[j]] += n;
            sums[second[j]] += n;
            ways.add(first[j], way[j]);
            ways.add(second[j], (way[j] & 1U) << 1U | way[j] >> 1U);
        }
        lane.added(count);
    }
    lane.close();
}

// The items' ranks, 1 or 0 for the best, give their order; equal ranks agree with nobody.
inline Tally tally(const Votes& votes, ThreadPool& pool, const std::uint32_t* rank) {
    const std::vector<std::size_t> ranges = votes.worker_ranges(pool.size());
    const std::size_t n_ranges = ranges.size() - 1;
    RangeSums sums(n_ranges, votes.n_items);
    std::vector<TwoBits> ways(n_ranges, TwoBits(votes.n_items));
    Tally out;
    out.agreed.assign(votes.n_workers, 0.0);
    out.decided.assign(votes.n_workers, 0.0);
    out.appearances.resize(votes.n_items);
    pool.run(n_ranges, [&](std::size_t range) {
        const auto count = [&](auto real) {
            RangeSums::Lane<decltype(real)> lane(sums, range);
            tally_range(votes, ranges[range], ranges[range + 1], rank, lane, ways[range], out);
        };
        if (sums.are_short())
            count(0.0F);
        else
            count(0.0);
    });
    sums.reduce(out.appearances.data(), pool);
    out.ways.assign(votes.n_items, 0);
    for (const TwoBits& told : ways)
        for (std::size_t j = 0; j < votes.n_items; ++j)
            out.ways[j] = static_cast<std::uint8_t>(out.ways[j] | told.at(j));
    return out;
}

}  // namespace crowdsift
