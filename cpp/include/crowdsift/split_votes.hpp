// Votes as wins alone, by worker and by pair, and what can be said of them without sites.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// A row of outcome y and weight n is a win of weight n y and a loss of weight n (1 - y).
struct SplitVotes {
    std::vector<std::uint32_t> winner, loser, pair;
    std::vector<float> n;
    std::vector<std::size_t> start;                    // of worker s: [start[s], start[s + 1])
    std::vector<std::uint32_t> by_pair, by_pair_start;  // in order within a pair

    SplitVotes(const Votes& votes, const Pairs& pairs) {
        std::vector<std::uint32_t> pair_of(votes.n);
        for (std::size_t p = 0; p < pairs.size(); ++p)
            for (std::uint32_t k = pairs.start[p]; k < pairs.start[p + 1]; ++k)
                pair_of[pairs.comparison[k]] = static_cast<std::uint32_t>(p);
        start.assign(votes.n_workers + 1, 0);
        for (std::size_t s = 0; s < votes.n_workers; ++s) {
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const std::uint32_t a = votes.first[i], b = votes.second[i];
                const float y = votes.outcome[i], weight = votes.weight[i];
                if (y > 0.0F) add(a, b, weight * y, pair_of[i]);
                if (y < 1.0F) add(b, a, weight * (1.0F - y), pair_of[i]);
            }
            start[s + 1] = size();
        }
        by_pair_start.assign(pairs.size() + 1, 0);
        for (const std::uint32_t p : pair) ++by_pair_start[p + 1];
        for (std::size_t p = 0; p < pairs.size(); ++p) by_pair_start[p + 1] += by_pair_start[p];
        by_pair.resize(size());
        std::vector<std::uint32_t> next(by_pair_start.begin(), by_pair_start.end() - 1);
        for (std::size_t i = 0; i < size(); ++i)
            by_pair[next[pair[i]]++] = static_cast<std::uint32_t>(i);
    }

    std::size_t size() const { return winner.size(); }

    // Whether the winner is the lower item of the pair.
    bool straight(std::size_t i) const { return winner[i] < loser[i]; }

private:
    void add(std::uint32_t a, std::uint32_t b, float weight, std::uint32_t p) {
        winner.push_back(a);
        loser.push_back(b);
        n.push_back(weight);
        pair.push_back(p);
    }
};

// Sum of n log mean_j sigma(b_j d / sqrt(1 + c b_j^2 v)) over the worker's points b_j; difference(i)
// and variance(i) are d and v of vote i.
template <class Difference, class Variance>
double mixture_likelihood(const SplitVotes& votes, const std::vector<std::size_t>& ranges,
                          ThreadPool& pool, const double* points, std::size_t n_points,
                          Difference difference, Variance variance) {
    std::vector<double> part(ranges.size() - 1, 0.0);
    pool.run(ranges.size() - 1, [&](std::size_t range) {
        for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s)
            for (std::size_t i = votes.start[s]; i < votes.start[s + 1]; ++i) {
                const double d = difference(i), v = variance(i);
                double sum = 0.0;
                for (std::size_t j = 0; j < n_points; ++j) {
                    const double b = points[s * n_points + j];
                    const double x = b * d / std::sqrt(1.0 + 3.14159 / 8.0 * b * b * v);
                    const double e = exp_minus(x < 0.0 ? -x : x);
                    sum += (x > 0.0 ? 1.0 : e) / (1.0 + e);
                }
                part[range] += static_cast<double>(votes.n[i]) *
                               std::log(std::max(sum / static_cast<double>(n_points), 1e-300));
            }
    });
    double total = 0.0;
    for (const double value : part) total += value;
    return total;
}

}  // namespace crowdsift
