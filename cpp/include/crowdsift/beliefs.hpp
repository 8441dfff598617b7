// Variances of compared pairs under the precision L + I by Gaussian belief propagation.
//
// Weights W of pairs, D_j = 1 + sum of W. A pair sends M = W^2/l to each end, l the precision of
// the other end without it. On trees exact; on graphs without many short cycles close.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

struct BeliefReport {
    double log_determinant = 0.0;
    std::size_t sweeps = 0;
    bool definite = true;
};

class PairBeliefs {
public:
    PairBeliefs(const Pairs& pairs, std::size_t n_items, ThreadPool& pool)
        : pairs_(pairs), n_(n_items), pool_(pool), to_low_(pairs.size(), 0.0F),
          to_high_(pairs.size(), 0.0F), precision_(n_items, 1.0), degree_(n_items, 0),
          ranges_(pairs.row_ranges(pool.size())), sums_(ranges_.size() - 1, n_items) {
        pairs.each([&](std::size_t, std::uint32_t a, std::uint32_t b) {
            ++degree_[a];
            ++degree_[b];
        });
    }

    // A number for someone who will call; messages then start from nothing.
    std::size_t new_owner() {
        owner_ = 0;
        return ++owners_;
    }

    // Messages start from nothing for whoever asks next.
    void forget() { owner_ = 0; }

    // From the messages of the owner's last call, if nobody else has called since; until they move
    // less than `tolerance` D. Writes the diagonal of the inverse and the variances of the pairs.
    BeliefReport propagate(std::size_t owner, const float* weight, const double* diagonal,
                           double tolerance, std::size_t most, double* item_variance,
                           float* pair_variance) {
        if (owner != owner_) {
            std::fill(to_low_.begin(), to_low_.end(), 0.0F);
            std::fill(to_high_.begin(), to_high_.end(), 0.0F);
            owner_ = owner;
        }
        BeliefReport report;
        gather(diagonal);
        bool settled = false;
        for (; report.sweeps < most && !settled && report.definite; ++report.sweeps)
            settled = sweep(weight, diagonal, tolerance, report.definite);
        if (!report.definite) return report;
        finish(weight, item_variance, pair_variance, report);
        return report;
    }

private:
    // precision_j = D_j - (sum of messages to j)
    void gather(const double* diagonal) {
        sums_.clear();
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double* const sums = sums_.range(range);
            over(range, [&](std::size_t p, std::uint32_t a, std::uint32_t b) {
                sums[a] += static_cast<double>(to_low_[p]);
                sums[b] += static_cast<double>(to_high_[p]);
            });
        });
        close(diagonal);
    }

    void close(const double* diagonal) {
        sums_.reduce(precision_.data());
        for (std::size_t j = 0; j < n_; ++j) precision_[j] = 1.0 + diagonal[j] - precision_[j];
    }

    bool sweep(const float* weight, const double* diagonal, double tolerance, bool& definite) {
        sums_.clear();
        std::vector<int> moving(ranges_.size() - 1, 0), proper(ranges_.size() - 1, 1);
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double* const sums = sums_.range(range);
            bool moves = false, good = true;
            over(range, [&](std::size_t p, std::uint32_t a, std::uint32_t b) {
                const double w = static_cast<double>(weight[p]);
                const double old_a = static_cast<double>(to_low_[p]);
                const double old_b = static_cast<double>(to_high_[p]);
                const double la = precision_[a] + old_a, lb = precision_[b] + old_b;
                good = good && la > 0.0 && lb > 0.0;
                const double inverse = w * w / (la * lb);
                const double new_a = inverse * la, new_b = inverse * lb;  // W^2/lb, W^2/la
                moves = moves || std::fabs(new_a - old_a) > tolerance * (1.0 + diagonal[a]) ||
                        std::fabs(new_b - old_b) > tolerance * (1.0 + diagonal[b]);
                to_low_[p] = static_cast<float>(new_a);
                to_high_[p] = static_cast<float>(new_b);
                sums[a] += static_cast<double>(to_low_[p]);
                sums[b] += static_cast<double>(to_high_[p]);
            });
            moving[range] = moves ? 1 : 0;
            proper[range] = good ? 1 : 0;
        });
        close(diagonal);
        definite = all(proper);
        return std::find(moving.begin(), moving.end(), 1) == moving.end();
    }

    // Variances, and Bethe's form of log|L + I|:
    // sum over pairs of log(la lb - W^2) + sum over items of (1 - degree) log precision.
    void finish(const float* weight, double* item_variance, float* pair_variance,
                BeliefReport& report) {
        double total = 0.0;
        for (std::size_t j = 0; j < n_; ++j) {
            report.definite = report.definite && precision_[j] > 0.0;
            if (!report.definite) return;
            item_variance[j] = 1.0 / precision_[j];
            total += (1.0 - static_cast<double>(degree_[j])) * std::log(precision_[j]);
        }
        std::vector<double> logs(ranges_.size() - 1, 0.0);
        std::vector<int> proper(ranges_.size() - 1, 1);
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double product = 1.0, sum = 0.0;
            bool good = true;
            over(range, [&](std::size_t p, std::uint32_t a, std::uint32_t b) {
                const double w = static_cast<double>(weight[p]);
                const double la = precision_[a] + static_cast<double>(to_low_[p]);
                const double lb = precision_[b] + static_cast<double>(to_high_[p]);
                const double determinant = la * lb - w * w;
                const double top = la + lb - 2.0 * w;
                good = good && determinant > 0.0 && top > 0.0;
                if (!good) return;
                pair_variance[p] = static_cast<float>(top / determinant);
                product *= determinant;
                if (product > 1e100 || product < 1e-100) {
                    sum += std::log(product);
                    product = 1.0;
                }
            });
            logs[range] = sum + std::log(product);
            proper[range] = good ? 1 : 0;
        });
        report.definite = all(proper);
        for (const double value : logs) total += value;
        report.log_determinant = total;
    }

    template <class Visit>
    void over(std::size_t range, const Visit& visit) const {
        pairs_.each(ranges_[range], ranges_[range + 1], visit);
    }

    static bool all(const std::vector<int>& flags) {
        return std::find(flags.begin(), flags.end(), 0) == flags.end();
    }

    const Pairs& pairs_;
    std::size_t n_;
    ThreadPool& pool_;
    Array<float> to_low_, to_high_;
    std::vector<double> precision_;
    std::vector<std::uint32_t> degree_;
    std::vector<std::size_t> ranges_;
    ItemSums sums_;
    std::size_t owners_ = 0, owner_ = 0;  // how many there are, and whose messages these are
};

}  // namespace crowdsift
