// The Laplacian of the comparison graph, (Lx)_j = sum_k w_jk (x_j - x_k), with a sparsity that is
// fixed by the votes: only the weights are refreshed. Rows are complete (each pair stands in two
// rows), so that a product only gathers and threads write apart.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

// Sum of w_k x[col_k] over one row, in four chains so that additions do not wait for each other.
CROWDSIFT_INLINE double gather_dot(const float* CROWDSIFT_RESTRICT value,
                                   const std::uint32_t* CROWDSIFT_RESTRICT column,
                                   std::size_t count, const double* CROWDSIFT_RESTRICT x) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4) {
        a += static_cast<double>(value[k]) * x[column[k]];
        b += static_cast<double>(value[k + 1]) * x[column[k + 1]];
        c += static_cast<double>(value[k + 2]) * x[column[k + 2]];
        d += static_cast<double>(value[k + 3]) * x[column[k + 3]];
    }
    for (; k < count; ++k) a += static_cast<double>(value[k]) * x[column[k]];
    return (a + b) + (c + d);
}

struct SolveReport {
    std::size_t iterations = 0;
    double residual = 0.0;  // relative to the right-hand side
    bool converged = false;
};

class Laplacian {
public:
    Laplacian(std::size_t n_items, const Pairs& pairs, ThreadPool& pool)
        : n_(n_items), pool_(pool), row_(n_items + 1, 0), pair_weight_(pairs.size(), 0.0F),
          diagonal_(n_items, 0.0) {
        for (std::size_t p = 0; p < pairs.size(); ++p) {
            ++row_[pairs.low[p] + 1];
            ++row_[pairs.high[p] + 1];
        }
        std::partial_sum(row_.begin(), row_.end(), row_.begin());
        column_.resize(row_[n_items]);
        pair_.resize(row_[n_items]);
        value_.assign(row_[n_items], 0.0F);
        std::vector<std::size_t> next(row_.begin(), row_.end() - 1);
        // Pairs come in lexicographic order, so filling the lower triangle first leaves every
        // row sorted by column.
        for (std::size_t p = 0; p < pairs.size(); ++p) put(next, pairs.high[p], pairs.low[p], p);
        for (std::size_t p = 0; p < pairs.size(); ++p) put(next, pairs.low[p], pairs.high[p], p);
        ranges_ = balanced_rows(pool.size());
    }

    std::size_t size() const { return n_; }
    std::vector<float>& pair_weights() { return pair_weight_; }
    const std::vector<double>& diagonal() const { return diagonal_; }

    // Takes over the weights of pairs. Values are rounded to float once, and the diagonal is the
    // sum of the rounded ones, so that rows still sum to zero.
    void refresh() {
        pool_.run(ranges_.size() - 1, [&](std::size_t chunk) {
            for (std::size_t j = ranges_[chunk]; j < ranges_[chunk + 1]; ++j) {
                double sum = 0.0;
                for (std::size_t k = row_[j]; k < row_[j + 1]; ++k) {
                    value_[k] = pair_weight_[pair_[k]];
                    sum += static_cast<double>(value_[k]);
                }
                diagonal_[j] = sum;
            }
        });
    }

    // y = (L + shift I) x
    void multiply(double shift, const double* x, double* y) const {
        pool_.run(ranges_.size() - 1, [&](std::size_t chunk) {
            multiply_rows(shift, x, y, ranges_[chunk], ranges_[chunk + 1]);
        });
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
    void put(std::vector<std::size_t>& next, std::uint32_t row, std::uint32_t column,
             std::size_t pair) {
        const std::size_t k = next[row]++;
        column_[k] = column;
        pair_[k] = static_cast<std::uint32_t>(pair);
    }

    // Ranges of rows with about equal numbers of entries; one range where threads do not pay.
    std::vector<std::size_t> balanced_rows(std::size_t threads) const {
        const std::size_t entries = column_.size();
        const std::size_t parts = entries < 50000 ? 1 : threads;
        std::vector<std::size_t> bounds{0};
        for (std::size_t j = 0; j < n_ && bounds.size() < parts; ++j)
            if (row_[j + 1] * parts >= entries * bounds.size()) bounds.push_back(j + 1);
        bounds.push_back(n_);
        return bounds;
    }

    void multiply_rows(double shift, const double* CROWDSIFT_RESTRICT x,
                       double* CROWDSIFT_RESTRICT y, std::size_t from, std::size_t to) const {
        for (std::size_t j = from; j < to; ++j) {
            const std::size_t k = row_[j];
            y[j] = (diagonal_[j] + shift) * x[j] -
                   gather_dot(value_.data() + k, column_.data() + k, row_[j + 1] - k, x);
        }
    }

    const std::size_t n_;
    ThreadPool& pool_;
    std::vector<std::size_t> row_;
    std::vector<std::uint32_t> column_, pair_;
    std::vector<float> value_, pair_weight_;
    std::vector<double> diagonal_;
    std::vector<std::size_t> ranges_;
};

}  // namespace crowdsift
