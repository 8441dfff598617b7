// The distinct unordered pairs of items, and which comparisons belong to each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace crowdsift {

struct Pairs {
    std::vector<std::uint32_t> low, high;   // low < high, in lexicographic order
    std::vector<std::uint32_t> comparison;  // comparisons grouped by pair
    std::vector<std::uint32_t> start;       // group of pair p: [start[p], start[p + 1])

    std::size_t size() const { return low.size(); }
};

// Counting sorts by the higher, then by the lower item: linear in comparisons and items.
inline Pairs group_by_pair(std::size_t n, std::size_t n_items, const std::uint32_t* first,
                           const std::uint32_t* second) {
    const auto low = [&](std::size_t i) { return std::min(first[i], second[i]); };
    const auto high = [&](std::size_t i) { return std::max(first[i], second[i]); };
    std::vector<std::uint32_t> by_high(n), order(n);
    std::vector<std::uint32_t> begin(n_items + 1, 0);
    for (std::size_t i = 0; i < n; ++i) ++begin[high(i) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (std::size_t i = 0; i < n; ++i) by_high[begin[high(i)]++] = static_cast<std::uint32_t>(i);
    std::fill(begin.begin(), begin.end(), 0U);
    for (std::size_t i = 0; i < n; ++i) ++begin[low(i) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const std::uint32_t i : by_high) order[begin[low(i)]++] = i;

    Pairs pairs;
    for (std::size_t k = 0; k < n; ++k) {
        const std::uint32_t i = order[k];
        if (pairs.low.empty() || pairs.low.back() != low(i) || pairs.high.back() != high(i)) {
            pairs.low.push_back(low(i));
            pairs.high.push_back(high(i));
            pairs.start.push_back(static_cast<std::uint32_t>(k));
        }
    }
    pairs.start.push_back(static_cast<std::uint32_t>(n));
    pairs.comparison = std::move(order);
    return pairs;
}

struct PooledPairs {
    std::vector<std::uint32_t> first, second;
    std::vector<float> outcome, weight;

    explicit PooledPairs(std::size_t n = 0) : first(n), second(n), outcome(n), weight(n) {}
    std::size_t size() const { return first.size(); }
};

// One row a pair in the order of (lower, higher) item, the preferred item told first (a tie: the
// lower). The votes are brought together by their lower item, each such run is sorted in the
// cache. Pairs without weight are left out.
inline PooledPairs sum_pairs(std::size_t n, std::size_t n_items, const std::uint32_t* first,
                             const std::uint32_t* second, const float* outcome,
                             const float* weight) {
    struct Vote {
        std::uint32_t high;
        float outcome, weight;  // where the outcome is for the higher item, the weight is negative
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
            const bool turned = mean < 0.5F;
            out.first.push_back(turned ? high : static_cast<std::uint32_t>(low));
            out.second.push_back(turned ? static_cast<std::uint32_t>(low) : high);
            out.outcome.push_back(turned ? static_cast<float>(losses / total) : mean);
            out.weight.push_back(static_cast<float>(total));
        }
    }
    return out;
}

// One row a pair: the sum of weights and the mean outcome for the preferred item, in the order
// of (first, second). The codes must be below n_items.
inline PooledPairs pool_pairs(std::size_t n, std::size_t n_items, const std::uint32_t* first,
                              const std::uint32_t* second, const float* outcome,
                              const float* weight) {
    const PooledPairs told = sum_pairs(n, n_items, first, second, outcome, weight);
    std::vector<std::size_t> next(n_items + 1, 0);
    for (const std::uint32_t item : told.first) ++next[item + std::size_t{1}];
    std::partial_sum(next.begin(), next.end(), next.begin());
    // Of the pairs told with an item first, those with a lower second one were met before those
    // with a higher one, each in its order; so one stable pass sorts them.
    PooledPairs out(told.size());
    for (std::size_t k = 0; k < told.size(); ++k) {
        const std::size_t at = next[told.first[k]]++;
        out.first[at] = told.first[k];
        out.second[at] = told.second[k];
        out.outcome[at] = told.outcome[k];
        out.weight[at] = told.weight[k];
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
    std::size_t apart = n_items;  // components so far; with one left there is no more to learn
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
