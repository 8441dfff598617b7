// What passes read and add to at random places among items, kept short where items are many.
//
// Among a hundred thousand items and more it is the cache that limits a pass. Scores are then read
// as whole numbers of 31 bits, and sums are single precision, added to totals in double precision
// after every few rows an item. Below that scores and sums are double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/parallel.hpp"

namespace crowdsift {

// From how many items on; after how many rows an item short sums are added up, and after how many
// at most: so many times 1 is exact in single precision.
constexpr std::size_t kShortFrom = 40000, kRowsAnItem = 16, kMostRows = std::size_t{1} << 23;

// Scores in units of 2^-30 of the largest: the difference of two is a whole number too.
class ShortScores {
public:
    // False where a score is not finite; nothing is kept then.
    bool set(const double* scores, std::size_t n) {
        double largest = 0.0;
        for (std::size_t j = 0; j < n; ++j) {
            const double size = std::fabs(scores[j]);
            if (!(size <= 1e300)) return false;
            largest = std::max(largest, size);
        }
        unit_ = largest > 1e-300 ? largest / kUnits : 1.0;
        at_.resize(n);
        for (std::size_t j = 0; j < n; ++j) {
            const double units = scores[j] / unit_;
            at_[j] = static_cast<std::int32_t>(units + (units < 0.0 ? -0.5 : 0.5));
        }
        return true;
    }

    const std::int32_t* data() const { return at_.data(); }
    double unit() const { return unit_; }

private:
    static constexpr double kUnits = 1073741823.0;
    Array<std::int32_t> at_;
    double unit_ = 1.0;
};

// A number an item, for each range of rows.
class RangeSums {
public:
    RangeSums(std::size_t ranges, std::size_t n_items)
        : n_(n_items), ranges_(ranges), every_(std::min(kRowsAnItem * n_items, kMostRows)),
          totals_(ranges * n_items, 0.0),
          short_(n_items < kShortFrom ? 0 : ranges * n_items, 0.0F) {}

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

    // Adds up the ranges in their order, and shift v.
    void reduce(double* out, ThreadPool& pool, double shift = 0.0, const double* v = nullptr) const {
        const std::vector<std::size_t> chunks = shared_ranges(n_, kManyItems, pool);
        pool.run(chunks.size() - 1, [&](std::size_t chunk) {
            for (std::size_t j = chunks[chunk]; j < chunks[chunk + 1]; ++j) {
                double sum = v == nullptr ? 0.0 : shift * v[j];
                for (std::size_t r = 0; r < ranges_; ++r) sum += totals_[r * n_ + j];
                out[j] = sum;
            }
        });
    }

private:
    const std::size_t n_, ranges_, every_;
    Array<double> totals_;
    Array<float> short_;
};

}  // namespace crowdsift
