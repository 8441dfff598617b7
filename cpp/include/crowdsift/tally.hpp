// Counts of votes in one pass: each worker's agreement with an order of the items, and how often
// each item appears and wins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "crowdsift/item_sums.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// Weights of a worker's votes: decided ones that agree with the order of items, decided ones
// between items of different rank, decided ones, those for the first item less those for the
// second, and all. Weights of an item's votes, and of those for it (a soft outcome counts in part).
struct Tally {
    Tally(std::size_t n_workers, std::size_t n_items)
        : agreed(n_workers, 0.0), ranked(n_workers, 0.0), decided(n_workers, 0.0),
          leaning(n_workers, 0.0), loads(n_workers, 0.0), appearances(n_items), wins(n_items) {}
    std::vector<double> agreed, ranked, decided, leaning, loads, appearances, wins;
};

constexpr std::size_t kTallyBlock = 1024;

// The sums by worker of one block of rows.
struct TallyBlock {
    float above[kTallyBlock], agreed[kTallyBlock], ranked[kTallyBlock], decided[kTallyBlock],
        leaning[kTallyBlock];
};

// `above` is 1 where the first item is above the second and -1 where it is below.
CROWDSIFT_CLONES
inline void tally_block(std::size_t count, const float* CROWDSIFT_RESTRICT outcome,
                        const float* CROWDSIFT_RESTRICT weight, TallyBlock& block) {
    for (std::size_t j = 0; j < count; ++j) {
        const float lean = outcome[j] - 0.5F, above = block.above[j];
        const float decided = lean != 0.0F ? weight[j] : 0.0F;
        block.agreed[j] = lean * above > 0.0F ? weight[j] : 0.0F;
        block.ranked[j] = above != 0.0F ? decided : 0.0F;
        block.decided[j] = decided;
        block.leaning[j] = 2.0F * lean * weight[j];
    }
}

// Counts the votes of workers [from, to); appearances and wins of items are added to two lanes.
template <class Lane>
void tally_range(const Votes& votes, std::size_t from, std::size_t to, const double* rank,
                 Lane& lane, Lane& winning, Tally& out) {
    auto* const sums = lane.sums();
    auto* const wins = winning.sums();
    using Real = std::remove_reference_t<decltype(*sums)>;
    const bool far = votes.n_items >= kMixedFrom;
    TallyBlock block;
    const std::size_t last = votes.begin_of(to);
    std::size_t s = from;
    for (std::size_t at = votes.begin_of(from); at < last; at += kTallyBlock) {
        const std::size_t count = std::min(kTallyBlock, last - at);
        const std::uint32_t* const first = votes.first + at;
        const std::uint32_t* const second = votes.second + at;
        for (std::size_t j = 0; j < count; ++j) {
            if (far) {
                const std::size_t ahead = std::min(j + kPrefetch, last - 1 - at);
                prefetch_read(rank + first[ahead]);
                prefetch_read(rank + second[ahead]);
            }
            block.above[j] = static_cast<float>((rank[second[j]] > rank[first[j]]) -
                                                (rank[second[j]] < rank[first[j]]));
        }
        tally_block(count, votes.outcome + at, votes.weight + at, block);
        for (std::size_t j = 0; j < count;) {
            while (at + j >= votes.begin_of(s + 1)) ++s;
            const std::size_t end = std::min(count, votes.begin_of(s + 1) - at);
            const std::size_t own = end - j;
            out.agreed[s] += sum_short(block.agreed + j, own);
            out.ranked[s] += sum_short(block.ranked + j, own);
            out.decided[s] += sum_short(block.decided + j, own);
            out.leaning[s] += sum_short(block.leaning + j, own);
            out.loads[s] += sum_short(votes.weight + at + j, own);
            j = end;
        }
        for (std::size_t j = 0; j < count; ++j) {
            if (far) {
                const std::size_t ahead = std::min(j + kPrefetch, last - 1 - at);
                prefetch_write(sums + first[ahead]);
                prefetch_write(sums + second[ahead]);
            }
            const Real n = static_cast<Real>(votes.weight[at + j]);
            const Real won = n * static_cast<Real>(votes.outcome[at + j]);
            sums[first[j]] += n;
            sums[second[j]] += n;
            wins[first[j]] += won;
            wins[second[j]] += n - won;
        }
        lane.added(count);
        winning.added(count);
    }
}

// Whether every row has the weight 1 and the outcome 0, 1/2 or 1.
inline bool whole(const Votes& votes, ThreadPool& pool) {
    const std::vector<std::size_t> ranges = shared_ranges(votes.n, kManyRows, pool);
    std::vector<std::size_t> other(ranges.size() - 1, 0);
    pool.run(other.size(), [&](std::size_t range) {
        std::size_t count = 0;
        for (std::size_t i = ranges[range]; i < ranges[range + 1]; ++i)
            count +=
                votes.weight[i] != 1.0F || (votes.outcome[i] != 0.0F && votes.outcome[i] != 1.0F &&
                                            votes.outcome[i] != 0.5F)
                    ? 1U
                    : 0U;
        other[range] = count;
    });
    return std::count(other.begin(), other.end(), std::size_t{0}) ==
           static_cast<std::ptrdiff_t>(other.size());
}

// The items' ranks, 1 for the best, give their order; equal ranks are no order. Partial sums are
// float32 only where they are halves of whole numbers that single precision holds.
inline Tally tally(const Votes& votes, ThreadPool& pool, const double* rank) {
    const std::vector<std::size_t> ranges = votes.worker_ranges(pool.size());
    const std::size_t n_ranges = ranges.size() - 1;
    const std::size_t every =
        votes.n_items >= kMixedFrom && whole(votes, pool) ? std::size_t{1} << 22 : 0;
    ItemSums sums(votes.n_items), winning(votes.n_items);
    Tally out(votes.n_workers, votes.n_items);
    ItemSums::add_both(
        sums, winning, n_ranges, pool, every,
        [&](std::size_t range, auto& lane, auto& other) {
            tally_range(votes, ranges[range], ranges[range + 1], rank, lane, other, out);
        },
        out.appearances.data(), out.wins.data());
    return out;
}

// Per item, 1 if only one worker has votes on it. If all items have votes of several workers, only
// a few votes are read.
inline std::vector<std::uint8_t> judged_by_one(const Votes& votes) {
    constexpr std::uint32_t none = 0xFFFFFFFFU, several = none - 1;
    std::vector<std::uint32_t> who(votes.n_items, none);
    std::size_t open = votes.n_items;
    for (std::size_t s = 0; s < votes.n_workers && open > 0; ++s) {
        const std::uint32_t worker = static_cast<std::uint32_t>(s);
        const auto judge = [&](std::uint32_t item) {
            if (item >= votes.n_items) throw std::invalid_argument("an item is out of range");
            const std::uint32_t before = who[item];
            if (before == worker || before == several) return;
            who[item] = before == none ? worker : several;
            open -= before == none ? 0 : 1;
        };
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            judge(votes.first[i]);
            judge(votes.second[i]);
        }
    }
    std::vector<std::uint8_t> alone(votes.n_items);
    std::transform(who.begin(), who.end(), alone.begin(),
                   [](std::uint32_t worker) { return worker < several ? 1 : 0; });
    return alone;
}

}  // namespace crowdsift
