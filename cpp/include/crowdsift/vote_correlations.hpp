// The correlations of different votes of a worker, for the spectral start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "crowdsift/item_sums.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// e = 2y - 1, less its mean over the worker's votes if `centred`.
class VoteCorrelations {
public:
    VoteCorrelations(const Votes& votes, bool centred) : votes_(votes), centred_(centred) {}

    // (X'X - L(e^2)) x
    void multiply(ThreadPool& pool, ItemSums& items, const double* x, double* out) const {
        const std::vector<std::size_t> ranges = votes_.worker_ranges(pool.size());
        const auto pass = [&](std::size_t range, double* sums) {
            for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s) {
                const double mean = mean_answer(s);
                double product = 0.0;
                for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i)
                    product += answer(i, mean) * static_cast<double>(votes_.weight[i]) *
                               (x[votes_.first[i]] - x[votes_.second[i]]);
                for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
                    const double e = answer(i, mean);
                    const double d = x[votes_.first[i]] - x[votes_.second[i]];
                    const double value =
                        static_cast<double>(votes_.weight[i]) * (e * product - e * e * d);
                    sums[votes_.first[i]] += value;
                    sums[votes_.second[i]] -= value;
                }
            }
        };
        items.add(ranges.size() - 1, pool, pass, out);
    }

    // The diagonal of L(n e^2)
    void degrees(double* out) const {
        std::fill(out, out + votes_.n_items, 0.0);
        for (std::size_t s = 0; s < votes_.n_workers; ++s) {
            const double mean = mean_answer(s);
            for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
                const double e = answer(i, mean);
                out[votes_.first[i]] += static_cast<double>(votes_.weight[i]) * e * e;
                out[votes_.second[i]] += static_cast<double>(votes_.weight[i]) * e * e;
            }
        }
    }

private:
    double mean_answer(std::size_t s) const {
        if (!centred_) return 0.0;
        double sum = 0.0, total = 0.0;
        for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
            sum += static_cast<double>(votes_.weight[i]) * answer(i, 0.0);
            total += static_cast<double>(votes_.weight[i]);
        }
        return total > 0.0 ? sum / total : 0.0;
    }

    double answer(std::size_t i, double mean) const {
        return 2.0 * static_cast<double>(votes_.outcome[i]) - 1.0 - mean;
    }

    const Votes& votes_;
    const bool centred_;
};

}  // namespace crowdsift
