// The Laplacian of the comparison graph, (Lx)_j = sum_k w_jk (x_j - x_k), with a sparsity that is
// fixed by the votes: only the weights are refreshed. Nothing is held beside one weight a pair:
// pairs lie in the order of their lower item, and each is read once for both of its items.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// One row of the upper triangle: adds w_k x to y[column_k] and returns the sum of w_k x[column_k],
// in four chains so that additions do not wait for each other.
CROWDSIFT_INLINE double both_ways(const float* CROWDSIFT_RESTRICT weight,
                                  const std::uint32_t* CROWDSIFT_RESTRICT column,
                                  std::size_t count, double own,
                                  const double* CROWDSIFT_RESTRICT x,
                                  double* CROWDSIFT_RESTRICT y) {
    double chain[4] = {0.0, 0.0, 0.0, 0.0};
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (std::size_t c = 0; c < 4; ++c) {
            const double w = static_cast<double>(weight[k + c]);
            chain[c] += w * x[column[k + c]];
            y[column[k + c]] += w * own;
        }
    for (; k < count; ++k) {
        const double w = static_cast<double>(weight[k]);
        chain[0] += w * x[column[k]];
        y[column[k]] += w * own;
    }
    return (chain[0] + chain[1]) + (chain[2] + chain[3]);
}

struct SolveReport {
    std::size_t iterations = 0;
    double residual = 0.0;  // relative to the right-hand side
    bool converged = false;
};

class Laplacian {
public:
    Laplacian(std::size_t n_items, const Pairs& pairs, ThreadPool& pool)
        : n_(n_items), pairs_(pairs), pool_(pool), pair_weight_(pairs.size(), 0.0F),
          diagonal_(n_items, 0.0), ranges_(pairs.row_ranges(pool.size())),
          sums_(ranges_.size() - 1, n_items) {}

    std::size_t size() const { return n_; }
    Array<float>& pair_weights() { return pair_weight_; }
    const std::vector<double>& diagonal() const { return diagonal_; }

    // Takes over the weights of pairs: the diagonal is their sum.
    void refresh() {
        sums_.clear();
        over_rows([&](std::size_t j, std::size_t from, std::size_t count, double* sums) {
            double own = 0.0;
            for (std::size_t k = from; k < from + count; ++k) {
                const double w = static_cast<double>(pair_weight_[k]);
                own += w;
                sums[pairs_.high[k]] += w;
            }
            sums[j] += own;
        });
        sums_.reduce(diagonal_.data(), pool_);
    }

    // y = (L + shift I) x
    void multiply(double shift, const double* x, double* y) const {
        sums_.clear();
        over_rows([&](std::size_t j, std::size_t from, std::size_t count, double* sums) {
            sums[j] += both_ways(pair_weight_.data() + from, pairs_.high.data() + from, count,
                                 x[j], x, sums);
        });
        sums_.reduce(y, pool_);
        for (std::size_t j = 0; j < n_; ++j) y[j] = (diagonal_[j] + shift) * x[j] - y[j];
    }

    // Jacobi-preconditioned conjugate gradients on (L + shift I) x = rhs from the x given.
    SolveReport solve(double shift, const double* rhs, double* x, double tolerance,
                      std::size_t most) const {
        std::vector<double> residual(n_), direction(n_), product(n_), inverse(n_);
        double norm_rhs = 0.0;
        for (std::size_t j = 0; j < n_; ++j) {
            norm_rhs += rhs[j] * rhs[j];
            const double pivot = diagonal_[j] + shift;
            inverse[j] = pivot > 0.0 ? 1.0 / pivot : 1.0;
        }
        norm_rhs = std::sqrt(norm_rhs);
        SolveReport report;
        if (norm_rhs == 0.0) {
            for (std::size_t j = 0; j < n_; ++j) x[j] = 0.0;
            report.converged = true;
            return report;
        }
        multiply(shift, x, product.data());
        double rz = 0.0, rr = 0.0;
        for (std::size_t j = 0; j < n_; ++j) {
            residual[j] = rhs[j] - product[j];
            direction[j] = inverse[j] * residual[j];
            rz += residual[j] * direction[j];
            rr += residual[j] * residual[j];
        }
        const double goal = tolerance * norm_rhs;
        while (std::sqrt(rr) > goal && report.iterations < most) {
            multiply(shift, direction.data(), product.data());
            double curvature = 0.0;
            for (std::size_t j = 0; j < n_; ++j) curvature += direction[j] * product[j];
            if (!(curvature > 0.0)) break;
            const double step = rz / curvature;
            double rz_next = 0.0;
            rr = 0.0;
            for (std::size_t j = 0; j < n_; ++j) {
                x[j] += step * direction[j];
                residual[j] -= step * product[j];
                rr += residual[j] * residual[j];
                rz_next += residual[j] * residual[j] * inverse[j];
            }
            const double ratio = rz_next / rz;
            rz = rz_next;
            for (std::size_t j = 0; j < n_; ++j)
                direction[j] = inverse[j] * residual[j] + ratio * direction[j];
            ++report.iterations;
        }
        report.residual = std::sqrt(rr) / norm_rhs;
        report.converged = std::sqrt(rr) <= goal;
        return report;
    }

private:
    template <class Row>
    void over_rows(const Row& row) const {
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double* const sums = sums_.range(range);
            for (std::size_t j = ranges_[range]; j < ranges_[range + 1]; ++j)
                row(j, pairs_.row[j], pairs_.row[j + 1] - pairs_.row[j], sums);
        });
    }

    const std::size_t n_;
    const Pairs& pairs_;
    ThreadPool& pool_;
    Array<float> pair_weight_;
    std::vector<double> diagonal_;
    const std::vector<std::size_t> ranges_;
    mutable ItemSums sums_;  // what rows of a range add to all items
};

}  // namespace crowdsift
