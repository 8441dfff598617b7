// The logistic model sigma(slope_s (r_first - r_second)) as a function of the scores alone: every
// worker's slope is at the optimum of its own votes and prior, or all slopes are one number.
//
// With the negative Hessian [A B; B' D] over scores and slopes, D diagonal, the Hessian of what is
// left is S = A - B D^-1 B'. A pass keeps the entries of A and B, 8 bytes per comparison, and a
// product with S streams these and the item codes, 16 bytes per comparison, once. Nothing is sorted
// or grouped by pairs, so a fit starts at once. Rows are taken in blocks of whole workers, whose
// temporaries stay in the first-level cache; longer runs are gathered anew instead of kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/conjugate_gradient.hpp"
#include "crowdsift/item_sums.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"
#include "crowdsift/worker_slope.hpp"

namespace crowdsift {

// The operator S from one pass: entries of A and B and the inverse of D, or only A if all slopes
// are one number.
struct SlopeHessian {
    bool own = false;
    Array<float> a, b;
    std::vector<double> inverse;
};

class SlopePasses {
public:
    SlopePasses(const Votes& votes, ThreadPool& pool, ItemSums& sums)
        : votes_(votes), pool_(pool), sums_(sums), ranges_(votes.worker_ranges(pool.size())),
          row_ranges_(shared_ranges(votes.n, kManyRows, pool)) {
        if (votes.n_items < kMixedFrom) return;
        const std::size_t most = most_rows_of_an_item(votes, pool);
        fine_ = rows_between_totals(votes, most, kFine);
        coarse_ = rows_between_totals(votes, most, kCoarse);
    }

    // Log-likelihood with one slope for all, and its gradient; `resolution` is the smallest step of
    // a score that the gradient must resolve.
    double common(const double* scores, double slope, double resolution, double* gradient,
                  SlopeHessian& hessian) {
        hessian.own = false;
        set_scores(scores, resolution);
        hessian.a.resize(votes_.n);
        std::vector<double> part(row_ranges_.size() - 1, 0.0);
        const auto pass = [&](std::size_t range, auto& lane) {
            SlopeBlock block;
            double total = 0.0;
            for (std::size_t at = row_ranges_[range]; at < row_ranges_[range + 1];
                 at += kBlockRows) {
                const std::size_t count = std::min(kBlockRows, row_ranges_[range + 1] - at);
                float* const a = hessian.a.data() + at;
                if (zero_) {
                    total += entries_at_zero(count, slope, votes_.outcome + at, votes_.weight + at,
                                             block.residual, a);
                } else {
                    score_differences(at, count, block.d);
                    scale_into(count, slope, block.d, block.eta);
                    evaluate(at, 0, count, block);
                    total += likelihood(at, count, block);
                    common_entries(count, slope, block, a);
                }
                push(at, count, block.residual, lane);
            }
            part[range] = total;
        };
        sums_.add_mixed(part.size(), pool_, resolution < kMixedResolution ? 0 : fine_, pass,
                        gradient);
        return sum_of(part);
    }

    // Minimises -log-likelihood + precision/2 (slope - mean)^2 over every worker's slope, from the
    // given slopes. Returns the log-likelihood there, its gradient in the scores, and D, the
    // curvature of every slope, prior included.
    double own(const double* scores, const SlopePrior& prior, double resolution, double* slopes,
               double* gradient, double* curvature, SlopeHessian& hessian) {
        hessian.own = true;
        set_scores(scores, resolution);
        hessian.a.resize(votes_.n);
        hessian.b.resize(votes_.n);
        hessian.inverse.resize(votes_.n_workers);
        std::vector<double> part(ranges_.size() - 1, 0.0);
        const auto pass = [&](std::size_t range, auto& lane) {
            SlopeBlock block;
            double total = 0.0;
            votes_.over_blocks(ranges_, range, [&](std::size_t from, std::size_t to) {
                total += votes_.is_long(from, to)
                             ? settle_long(from, prior, slopes, curvature, hessian, block, lane)
                             : settle(from, to, prior, slopes, curvature, hessian, block, lane);
                for (std::size_t s = from; s < to; ++s) hessian.inverse[s] = 1.0 / curvature[s];
            });
            part[range] = total;
        };
        sums_.add_mixed(part.size(), pool_, resolution < kMixedResolution ? 0 : fine_, pass,
                        gradient);
        return sum_of(part);
    }

    // (S + shift I) v
    void multiply(const SlopeHessian& hessian, double shift, const double* v, double* out) {
        const std::vector<std::size_t>& ranges = hessian.own ? ranges_ : row_ranges_;
        // In single precision twice as much of v fits into the cache; A and B are single anyway.
        rounded_.resize(votes_.n_items);
        round_into(votes_.n_items, v, rounded_.data());
        const auto pass = [&](std::size_t range, auto& lane) {
            double d[kBlockRows];
            if (!hessian.own) {
                for (std::size_t at = ranges[range]; at < ranges[range + 1]; at += kBlockRows) {
                    const std::size_t count = std::min(kBlockRows, ranges[range + 1] - at);
                    differences(rounded_.data(), at, count, d);
                    weigh_rows(count, hessian.a.data() + at, d);
                    push(at, count, d, lane);
                }
                return;
            }
            votes_.over_blocks(ranges_, range, [&](std::size_t from, std::size_t to) {
                if (votes_.is_long(from, to)) {
                    multiply_long(hessian, from, d, lane);
                    return;
                }
                const std::size_t at = votes_.begin_of(from), rows = votes_.begin_of(to) - at;
                differences(rounded_.data(), at, rows, d);
                for (std::size_t s = from; s < to; ++s) {
                    const std::size_t begin = votes_.begin_of(s);
                    const std::size_t count = votes_.begin_of(s + 1) - begin;
                    double* const own = d + (begin - at);
                    const double eliminated =
                        coupled(count, hessian.b.data() + begin, own) * hessian.inverse[s];
                    reduce_rows(count, eliminated, hessian.a.data() + begin,
                                hessian.b.data() + begin, own);
                }
                push(at, rows, d, lane);
            });
        };
        sums_.add_mixed(ranges.size() - 1, pool_, coarse_, pass, out, shift, v);
    }

    // The diagonal of A.
    void diagonal(const SlopeHessian& hessian, double* out) {
        const auto pass = [&](std::size_t range, auto& lane) {
            auto* const sums = lane.sums();
            using Real = std::remove_reference_t<decltype(*sums)>;
            for (std::size_t at = row_ranges_[range]; at < row_ranges_[range + 1];
                 at += kBlockRows) {
                const std::size_t count = std::min(kBlockRows, row_ranges_[range + 1] - at);
                over_items(
                    at, count, [&](std::uint32_t item) { prefetch_write(sums + item); },
                    [&](std::size_t j, std::uint32_t one, std::uint32_t two) {
                        sums[one] += static_cast<Real>(hessian.a[at + j]);
                        sums[two] += static_cast<Real>(hessian.a[at + j]);
                    });
                lane.added(count);
            }
        };
        sums_.add_mixed(row_ranges_.size() - 1, pool_, coarse_, pass, out);
    }

    SolveReport solve(const SlopeHessian& hessian, double shift, const double* rhs, double* x,
                      double tolerance, std::size_t most) {
        std::vector<double> at(votes_.n_items);
        diagonal(hessian, at.data());
        return conjugate_gradient(
            votes_.n_items, [&](const double* v, double* out) { multiply(hessian, shift, v, out); },
            at.data(), shift, rhs, x, tolerance, most);
    }

private:
    void set_scores(const double* scores, double resolution) {
        scores_ = scores;
        zero_ = std::all_of(scores, scores + votes_.n_items, [](double r) { return r == 0.0; });
        fixed_ = votes_.n_items >= kMixedFrom && resolution >= kMixedResolution &&
                 fixed_scores_.set(scores, votes_.n_items);
    }

    void score_differences(std::size_t at, std::size_t count, double* d) const {
        if (!fixed_) {
            differences(scores_, at, count, d);
            return;
        }
        differences(fixed_scores_.data(), at, count, d);
        for (std::size_t j = 0; j < count; ++j) d[j] *= fixed_scores_.unit();
    }

    template <class Value>
    void differences(const Value* x, std::size_t at, std::size_t count, double* d) const {
        over_items(
            at, count, [&](std::uint32_t item) { prefetch_read(x + item); },
            [&](std::size_t j, std::uint32_t one, std::uint32_t two) {
                d[j] = static_cast<double>(x[one]) - static_cast<double>(x[two]);
            });
    }

    // Evaluates rows [begin, end) of a block that starts at `at`.
    void evaluate(std::size_t at, std::size_t begin, std::size_t end, SlopeBlock& block) const {
        logistic_block(end - begin, block.eta + begin, votes_.outcome + at + begin,
                       votes_.weight + at + begin, block.level + begin, block.growth + begin,
                       block.residual + begin, block.information + begin);
    }

    // The log-likelihood of a block that was evaluated.
    double likelihood(std::size_t at, std::size_t count, const SlopeBlock& block) const {
        return log_likelihood_of(count, block.level, block.growth, votes_.weight + at);
    }

    // Adds the force of every row to its first item and subtracts it from its second.
    template <class Lane>
    void push(std::size_t at, std::size_t count, const double* force, Lane& lane) const {
        auto* const sums = lane.sums();
        using Real = std::remove_reference_t<decltype(*sums)>;
        over_items(
            at, count, [&](std::uint32_t item) { prefetch_write(sums + item); },
            [&](std::size_t j, std::uint32_t one, std::uint32_t two) {
                sums[one] += static_cast<Real>(force[j]);
                sums[two] -= static_cast<Real>(force[j]);
            });
        lane.added(count);
    }

    // Calls row(j, first item, second item) for rows of a block. If there are too many items for
    // the second-level cache, those of later rows are prefetched.
    template <class Prefetch, class Row>
    void over_items(std::size_t at, std::size_t count, const Prefetch& prefetch,
                    const Row& row) const {
        const std::uint32_t* const first = votes_.first + at;
        const std::uint32_t* const second = votes_.second + at;
        std::size_t j = 0;
        if (votes_.n_items >= kMixedFrom) {
            const std::size_t near =
                std::min(count, std::max(votes_.n - at, kPrefetch) - kPrefetch);
            for (; j < near; ++j) {
                prefetch(first[j + kPrefetch]);
                prefetch(second[j + kPrefetch]);
                row(j, first[j], second[j]);
            }
        }
        for (; j < count; ++j) row(j, first[j], second[j]);
    }

    // Slopes, curvatures and sums of the workers of one block; returns their log-likelihood. Near
    // the optimum one evaluation suffices: the last step of a slope is taken to first order.
    template <class Lane>
    double settle(std::size_t from, std::size_t to, const SlopePrior& prior, double* slopes,
                  double* curvature, SlopeHessian& hessian, SlopeBlock& block, Lane& lane) {
        const std::size_t at = votes_.begin_of(from), rows = votes_.begin_of(to) - at;
        const auto set = [&](std::size_t begin, std::size_t end, double slope) {
            for (std::size_t j = begin; j < end; ++j) {
                block.slope[j] = slope;
                block.eta[j] = slope * block.d[j];
            }
        };
        score_differences(at, rows, block.d);
        for (std::size_t s = from; s < to; ++s)
            set(votes_.begin_of(s) - at, votes_.begin_of(s + 1) - at, slopes[s]);
        evaluate(at, 0, rows, block);
        double total = 0.0;
        for (std::size_t s = from; s < to; ++s) {
            const std::size_t begin = votes_.begin_of(s) - at, end = votes_.begin_of(s + 1) - at;
            double now[2];
            prior.derivatives(slopes[s], now);
            weighted_sums(end - begin, block.d + begin, block.residual + begin,
                          block.information + begin, now);
            if (!prior.is_short(slopes[s], now)) {
                slopes[s] = prior.approach(slopes[s], now, [&](double slope, double* out) {
                    slope_sums(end - begin, slope, block.d + begin, votes_.outcome + at + begin,
                               votes_.weight + at + begin, out);
                });
                set(begin, end, slopes[s]);
                evaluate(at, begin, end, block);
            }
            std::fill(block.last + begin, block.last + end, now[0] / now[1]);
            curvature[s] = now[1];
            total += prior.finish(now, slopes[s]);
        }
        total += likelihood(at, rows, block);
        slope_entries(rows, block, hessian.a.data() + at, hessian.b.data() + at);
        push(at, rows, block.residual, lane);
        return total;
    }

    // The same for one worker whose rows do not fit into a block.
    template <class Lane>
    double settle_long(std::size_t s, const SlopePrior& prior, double* slopes, double* curvature,
                       SlopeHessian& hessian, SlopeBlock& block, Lane& lane) {
        const auto add = [&](double slope, double* out) {
            votes_.over_pieces(s, s + 1, [&](std::size_t at, std::size_t count) {
                score_differences(at, count, block.d);
                slope_sums(count, slope, block.d, votes_.outcome + at, votes_.weight + at, out);
            });
        };
        double now[2];
        prior.derivatives(slopes[s], now);
        add(slopes[s], now);
        const double slope = slopes[s] = prior.approach(slopes[s], now, add);
        curvature[s] = now[1];
        double total = prior.finish(now, slopes[s]);
        std::fill(block.slope, block.slope + kBlockRows, slope);
        std::fill(block.last, block.last + kBlockRows, now[0] / now[1]);
        votes_.over_pieces(s, s + 1, [&](std::size_t at, std::size_t count) {
            score_differences(at, count, block.d);
            for (std::size_t j = 0; j < count; ++j) block.eta[j] = slope * block.d[j];
            evaluate(at, 0, count, block);
            total += likelihood(at, count, block);
            slope_entries(count, block, hessian.a.data() + at, hessian.b.data() + at);
            push(at, count, block.residual, lane);
        });
        return total;
    }

    template <class Lane>
    void multiply_long(const SlopeHessian& hessian, std::size_t s, double* d, Lane& lane) const {
        double eliminated = 0.0;
        votes_.over_pieces(s, s + 1, [&](std::size_t at, std::size_t count) {
            differences(rounded_.data(), at, count, d);
            eliminated += coupled(count, hessian.b.data() + at, d);
        });
        eliminated *= hessian.inverse[s];
        votes_.over_pieces(s, s + 1, [&](std::size_t at, std::size_t count) {
            differences(rounded_.data(), at, count, d);
            reduce_rows(count, eliminated, hessian.a.data() + at, hessian.b.data() + at, d);
            push(at, count, d, lane);
        });
    }

    static double sum_of(const std::vector<double>& parts) {
        double total = 0.0;
        for (const double part : parts) total += part;
        return total;
    }

    const Votes& votes_;
    ThreadPool& pool_;
    ItemSums& sums_;
    const std::vector<std::size_t> ranges_, row_ranges_;
    std::size_t fine_ = 0, coarse_ = 0;  // rows between totals of gradients, and of products
    FixedPointScores fixed_scores_;
    const double* scores_ = nullptr;     // of the current pass
    bool fixed_ = false, zero_ = false;  // scores in fixed point, or all 0
    Array<float> rounded_;
};

}  // namespace crowdsift
