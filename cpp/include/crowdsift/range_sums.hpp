// Sums over items that every thread adds to at random places.
//
// Among a hundred thousand items and more it is the cache that limits a pass, so that what is added
// to is kept short: single precision, added to totals in double precision after every few rows an
// item. Below that the sums are the totals.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/parallel.hpp"

namespace crowdsift {

// From how many items on sums are short, and after how many rows an item they are added up.
constexpr std::size_t kShortSums = 40000, kRowsAnItem = 16;

// kWidth numbers an item, side by side, for each range of rows.
template <std::size_t kWidth>
class RangeSums {
public:
    RangeSums(std::size_t ranges, std::size_t n_items)
        : n_(kWidth * n_items), ranges_(ranges), every_(kRowsAnItem * n_items),
          totals_(ranges * n_, 0.0), short_(n_items < kShortSums ? 0 : ranges * n_, 0.0F) {}

    bool are_short() const { return !short_.empty(); }

    // Where one range adds: Real is float where sums are short. Whoever adds says how many rows it
    // was, and closes at the end.
    template <class Real>
    class Lane {
    public:
        Lane(RangeSums& all, std::size_t range)
            : n_(all.n_), every_(all.every_), totals_(all.totals_.data() + range * n_) {
            std::fill(totals_, totals_ + n_, 0.0);
            if constexpr (sizeof(Real) == sizeof(float))
                sums_ = all.short_.data() + range * n_;
            else
                sums_ = totals_;
        }

        Real* sums() const { return sums_; }

        void added(std::size_t rows) {
            rows_ += rows;
            if (rows_ >= every_) close();
        }

        void close() {
            rows_ = 0;
            if constexpr (sizeof(Real) == sizeof(float))
                for (std::size_t j = 0; j < n_; ++j) {
                    totals_[j] += static_cast<double>(sums_[j]);
                    sums_[j] = 0.0F;
                }
        }

    private:
        const std::size_t n_, every_;
        double* const totals_;
        Real* sums_;
        std::size_t rows_ = 0;
    };

    // Adds up the ranges in their order; number k of item j goes to out[k][j].
    void reduce(double* const (&out)[kWidth], ThreadPool& pool) const {
        const std::size_t items = n_ / kWidth;
        const std::vector<std::size_t> chunks = shared_ranges(items, kManyItems, pool);
        pool.run(chunks.size() - 1, [&](std::size_t chunk) {
            for (std::size_t j = chunks[chunk]; j < chunks[chunk + 1]; ++j)
                for (std::size_t k = 0; k < kWidth; ++k) {
                    double sum = 0.0;
                    for (std::size_t r = 0; r < ranges_; ++r)
                        sum += totals_[r * n_ + kWidth * j + k];
                    out[k][j] = sum;
                }
        });
    }

private:
    const std::size_t n_, ranges_, every_;
    Array<double> totals_;
    Array<float> short_;
};

}  // namespace crowdsift
