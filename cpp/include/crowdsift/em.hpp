// Passes over the comparisons for the logistic model P(first over second) = sigma(eta),
// eta = slope_s (r_first - r_second), an outcome y in [0, 1] with weight n counting as n y wins
// and n (1 - y) losses: log-likelihood, Polya-Gamma EM, and the curvature in the scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/buffers.hpp"
#include "crowdsift/item_sums.hpp"
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
    return sum_lanes(lane);
}

// A row's log-likelihood is n (y eta - max(eta, 0) - log(1 + e)), e = exp(-|eta|). Kernels store
// its level n (y eta - max(eta, 0)), minus the rounding error of 1 + e, and its growth 1 + e; their
// sum over a block is computed here. If no row has a weight, as is usual, a sum of logarithms is
// the logarithm of a product: growths are at most 2, so 128 of them can be multiplied.
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
        return total - sum_lanes(lane);
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
inline void e_step_block(std::size_t count, const double* CROWDSIFT_RESTRICT eta,
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
                           const float* CROWDSIFT_RESTRICT weight, double* CROWDSIFT_RESTRICT level,
                           double* CROWDSIFT_RESTRICT growth, double* CROWDSIFT_RESTRICT residual,
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

// Calls block(first row, rows, eta) for all blocks of rows of a range.
template <class Block>
void over_range(const Votes& votes, const std::vector<std::size_t>& ranges, std::size_t range,
                const double* scores, const double* slopes, const Block& block) {
    const std::int64_t* const found =
        std::upper_bound(votes.offsets, votes.offsets + votes.n_workers + 1,
                         static_cast<std::int64_t>(ranges[range]));
    std::size_t worker = static_cast<std::size_t>(found - votes.offsets) - 1;
    double eta[kBlock];
    for (std::size_t at = ranges[range]; at < ranges[range + 1]; at += kBlock) {
        const std::size_t count = std::min(kBlock, ranges[range + 1] - at);
        for (std::size_t j = 0; j < count;) {
            while (at + j >= votes.begin_of(worker + 1)) ++worker;
            const std::size_t end = std::min(count, votes.begin_of(worker + 1) - at);
            for (; j < end; ++j)
                eta[j] =
                    slopes[worker] * (scores[votes.first[at + j]] - scores[votes.second[at + j]]);
        }
        block(at, count, eta);
    }
}

// Returns the sum of n log p; nothing is stored.
inline double log_likelihood(const Votes& votes, ThreadPool& pool, const double* scores,
                             const double* slopes) {
    const std::vector<std::size_t> ranges = shared_ranges(votes.n, kManyRows, pool);
    std::vector<double> part(ranges.size() - 1, 0.0);
    pool.run(part.size(), [&](std::size_t range) {
        over_range(votes, ranges, range, scores, slopes,
                   [&](std::size_t at, std::size_t count, const double* eta) {
                       double level[kBlock], growth[kBlock], residual[kBlock], information[kBlock];
                       logistic_block(count, eta, votes.outcome + at, votes.weight + at, level,
                                      growth, residual, information);
                       part[range] += log_likelihood_of(count, level, growth, votes.weight + at);
                   });
    });
    double total = 0.0;
    for (const double value : part) total += value;
    return total;
}

// The Laplacian of slope^2 n E[omega], and the right-hand side of the items.
struct ItemSystem {
    std::shared_ptr<Laplacian> laplacian;
    std::vector<double> rhs;
};

// n E[omega] of every comparison: in the order of workers for their regressions, and in that of
// pairs for Laplacians, so that both read it in order.
template <class Real>
struct Precisions {
    Array<Real> by_worker, by_pair;
};

// The source of the arrays of E-steps, which are returned to it.
template <class Real>
struct PrecisionBuffers {
    Precisions<Real> take(std::size_t size) { return {by_worker.take(size), by_pair.take(size)}; }
    void give(Precisions<Real>&& given) {
        by_worker.give(std::move(given.by_worker));
        by_pair.give(std::move(given.by_pair));
    }

    Buffers<Real> by_worker, by_pair;
};

// Passes that return a Laplacian, whose weights are sums over the comparisons of a pair.
class LaplacianPasses {
public:
    LaplacianPasses(const Votes& votes, PairGraph& graph)
        : votes_(votes), graph_(graph), pool_(graph.pool), sums_(graph.sums),
          rhs_sums_(votes.n_items), ranges_(votes.worker_ranges(graph.pool.size())),
          row_ranges_(shared_ranges(votes.n, kManyRows, graph.pool)) {}

    // The sums over the comparisons of every pair, in double precision.
    template <class Real>
    std::shared_ptr<Laplacian> laplacian_of(const Array<Real>& entries) {
        auto made = std::make_shared<Laplacian>(graph_);
        Array<double>& weights = made->weights();
        const Pairs& pairs = graph_.pairs;
        const std::vector<std::size_t> parts = shared_ranges(pairs.size(), kManyPairs, pool_);
        pool_.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p) {
                double sum = 0.0;
                for (std::size_t k = pairs.start[p]; k < pairs.start[p + 1]; ++k) {
                    prefetch_read(
                        &entries[pairs.comparison[std::min(k + kPrefetch, votes_.n - 1)]]);
                    sum += static_cast<double>(entries[pairs.comparison[k]]);
                }
                weights[p] = sum;
            }
        });
        made->close();
        return made;
    }

    // Stores n E[omega | eta] of every comparison in `precision`; returns the log-likelihood and
    // their sum.
    template <class Real>
    ItemSystem e_step(const double* scores, const double* slopes, Precisions<Real>& precision,
                      double& log_likelihood, double& total_precision) {
        precision.by_worker.resize(votes_.n);
        std::vector<double> part(2 * (row_ranges_.size() - 1), 0.0);
        pool_.run(row_ranges_.size() - 1, [&](std::size_t range) {
            double value = 0.0, total = 0.0;
            over_range(votes_, row_ranges_, range, scores, slopes,
                       [&](std::size_t at, std::size_t count, const double* eta) {
                           double level[kBlock], growth[kBlock], mean[kBlock];
                           e_step_block(count, eta, votes_.outcome + at, votes_.weight + at, level,
                                        growth, mean);
                           value += log_likelihood_of(count, level, growth, votes_.weight + at);
                           total += sum_block(mean, count);
                           for (std::size_t j = 0; j < count; ++j)
                               precision.by_worker[at + j] = static_cast<Real>(mean[j]);
                       });
            part[2 * range] = value;
            part[2 * range + 1] = total;
        });
        for (std::size_t k = 0; k < part.size(); k += 2) {
            log_likelihood += part[k];
            total_precision += part[k + 1];
        }
        precision.by_pair.resize(votes_.n);
        in_order_of_pairs([&](std::size_t k, std::size_t row, std::size_t ahead) {
            prefetch_read(&precision.by_worker[ahead]);
            precision.by_pair[k] = precision.by_worker[row];
        });
        return item_system(precision.by_pair, slopes);
    }

    // One ridge regression per worker: the slope of n (y - 1/2) on d = r_first - r_second with
    // precisions n E[omega]; then the item system of these slopes.
    template <class Real>
    ItemSystem regress(const Precisions<Real>& precision, const double* scores, double ridge,
                       double* slopes) {
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s)
                slopes[s] = regression(votes_.begin_of(s), votes_.begin_of(s + 1),
                                       precision.by_worker, scores, ridge);
        });
        return item_system(precision.by_pair, slopes);
    }

    // Log-likelihood, its gradient in the scores, per worker the sum of n p (1 - p) d^2, and the
    // Laplacian of slope^2 n p (1 - p), the negative Hessian in the scores.
    std::shared_ptr<Laplacian> curvature(const double* scores, const double* slopes, double& value,
                                         double* gradient, double* information) {
        contribution_.resize(votes_.n);
        std::vector<double> part(ranges_.size() - 1, 0.0);
        sums_.add(
            ranges_.size() - 1, pool_,
            [&](std::size_t range, double* sums) {
                CurveBlock block{};
                for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                    information[s] = 0.0;
                    for (std::size_t at = votes_.begin_of(s); at < votes_.begin_of(s + 1);
                         at += kBlock)
                        part[range] += curve(at, std::min(kBlock, votes_.begin_of(s + 1) - at),
                                             scores, slopes[s], block, information[s], sums);
                }
            },
            gradient);
        for (const double p : part) value += p;
        return laplacian_of(contribution_);
    }

private:
    struct CurveBlock {
        double d[kBlock], eta[kBlock], level[kBlock], growth[kBlock], residual[kBlock],
            information[kBlock];
    };

    // Calls visit(k, row, later row) for all comparisons; `row` is the k-th of them in the order of
    // pairs.
    template <class Visit>
    void in_order_of_pairs(const Visit& visit) const {
        const Array<std::uint32_t>& rows = graph_.pairs.comparison;
        pool_.run(row_ranges_.size() - 1, [&](std::size_t range) {
            for (std::size_t k = row_ranges_[range]; k < row_ranges_[range + 1]; ++k)
                visit(k, rows[k], rows[std::min(k + kPrefetch, votes_.n - 1)]);
        });
    }

    // Computes what is constant between passes, in the order of pairs.
    void sort_by_pair() {
        if (sorted_) return;
        Array<std::uint32_t> worker(votes_.n);
        for (std::size_t s = 0; s < votes_.n_workers; ++s)
            std::fill(worker.data() + votes_.begin_of(s), worker.data() + votes_.begin_of(s + 1),
                      static_cast<std::uint32_t>(s));
        worker_.resize(votes_.n);
        lean_.resize(votes_.n);
        in_order_of_pairs([&](std::size_t k, std::size_t row, std::size_t ahead) {
            prefetch_read(&worker[ahead]);
            prefetch_read(votes_.first + ahead);
            prefetch_read(votes_.second + ahead);
            prefetch_read(votes_.outcome + ahead);
            prefetch_read(votes_.weight + ahead);
            const float lean = votes_.weight[row] * (votes_.outcome[row] - 0.5F);
            worker_[k] = worker[row];
            lean_[k] = votes_.first[row] < votes_.second[row] ? lean : -lean;
        });
        sorted_ = true;
    }

    // Weights of pairs, the diagonal and the right-hand side in one pass over the pairs.
    template <class Real>
    ItemSystem item_system(const Array<Real>& precision, const double* slopes) {
        sort_by_pair();
        ItemSystem system{std::make_shared<Laplacian>(graph_), std::vector<double>(votes_.n_items)};
        double* const weights = system.laplacian->weights().data();
        const Pairs& pairs = graph_.pairs;
        const bool far = votes_.n_items >= kMixedFrom;
        ItemSums::add_both(
            sums_, rhs_sums_, graph_.ranges.size() - 1, pool_, 0,
            [&](std::size_t range, auto& held, auto& pushed) {
                auto* const diagonal = held.sums();
                auto* const rhs = pushed.sums();
                using Sum = std::remove_reference_t<decltype(*rhs)>;
                const std::size_t last = pairs.row[graph_.ranges[range + 1]];
                for (std::size_t j = graph_.ranges[range]; j < graph_.ranges[range + 1]; ++j) {
                    double hold = 0.0, push = 0.0;
                    for (std::size_t p = pairs.row[j]; p < pairs.row[j + 1]; ++p) {
                        if (far) {
                            const std::size_t next = pairs.high[std::min(p + kPrefetch, last - 1)];
                            prefetch_write(diagonal + next);
                            prefetch_write(rhs + next);
                        }
                        double weight = 0.0, lean = 0.0;
                        for (std::size_t k = pairs.start[p]; k < pairs.start[p + 1]; ++k) {
                            const double slope = slopes[worker_[k]];
                            weight += static_cast<double>(static_cast<Real>(slope * slope) *
                                                          precision[k]);
                            lean += slope * static_cast<double>(lean_[k]);
                        }
                        weights[p] = weight;
                        hold += weight;
                        push += lean;
                        diagonal[pairs.high[p]] += static_cast<Sum>(weight);
                        rhs[pairs.high[p]] -= static_cast<Sum>(lean);
                    }
                    diagonal[j] += static_cast<Sum>(hold);
                    rhs[j] += static_cast<Sum>(push);
                }
            },
            system.laplacian->diagonal().data(), system.rhs.data());
        return system;
    }

    template <class Real>
    double regression(std::size_t begin, std::size_t end, const Array<Real>& precision,
                      const double* scores, double ridge) const {
        double top = 0.0, bottom = 0.0;
        for (std::size_t i = begin; i < end; ++i) {
            const double d = scores[votes_.first[i]] - scores[votes_.second[i]];
            top += static_cast<double>(votes_.weight[i] * (votes_.outcome[i] - 0.5F)) * d;
            bottom += static_cast<double>(precision[i]) * d * d;
        }
        const double curvature = bottom + ridge;
        return curvature > 0.0 ? top / curvature : 0.0;
    }

    // Evaluates a block of one worker's comparisons; returns its log-likelihood.
    double curve(std::size_t at, std::size_t count, const double* scores, double slope,
                 CurveBlock& block, double& worker_information, double* sums) {
        for (std::size_t j = 0; j < count; ++j) {
            block.d[j] = scores[votes_.first[at + j]] - scores[votes_.second[at + j]];
            block.eta[j] = slope * block.d[j];
        }
        logistic_block(count, block.eta, votes_.outcome + at, votes_.weight + at, block.level,
                       block.growth, block.residual, block.information);
        for (std::size_t j = 0; j < count; ++j) {
            const double push = slope * block.residual[j], information = block.information[j];
            sums[votes_.first[at + j]] += push;
            sums[votes_.second[at + j]] -= push;
            contribution_[at + j] = static_cast<float>(slope * slope * information);
            worker_information += information * block.d[j] * block.d[j];
        }
        return log_likelihood_of(count, block.level, block.growth, votes_.weight + at);
    }

    const Votes& votes_;
    PairGraph& graph_;
    ThreadPool& pool_;
    ItemSums& sums_;
    ItemSums rhs_sums_;
    const std::vector<std::size_t> ranges_, row_ranges_;
    bool sorted_ = false;          // whether the arrays in the order of pairs exist
    Array<float> contribution_;    // of comparisons to their pairs, in the current pass
    Array<std::uint32_t> worker_;  // of comparisons in the order of pairs
    Array<float> lean_;            // n (y - 1/2) for the lower item, in that order
};

}  // namespace crowdsift
