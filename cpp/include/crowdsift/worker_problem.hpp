// One worker's own parameters at the minimum of -log-likelihood + penalty/2 |t - centre|^2.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "crowdsift/likelihoods.hpp"

namespace crowdsift {

// The prior of a worker's parameters, where they may be, and when they are settled.
struct WorkerPrior {
    const double* centre;
    double penalty, low, high, tolerance;
    std::size_t most;  // steps

    // Whether a parameter stays at a bound, from the gradient in it.
    bool holds(double t, double gradient) const {
        return (t <= low && gradient > 0.0) || (t >= high && gradient < 0.0);
    }
};

// The way to the minimum of a convex function of one parameter, by its first two derivatives:
// Newton steps, and the middle of what is left of the line where a step would leave it or is not
// half as long as the one before.
struct ConvexSearch {
    double below = -HUGE_VAL, above = HUGE_VAL, before = HUGE_VAL;

    // Moves t; false where it stays, or where its derivatives are not numbers.
    bool go(double& t, double gradient, double curvature, const WorkerPrior& prior) {
        if (!(std::fabs(gradient) > prior.tolerance) || !(curvature > 0.0)) return false;
        if (prior.holds(t, gradient)) return false;
        (gradient > 0.0 ? above : below) = t;
        double ahead = std::min(std::max(t - gradient / curvature, prior.low), prior.high);
        const bool slow = std::fabs(ahead - t) > 0.5 * before;
        if (below > -HUGE_VAL && above < HUGE_VAL && (slow || !(ahead > below && ahead < above)))
            ahead = 0.5 * (below + above);
        before = std::fabs(ahead - t);
        // A step that rounding hides: the gradient cannot be smaller.
        const bool moves = before > 1e-16 * std::fabs(t) && std::isfinite(ahead);
        if (moves) t = ahead;
        return moves;
    }
};

// Value, gradient and Hessian in several parameters.
struct WorkerProblem {
    static constexpr int kMostTries = 200;
    double value, gradient[kMostParameters], hessian[kMostParameters * kMostParameters];

    // That of the prior alone.
    void begin(const double* t, const WorkerPrior& prior, std::size_t p) {
        value = 0.0;
        for (std::size_t j = 0; j < p; ++j) {
            const double drift = t[j] - prior.centre[j];
            value += 0.5 * prior.penalty * drift * drift;
            gradient[j] = prior.penalty * drift;
            for (std::size_t k = 0; k < p; ++k) hessian[j * p + k] = j == k ? prior.penalty : 0.0;
        }
    }

    // A scale of the Hessian, for damping.
    double scale(std::size_t p) const {
        double largest = 1e-12;
        for (std::size_t k = 0; k < p; ++k)
            largest = std::max(largest, std::fabs(hessian[k * p + k]));
        return 0.01 * largest;
    }

    bool settled(const double* t, const WorkerPrior& prior, std::size_t p) const {
        for (std::size_t k = 0; k < p; ++k)
            if (!prior.holds(t[k], gradient[k]) && std::fabs(gradient[k]) > prior.tolerance)
                return false;
        return true;
    }

    // A Newton step with as much more damping as it takes; false where no damping helps, as
    // with numbers that are not finite.
    bool damped_step(const double* t, double& damping, const WorkerPrior& prior, std::size_t p,
                     double* trial) const {
        for (int tries = 0; tries < kMostTries; ++tries) {
            if (newton_step(t, damping, prior, p, trial)) return true;
            damping = 4.0 * damping + scale(p);
        }
        return false;
    }

    // trial = t - (H + damping I)^-1 g within the bounds, by Cholesky; false if H + damping I
    // is not positive definite. Parameters that the bounds hold stay where they are.
    bool newton_step(const double* t, double damping, const WorkerPrior& prior, std::size_t p,
                     double* trial) const {
        double l[kMostParameters * kMostParameters], z[kMostParameters];
        bool fixed[kMostParameters];
        for (std::size_t j = 0; j < p; ++j) fixed[j] = prior.holds(t[j], gradient[j]);
        for (std::size_t j = 0; j < p; ++j) {
            for (std::size_t k = 0; k <= j; ++k) {
                double sum = fixed[j] || fixed[k] ? (j == k ? 1.0 : 0.0)
                                                  : hessian[j * p + k] + (j == k ? damping : 0);
                for (std::size_t m = 0; m < k; ++m) sum -= l[j * p + m] * l[k * p + m];
                if (j == k) {
                    if (!(sum > 0.0)) return false;
                    l[j * p + j] = std::sqrt(sum);
                } else {
                    l[j * p + k] = sum / l[k * p + k];
                }
            }
        }
        for (std::size_t j = 0; j < p; ++j) {
            double sum = fixed[j] ? 0.0 : gradient[j];
            for (std::size_t m = 0; m < j; ++m) sum -= l[j * p + m] * z[m];
            z[j] = sum / l[j * p + j];
        }
        for (std::size_t j = p; j-- > 0;) {
            double sum = z[j];
            for (std::size_t m = j + 1; m < p; ++m) sum -= l[m * p + j] * z[m];
            z[j] = sum / l[j * p + j];
            trial[j] = std::min(std::max(t[j] - z[j], prior.low), prior.high);
        }
        return true;
    }
};

// The way to a minimum in several parameters by damped Newton steps. Whoever evaluates takes
// problem(), adds the votes' part at `trial`, and asks with go() for the next point.
class DampedSearch {
public:
    double trial[kMostParameters];

    void begin(const double* t, std::size_t p) {
        std::copy(t, t + p, trial);
        at_ = &one_;  // exchanged by pointer: they are large
        ahead_ = &two_;
        damping_ = 0.0;
        steps_ = 0;
        begun_ = false;
    }

    // The problem at `trial`, so far that of the prior alone.
    WorkerProblem& problem(const WorkerPrior& prior, std::size_t p) {
        WorkerProblem& out = begun_ ? *ahead_ : *at_;
        out.begin(trial, prior, p);
        return out;
    }

    // Takes the step, or takes it back; false where t is settled or nothing helps.
    bool go(double* t, const WorkerPrior& prior, std::size_t p) {
        // Equal values up to rounding count as progress: the gradient decides.
        if (begun_ && ahead_->value <= at_->value + 1e-14 * (1.0 + std::fabs(at_->value))) {
            std::copy(trial, trial + p, t);
            std::swap(at_, ahead_);
            damping_ *= 0.1;
        } else if (begun_) {
            damping_ = 4.0 * damping_ + at_->scale(p);
        }
        begun_ = true;
        if (steps_++ == prior.most || at_->settled(t, prior, p)) return false;
        return at_->damped_step(t, damping_, prior, p, trial);
    }

private:
    WorkerProblem one_, two_;
    WorkerProblem *at_, *ahead_;
    double damping_;
    std::size_t steps_;
    bool begun_;
};

}  // namespace crowdsift
