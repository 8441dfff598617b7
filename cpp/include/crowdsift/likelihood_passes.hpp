// Passes for likelihoods with parameters of workers. A worker's parameters are met by its own
// comparisons only, so the Hessian of -log-likelihood is
//     [ A   B ]   A: Laplacian over items, B: items x workers, D: one small block a worker,
//     [ B'  D ]
// and workers are eliminated from a Newton step: S = A - B D^-1 B'. A product with S is one pass
// over what derivatives() kept: A's and B's entries, 4 (1 + p) bytes a comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/conjugate_gradient.hpp"
#include "crowdsift/item_sums.hpp"
#include "crowdsift/likelihoods.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// Entries of A and B, p a comparison of the latter.
struct SchurEntries {
    std::size_t p = 0;
    Array<float> a, b;
};

class LikelihoodPasses {
public:
    LikelihoodPasses(const Votes& votes, ThreadPool& pool, ItemSums& sums, const float* features,
                     std::size_t n_features)
        : votes_(votes), pool_(pool), sums_(sums), x_(features), n_x_(n_features),
          ranges_(votes.worker_ranges(pool.size())) {}

    std::size_t features() const { return n_x_; }

    // Log-likelihood; its gradients in items and workers; the blocks D; the entries of A and B.
    template <class Likelihood>
    double derivatives(const double* scores, const double* theta, double* item_gradient,
                       double* worker_gradient, double* blocks, SchurEntries& kept) const {
        const std::size_t p = Likelihood::parameters(n_x_);
        kept.p = p;
        kept.a.resize(votes_.n);
        kept.b.resize(votes_.n * p);
        std::vector<double> part(ranges_.size() - 1, 0.0);
        const auto pass = [&](std::size_t range, double* gradient) {
            Local at{};
            double total = 0.0;
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                double* const g = worker_gradient + s * p;
                double* const block = blocks + s * p * p;
                for (std::size_t k = 0; k < p; ++k) g[k] = 0.0;
                for (std::size_t k = 0; k < p * p; ++k) block[k] = 0.0;
                for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
                    const std::uint32_t first = votes_.first[i], second = votes_.second[i];
                    const double n = static_cast<double>(votes_.weight[i]);
                    Likelihood::evaluate(scores[first] - scores[second], theta + s * p,
                                         x_ + i * n_x_, n_x_,
                                         static_cast<double>(votes_.outcome[i]), at);
                    total += n * at.value;
                    gradient[first] += n * at.d;
                    gradient[second] -= n * at.d;
                    kept.a[i] = static_cast<float>(-n * at.dd);
                    for (std::size_t k = 0; k < p; ++k) {
                        g[k] += n * at.t[k];
                        kept.b[i * p + k] = static_cast<float>(-n * at.dt[k]);
                    }
                    for (std::size_t k = 0; k < p * p; ++k) block[k] -= n * at.tt[k];
                }
            }
            part[range] = total;
        };
        sums_.add(ranges_.size() - 1, pool_, pass, item_gradient);
        double total = 0.0;
        for (const double value : part) total += value;
        return total;
    }

    // Sums of the magnitudes of A's entries per item, a preconditioner.
    void diagonal(const SchurEntries& kept, double* out) const {
        const auto pass = [&](std::size_t range, double* sums) {
            const std::size_t end = votes_.begin_of(ranges_[range + 1]);
            for (std::size_t i = votes_.begin_of(ranges_[range]); i < end; ++i) {
                const double size = std::fabs(static_cast<double>(kept.a[i]));
                sums[votes_.first[i]] += size;
                sums[votes_.second[i]] += size;
            }
        };
        sums_.add(ranges_.size() - 1, pool_, pass, out);
    }

    // Every worker's own parameters at their penalised maximum for these scores, each within
    // [low, high]: minimises -log-likelihood + penalty/2 |t - centre|^2 by damped Newton steps from
    // the parameters given. Returns the most steps that a worker took.
    template <class Likelihood>
    std::size_t fit_workers(const double* scores, double* theta, const double* centre,
                            double penalty, double low, double high, double tolerance,
                            std::size_t most) const {
        const std::size_t p = Likelihood::parameters(n_x_);
        std::vector<std::size_t> steps(ranges_.size() - 1, 0);
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            WorkerProblem one{}, two{};
            WorkerProblem *at = &one, *ahead = &two;  // exchanged by pointer: they are large
            Local scratch{};
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                double* const t = theta + s * p;
                double trial[kMostParameters];
                double damping = 0.0;
                evaluate_worker<Likelihood>(s, scores, t, centre, penalty, *at, scratch);
                for (std::size_t step = 0; step < most; ++step) {
                    if (at->settled(t, low, high, tolerance, p)) break;
                    steps[range] = std::max(steps[range], step + 1);
                    if (!at->damped_step(t, damping, low, high, p, trial)) break;
                    evaluate_worker<Likelihood>(s, scores, trial, centre, penalty, *ahead, scratch);
                    // Equal values up to rounding count as progress: the gradient decides.
                    if (ahead->value <= at->value + 1e-14 * (1.0 + std::fabs(at->value))) {
                        std::copy(trial, trial + p, t);
                        std::swap(at, ahead);
                        damping *= 0.1;
                    } else {
                        damping = 4.0 * damping + at->scale(p);
                    }
                }
            }
        });
        return *std::max_element(steps.begin(), steps.end());
    }

    // (A - B inverse B') v, where inverse holds a p x p block a worker; zeros hold a worker fixed.
    void reduced(const SchurEntries& kept, const double* v, const double* inverse,
                 double* out) const {
        const std::size_t p = kept.p;
        const auto pass = [&](std::size_t range, double* sums) {
            double coupled[kMostParameters], u[kMostParameters];
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                couple_worker(kept, s, v, coupled);
                const double* const block = inverse + s * p * p;
                for (std::size_t j = 0; j < p; ++j) {
                    u[j] = 0.0;
                    for (std::size_t k = 0; k < p; ++k) u[j] -= block[j * p + k] * coupled[k];
                }
                spread_worker(kept, s, u, v, sums);
            }
        };
        sums_.add(ranges_.size() - 1, pool_, pass, out);
    }

    SolveReport solve(const SchurEntries& kept, const double* inverse, double shift,
                      const double* rhs, double* x, double tolerance, std::size_t most) const {
        const std::size_t n = votes_.n_items;
        std::vector<double> at(n);
        diagonal(kept, at.data());
        const auto multiply = [&](const double* v, double* out) {
            reduced(kept, v, inverse, out);
            for (std::size_t j = 0; j < n; ++j) out[j] += shift * v[j];
        };
        return conjugate_gradient(n, multiply, at.data(), shift, rhs, x, tolerance, most);
    }

private:
    // Value, gradient and Hessian of one worker's problem.
    struct WorkerProblem {
        static constexpr int kMostTries = 200;
        double value, gradient[kMostParameters], hessian[kMostParameters * kMostParameters];

        // A scale of the Hessian, for damping.
        double scale(std::size_t p) const {
            double largest = 1e-12;
            for (std::size_t k = 0; k < p; ++k)
                largest = std::max(largest, std::fabs(hessian[k * p + k]));
            return 0.01 * largest;
        }

        bool held(double t, std::size_t k, double low, double high) const {
            return (t <= low && gradient[k] > 0.0) || (t >= high && gradient[k] < 0.0);
        }

        bool settled(const double* t, double low, double high, double tolerance,
                     std::size_t p) const {
            for (std::size_t k = 0; k < p; ++k)
                if (!held(t[k], k, low, high) && std::fabs(gradient[k]) > tolerance) return false;
            return true;
        }

        // A Newton step with as much more damping as it takes; false where no damping helps, as
        // with numbers that are not finite.
        bool damped_step(const double* t, double& damping, double low, double high, std::size_t p,
                         double* trial) const {
            for (int tries = 0; tries < kMostTries; ++tries) {
                if (newton_step(t, damping, low, high, p, trial)) return true;
                damping = 4.0 * damping + scale(p);
            }
            return false;
        }

        // trial = t - (H + damping I)^-1 g within the bounds, by Cholesky; false if H + damping I
        // is not positive definite. Parameters that the bounds hold stay where they are.
        bool newton_step(const double* t, double damping, double low, double high, std::size_t p,
                         double* trial) const {
            double l[kMostParameters * kMostParameters], z[kMostParameters];
            bool fixed[kMostParameters];
            for (std::size_t j = 0; j < p; ++j) fixed[j] = held(t[j], j, low, high);
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
                trial[j] = std::min(std::max(t[j] - z[j], low), high);
            }
            return true;
        }
    };

    template <class Likelihood>
    void evaluate_worker(std::size_t s, const double* scores, const double* t, const double* centre,
                         double penalty, WorkerProblem& out, Local& at) const {
        const std::size_t p = Likelihood::parameters(n_x_);
        out.value = 0.0;
        for (std::size_t j = 0; j < p; ++j) {
            const double drift = t[j] - centre[j];
            out.value += 0.5 * penalty * drift * drift;
            out.gradient[j] = penalty * drift;
            for (std::size_t k = 0; k < p; ++k) out.hessian[j * p + k] = j == k ? penalty : 0.0;
        }
        for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
            const double n = static_cast<double>(votes_.weight[i]);
            Likelihood::evaluate(scores[votes_.first[i]] - scores[votes_.second[i]], t,
                                 x_ + i * n_x_, n_x_, static_cast<double>(votes_.outcome[i]), at);
            out.value -= n * at.value;
            for (std::size_t k = 0; k < p; ++k) out.gradient[k] -= n * at.t[k];
            for (std::size_t k = 0; k < p * p; ++k) out.hessian[k] -= n * at.tt[k];
        }
    }

    void couple_worker(const SchurEntries& kept, std::size_t s, const double* v,
                       double* out) const {
        const std::size_t p = kept.p;
        for (std::size_t k = 0; k < p; ++k) out[k] = 0.0;
        for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
            const double d = v[votes_.first[i]] - v[votes_.second[i]];
            for (std::size_t k = 0; k < p; ++k)
                out[k] += static_cast<double>(kept.b[i * p + k]) * d;
        }
    }

    // Adds A v + B u of one worker.
    void spread_worker(const SchurEntries& kept, std::size_t s, const double* u, const double* v,
                       double* sums) const {
        const std::size_t p = kept.p;
        for (std::size_t i = votes_.begin_of(s); i < votes_.begin_of(s + 1); ++i) {
            const std::uint32_t first = votes_.first[i], second = votes_.second[i];
            double push = static_cast<double>(kept.a[i]) * (v[first] - v[second]);
            for (std::size_t k = 0; k < p; ++k)
                push += static_cast<double>(kept.b[i * p + k]) * u[k];
            sums[first] += push;
            sums[second] -= push;
        }
    }

    const Votes& votes_;
    ThreadPool& pool_;
    ItemSums& sums_;
    const float* x_;
    const std::size_t n_x_;
    const std::vector<std::size_t> ranges_;
};

// Product with the antisymmetric matrix of smoothed margins: for a comparison of first over
// second, c = (n y + prior)/(n + 2 prior) - 1/2, out_first += c x_second, out_second -= c x_first.
inline void margin_flow(const Votes& votes, ThreadPool& pool, ItemSums& sums, double prior,
                        const double* x, double* out) {
    const std::vector<std::size_t> ranges = shared_ranges(votes.n, kManyRows, pool);
    const auto pass = [&](std::size_t range, double* flow) {
        for (std::size_t i = ranges[range]; i < ranges[range + 1]; ++i) {
            const double n = static_cast<double>(votes.weight[i]);
            const double y = static_cast<double>(votes.outcome[i]);
            const double c = (n * y + prior) / (n + 2.0 * prior) - 0.5;
            flow[votes.first[i]] += c * x[votes.second[i]];
            flow[votes.second[i]] -= c * x[votes.first[i]];
        }
    };
    sums.add(ranges.size() - 1, pool, pass, out);
}

}  // namespace crowdsift
