// Conjugate gradients with the diagonal as preconditioner.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace crowdsift {

struct SolveReport {
    std::size_t iterations = 0;
    double residual = 0.0;  // relative to the right-hand side
    bool converged = false;
};

// (A + shift I) x = rhs from the x given; multiply(v, out) is the product with A + shift I, and
// `diagonal` that of A.
template <class Multiply>
SolveReport conjugate_gradient(std::size_t n, const Multiply& multiply, const double* diagonal,
                               double shift, const double* rhs, double* x, double tolerance,
                               std::size_t most) {
    std::vector<double> residual(n), direction(n), product(n), inverse(n);
    double norm_rhs = 0.0;
    for (std::size_t j = 0; j < n; ++j) {
        norm_rhs += rhs[j] * rhs[j];
        const double pivot = diagonal[j] + shift;
        inverse[j] = pivot > 0.0 ? 1.0 / pivot : 1.0;
    }
    norm_rhs = std::sqrt(norm_rhs);
    SolveReport report;
    if (norm_rhs == 0.0) {
        for (std::size_t j = 0; j < n; ++j) x[j] = 0.0;
        report.converged = true;
        return report;
    }
    multiply(x, product.data());
    double rz = 0.0, rr = 0.0;
    for (std::size_t j = 0; j < n; ++j) {
        residual[j] = rhs[j] - product[j];
        direction[j] = inverse[j] * residual[j];
        rz += residual[j] * direction[j];
        rr += residual[j] * residual[j];
    }
    const double goal = tolerance * norm_rhs;
    while (std::sqrt(rr) > goal && report.iterations < most) {
        multiply(direction.data(), product.data());
        double curvature = 0.0;
        for (std::size_t j = 0; j < n; ++j) curvature += direction[j] * product[j];
        if (!(curvature > 0.0)) break;
        const double step = rz / curvature;
        double rz_next = 0.0;
        rr = 0.0;
        for (std::size_t j = 0; j < n; ++j) {
            x[j] += step * direction[j];
            residual[j] -= step * product[j];
            rr += residual[j] * residual[j];
            rz_next += residual[j] * residual[j] * inverse[j];
        }
        const double ratio = rz_next / rz;
        rz = rz_next;
        for (std::size_t j = 0; j < n; ++j)
            direction[j] = inverse[j] * residual[j] + ratio * direction[j];
        ++report.iterations;
    }
    report.residual = std::sqrt(rr) / norm_rhs;
    report.converged = std::sqrt(rr) <= goal;
    return report;
}

}  // namespace crowdsift
