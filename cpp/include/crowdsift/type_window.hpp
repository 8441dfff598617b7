// Counts of types under many priors after one pass: most types hold next to nothing of any worker.
//
// The blocks of types that hold all but a thousandth of a worker of all counts are copied, worker
// by worker, so that counts read a fraction of the memory. What lies outside is not left out: its
// part of every worker's evidence stays what it was when the copies were made, and so does the sum
// of likelihoods over evidences of every such type. Where a prior lifts it, copies are made anew.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/grid_kernels.hpp"

namespace crowdsift {

class TypeWindow {
public:
    // What was copied no longer holds; the room for it stays.
    void clear() {
        blocks_.clear();
        ready_ = false;
    }
    void free() {
        clear();
        rows_ = Array<float>();
    }

    // Chooses the types from their counts, and makes room; false where copies would not pay.
    bool choose(const std::vector<double>& counts, std::size_t n_workers) {
        clear();
        if (counts.size() < kManyTypes) return false;
        std::vector<double> held(counts.size() / kLaneBlock);
        for (std::size_t b = 0; b < held.size(); ++b)
            held[b] =
                std::accumulate(&counts[b * kLaneBlock], &counts[b * kLaneBlock] + kLaneBlock, 0.0);
        std::vector<std::uint32_t> order(held.size());
        std::iota(order.begin(), order.end(), 0U);
        std::sort(order.begin(), order.end(),
                  [&](std::uint32_t a, std::uint32_t b) { return held[a] < held[b]; });
        double outside = 0.0;
        std::size_t dropped = 0;
        while (dropped < order.size() && (outside += held[order[dropped]]) <= kOutside) ++dropped;
        if (5 * dropped < 2 * order.size() || dropped == order.size()) return false;
        blocks_.assign(order.begin() + static_cast<std::ptrdiff_t>(dropped), order.end());
        std::sort(blocks_.begin(), blocks_.end());
        rows_.resize(n_workers * size());
        rest_.resize(n_workers);
        return true;
    }

    std::size_t size() const { return blocks_.size() * kLaneBlock; }

    // The chosen ones of values by type.
    void pick(const float* values, float* out) const {
        for (const std::uint32_t b : blocks_)
            out = std::copy_n(values + b * kLaneBlock, kLaneBlock, out);
    }

    // A worker's likelihood, and its evidence under the prior, of which the chosen part is `prior`.
    void take(std::size_t s, const float* prior, const float* likelihood, float evidence) {
        float* const row = rows_.data() + s * size();
        pick(likelihood, row);
        rest_[s] = std::max(evidence - weighted_sum(size(), prior, row), 0.0F);
    }

    // All workers are there; sums over them of likelihood over evidence, by type.
    void close(std::vector<double> sums, const float* prior) {
        sums_ = std::move(sums);
        ready_ = outside(prior) <= kMostOutside;
    }

    bool holds(const float* prior) const { return ready_ && outside(prior) <= kMostOutside; }

    const float* row(std::size_t s) const { return rows_.data() + s * size(); }
    // The evidence that a worker has outside.
    float rest(std::size_t s) const { return rest_[s]; }

    // Those sums with the chosen ones in place of what they were.
    std::vector<double> sums(const std::vector<double>& chosen) const {
        std::vector<double> all(sums_);
        const double* from = chosen.data();
        for (const std::uint32_t b : blocks_) {
            std::copy_n(from, kLaneBlock, all.begin() + b * kLaneBlock);
            from += kLaneBlock;
        }
        return all;
    }

private:
    static constexpr std::size_t kManyTypes = 128;
    static constexpr double kOutside = 1e-3, kMostOutside = 4e-3;  // of one worker

    double outside(const float* prior) const {
        double sum = 0.0;
        const std::uint32_t* next = blocks_.data();
        const std::uint32_t* const end = next + blocks_.size();
        for (std::size_t b = 0; b < sums_.size() / kLaneBlock; ++b) {
            if (next != end && *next == b) {
                ++next;
                continue;
            }
            for (std::size_t t = b * kLaneBlock; t < (b + 1) * kLaneBlock; ++t)
                sum += static_cast<double>(prior[t]) * sums_[t];
        }
        return sum;
    }

    std::vector<std::uint32_t> blocks_;  // chosen, rising
    Array<float> rows_;
    std::vector<float> rest_;
    std::vector<double> sums_;
    bool ready_ = false;
};

}  // namespace crowdsift
