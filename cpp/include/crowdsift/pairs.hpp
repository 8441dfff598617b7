// The distinct unordered pairs of items, and which comparisons belong to each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

struct Pairs {
    std::vector<std::uint32_t> row;   // pairs of the lower item j: [row[j], row[j + 1])
    Array<std::uint32_t> high;        // rising within a row
    Array<std::uint32_t> comparison;  // comparisons grouped by pair
    Array<std::uint32_t> start;       // group of pair p: [start[p], start[p + 1])

    std::size_t size() const { return high.size(); }

    // Calls visit(p, low, high) for all pairs of the lower items [from, to), or for all.
    template <class Visit>
    void each(std::size_t from, std::size_t to, const Visit& visit) const {
        for (std::size_t j = from; j < to; ++j)
            for (std::size_t p = row[j]; p < row[j + 1]; ++p)
                visit(p, static_cast<std::uint32_t>(j), high[p]);
    }
    template <class Visit>
    void each(const Visit& visit) const {
        each(0, row.size() - 1, visit);
    }

    // Ranges of lower items with about equal numbers of pairs; one range if threads do not pay.
    std::vector<std::size_t> row_ranges(std::size_t threads) const {
        const std::size_t parts = size() < kManyPairs ? 1 : threads, n = row.size() - 1;
        std::vector<std::size_t> bounds{0};
        for (std::size_t j = 0; j < n && bounds.size() < parts; ++j)
            if (row[j + 1] * parts >= size() * bounds.size()) bounds.push_back(j + 1);
        bounds.push_back(n);
        return bounds;
    }
};

// Calls put(place, k) for k = 0 ... n - 1, with places in the order of key(k), and of k among equal
// ones; returns the end of the places of every key. Each thread counts its own range.
template <class Key, class Put>
std::vector<std::uint32_t> counting_sort(ThreadPool& pool, std::size_t n, std::size_t n_keys,
                                         const Key& key, const Put& put) {
    // Counts of all ranges must be small beside what is sorted.
    const std::size_t many = std::max(kManyRows, n_keys);
    const std::vector<std::size_t> ranges = shared_ranges(n, many, pool);
    const std::size_t n_ranges = ranges.size() - 1;
    Array<std::uint32_t> next(n_ranges * n_keys, 0U);
    pool.run(n_ranges, [&](std::size_t range) {
        std::uint32_t* const mine = next.data() + range * n_keys;
        for (std::size_t k = ranges[range]; k < ranges[range + 1]; ++k) ++mine[key(k)];
    });
    std::vector<std::uint32_t> end(n_keys);
    std::uint32_t total = 0;
    for (std::size_t j = 0; j < n_keys; ++j) {
        for (std::size_t range = 0; range < n_ranges; ++range)
            total += std::exchange(next[range * n_keys + j], total);
        end[j] = total;
    }
    pool.run(n_ranges, [&](std::size_t range) {
        std::uint32_t* const mine = next.data() + range * n_keys;
        for (std::size_t k = ranges[range]; k < ranges[range + 1]; ++k) put(mine[key(k)]++, k);
    });
    return end;
}

// Counting sorts by the higher, then by the lower item, which goes along with its comparison:
// linear in comparisons and items.
inline Pairs group_by_pair(std::size_t n, std::size_t n_items, const std::uint32_t* first,
                           const std::uint32_t* second, ThreadPool& pool) {
    Array<std::uint32_t> order(n), highs(n);
    std::vector<std::uint32_t> begin;
    {
        Array<std::uint64_t> by_high(n);  // the lower item, then the comparison
        const std::vector<std::uint32_t> end = counting_sort(
            pool, n, n_items, [&](std::size_t i) { return std::max(first[i], second[i]); },
            [&](std::uint32_t place, std::size_t i) {
                by_high[place] =
                    static_cast<std::uint64_t>(std::min(first[i], second[i])) << 32U | i;
            });
        begin = counting_sort(
            pool, n, n_items,
            [&](std::size_t k) { return static_cast<std::uint32_t>(by_high[k] >> 32U); },
            [&](std::uint32_t place, std::size_t k) {
                order[place] = static_cast<std::uint32_t>(by_high[k]);
            });
    }
    const std::vector<std::size_t> parts = shared_ranges(n, kManyRows, pool);
    pool.run(parts.size() - 1, [&](std::size_t part) {
        for (std::size_t k = parts[part]; k < parts[part + 1]; ++k) {
            const std::size_t ahead = order[std::min(k + kPrefetch, n - 1)];
            prefetch_read(first + ahead);
            prefetch_read(second + ahead);
            highs[k] = std::max(first[order[k]], second[order[k]]);
        }
    });

    // Now begin[j] is where the comparisons of the lower item j end. Of equal higher items in a row
    // the first is kept.
    const auto each_pair = [&](const auto& met) {
        for (std::size_t j = 0, k = 0; j < n_items; ++j)
            for (const std::size_t from = k; k < begin[j]; ++k)
                if (k == from || highs[k] != highs[k - 1]) met(j, static_cast<std::uint32_t>(k));
    };
    Pairs pairs;
    pairs.row.assign(n_items + 1, 0);
    each_pair([&](std::size_t j, std::uint32_t) { ++pairs.row[j + 1]; });
    std::partial_sum(pairs.row.begin(), pairs.row.end(), pairs.row.begin());
    const std::size_t count = pairs.row[n_items];
    pairs.start.resize(count + 1);
    std::size_t next = 0;
    each_pair([&](std::size_t, std::uint32_t k) { pairs.start[next++] = k; });
    pairs.start[count] = static_cast<std::uint32_t>(n);
    if (count < n) {
        for (std::size_t p = 0; p < count; ++p) highs[p] = highs[pairs.start[p]];
        highs.resize(count);
        highs.shrink_to_fit();
    }
    pairs.high = std::move(highs);
    pairs.comparison = std::move(order);
    return pairs;
}

inline Pairs group_by_pair(std::size_t n, std::size_t n_items, const std::uint32_t* first,
                           const std::uint32_t* second) {
    ThreadPool one(1);
    return group_by_pair(n, n_items, first, second, one);
}

struct PooledPairs {
    std::vector<std::uint32_t> first, second;
    std::vector<float> outcome, weight;

    explicit PooledPairs(std::size_t n = 0) : first(n), second(n), outcome(n), weight(n) {}
    std::size_t size() const { return first.size(); }
};

// One row per pair in the order of (lower, higher) item, with the preferred item first (a tie: the
// lower). Votes are grouped by their lower item, and each such run is sorted in the cache. Pairs
// without weight are left out.
inline PooledPairs sum_pairs(std::size_t n, std::size_t n_items, const std::uint32_t* first,
                             const std::uint32_t* second, const float* outcome,
                             const float* weight) {
    struct Vote {
        std::uint32_t high;
        float outcome, weight;  // the weight is negative if the outcome is for the higher item
    };
    std::vector<std::size_t> begin(n_items + 1, 0);
    for (std::size_t i = 0; i < n; ++i) ++begin[std::min(first[i], second[i]) + std::size_t{1}];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::size_t> next(begin);
    std::vector<Vote> votes(n);
    for (std::size_t i = 0; i < n; ++i) {
        const bool straight = first[i] < second[i];
        const std::uint32_t low = straight ? first[i] : second[i];
        const std::uint32_t high = straight ? second[i] : first[i];
        votes[next[low]++] = {high, outcome[i], straight ? weight[i] : -weight[i]};
    }
    PooledPairs out;
    for (std::size_t low = 0; low < n_items; ++low) {
        Vote* vote = votes.data() + begin[low];
        Vote* const end = votes.data() + begin[low + 1];
        std::sort(vote, end, [](const Vote& a, const Vote& b) { return a.high < b.high; });
        while (vote != end) {
            const std::uint32_t high = vote->high;
            double wins = 0.0, losses = 0.0;  // of the lower item
            for (; vote != end && vote->high == high; ++vote) {
                const double y = static_cast<double>(vote->outcome);
                const double w = static_cast<double>(vote->weight);
                wins += w > 0.0 ? w * y : -w * (1.0 - y);
                losses += w > 0.0 ? w * (1.0 - y) : -w * y;
            }
            const double total = wins + losses;
            if (!(total > 0.0)) continue;
            const float mean = static_cast<float>(wins / total);
            const float other = static_cast<float>(losses / total);
            const bool turned = other > 0.5F;  // both may round to a tie
            out.first.push_back(turned ? high : static_cast<std::uint32_t>(low));
            out.second.push_back(turned ? static_cast<std::uint32_t>(low) : high);
            out.outcome.push_back(turned ? other : std::max(mean, 0.5F));
            out.weight.push_back(static_cast<float>(total));
        }
    }
    return out;
}

// One row per pair: the sum of weights and the mean outcome for the preferred item, in the order
// of (first, second). The codes must be below n_items.
inline PooledPairs pool_pairs(std::size_t n, std::size_t n_items, const std::uint32_t* first,
                              const std::uint32_t* second, const float* outcome,
                              const float* weight) {
    const PooledPairs summed = sum_pairs(n, n_items, first, second, outcome, weight);
    std::vector<std::size_t> next(n_items + 1, 0);
    for (const std::uint32_t item : summed.first) ++next[item + std::size_t{1}];
    std::partial_sum(next.begin(), next.end(), next.begin());
    // Among the pairs with an item first, those with a lower second one came before those with a
    // higher one, each in order; so one stable pass sorts them.
    PooledPairs out(summed.size());
    for (std::size_t k = 0; k < summed.size(); ++k) {
        const std::size_t at = next[summed.first[k]]++;
        out.first[at] = summed.first[k];
        out.second[at] = summed.second[k];
        out.outcome[at] = summed.outcome[k];
        out.weight[at] = summed.weight[k];
    }
    return out;
}

// Connected components by union-find; numbered by their smallest item, in order.
inline std::vector<std::uint32_t> components(std::size_t n_items, std::size_t n,
                                             const std::uint32_t* first,
                                             const std::uint32_t* second) {
    std::vector<std::uint32_t> parent(n_items);
    std::iota(parent.begin(), parent.end(), 0U);
    const auto root = [&](std::uint32_t item) {
        while (parent[item] != item) item = parent[item] = parent[parent[item]];
        return item;
    };
    std::size_t apart = n_items;  // components so far; with one left the search can stop
    for (std::size_t i = 0; i < n && apart > 1; ++i) {
        const std::uint32_t a = root(first[i]), b = root(second[i]);
        if (a == b) continue;
        parent[std::max(a, b)] = std::min(a, b);
        --apart;
    }
    std::vector<std::uint32_t> number(n_items, 0);
    std::uint32_t count = 0;
    for (std::size_t item = 0; item < n_items; ++item) {
        const std::uint32_t top = root(static_cast<std::uint32_t>(item));
        number[item] = top == item ? count++ : number[top];
    }
    return number;
}

}  // namespace crowdsift
