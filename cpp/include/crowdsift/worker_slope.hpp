// One worker's slope: sums over blocks of its rows, its prior, and the way to its optimum.
#pragma once

#include <cmath>
#include <cstddef>

#include "crowdsift/em.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// Temporaries of a block of rows. They were evaluated at `slope`; `last` is the step that the slope
// then took to first order.
struct SlopeBlock {
    double d[kBlockRows], slope[kBlockRows], last[kBlockRows], eta[kBlockRows], level[kBlockRows],
        growth[kBlockRows], residual[kBlockRows], information[kBlockRows];
};

// Entries of A of one block with one slope for all; its residuals become what each row adds to the
// gradient.
CROWDSIFT_CLONES
inline void common_entries(std::size_t count, double slope, SlopeBlock& block,
                           float* CROWDSIFT_RESTRICT a) {
    for (std::size_t j = 0; j < count; ++j) {
        a[j] = static_cast<float>(slope * slope * block.information[j]);
        block.residual[j] *= slope;
    }
}

// The same where all scores are 0, as where every fit starts: p = 1/2. Returns the log-likelihood.
CROWDSIFT_CLONES
inline double entries_at_zero(std::size_t count, double slope,
                              const float* CROWDSIFT_RESTRICT outcome,
                              const float* CROWDSIFT_RESTRICT weight,
                              double* CROWDSIFT_RESTRICT residual, float* CROWDSIFT_RESTRICT a) {
    for (std::size_t j = 0; j < count; ++j) {
        const double n = static_cast<double>(weight[j]);
        residual[j] = slope * n * (static_cast<double>(outcome[j]) - 0.5);
        a[j] = static_cast<float>(0.25 * slope * slope * n);
    }
    return -0.6931471805599453 * sum_short(weight, count);
}

// v in single precision.
CROWDSIFT_CLONES
inline void round_into(std::size_t count, const double* CROWDSIFT_RESTRICT v,
                       float* CROWDSIFT_RESTRICT rounded) {
    for (std::size_t j = 0; j < count; ++j) rounded[j] = static_cast<float>(v[j]);
}

// d becomes a d, what each row pushes where no worker is eliminated.
CROWDSIFT_CLONES
inline void weigh_rows(std::size_t count, const float* CROWDSIFT_RESTRICT a,
                       double* CROWDSIFT_RESTRICT d) {
    for (std::size_t j = 0; j < count; ++j) d[j] *= static_cast<double>(a[j]);
}

// Entries of A and B of one block; its residuals become what each row adds to the gradient.
CROWDSIFT_CLONES
inline void slope_entries(std::size_t count, SlopeBlock& block, float* CROWDSIFT_RESTRICT a,
                          float* CROWDSIFT_RESTRICT b) {
    for (std::size_t j = 0; j < count; ++j) {
        const double slope = block.slope[j], residual = block.residual[j];
        const double mixed = block.information[j] * block.eta[j] - residual;
        a[j] = static_cast<float>(slope * slope * block.information[j]);
        b[j] = static_cast<float>(mixed);
        block.residual[j] = slope * residual - mixed * block.last[j];
    }
}

// The sum of b d.
CROWDSIFT_CLONES
inline double coupled(std::size_t count, const float* b, const double* d) {
    return product_sum(count, b, d);
}

// d becomes a d - b eliminated, what each row pushes.
CROWDSIFT_CLONES
inline void reduce_rows(std::size_t count, double eliminated, const float* CROWDSIFT_RESTRICT a,
                        const float* CROWDSIFT_RESTRICT b, double* CROWDSIFT_RESTRICT d) {
    for (std::size_t j = 0; j < count; ++j)
        d[j] = static_cast<double>(a[j]) * d[j] - static_cast<double>(b[j]) * eliminated;
}

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

// The same from residuals n (y - p) and information n p (1 - p) that are there already.
CROWDSIFT_CLONES
inline void weighted_sums(std::size_t count, const double* CROWDSIFT_RESTRICT d,
                          const double* CROWDSIFT_RESTRICT residual,
                          const double* CROWDSIFT_RESTRICT information,
                          double* CROWDSIFT_RESTRICT out) {
    double push[8] = {0, 0, 0, 0, 0, 0, 0, 0}, hold[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    std::size_t j = 0;
    for (; j + 8 <= count; j += 8)
        for (std::size_t lane = 0; lane < 8; ++lane) {
            push[lane] += residual[j + lane] * d[j + lane];
            hold[lane] += information[j + lane] * d[j + lane] * d[j + lane];
        }
    for (std::size_t lane = 0; j < count; ++j, ++lane) {
        push[lane] += residual[j] * d[j];
        hold[lane] += information[j] * d[j] * d[j];
    }
    for (std::size_t lane = 0; lane < 8; ++lane) {
        out[0] += push[lane];
        out[1] += hold[lane];
    }
}

// The prior of a slope, and how long its last Newton step may be: the error left is of the order
// of that length squared.
struct SlopePrior {
    static constexpr double kLittle = 30.0;
    double mean, precision, last_step;

    // The derivative of the log-density and the negative of its second one.
    void derivatives(double slope, double* at) const {
        at[0] = precision * (mean - slope);
        at[1] = precision;
    }

    // Whether the last step is short: against the slope, or against the information of the votes on
    // it. Both are the same whatever the scale of the scores.
    bool is_short(double slope, const double* at) const {
        const double information = slope * slope * (at[1] - precision);
        return at[0] * at[0] <= last_step * last_step * at[1] * std::fmax(information, kLittle);
    }

    // Where the derivative, which falls, is 0: by Newton steps, and the middle of what is left of
    // the line where a step would leave it or is not half as long as the one before (Newton's
    // steps can go to and fro for ever). sums(slope, out) adds to out as slope_sums does, and `at`
    // holds derivative and curvature at the slope. Returns a slope from which the last step, the
    // one left to do, is short.
    template <class Sums>
    double approach(double slope, double* at, const Sums& sums) const {
        double low = -HUGE_VAL, high = HUGE_VAL, before = HUGE_VAL;
        for (int step = 0; step < 200 && !is_short(slope, at); ++step) {
            (at[0] > 0.0 ? low : high) = slope;
            double ahead = slope + at[0] / at[1];
            const bool between = low > -HUGE_VAL && high < HUGE_VAL;
            const bool slow = std::fabs(ahead - slope) > 0.5 * before;
            if (between && (slow || !(ahead > low && ahead < high))) ahead = 0.5 * (low + high);
            before = std::fabs(ahead - slope);
            slope = ahead;
            derivatives(slope, at);
            sums(slope, at);
        }
        return slope;
    }

    // Takes the last step of a slope from its derivative and curvature; what it adds to the
    // log-likelihood, prior left out.
    double finish(const double* at, double& slope) const {
        const double last = at[0] / at[1], shrinkage = precision * (mean - slope);
        slope += last;
        return (at[0] - shrinkage) * last - 0.5 * (at[1] - precision) * last * last;
    }
};

}  // namespace crowdsift
