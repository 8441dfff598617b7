// Sums over items of values that passes add at random places, and mixed precision for many items.
//
// With tens of thousands of items the cache limits a pass. Scores are then read as fixed-point
// numbers of 31 bits, and sums are float32 partial sums, added to totals in double precision after
// every few rows per item. With fewer items, or one item in a large part of all rows, both are
// doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// The number of items from which on precision is mixed.
constexpr std::size_t kMixedFrom = 40000;

// The required gradient resolution, the smallest step of a score, for which mixed precision is good
// enough.
constexpr double kMixedResolution = 1e-7;

// The number of rows per item after which partial sums are added to the totals, and the largest
// number of additions to one item before that: their rounding errors add up.
struct PartialLength {
    std::size_t rows_an_item, most_additions;
};
constexpr PartialLength kFine{4, 64}, kCoarse{16, 4096};

// The number of rows of the item that occurs in most rows.
inline std::size_t most_rows_of_an_item(const Votes& votes, ThreadPool& pool) {
    const std::vector<std::size_t> ranges = shared_ranges(votes.n, kManyRows, pool);
    const std::size_t n_ranges = ranges.size() - 1;
    Array<std::uint32_t> counts(n_ranges * votes.n_items, 0U);
    pool.run(n_ranges, [&](std::size_t range) {
        std::uint32_t* const mine = counts.data() + range * votes.n_items;
        for (std::size_t i = ranges[range]; i < ranges[range + 1]; ++i) {
            const std::size_t ahead = std::min(i + kPrefetch, votes.n - 1);
            prefetch_write(mine + votes.first[ahead]);
            prefetch_write(mine + votes.second[ahead]);
            ++mine[votes.first[i]];
            ++mine[votes.second[i]];
        }
    });
    std::size_t most = 0;
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        std::size_t all = 0;
        for (std::size_t range = 0; range < n_ranges; ++range)
            all += counts[range * votes.n_items + j];
        most = std::max(most, all);
    }
    return most;
}

// That number of rows, if no item is in more than the given number; 0 if partial sums would not
// pay.
inline std::size_t rows_between_totals(const Votes& votes, std::size_t most, PartialLength limit) {
    const std::size_t rows =
        std::min(limit.rows_an_item * votes.n_items,
                 votes.n / std::max(most, std::size_t{1}) * limit.most_additions);
    return rows < 2 * votes.n_items ? 0 : rows;
}

// Scores in units of 2^-30 of the largest: the difference of two is a whole number too.
class FixedPointScores {
public:
    // Returns false if a score is not finite or too small to be divided, or all are 0; nothing is
    // stored then.
    bool set(const double* scores, std::size_t n) {
        double largest = 0.0;
        for (std::size_t j = 0; j < n; ++j) {
            const double size = std::fabs(scores[j]);
            if (!(size <= 1e300) || (size > 0.0 && size < 1e-290)) return false;
            largest = std::max(largest, size);
        }
        if (largest == 0.0) return false;
        unit_ = largest / kUnits;
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

// out = factor x
CROWDSIFT_CLONES
inline void scale_into(std::size_t count, double factor, const double* CROWDSIFT_RESTRICT x,
                       double* CROWDSIFT_RESTRICT out) {
    for (std::size_t j = 0; j < count; ++j) out[j] = factor * x[j];
}

// out += x
CROWDSIFT_CLONES
inline void add_into(std::size_t count, const double* CROWDSIFT_RESTRICT x,
                     double* CROWDSIFT_RESTRICT out) {
    for (std::size_t j = 0; j < count; ++j) out[j] += x[j];
}

// One number per item for each range of rows, added up in the order of ranges: the same bytes for
// the same number of threads. Only one pass at a time may use it. The sums of two ranges are so far
// apart that their threads never write to one cache line, nor to two that are fetched together.
class ItemSums {
public:
    explicit ItemSums(std::size_t n_items) : n_(n_items), stride_(n_items + kApart) {}

    // Calls task(range, sums) for all ranges, which adds to `sums`; then `out` has the totals.
    template <class Task>
    void add(std::size_t ranges, ThreadPool& pool, const Task& task, double* out) {
        make_room(ranges, 0);
        pool.run(ranges, [&](std::size_t range) { task(range, cleared(range)); });
        reduce(ranges, pool, out, 0.0, nullptr);
    }

    // Calls task(range, lane) for all ranges, which adds to the lane: in single precision if
    // `every`, the rows between totals, is not 0. Then `out` has the totals and shift v.
    template <class Task>
    void add_mixed(std::size_t ranges, ThreadPool& pool, std::size_t every, const Task& task,
                   double* out, double shift = 0.0, const double* v = nullptr) {
        make_room(ranges, every);
        const auto run = [&](auto real) {
            pool.run(ranges, [&](std::size_t range) {
                Lane<decltype(real)> lane(*this, range, every);
                task(range, lane);
                lane.close();
            });
        };
        if (every != 0)
            run(0.0F);
        else
            run(0.0);
        reduce(ranges, pool, out, shift, v);
    }

    // Two such sums in one pass, by task(range, first lane, second lane).
    template <class Task>
    static void add_both(ItemSums& one, ItemSums& two, std::size_t ranges, ThreadPool& pool,
                         std::size_t every, const Task& task, double* out_one, double* out_two) {
        two.make_room(ranges, every);
        one.add_mixed(
            ranges, pool, every,
            [&](std::size_t range, auto& lane) {
                std::remove_reference_t<decltype(lane)> other(two, range, every);
                task(range, lane, other);
                other.close();
            },
            out_one);
        two.reduce(ranges, pool, out_two, 0.0, nullptr);
    }

    // The sums of one range; Real is float for partial sums. Callers count the rows that they add.
    template <class Real>
    class Lane {
    public:
        Lane(ItemSums& all, std::size_t range, std::size_t every)
            : n_(all.n_), every_(every), totals_(all.cleared(range)) {
            if constexpr (sizeof(Real) == sizeof(float))
                sums_ = all.partial_.data() + range * all.stride_;
            else
                sums_ = totals_;
        }

        Real* sums() const { return sums_; }

        void added(std::size_t rows) {
            rows_ += rows;
            if (every_ != 0 && rows_ >= every_) close();
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

private:
    double* cleared(std::size_t range) {
        double* const sums = totals_.data() + range * stride_;
        std::fill(sums, sums + n_, 0.0);
        return sums;
    }

    void make_room(std::size_t ranges, std::size_t every) {
        if (totals_.size() < ranges * stride_) totals_.resize(ranges * stride_);
        if (every != 0 && partial_.size() < ranges * stride_)
            partial_.assign(ranges * stride_, 0.0F);
    }

    void reduce(std::size_t ranges, ThreadPool& pool, double* out, double shift,
                const double* v) const {
        const std::vector<std::size_t> chunks = shared_ranges(n_, kManyItems, pool);
        pool.run(chunks.size() - 1, [&](std::size_t chunk) {
            for (std::size_t at = chunks[chunk]; at < chunks[chunk + 1]; at += kBlockRows) {
                const std::size_t count = std::min(kBlockRows, chunks[chunk + 1] - at);
                if (v == nullptr)
                    std::fill(out + at, out + at + count, 0.0);
                else
                    scale_into(count, shift, v + at, out + at);
                for (std::size_t r = 0; r < ranges; ++r)
                    add_into(count, totals_.data() + r * stride_ + at, out + at);
            }
        });
    }

    static constexpr std::size_t kApart = 32;  // as float two cache lines
    const std::size_t n_, stride_;
    Array<double> totals_;
    Array<float> partial_;
};

}  // namespace crowdsift
