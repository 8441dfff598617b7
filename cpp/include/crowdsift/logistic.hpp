// Passes over the comparisons for the logistic model P(first over second) = sigma(eta),
// eta = slope_s (r_first - r_second), an outcome y in [0, 1] with weight n counting as n y wins
// and n (1 - y) losses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

constexpr std::size_t kBlock = 512;  // rows whose temporaries stay in the first-level cache

// Sum of a buffer in eight interleaved chains: vectorises without reassociation by the compiler.
CROWDSIFT_INLINE double sum_block(const double* buffer, std::size_t count) {
    double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    std::size_t j = 0;
    for (; j + 8 <= count; j += 8)
        for (std::size_t l = 0; l < 8; ++l) lane[l] += buffer[j + l];
    for (std::size_t l = 0; j < count; ++j, ++l) lane[l] += buffer[j];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

// A row's log-likelihood is n (y eta - max(eta, 0) - log(1 + e)), e = exp(-|eta|). Kernels leave its
// level n (y eta - max(eta, 0)), less what rounding takes from 1 + e, and its growth 1 + e; their sum
// over a block is taken here. Where no row is weighted, as is usual, a sum of logarithms is the
// logarithm of a product: growths are at most 2, so 128 of them can be multiplied.
CROWDSIFT_CLONES
inline double log_likelihood_of(std::size_t count, const double* CROWDSIFT_RESTRICT level,
                                const double* CROWDSIFT_RESTRICT growth,
                                const float* CROWDSIFT_RESTRICT weight) {
    int weighted = 0;
    for (std::size_t j = 0; j < count; ++j) weighted |= weight[j] != 1.0F ? 1 : 0;
    double total = sum_block(level, count);
    if (weighted != 0) {
        double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        std::size_t j = 0;
        for (; j + 8 <= count; j += 8)
            for (std::size_t l = 0; l < 8; ++l)
                lane[l] += static_cast<double>(weight[j + l]) * log1p_unit(growth[j + l] - 1.0);
        for (; j < count; ++j)
            lane[0] += static_cast<double>(weight[j]) * log1p_unit(growth[j] - 1.0);
        return total - sum_block(lane, 8);
    }
    constexpr std::size_t kMost = 8 * 128;
    for (std::size_t from = 0; from < count; from += kMost) {
        double lane[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        const std::size_t end = std::min(count, from + kMost);
        std::size_t j = from;
        for (; j + 8 <= end; j += 8)
            for (std::size_t l = 0; l < 8; ++l) lane[l] *= growth[j + l];
        for (std::size_t l = 0; j < end; ++j, ++l) lane[l] *= growth[j];
        total -= std::log((lane[0] * lane[1]) * (lane[2] * lane[3]));
        total -= std::log((lane[4] * lane[5]) * (lane[6] * lane[7]));
    }
    return total;
}

// Levels and growths of one block, and the weighted Polya-Gamma means n tanh(eta/2)/(2 eta).
CROWDSIFT_CLONES
inline void expect_block(std::size_t count, const double* CROWDSIFT_RESTRICT eta,
                         const float* CROWDSIFT_RESTRICT outcome,
                         const float* CROWDSIFT_RESTRICT weight, double* CROWDSIFT_RESTRICT level,
                         double* CROWDSIFT_RESTRICT growth, double* CROWDSIFT_RESTRICT precision) {
    for (std::size_t j = 0; j < count; ++j) {
        const double x = eta[j], n = static_cast<double>(weight[j]);
        const double e = exp_minus(x < 0.0 ? -x : x);
        const double rounded = 1.0 + e, lost = e - (rounded - 1.0);
        level[j] = n * (static_cast<double>(outcome[j]) * x - (x > 0.0 ? x : 0.0) - lost);
        growth[j] = rounded;
        precision[j] = n * polya_gamma_mean(x, e);
    }
}

// Levels and growths of one block, n (y - p) and n p (1 - p).
CROWDSIFT_CLONES
inline void logistic_block(std::size_t count, const double* CROWDSIFT_RESTRICT eta,
                           const float* CROWDSIFT_RESTRICT outcome,
                           const float* CROWDSIFT_RESTRICT weight,
                           double* CROWDSIFT_RESTRICT level, double* CROWDSIFT_RESTRICT growth,
                           double* CROWDSIFT_RESTRICT residual,
                           double* CROWDSIFT_RESTRICT information) {
    for (std::size_t j = 0; j < count; ++j) {
        const double x = eta[j], n = static_cast<double>(weight[j]);
        const double y = static_cast<double>(outcome[j]);
        const double e = exp_minus(x < 0.0 ? -x : x);
        const double rounded = 1.0 + e, lost = e - (rounded - 1.0), scale = 1.0 / rounded;
        level[j] = n * (y * x - (x > 0.0 ? x : 0.0) - lost);
        growth[j] = rounded;
        const double p = x > 0.0 ? scale : e * scale;
        residual[j] = n * (y - p);
        information[j] = n * e * scale * scale;
    }
}

// block(range, worker of the first row, first row, rows, eta) for all blocks of rows.
template <class Block>
void over_rows(const Votes& votes, ThreadPool& pool, const std::vector<std::size_t>& ranges,
               const double* scores, const double* slopes, const Block& block) {
    pool.run(ranges.size() - 1, [&](std::size_t range) {
        const std::int64_t* const found =
            std::upper_bound(votes.offsets, votes.offsets + votes.n_workers + 1,
                             static_cast<std::int64_t>(ranges[range]));
        std::size_t worker = static_cast<std::size_t>(found - votes.offsets) - 1;
        double eta[kBlock];
        for (std::size_t at = ranges[range]; at < ranges[range + 1]; at += kBlock) {
            const std::size_t count = std::min(kBlock, ranges[range + 1] - at);
            const std::size_t leading = worker;
            for (std::size_t j = 0; j < count;) {
                while (at + j >= votes.begin_of(worker + 1)) ++worker;
                const std::size_t end = std::min(count, votes.begin_of(worker + 1) - at);
                for (; j < end; ++j)
                    eta[j] = slopes[worker] *
                             (scores[votes.first[at + j]] - scores[votes.second[at + j]]);
            }
            block(range, leading, at, count, eta);
        }
    });
}

// Sum of n log p, with nothing kept.
inline double log_likelihood(const Votes& votes, ThreadPool& pool, const double* scores,
                             const double* slopes) {
    const std::vector<std::size_t> ranges =
        shared_ranges(votes.n, kManyRows, pool);
    std::vector<double> part(ranges.size() - 1, 0.0);
    over_rows(votes, pool, ranges, scores, slopes,
              [&](std::size_t range, std::size_t, std::size_t at, std::size_t count,
                  const double* eta) {
                  double level[kBlock], growth[kBlock], residual[kBlock], information[kBlock];
                  logistic_block(count, eta, votes.outcome + at, votes.weight + at, level, growth,
                                 residual, information);
                  part[range] += log_likelihood_of(count, level, growth, votes.weight + at);
              });
    double total = 0.0;
    for (const double value : part) total += value;
    return total;
}

class LogisticPasses {
public:
    LogisticPasses(const Votes& votes, const Pairs& pairs, Laplacian& laplacian, ThreadPool& pool)
        : votes_(votes), pairs_(pairs), laplacian_(laplacian), pool_(pool),
          ranges_(votes.worker_ranges(pool.size())),
          row_ranges_(shared_ranges(votes.n, kManyRows, pool)),
          precision_(votes.n, 0.0F), contribution_(votes.n, 0.0F),
          rhs_(std::max(ranges_.size(), row_ranges_.size()) - 1, votes.n_items) {}

    // E-step: keeps n E[omega | eta] of every comparison; returns {log-likelihood, their sum}.
    std::pair<double, double> expect(const double* scores, const double* slopes) {
        std::vector<double> part(2 * (row_ranges_.size() - 1), 0.0);
        over_rows(scores, slopes, [&](std::size_t range, std::size_t, std::size_t at,
                                      std::size_t count, const double* eta) {
            double level[kBlock], growth[kBlock], precision[kBlock];
            expect_block(count, eta, votes_.outcome + at, votes_.weight + at, level, growth,
                         precision);
            for (std::size_t j = 0; j < count; ++j)
                precision_[at + j] = static_cast<float>(precision[j]);
            part[2 * range] += log_likelihood_of(count, level, growth, votes_.weight + at);
            part[2 * range + 1] += sum_block(precision, count);
        });
        std::pair<double, double> total{0.0, 0.0};
        for (std::size_t k = 0; k < part.size(); k += 2) {
            total.first += part[k];
            total.second += part[k + 1];
        }
        return total;
    }

    // Refreshes the Laplacian with slope^2 n E[omega]; rhs_j = sum of +- slope n (y - 1/2).
    void item_system(const double* slopes, double* rhs) {
        rhs_.clear();
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double* const sums = rhs_.range(range);
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s)
                contribute(s, slopes[s], sums);
        });
        rhs_.reduce(rhs);
        refresh_laplacian(contribution_);
    }

    // One ridge regression a worker: the slope of n (y - 1/2) on d = r_first - r_second with
    // precisions n E[omega], then, while the rows are at hand, item_system for these slopes.
    void regress_workers(const double* scores, double ridge, double* slopes, double* rhs) {
        rhs_.clear();
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double* const sums = rhs_.range(range);
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                slopes[s] = regress(s, scores, ridge);
                contribute(s, slopes[s], sums);
            }
        });
        rhs_.reduce(rhs);
        refresh_laplacian(contribution_);
    }

    // Log-likelihood and its gradient in the scores; refreshes the Laplacian with
    // slope^2 n p (1 - p), the negative Hessian in the scores.
    double score_derivatives(const double* scores, const double* slopes, double* gradient) {
        std::vector<double> part(row_ranges_.size() - 1, 0.0);
        rhs_.clear();
        over_rows(scores, slopes, [&](std::size_t range, std::size_t worker, std::size_t at,
                                      std::size_t count, const double* eta) {
            double level[kBlock], growth[kBlock], residual[kBlock], information[kBlock];
            logistic_block(count, eta, votes_.outcome + at, votes_.weight + at, level, growth,
                           residual, information);
            double* const sums = rhs_.range(range);
            for (std::size_t j = 0; j < count; ++j) {
                while (at + j >= votes_.begin_of(worker + 1)) ++worker;
                const double slope = slopes[worker];
                const double push = slope * residual[j];
                sums[votes_.first[at + j]] += push;
                sums[votes_.second[at + j]] -= push;
                contribution_[at + j] = static_cast<float>(slope * slope * information[j]);
            }
            part[range] += log_likelihood_of(count, level, growth, votes_.weight + at);
        });
        rhs_.reduce(gradient);
        refresh_laplacian(contribution_);
        double total = 0.0;
        for (const double p : part) total += p;
        return total;
    }

    // Per worker: sum of n p (1 - p) d^2, the information on the worker's slope.
    void slope_information(const double* scores, const double* slopes, double* information) {
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                double sum = 0.0;
                for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
                    const double d = scores[votes_.first[i]] - scores[votes_.second[i]];
                    const double eta = slopes[s] * d;
                    const double e = exp_minus(eta < 0.0 ? -eta : eta);
                    sum += static_cast<double>(votes_.weight[i]) * d * d * e /
                           ((1.0 + e) * (1.0 + e));
                }
                information[s] = sum;
            }
        });
    }

    // Refreshes the Laplacian with one weight a comparison.
    void refresh_laplacian(const Array<float>& entries) {
        Array<float>& weights = laplacian_.pair_weights();
        const std::vector<std::size_t> parts =
            shared_ranges(pairs_.size(), kManyPairs, pool_);
        pool_.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p) {
                double sum = 0.0;
                for (std::size_t k = pairs_.start[p]; k < pairs_.start[p + 1]; ++k) {
                    will_read(&entries[pairs_.comparison[std::min(k + kAhead, votes_.n - 1)]]);
                    sum += static_cast<double>(entries[pairs_.comparison[k]]);
                }
                weights[p] = static_cast<float>(sum);
            }
        });
        laplacian_.refresh();
    }

private:
    template <class Block>
    void over_rows(const double* scores, const double* slopes, const Block& block) {
        crowdsift::over_rows(votes_, pool_, row_ranges_, scores, slopes, block);
    }

    double regress(std::size_t worker, const double* scores, double ridge) const {
        double top = 0.0, bottom = 0.0;
        for (std::size_t i = votes_.begin_of(worker); i < votes_.begin_of(worker + 1); ++i) {
            const double d = scores[votes_.first[i]] - scores[votes_.second[i]];
            top += static_cast<double>(votes_.weight[i] * (votes_.outcome[i] - 0.5F)) * d;
            bottom += static_cast<double>(precision_[i]) * d * d;
        }
        const double curvature = bottom + ridge;
        return curvature > 0.0 ? top / curvature : 0.0;
    }

    void contribute(std::size_t worker, double slope, double* sums) {
        const float square = static_cast<float>(slope * slope);
        for (std::size_t i = votes_.begin_of(worker); i < votes_.begin_of(worker + 1); ++i) {
            contribution_[i] = square * precision_[i];
            const double push =
                slope * static_cast<double>(votes_.weight[i] * (votes_.outcome[i] - 0.5F));
            sums[votes_.first[i]] += push;
            sums[votes_.second[i]] -= push;
        }
    }

    const Votes& votes_;
    const Pairs& pairs_;
    Laplacian& laplacian_;
    ThreadPool& pool_;
    const std::vector<std::size_t> ranges_, row_ranges_;
    Array<float> precision_, contribution_;
    ItemSums rhs_;
};

}  // namespace crowdsift
