// A common effect u ~ N(0, s) of all votes on a pair, integrated out.
//
// With a = sum of n A and H = signed sum of n h (towards the lower item) over a pair's sites and
// D = 1 + s a: items see the weight a/D and H/D; the difference of the pair has the posterior mean
// (E + s H)/D and variance V/D^2 + s/D, where E, V are those of the scores alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/split_votes.hpp"

namespace crowdsift {

class PairEffect {
public:
    bool on() const { return variance_ > 0.0; }
    double variance() const { return variance_; }
    // Sum over pairs of -1/2 log D + 1/2 s H^2/D, for the sites last gathered.
    double log_pairs() const { return log_pairs_; }

    // No sites yet.
    void set(double variance, std::size_t n_pairs) {
        variance_ = variance;
        log_pairs_ = 0.0;
        inverse_.assign(on() ? n_pairs : 0, 1.0F);
        pull_.assign(on() ? n_pairs : 0, 0.0F);
    }

    void rescale(double factor) { variance_ /= factor * factor; }

    // Weights of pairs and the right-hand side as the items see them.
    void gather(const SplitVotes& votes, const Pairs& pairs, const float* a, const float* h,
                ThreadPool& pool, std::size_t n_items, float* weight, double* rhs) {
        const std::vector<std::size_t> parts =
            shared_ranges(pairs.size(), kManyPairs, pool);
        std::vector<double> logs(parts.size() - 1, 0.0);
        pool.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p) {
                const Sums sums = add_up(votes, a, h, p);
                const double d = std::max(1.0 + variance_ * sums.a, kLeast);
                inverse_[p] = static_cast<float>(1.0 / d);
                pull_[p] = static_cast<float>(sums.h / d);
                weight[p] = static_cast<float>(sums.a / d);
                logs[part] += 0.5 * (variance_ * sums.h * sums.h / d - std::log(d));
            }
        });
        log_pairs_ = 0.0;
        for (const double value : logs) log_pairs_ += value;
        std::fill(rhs, rhs + n_items, 0.0);
        pairs.each([&](std::size_t p, std::uint32_t low, std::uint32_t high) {
            rhs[low] += static_cast<double>(pull_[p]);
            rhs[high] -= static_cast<double>(pull_[p]);
        });
    }

    // From mean and variance of the scores' difference, lower less higher item, to the pair's.
    void posterior(std::size_t p, float sign, float& mean, float& variance) const {
        const float s = static_cast<float>(variance_);
        mean = mean * inverse_[p] + sign * s * pull_[p];
        variance = inverse_[p] * (variance * inverse_[p] + s);
    }

    // Derivative of the evidence in s: 1/2 sum of (H - aE)^2 + a^2 V - a, with the posteriors.
    static double slope(const SplitVotes& votes, std::size_t n_pairs, const float* a,
                        const float* h, const double* mean, const double* variance) {
        double total = 0.0;
        for (std::size_t p = 0; p < n_pairs; ++p) {
            const Sums sums = add_up(votes, a, h, p);
            const double gap = sums.h - sums.a * mean[p];
            total += gap * gap + sums.a * (sums.a * variance[p] - 1.0);
        }
        return 0.5 * total;
    }

private:
    static constexpr double kLeast = 0.05;  // of D, which negative a could make improper

    struct Sums {
        double a = 0.0, h = 0.0;
    };

    static Sums add_up(const SplitVotes& votes, const float* a, const float* h, std::size_t p) {
        Sums sums;
        for (std::size_t k = votes.by_pair_start[p]; k < votes.by_pair_start[p + 1]; ++k) {
            const std::size_t i = votes.by_pair[k];
            const double value = static_cast<double>(votes.n[i] * h[i]);
            sums.a += static_cast<double>(votes.n[i] * a[i]);
            sums.h += votes.straight(i) ? value : -value;
        }
        return sums;
    }

    double variance_ = 0.0, log_pairs_ = 0.0;
    Array<float> inverse_, pull_;  // 1/D and H/D
};

}  // namespace crowdsift
