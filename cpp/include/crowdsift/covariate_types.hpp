// Votes with covariates over types of workers: z = beta d + c.gamma, in double precision.
//
// A vote for the winner has the probability p1 = s(k(z - delta)), one for the loser
// p2 = s(k(-z - delta)), s the logistic function; a tie (e^{2 k delta} - 1) p1 p2. The derivatives
// of log Z in k z are e = 1 - p1, or p2 - p1 for a tie, and minus the sum of p(1 - p).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

constexpr std::size_t kMostCovariates = 64;
// Bounds of exponents, and of a product of 1/Z before its logarithm is taken: neither overflows.
constexpr double kFarthest = 300.0, kLargest = 1e150;

// Votes ordered by worker; covariates of the winner less the loser, one row per vote.
struct CovariateVotes {
    std::size_t n, workers, covariates;
    const std::int64_t* starts;
    const double *C, *weight, *side;
    const std::uint8_t* tied;
};

// Types: one row of beta per worker; votes of side-only types depend on sides alone.
struct CovariateTypes {
    std::size_t count;
    const double *beta, *width, *only;
    const std::uint8_t* regular;
};

struct OutcomeTerm {
    double inverse, e, bend;  // 1/Z, and minus the second derivative of log Z
};

inline OutcomeTerm outcome_term(double x, double width, bool tied) {
    const double one = std::exp(std::min(width - x, kFarthest)), p1 = 1.0 / (1.0 + one);
    if (!tied) return {1.0 + one, one * p1, one * p1 * p1};
    const double two = std::exp(std::min(width + x, kFarthest)), p2 = 1.0 / (1.0 + two);
    const double room = std::expm1(std::min(2.0 * width, kFarthest));
    return {(1.0 + one) * (1.0 + two) / room, p2 - p1, one * p1 * p1 + two * p2 * p2};
}

// Runs `task(worker)` for all workers, several at a time.
template <class Task>
void each_worker(const CovariateVotes& votes, ThreadPool& pool, const Task& task) {
    const std::size_t chunks =
        votes.n < 200 ? 1 : std::min<std::size_t>(votes.workers, 8 * pool.size());
    const std::vector<std::size_t> bounds = even_ranges(votes.workers, chunks);
    pool.run(chunks, [&](std::size_t chunk) {
        for (std::size_t s = bounds[chunk]; s < bounds[chunk + 1]; ++s) task(s);
    });
}

// For every worker and wanted type, at coefficients gamma (workers x types x covariates): the sum
// of log Z, its gradient and minus its Hessian (by rows) in gamma. m and v are the cavities of d.
inline void covariate_messages(const CovariateVotes& votes, const CovariateTypes& types,
                               const double* m, const double* v, const double* gamma,
                               const std::uint8_t* wanted, double* log_z, double* gradient,
                               double* hessian, ThreadPool& pool) {
    const std::size_t P = votes.covariates, T = types.count;
    each_worker(votes, pool, [&](std::size_t s) {
        const auto begin = static_cast<std::size_t>(votes.starts[s]);
        const auto end = static_cast<std::size_t>(votes.starts[s + 1]);
        for (std::size_t t = 0; t < T; ++t) {
            const std::size_t at = s * T + t;
            if (!wanted[at]) continue;
            const double* own = gamma + at * P;
            double total = 0.0, product = 1.0, G[kMostCovariates] = {};
            double* H = hessian + at * P * P;
            std::fill(H, H + P * P, 0.0);
            const double beta = types.beta[at], square = kLogisticSmoothing * beta * beta;
            for (std::size_t i = begin; i < end; ++i) {
                const double* c = votes.C + i * P;
                double z = beta * m[i] + votes.side[i] * types.only[t];
                if (types.regular[t])
                    for (std::size_t p = 0; p < P; ++p) z += c[p] * own[p];
                const double k = 1.0 / std::sqrt(1.0 + square * v[i]), n = votes.weight[i];
                const OutcomeTerm term =
                    outcome_term(k * z, k * types.width[t], votes.tied[i] != 0);
                if (n == 1.0) {  // one logarithm for many votes
                    product *= term.inverse;
                    if (product > kLargest) {
                        total -= std::log(product);
                        product = 1.0;
                    }
                } else {
                    total -= n * std::log(term.inverse);
                }
                if (!types.regular[t]) continue;
                const double slope = n * term.e * k, bend = n * term.bend * k * k;
                for (std::size_t p = 0; p < P; ++p) {
                    G[p] += slope * c[p];
                    for (std::size_t q = 0; q <= p; ++q) H[p * P + q] += bend * c[p] * c[q];
                }
            }
            log_z[at] = total - std::log(product);
            for (std::size_t p = 0; p < P; ++p) {
                gradient[at * P + p] = G[p];
                for (std::size_t q = 0; q < p; ++q) H[q * P + p] = H[p * P + q];
            }
        }
    });
}

// For every vote: the gradient (2) and minus the Hessian (3) of log Z in the means of (d, eta),
// averaged over types of mass q; m (2) and V (3) are its cavity, `shift` a type's coefficients
// minus their mean.
inline void covariate_moments(const CovariateVotes& votes, const CovariateTypes& types,
                              const double* m, const double* V, const double* shift,
                              const double* q, double least, double* alpha, double* curvature,
                              ThreadPool& pool) {
    const std::size_t P = votes.covariates, T = types.count;
    std::fill(alpha, alpha + 2 * votes.n, 0.0);
    std::fill(curvature, curvature + 3 * votes.n, 0.0);
    each_worker(votes, pool, [&](std::size_t s) {
        const auto begin = static_cast<std::size_t>(votes.starts[s]);
        const auto end = static_cast<std::size_t>(votes.starts[s + 1]);
        for (std::size_t t = 0; t < T; ++t) {
            const std::size_t at = s * T + t;
            if (q[at] <= least || !types.regular[t]) continue;
            const double beta = types.beta[at], mass = q[at];
            const double* own = shift + at * P;
            for (std::size_t i = begin; i < end; ++i) {
                const double *c = votes.C + i * P, *W = V + 3 * i;
                double z = beta * m[2 * i] + m[2 * i + 1];
                for (std::size_t p = 0; p < P; ++p) z += c[p] * own[p];
                const double variance = std::max(beta * (beta * W[0] + 2.0 * W[1]) + W[2], 0.0);
                const double k = 1.0 / std::sqrt(1.0 + kLogisticSmoothing * variance);
                const OutcomeTerm term =
                    outcome_term(k * z, k * types.width[t], votes.tied[i] != 0);
                const double first = mass * term.e * k;
                const double second = mass * (term.e * term.e - term.bend) * k * k;
                alpha[2 * i] += first * beta;
                alpha[2 * i + 1] += first;
                curvature[3 * i] -= second * beta * beta;
                curvature[3 * i + 1] -= second * beta;
                curvature[3 * i + 2] -= second;
            }
        }
        for (std::size_t i = begin; i < end; ++i) {
            const double a = alpha[2 * i], b = alpha[2 * i + 1];
            curvature[3 * i] += a * a;
            curvature[3 * i + 1] += a * b;
            curvature[3 * i + 2] += b * b;
        }
    });
}

}  // namespace crowdsift
