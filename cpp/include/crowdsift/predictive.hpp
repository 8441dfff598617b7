// Log-likelihood of votes for given differences of pairs and points that represent the workers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/split_votes.hpp"

namespace crowdsift {

// Points of equal probability, `count` per worker: reliability, tie width, mean and variance of the
// side bias.
struct WorkerPoints {
    const double *reliability, *width, *side, *side_variance;
    std::size_t count;
};

inline double logistic(double x) {
    const double e = exp_minus(x < 0.0 ? -x : x);
    return (x > 0.0 ? 1.0 : e) / (1.0 + e);
}

// Sum of n log mean_j Z_j. Workers from `before_gold` on have no side.
inline double pair_likelihood(const SplitVotes& votes, const std::vector<std::size_t>& ranges,
                              ThreadPool& pool, std::size_t before_gold, const double* differences,
                              const double* variances, const WorkerPoints& points) {
    std::vector<double> part(ranges.size() - 1, 0.0);
    pool.run(ranges.size() - 1, [&](std::size_t range) {
        for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s)
            for (std::size_t i = votes.start[s]; i < votes.start[s + 1]; ++i) {
                const double straight = votes.straight(i) ? 1.0 : -1.0;
                const double d = straight * differences[votes.pair[i]];
                const double v = variances[votes.pair[i]];
                const double x = s < before_gold ? static_cast<double>(votes.side(i)) : 0.0;
                double sum = 0.0;
                for (std::size_t j = s * points.count; j < (s + 1) * points.count; ++j) {
                    const double b = points.reliability[j];
                    const double k =
                        1.0 /
                        std::sqrt(1.0 + kLogisticSmoothing * (b * b * v + points.side_variance[j]));
                    const double z = k * (b * d + x * points.side[j]), w = k * points.width[j];
                    const double won = logistic(z - w);
                    sum += votes.tied(i)
                               ? std::expm1(std::min(2.0 * w, 700.0)) * won * logistic(-z - w)
                               : won;
                }
                part[range] += static_cast<double>(votes.n[i]) *
                               std::log(std::max(sum / static_cast<double>(points.count), 1e-300));
            }
    });
    double total = 0.0;
    for (const double value : part) total += value;
    return total;
}

}  // namespace crowdsift
