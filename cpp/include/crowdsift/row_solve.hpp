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
#include "crowdsift/simd.hpp"

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

    // rhs and x have one row of n numbers per system; x is the start, and then the result.
    void solve(const float* rhs, float* x, std::size_t rows, ThreadPool& pool) const {
        pool.run((rows + kWide - 1) / kWide, [&](std::size_t tile) {
            const std::size_t from = tile * kWide;
            solve_tile(rhs + from * n_, x + from * n_, std::min(kWide, rows - from));
        });
    }

private:
    static constexpr std::size_t kWide = 16;
    static constexpr std::size_t kLine = 64;    // bytes: the numbers of an item are one line
    static constexpr std::size_t kBlock = 128;  // items whose products are added up in floats
    static constexpr std::size_t kPrefetchPairs = 12;  // the prefetch distance, in pairs

    // n rows of kWide numbers, each one line of cache.
    class Tile {
    public:
        explicit Tile(std::size_t n) : room_(n * kWide + kLine / sizeof(float)) {
            const auto at = reinterpret_cast<std::uintptr_t>(room_.data());
            rows_ = room_.data() + (kLine - at % kLine) % kLine / sizeof(float);
        }
        float* row(std::size_t j) { return rows_ + j * kWide; }
        const float* row(std::size_t j) const { return rows_ + j * kWide; }

    private:
        std::vector<float> room_;
        float* rows_;
    };
    struct Sums {
        double of[kWide] = {};
    };

    // out = (L + shift I) in
    void multiply(const Tile& in, Tile& out) const {
        const Pairs& pairs = laplacian_.pairs();
        const std::uint32_t* high = pairs.high.data();
        const std::size_t last = weight_.size();
        for (std::size_t j = 0; j < n_; ++j) {
            const float* from = in.row(j);
            float* to = out.row(j);
            for (std::size_t c = 0; c < kWide; ++c) to[c] = pivot_[j] * from[c];
        }
        for (std::size_t j = 0; j < n_; ++j) {
            float own[kWide], sum[kWide] = {};
            std::copy(in.row(j), in.row(j) + kWide, own);
            for (std::size_t p = pairs.row[j]; p < pairs.row[j + 1]; ++p) {
                if (p + kPrefetchPairs < last) {
                    prefetch(in.row(high[p + kPrefetchPairs]));
                    prefetch(out.row(high[p + kPrefetchPairs]));
                }
                both(weight_[p], in.row(high[p]), own, out.row(high[p]), sum);
            }
            float* to = out.row(j);
            for (std::size_t c = 0; c < kWide; ++c) to[c] -= sum[c];
        }
    }

    // One pair: the contribution to the lower item is accumulated, the higher one is updated.
    static void both(float w, const float* CROWDSIFT_RESTRICT other,
                     const float* CROWDSIFT_RESTRICT own, float* CROWDSIFT_RESTRICT to_other,
                     float* CROWDSIFT_RESTRICT sum) {
        for (std::size_t c = 0; c < kWide; ++c) {
            sum[c] += w * other[c];
            to_other[c] -= w * own[c];
        }
    }

    static void prefetch(const float* line) {
#if defined(__GNUC__)
        __builtin_prefetch(line);
#else
        static_cast<void>(line);
#endif
    }

    // Calls visit(j, sums) for all items; the sums are accumulated block by block.
    template <std::size_t kSums, class Visit>
    void over_items(Sums (&totals)[kSums], const Visit& visit) const {
        for (Sums& total : totals) total = Sums();
        for (std::size_t from = 0; from < n_; from += kBlock) {
            float part[kSums][kWide] = {};
            for (std::size_t j = from; j < std::min(from + kBlock, n_); ++j) visit(j, part);
            for (std::size_t k = 0; k < kSums; ++k)
                for (std::size_t c = 0; c < kWide; ++c) totals[k].of[c] += part[k][c];
        }
    }

    void solve_tile(const float* rhs, float* x, std::size_t rows) const {
        Tile at(n_), residual(n_), direction(n_), image(n_);
        for (std::size_t c = 0; c < rows; ++c)
            for (std::size_t j = 0; j < n_; ++j) {
                at.row(j)[c] = x[c * n_ + j];
                residual.row(j)[c] = rhs[c * n_ + j];
            }
        multiply(at, image);
        Sums begun[3];  // |rhs|², rᵀD⁻¹r, |r|²
        over_items(begun, [&](std::size_t j, float (&sums)[3][kWide]) {
            float* r = residual.row(j);
            const float* Ax = image.row(j);
            float* d = direction.row(j);
            for (std::size_t c = 0; c < kWide; ++c) {
                sums[0][c] += r[c] * r[c];
                r[c] -= Ax[c];
                d[c] = r[c] / pivot_[j];
                sums[1][c] += r[c] * d[c];
                sums[2][c] += r[c] * r[c];
            }
        });
        Sums product = begun[1], square = begun[2];
        for (std::size_t step = 0; step < most_; ++step) {
            bool small = true;
            for (std::size_t c = 0; c < kWide; ++c)
                small = small && square.of[c] <= tolerance_ * tolerance_ * begun[0].of[c];
            if (small) break;
            advance(at, residual, direction, image, product, square);
        }
        for (std::size_t c = 0; c < rows; ++c)
            for (std::size_t j = 0; j < n_; ++j) x[c * n_ + j] = at.row(j)[c];
    }

    // One step of conjugate gradients for all systems.
    void advance(Tile& at, Tile& residual, Tile& direction, Tile& image, Sums& product,
                 Sums& square) const {
        multiply(direction, image);
        Sums curvature[1], found[2];
        over_items(curvature, [&](std::size_t j, float (&sums)[1][kWide]) {
            const float* d = direction.row(j);
            const float* Ad = image.row(j);
            for (std::size_t c = 0; c < kWide; ++c) sums[0][c] += d[c] * Ad[c];
        });
        float length[kWide], share[kWide];
        for (std::size_t c = 0; c < kWide; ++c) {
            const double bend = curvature[0].of[c];
            length[c] = bend > 0.0 ? static_cast<float>(product.of[c] / bend) : 0.0F;
        }
        over_items(found, [&](std::size_t j, float (&sums)[2][kWide]) {
            float* x = at.row(j);
            float* r = residual.row(j);
            const float* d = direction.row(j);
            const float* Ad = image.row(j);
            const float inverse = 1.0F / pivot_[j];
            for (std::size_t c = 0; c < kWide; ++c) {
                x[c] += length[c] * d[c];
                r[c] -= length[c] * Ad[c];
                sums[0][c] += r[c] * r[c] * inverse;
                sums[1][c] += r[c] * r[c];
            }
        });
        for (std::size_t c = 0; c < kWide; ++c)
            share[c] =
                product.of[c] > 0.0 ? static_cast<float>(found[0].of[c] / product.of[c]) : 0.0F;
        product = found[0];
        square = found[1];
        for (std::size_t j = 0; j < n_; ++j) {
            const float* r = residual.row(j);
            float* d = direction.row(j);
            const float inverse = 1.0F / pivot_[j];
            for (std::size_t c = 0; c < kWide; ++c) d[c] = r[c] * inverse + share[c] * d[c];
        }
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
