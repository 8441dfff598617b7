// Conjugate gradients with the diagonal as preconditioner.
#pragma once

#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "crowdsift/simd.hpp"

namespace crowdsift {

struct SolveReport {
    std::size_t iterations = 0;
    double residual = 0.0;  // relative to the right-hand side
    bool converged = false;
};

CROWDSIFT_CLONES
inline double dot(std::size_t n, const double* a, const double* b) {
    return product_sum(n, a, b);
}

// Takes a step along the direction. Returns the squared norm of the new residual r, and r' M^-1 r.
CROWDSIFT_CLONES
inline std::pair<double, double> step_along(std::size_t n, double step,
                                            const double* CROWDSIFT_RESTRICT direction,
                                            const double* CROWDSIFT_RESTRICT product,
                                            const double* CROWDSIFT_RESTRICT inverse,
                                            double* CROWDSIFT_RESTRICT x,
                                            double* CROWDSIFT_RESTRICT residual) {
    double plain[8] = {0, 0, 0, 0, 0, 0, 0, 0}, scaled[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const auto go = [&](std::size_t j, std::size_t l) {
        x[j] += step * direction[j];
        const double left = residual[j] - step * product[j], square = left * left;
        residual[j] = left;
        plain[l] += square;
        scaled[l] += square * inverse[j];
    };
    std::size_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (std::size_t l = 0; l < 8; ++l) go(j + l, l);
    for (std::size_t l = 0; j < n; ++j, ++l) go(j, l);
    return {sum_lanes(plain), sum_lanes(scaled)};
}

// direction = M^-1 residual + ratio direction
CROWDSIFT_CLONES
inline void turn(std::size_t n, double ratio, const double* CROWDSIFT_RESTRICT inverse,
                 const double* CROWDSIFT_RESTRICT residual, double* CROWDSIFT_RESTRICT direction) {
    for (std::size_t j = 0; j < n; ++j)
        direction[j] = inverse[j] * residual[j] + ratio * direction[j];
}

// Solves (A + shift I) x = rhs from the given x; multiply(v, out) is the product with A + shift I,
// and `diagonal` that of A.
template <class Multiply>
SolveReport conjugate_gradient(std::size_t n, const Multiply& multiply, const double* diagonal,
                               double shift, const double* rhs, double* x, double tolerance,
                               std::size_t most) {
    std::vector<double> residual(n), direction(n), product(n), inverse(n);
    for (std::size_t j = 0; j < n; ++j) {
        const double pivot = diagonal[j] + shift;
        inverse[j] = pivot > 0.0 ? 1.0 / pivot : 1.0;
    }
    const double norm_rhs = std::sqrt(dot(n, rhs, rhs));
    SolveReport report;
    if (norm_rhs == 0.0) {
        for (std::size_t j = 0; j < n; ++j) x[j] = 0.0;
        report.converged = true;
        return report;
    }
    multiply(x, product.data());
    for (std::size_t j = 0; j < n; ++j) {
        residual[j] = rhs[j] - product[j];
        direction[j] = inverse[j] * residual[j];
    }
    double rr = dot(n, residual.data(), residual.data());
    double rz = dot(n, residual.data(), direction.data());
    const double goal = tolerance * norm_rhs;
    while (std::sqrt(rr) > goal && report.iterations < most) {
        multiply(direction.data(), product.data());
        const double curvature = dot(n, direction.data(), product.data());
        if (!(curvature > 0.0)) break;
        const double before = rz;
        std::tie(rr, rz) = step_along(n, rz / curvature, direction.data(), product.data(),
                                      inverse.data(), x, residual.data());
        turn(n, rz / before, inverse.data(), residual.data(), direction.data());
        ++report.iterations;
    }
    report.residual = std::sqrt(rr) / norm_rhs;
    report.converged = std::sqrt(rr) <= goal;
    return report;
}

}  // namespace crowdsift
