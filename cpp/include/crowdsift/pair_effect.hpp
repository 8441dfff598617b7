// A common effect u ~ N(0, s) of all votes on a pair, integrated out.
//
// With a = sum of n tau and H = signed sum of n nu (towards the lower item) over a pair's sites and
// D = 1 + s a: items receive the weight a/D and H/D; the difference of the pair has the posterior
// mean (E + s H)/D and variance V/D^2 + s/D, where E, V are those of the scores alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "crowdsift/array.hpp"
#include "crowdsift/grid_kernels.hpp"

namespace crowdsift {

// Sums of n tau and of signed n nu over the sites of a pair.
struct PairSums {
    double tau = 0.0, nu = 0.0;
};

class PairEffect {
public:
    bool on() const { return variance_ > 0.0; }

    // Starts without sites.
    void set(double variance, std::size_t n_pairs) {
        variance_ = variance;
        inverse_.assign(on() ? n_pairs : 0, 1.0F);
        nu_.assign(on() ? n_pairs : 0, 0.0F);
    }

    // Stores the sums of a pair; returns the weight for its items.
    double take(std::size_t p, const PairSums& sums) {
        const double d = denominator(sums);
        inverse_[p] = static_cast<float>(1.0 / d);
        nu_[p] = static_cast<float>(sums.nu / d);
        return sums.tau / d;
    }

    // The contribution of the pair to the evidence: -1/2 log D + 1/2 s H^2/D.
    double evidence(const PairSums& sums) const {
        const double d = denominator(sums);
        return 0.5 * (variance_ * sums.nu * sums.nu / d - std::log(d));
    }

    // Converts to scores divided by the scale: s/f^2 and f H, so that D stays.
    void rescale(double scale) {
        variance_ /= scale * scale;
        for (float& nu : nu_) nu *= static_cast<float>(scale);
    }

    // H/D, which is added to the lower item and subtracted from the higher one.
    double nu(std::size_t p) const { return static_cast<double>(nu_[p]); }

    // Converts mean and variance of the scores' difference, lower minus higher item, to the pair's.
    void posterior(std::size_t p, float sign, float& mean, float& variance) const {
        const float s = static_cast<float>(variance_);
        mean = mean * inverse_[p] + sign * s * nu_[p];
        variance = inverse_[p] * (variance * inverse_[p] + s);
    }

private:
    double denominator(const PairSums& sums) const {
        return std::max(1.0 + variance_ * sums.tau, static_cast<double>(kLeastDenominator));
    }

    double variance_ = 0.0;
    Array<float> inverse_, nu_;  // 1/D and H/D
};

}  // namespace crowdsift
