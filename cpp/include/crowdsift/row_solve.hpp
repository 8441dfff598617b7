// Many systems (L + shift I) x = b with one Laplacian at once, in single precision: by conjugate
// gradients with the diagonal as preconditioner, sixteen systems side by side, so that a pair of
// items is read once for all of them and each item's numbers are one line of cache.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/laplacian.hpp"
#include "crowdsift/parallel.hpp"

namespace crowdsift {

class RowSolver {
public:
    RowSolver(const Laplacian& laplacian, double shift, double tolerance, std::size_t most)
        : laplacian_(laplacian), n_(laplacian.diagonal().size()), most_(most),
          tolerance_(tolerance), pivot_(n_), weight_(laplacian.weights().size()) {
        for (std::size_t j = 0; j < n_; ++j)
            pivot_[j] = static_cast<float>(laplacian.diagonal()[j] + shift);
        for (std::size_t p = 0; p < weight_.size(); ++p)
            weight_[p] = static_cast<float>(laplacian.weights()[p]);
    }

    // rhs and x have a row of n numbers a system; x is where to start, and the result.
    void solve(const float* rhs, float* x, std::size_t rows, ThreadPool& pool) const {
        pool.run((rows + kWide - 1) / kWide, [&](std::size_t tile) {
            const std::size_t from = tile * kWide;
            solve_tile(rhs + from * n_, x + from * n_, std::min(kWide, rows - from));
        });
    }

private:
    static constexpr std::size_t kWide = 16;
    using Tile = std::vector<float>;  // n rows of kWide numbers

    // out = (L + shift I) in
    void multiply(const Tile& in, Tile& out) const {
        for (std::size_t j = 0; j < n_; ++j)
            for (std::size_t c = 0; c < kWide; ++c)
                out[j * kWide + c] = pivot_[j] * in[j * kWide + c];
        laplacian_.pairs().each([&](std::size_t p, std::uint32_t low, std::uint32_t high) {
            const float w = weight_[p];
            const float* a = in.data() + low * kWide;
            const float* b = in.data() + high * kWide;
            float* to_low = out.data() + low * kWide;
            float* to_high = out.data() + high * kWide;
            for (std::size_t c = 0; c < kWide; ++c) {
                to_low[c] -= w * b[c];
                to_high[c] -= w * a[c];
            }
        });
    }

    void dot(const Tile& one, const Tile& two, double* sums) const {
        std::fill(sums, sums + kWide, 0.0);
        for (std::size_t j = 0; j < n_; ++j)
            for (std::size_t c = 0; c < kWide; ++c)
                sums[c] += static_cast<double>(one[j * kWide + c]) * two[j * kWide + c];
    }

    void precondition(const Tile& residual, Tile& scaled) const {
        for (std::size_t j = 0; j < n_; ++j)
            for (std::size_t c = 0; c < kWide; ++c)
                scaled[j * kWide + c] = residual[j * kWide + c] / pivot_[j];
    }

    void solve_tile(const float* rhs, float* x, std::size_t rows) const {
        Tile at(n_ * kWide), residual(n_ * kWide), direction(n_ * kWide), image(n_ * kWide);
        for (std::size_t c = 0; c < rows; ++c)
            for (std::size_t j = 0; j < n_; ++j) {
                at[j * kWide + c] = x[c * n_ + j];
                residual[j * kWide + c] = rhs[c * n_ + j];
            }
        double size[kWide], square[kWide], product[kWide], following[kWide], curvature[kWide];
        dot(residual, residual, size);
        multiply(at, image);
        for (std::size_t i = 0; i < residual.size(); ++i) residual[i] -= image[i];
        precondition(residual, direction);
        dot(residual, direction, product);
        for (std::size_t step = 0; step < most_; ++step) {
            dot(residual, residual, square);
            bool small = true;
            for (std::size_t c = 0; c < kWide; ++c)
                small = small && square[c] <= tolerance_ * tolerance_ * size[c];
            if (small) break;
            multiply(direction, image);
            dot(direction, image, curvature);
            float length[kWide], share[kWide];
            for (std::size_t c = 0; c < kWide; ++c)
                length[c] =
                    curvature[c] > 0.0 ? static_cast<float>(product[c] / curvature[c]) : 0.0F;
            for (std::size_t j = 0; j < n_; ++j)
                for (std::size_t c = 0; c < kWide; ++c) {
                    at[j * kWide + c] += length[c] * direction[j * kWide + c];
                    residual[j * kWide + c] -= length[c] * image[j * kWide + c];
                }
            precondition(residual, image);
            dot(residual, image, following);
            for (std::size_t c = 0; c < kWide; ++c) {
                share[c] = product[c] > 0.0 ? static_cast<float>(following[c] / product[c]) : 0.0F;
                product[c] = following[c];
            }
            for (std::size_t j = 0; j < n_; ++j)
                for (std::size_t c = 0; c < kWide; ++c)
                    direction[j * kWide + c] =
                        image[j * kWide + c] + share[c] * direction[j * kWide + c];
        }
        for (std::size_t c = 0; c < rows; ++c)
            for (std::size_t j = 0; j < n_; ++j) x[c * n_ + j] = at[j * kWide + c];
    }

    const Laplacian& laplacian_;
    const std::size_t n_;
    const std::size_t most_;
    const double tolerance_;
    std::vector<float> pivot_;
    std::vector<float> weight_;
};

// Squared distances of the rows of compared items: out[p] = |rows_low - rows_high|².
inline void pair_distances(const Laplacian& laplacian, const float* rows, std::size_t width,
                           double* out, ThreadPool& pool) {
    constexpr std::size_t kChains = 16;
    const Pairs& pairs = laplacian.pairs();
    const std::vector<std::size_t> ranges = pairs.row_ranges(pool.size());
    pool.run(ranges.size() - 1, [&](std::size_t range) {
        pairs.each(ranges[range], ranges[range + 1],
                   [&](std::size_t p, std::uint32_t low, std::uint32_t high) {
                       const float* a = rows + low * width;
                       const float* b = rows + high * width;
                       float chain[kChains] = {};
                       std::size_t c = 0;
                       for (; c + kChains <= width; c += kChains)
                           for (std::size_t k = 0; k < kChains; ++k) {
                               const float d = a[c + k] - b[c + k];
                               chain[k] += d * d;
                           }
                       double sum = 0.0;
                       for (; c < width; ++c) {
                           const float d = a[c] - b[c];
                           sum += static_cast<double>(d) * d;
                       }
                       for (const float each : chain) sum += each;
                       out[p] = sum;
                   });
    });
}

}  // namespace crowdsift
