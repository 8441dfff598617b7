// How far each worker's votes agree with an order of the items, how often each item appears, and
// which ways its votes go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// Weights of a worker's decided votes that agree with the order of scores, and of all decided
// ones. Equal scores agree with nobody.
inline void agreement(const Votes& votes, ThreadPool& pool, const double* scores, double* agreed,
                      double* decided) {
    const std::vector<std::size_t> ranges = votes.worker_ranges(pool.size());
    pool.run(ranges.size() - 1, [&](std::size_t range) {
        for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s) {
            agreed[s] = decided[s] = 0.0;
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const float y = votes.outcome[i];
                if (y == 0.5F) continue;
                const double n = static_cast<double>(votes.weight[i]);
                const double a = scores[votes.first[i]], b = scores[votes.second[i]];
                decided[s] += n;
                if (y > 0.5F ? a > b : a < b) agreed[s] += n;
            }
        }
    });
}

// Sums of weights of the comparisons of every item; the codes must be below n_items.
inline std::vector<double> appearances(std::size_t n, std::size_t n_items,
                                       const std::uint32_t* first, const std::uint32_t* second,
                                       const float* weight) {
    std::vector<double> sums(n_items, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
        sums[first[i]] += static_cast<double>(weight[i]);
        sums[second[i]] += static_cast<double>(weight[i]);
    }
    return sums;
}

// For every item 1 where a vote is (partly) for it, plus 2 where one is against it.
inline std::vector<std::uint8_t> ways(std::size_t n, std::size_t n_items,
                                      const std::uint32_t* first, const std::uint32_t* second,
                                      const float* outcome) {
    std::vector<std::uint8_t> found(n_items, 0);
    for (std::size_t i = 0; i < n; ++i) {
        const unsigned up = outcome[i] != 0.0F ? 1U : 0U, down = outcome[i] != 1.0F ? 1U : 0U;
        found[first[i]] = static_cast<std::uint8_t>(found[first[i]] | up | down << 1U);
        found[second[i]] = static_cast<std::uint8_t>(found[second[i]] | down | up << 1U);
    }
    return found;
}

}  // namespace crowdsift
