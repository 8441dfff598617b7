// The distinct unordered pairs of items, and which comparisons belong to each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
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
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t a = root(first[i]), b = root(second[i]);
        if (a < b) parent[b] = a;
        else parent[a] = b;
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
