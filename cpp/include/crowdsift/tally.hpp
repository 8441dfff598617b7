// What can be counted of votes, in one pass: how far each worker agrees with an order of the items,
// how often each item appears, and which ways its votes go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
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

// Counts the votes of workers [from, to).
template <class Lane>
void tally_range(const Votes& votes, std::size_t from, std::size_t to, const std::uint32_t* rank,
                 Lane& lane, TwoBits& ways, Tally& out) {
    auto* const sums = lane.sums();
    using Real = std::remove_reference_t<decltype(*sums)>;
    const bool far = votes.n_items >= kShortFrom;
    float above[kTallyBlock], agreed[kTallyBlock], decided[kTallyBlock];
    std::uint32_t way[kTallyBlock];
    const std::size_t last = votes.begin_of(to);
    std::size_t s = from;
    for (std::size_t at = votes.begin_of(from); at < last; at += kTallyBlock) {
        const std::size_t count = std::min(kTallyBlock, last - at);
        const std::uint32_t* const first = votes.first + at;
        const std::uint32_t* const second = votes.second + at;
        for (std::size_t j = 0; j < count; ++j) {
            if (far) {
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
            if (far) {
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
}

// Whether every row has the weight 1.
inline bool unweighted(const Votes& votes, ThreadPool& pool) {
    const std::vector<std::size_t> ranges = shared_ranges(votes.n, kManyRows, pool);
    std::vector<std::size_t> other(ranges.size() - 1, 0);
    pool.run(other.size(), [&](std::size_t range) {
        std::size_t count = 0;
        for (std::size_t i = ranges[range]; i < ranges[range + 1]; ++i)
            count += votes.weight[i] != 1.0F ? 1U : 0U;
        other[range] = count;
    });
    return std::count(other.begin(), other.end(), std::size_t{0}) ==
           static_cast<std::ptrdiff_t>(other.size());
}

// The items' ranks, 1 or 0 for the best, give their order; equal ranks agree with nobody. Sums are
// short only where they are whole numbers that single precision holds.
inline Tally tally(const Votes& votes, ThreadPool& pool, const std::uint32_t* rank) {
    const std::vector<std::size_t> ranges = votes.worker_ranges(pool.size());
    const std::size_t n_ranges = ranges.size() - 1;
    const bool shortly = votes.n_items >= kShortFrom && unweighted(votes, pool);
    RangeSums sums(n_ranges, votes.n_items);
    std::vector<TwoBits> ways(n_ranges, TwoBits(votes.n_items));
    Tally out;
    out.agreed.assign(votes.n_workers, 0.0);
    out.decided.assign(votes.n_workers, 0.0);
    out.appearances.resize(votes.n_items);
    const auto pass = [&](std::size_t range, auto& lane) {
        tally_range(votes, ranges[range], ranges[range + 1], rank, lane, ways[range], out);
    };
    sums.add_up(n_ranges, pool, shortly ? std::size_t{1} << 23 : 0, pass, out.appearances.data());
    out.ways.assign(votes.n_items, 0);
    for (const TwoBits& told : ways)
        for (std::size_t j = 0; j < votes.n_items; ++j)
            out.ways[j] = static_cast<std::uint8_t>(out.ways[j] | told.at(j));
    return out;
}

}  // namespace crowdsift
