// The logistic model sigma(slope_s (r_first - r_second)) as a function of the scores alone: every
// worker's slope is at the optimum of its own votes and prior, or all slopes are one number.
//
// With the negative Hessian [A B; B' D] over scores and slopes, D diagonal, the Hessian of what is
// left is S = A - B D^-1 B'. A pass keeps the entries of A and B, 8 bytes a comparison, and a
// product with S streams these and the item codes, 16 bytes a comparison, once. Nothing is sorted
// or grouped by pairs, so a fit starts at once. Rows are taken in blocks of whole workers, whose
// temporaries stay in the first-level cache; longer runs are gathered anew instead of kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/logistic.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

constexpr std::size_t kSlopeBlock = 1024;

// Sums of n (y - p) d and n p (1 - p) d^2 at eta = slope d, over one block.
CROWDSIFT_CLONES
inline void slope_sums(std::size_t count, double slope, const double* CROWDSIFT_RESTRICT d,
                       const float* CROWDSIFT_RESTRICT outcome,
                       const float* CROWDSIFT_RESTRICT weight, double* CROWDSIFT_RESTRICT out) {
    double push[8] = {0, 0, 0, 0, 0, 0, 0, 0}, hold[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const auto add = [&](std::size_t j, std::size_t lane) {
        const double x = slope * d[j], n = static_cast<double>(weight[j]);
        const double e = exp_minus(x < 0.0 ? -x : x), scale = 1.0 / (1.0 + e);
        const double p = x > 0.0 ? scale : e * scale;
        push[lane] += n * (static_cast<double>(outcome[j]) - p) * d[j];
        hold[lane] += n * e * scale * scale * d[j] * d[j];
    };
    std::size_t j = 0;
    for (; j + 8 <= count; j += 8)
        for (std::size_t lane = 0; lane < 8; ++lane) add(j + lane, lane);
    for (std::size_t lane = 0; j < count; ++j, ++lane) add(j, lane);
    for (std::size_t lane = 0; lane < 8; ++lane) {
        out[0] += push[lane];
        out[1] += hold[lane];
    }
}

// The prior of a slope, and how long its last Newton step may be: the error left is of the order
// of that length squared.
struct SlopePrior {
    double mean, precision, last_step;

    // The derivative of the log-density and the negative of its second one.
    void derivatives(double slope, double* at) const {
        at[0] = precision * (mean - slope);
        at[1] = precision;
    }

    bool is_short(double slope, const double* at) const {
        return std::fabs(at[0]) <= last_step * (1.0 + std::fabs(slope)) * at[1];
    }
};

class SlopePasses {
public:
    SlopePasses(const Votes& votes, ThreadPool& pool)
        : votes_(votes), pool_(pool), ranges_(votes.worker_ranges(pool.size())),
          row_ranges_(shared_ranges(votes.n, kManyRows, pool)),
          pairs_(std::max(ranges_.size(), row_ranges_.size()) - 1, 2 * votes.n_items),
          sums_(std::max(ranges_.size(), row_ranges_.size()) - 1, votes.n_items) {}

    // Log-likelihood with one slope for all; its gradient and the diagonal of A.
    double common(const double* scores, double slope, double* gradient, double* diagonal) {
        own_ = false;
        a_.resize(votes_.n);
        std::vector<double> part(row_ranges_.size() - 1, 0.0);
        pairs_.clear();
        pool_.run(row_ranges_.size() - 1, [&](std::size_t range) {
            Scratch block;
            double* const sums = pairs_.range(range);
            double total = 0.0;
            for (std::size_t at = row_ranges_[range]; at < row_ranges_[range + 1];
                 at += kSlopeBlock) {
                const std::size_t count = std::min(kSlopeBlock, row_ranges_[range + 1] - at);
                differences(scores, at, count, block.d);
                for (std::size_t j = 0; j < count; ++j) block.eta[j] = slope * block.d[j];
                total += evaluate(at, count, block);
                for (std::size_t j = 0; j < count; ++j) {
                    a_[at + j] = static_cast<float>(slope * slope * block.information[j]);
                    add_pair(at + j, slope * block.residual[j], static_cast<double>(a_[at + j]),
                             sums);
                }
            }
            part[range] = total;
        });
        return hand_out(part, gradient, diagonal);
    }

    // Minimises -log-likelihood + precision/2 (slope - mean)^2 over every worker's slope, from the
    // slopes given. Returns the log-likelihood there; its gradient in the scores, the diagonal of
    // A, and D, the curvature of every slope, prior included.
    double own(const double* scores, const SlopePrior& prior, double* slopes, double* gradient,
               double* diagonal, double* curvature) {
        own_ = true;
        a_.resize(votes_.n);
        b_.resize(votes_.n);
        inverse_.resize(votes_.n_workers);
        std::vector<double> part(ranges_.size() - 1, 0.0);
        pairs_.clear();
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            Scratch block;
            double* const sums = pairs_.range(range);
            double total = 0.0;
            over_blocks(range, [&](std::size_t from, std::size_t to) {
                const std::size_t at = votes_.begin_of(from);
                const std::size_t rows = votes_.begin_of(to) - at;
                if (rows > kSlopeBlock)
                    total += settle_long(from, scores, prior, slopes, curvature, block, sums);
                else
                    total += settle(from, to, scores, prior, slopes, curvature, block, sums);
            });
            part[range] = total;
        });
        for (std::size_t s = 0; s < votes_.n_workers; ++s) inverse_[s] = 1.0 / curvature[s];
        return hand_out(part, gradient, diagonal);
    }

    // S v of the last of these two; S = A where all slopes are one number.
    void multiply(const double* v, double* out) {
        const std::vector<std::size_t>& ranges = own_ ? ranges_ : row_ranges_;
        sums_.clear();
        // In single precision twice as much of v stays in the cache; A and B are single anyway.
        rounded_.resize(votes_.n_items);
        for (std::size_t j = 0; j < votes_.n_items; ++j) rounded_[j] = static_cast<float>(v[j]);
        pool_.run(ranges.size() - 1, [&](std::size_t range) {
            double* const sums = sums_.range(range);
            double d[kSlopeBlock];
            if (!own_) {
                for (std::size_t at = ranges[range]; at < ranges[range + 1]; at += kSlopeBlock) {
                    const std::size_t count = std::min(kSlopeBlock, ranges[range + 1] - at);
                    differences(rounded_.data(), at, count, d);
                    spread(at, count, d, sums);
                }
                return;
            }
            over_blocks(range, [&](std::size_t from, std::size_t to) {
                const std::size_t at = votes_.begin_of(from);
                const std::size_t rows = votes_.begin_of(to) - at;
                if (rows > kSlopeBlock) {
                    multiply_long(from, d, sums);
                    return;
                }
                differences(rounded_.data(), at, rows, d);
                for (std::size_t s = from; s < to; ++s) {
                    const std::size_t begin = votes_.begin_of(s) - at;
                    const std::size_t end = votes_.begin_of(s + 1) - at;
                    const double pull = couple(at + begin, end - begin, d + begin) * inverse_[s];
                    reduce(at + begin, end - begin, pull, d + begin);
                }
                scatter(at, rows, d, sums);
            });
        });
        sums_.reduce(out, pool_);
    }

    // Entries of A in the order of the comparisons.
    const Array<float>& entries() const { return a_; }

private:
    struct Scratch {
        double d[kSlopeBlock], eta[kSlopeBlock], value[kSlopeBlock], residual[kSlopeBlock],
            information[kSlopeBlock];
    };

    // Calls block(from, to) for runs of workers with at most kSlopeBlock rows, or of one worker.
    template <class Block>
    void over_blocks(std::size_t range, const Block& block) const {
        std::size_t from = ranges_[range];
        while (from < ranges_[range + 1]) {
            const std::size_t limit = votes_.begin_of(from) + kSlopeBlock;
            std::size_t to = from + 1;
            while (to < ranges_[range + 1] && votes_.begin_of(to + 1) <= limit) ++to;
            block(from, to);
            from = to;
        }
    }

    template <class Real>
    void differences(const Real* x, std::size_t at, std::size_t count, double* d) const {
        const std::uint32_t* const first = votes_.first + at;
        const std::uint32_t* const second = votes_.second + at;
        for (std::size_t j = 0; j < count; ++j) d[j] = static_cast<double>(x[first[j]]) - static_cast<double>(x[second[j]]);
    }

    double evaluate(std::size_t at, std::size_t count, Scratch& block) const {
        logistic_block(count, block.eta, votes_.outcome + at, votes_.weight + at, block.value,
                       block.residual, block.information);
        return sum_block(block.value, count);
    }

    // Adds the gradient and the diagonal of rows [begin, end) of the block at `at`; keeps A and B.
    // They were evaluated at slope - last.
    void push(std::size_t at, std::size_t begin, std::size_t end, double slope, double last,
              const Scratch& block, double* sums) {
        const double before = slope - last, square = before * before;
        for (std::size_t j = begin; j < end; ++j) {
            const double mixed = block.information[j] * block.eta[j] - block.residual[j];
            const float entry = static_cast<float>(square * block.information[j]);
            a_[at + j] = entry;
            b_[at + j] = static_cast<float>(mixed);
            add_pair(at + j, before * block.residual[j] - mixed * last,
                     static_cast<double>(entry), sums);
        }
    }

    void add_pair(std::size_t row, double force, double size, double* sums) const {
        const std::size_t ahead = std::min(row + kAhead, votes_.n - 1);
        will_write(sums + 2 * std::size_t{votes_.first[ahead]});
        will_write(sums + 2 * std::size_t{votes_.second[ahead]});
        double* const one = sums + 2 * std::size_t{votes_.first[row]};
        double* const two = sums + 2 * std::size_t{votes_.second[row]};
        one[0] += force;
        one[1] += size;
        two[0] -= force;
        two[1] += size;
    }

    // Where the derivative, which falls, is 0: by Newton steps, and the middle of what is left of
    // the line where a step would leave it or is not half as long as the one before (Newton's steps
    // can go to and fro for ever). sums(slope, out) adds to out as slope_sums does, and `at` holds
    // derivative and curvature at the slope. Returns a slope from which the last step, the one left
    // to do, is short.
    template <class Sums>
    static double approach(double slope, double* at, const SlopePrior& prior, const Sums& sums) {
        double low = -HUGE_VAL, high = HUGE_VAL, before = HUGE_VAL;
        for (int step = 0; step < 200 && !prior.is_short(slope, at); ++step) {
            (at[0] > 0.0 ? low : high) = slope;
            double ahead = slope + at[0] / at[1];
            const bool between = low > -HUGE_VAL && high < HUGE_VAL;
            const bool slow = std::fabs(ahead - slope) > 0.5 * before;
            if (between && (slow || !(ahead > low && ahead < high))) ahead = 0.5 * (low + high);
            before = std::fabs(ahead - slope);
            slope = ahead;
            prior.derivatives(slope, at);
            sums(slope, at);
        }
        return slope;
    }

    // One worker's rows [begin, end) of an evaluated block: derivative and curvature of the slope.
    static void add_slope(std::size_t begin, std::size_t end, const Scratch& block, double* at) {
        for (std::size_t j = begin; j < end; ++j) {
            at[0] += block.residual[j] * block.d[j];
            at[1] += block.information[j] * block.d[j] * block.d[j];
        }
    }

    // Slopes, curvatures and sums of the workers of one block; returns their log-likelihood. Near
    // the optimum one evaluation serves: the last step of a slope is taken to first order.
    double settle(std::size_t from, std::size_t to, const double* scores, const SlopePrior& prior,
                  double* slopes, double* curvature, Scratch& block, double* sums) {
        const std::size_t at = votes_.begin_of(from), rows = votes_.begin_of(to) - at;
        differences(scores, at, rows, block.d);
        for (std::size_t s = from; s < to; ++s)
            for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i)
                block.eta[i - at] = slopes[s] * block.d[i - at];
        double total = evaluate(at, rows, block);
        for (std::size_t s = from; s < to; ++s) {
            const std::size_t begin = votes_.begin_of(s) - at, end = votes_.begin_of(s + 1) - at;
            double now[2];
            prior.derivatives(slopes[s], now);
            add_slope(begin, end, block, now);
            if (!prior.is_short(slopes[s], now)) {
                total -= sum_block(block.value + begin, end - begin);
                slopes[s] = approach(slopes[s], now, prior, [&](double slope, double* out) {
                    slope_sums(end - begin, slope, block.d + begin, votes_.outcome + at + begin,
                               votes_.weight + at + begin, out);
                });
                for (std::size_t j = begin; j < end; ++j) block.eta[j] = slopes[s] * block.d[j];
                logistic_block(end - begin, block.eta + begin, votes_.outcome + at + begin,
                               votes_.weight + at + begin, block.value + begin,
                               block.residual + begin, block.information + begin);
                total += sum_block(block.value + begin, end - begin);
            }
            total += finish(s, now, prior, slopes, curvature);
            push(at, begin, end, slopes[s], now[0] / now[1], block, sums);
        }
        return total;
    }

    // The same for one worker whose rows do not fit a block.
    double settle_long(std::size_t s, const double* scores, const SlopePrior& prior,
                       double* slopes, double* curvature, Scratch& block, double* sums) {
        const auto add = [&](double slope, double* out) {
            over_rows(s, [&](std::size_t at, std::size_t count) {
                differences(scores, at, count, block.d);
                slope_sums(count, slope, block.d, votes_.outcome + at, votes_.weight + at, out);
            });
        };
        double now[2];
        prior.derivatives(slopes[s], now);
        add(slopes[s], now);
        slopes[s] = approach(slopes[s], now, prior, add);
        const double slope = slopes[s];
        double total = finish(s, now, prior, slopes, curvature);
        over_rows(s, [&](std::size_t at, std::size_t count) {
            differences(scores, at, count, block.d);
            for (std::size_t j = 0; j < count; ++j) block.eta[j] = slope * block.d[j];
            total += evaluate(at, count, block);
            push(at, 0, count, slopes[s], now[0] / now[1], block, sums);
        });
        return total;
    }

    // Takes the last step of a slope; what it adds to the log-likelihood, prior left out.
    static double finish(std::size_t s, const double* now, const SlopePrior& prior, double* slopes,
                         double* curvature) {
        const double last = now[0] / now[1];
        const double pull = prior.precision * (prior.mean - slopes[s]);
        curvature[s] = now[1];
        slopes[s] += last;
        return (now[0] - pull) * last - 0.5 * (now[1] - prior.precision) * last * last;
    }

    template <class Rows>
    void over_rows(std::size_t s, const Rows& rows) const {
        for (std::size_t at = votes_.begin_of(s); at < votes_.begin_of(s + 1); at += kSlopeBlock)
            rows(at, std::min(kSlopeBlock, votes_.begin_of(s + 1) - at));
    }

    double couple(std::size_t at, std::size_t count, const double* d) const {
        double one = 0.0, two = 0.0;
        std::size_t j = 0;
        for (; j + 2 <= count; j += 2) {
            one += static_cast<double>(b_[at + j]) * d[j];
            two += static_cast<double>(b_[at + j + 1]) * d[j + 1];
        }
        if (j < count) one += static_cast<double>(b_[at + j]) * d[j];
        return one + two;
    }

    // d becomes a d - b pull, what each row pushes.
    void reduce(std::size_t at, std::size_t count, double pull, double* d) const {
        for (std::size_t j = 0; j < count; ++j)
            d[j] = static_cast<double>(a_[at + j]) * d[j] - static_cast<double>(b_[at + j]) * pull;
    }

    void scatter(std::size_t at, std::size_t count, const double* push, double* sums) const {
        const std::uint32_t* const first = votes_.first + at;
        const std::uint32_t* const second = votes_.second + at;
        for (std::size_t j = 0; j < count; ++j) {
            const std::size_t ahead = std::min(j + kAhead, count - 1);
            will_write(sums + first[ahead]);
            will_write(sums + second[ahead]);
            sums[first[j]] += push[j];
            sums[second[j]] -= push[j];
        }
    }

    void spread(std::size_t at, std::size_t count, double* d, double* sums) const {
        for (std::size_t j = 0; j < count; ++j) d[j] *= static_cast<double>(a_[at + j]);
        scatter(at, count, d, sums);
    }

    void multiply_long(std::size_t s, double* d, double* sums) const {
        double pull = 0.0;
        over_rows(s, [&](std::size_t at, std::size_t count) {
            differences(rounded_.data(), at, count, d);
            pull += couple(at, count, d);
        });
        pull *= inverse_[s];
        over_rows(s, [&](std::size_t at, std::size_t count) {
            differences(rounded_.data(), at, count, d);
            reduce(at, count, pull, d);
            scatter(at, count, d, sums);
        });
    }

    // Adds up the ranges: gradients and diagonals stand side by side for every item.
    double hand_out(const std::vector<double>& part, double* gradient, double* diagonal) {
        const std::size_t items = votes_.n_items;
        const std::vector<std::size_t> chunks =
            shared_ranges(items, kManyItems, pool_);
        pool_.run(chunks.size() - 1, [&](std::size_t chunk) {
            for (std::size_t j = chunks[chunk]; j < chunks[chunk + 1]; ++j) {
                double force = 0.0, size = 0.0;
                for (std::size_t range = 0; range < pairs_.ranges(); ++range) {
                    force += pairs_.range(range)[2 * j];
                    size += pairs_.range(range)[2 * j + 1];
                }
                gradient[j] = force;
                diagonal[j] = size;
            }
        });
        double total = 0.0;
        for (const double value : part) total += value;
        return total;
    }

    const Votes& votes_;
    ThreadPool& pool_;
    const std::vector<std::size_t> ranges_, row_ranges_;
    ItemSums pairs_, sums_;  // two numbers an item, and one
    bool own_ = false;
    Array<float> a_, b_, rounded_;
    std::vector<double> inverse_;
};

}  // namespace crowdsift
