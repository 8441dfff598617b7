// Laplacians of the comparison graph, (Lx)_j = sum_k w_jk (x_j - x_k): separate weights over pairs
// that all of them share. Only one weight per pair and the diagonal are stored. Pairs are in the
// order of their lower item, and each is read once for both of its items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/buffers.hpp"
#include "crowdsift/conjugate_gradient.hpp"
#include "crowdsift/item_sums.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

// One row of the upper triangle: adds w_k x to y[column_k] and returns the sum of w_k x[column_k],
// in four chains so that additions do not wait for each other. `Far`: there are too many items for
// the first-level cache, so they are prefetched.
template <bool Far>
CROWDSIFT_INLINE double both_ways(const double* CROWDSIFT_RESTRICT weight,
                                  const std::uint32_t* CROWDSIFT_RESTRICT column, std::size_t count,
                                  double own, const double* CROWDSIFT_RESTRICT x,
                                  double* CROWDSIFT_RESTRICT y) {
    double chain[4] = {0.0, 0.0, 0.0, 0.0};
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (std::size_t c = 0; c < 4; ++c) {
            if constexpr (Far) {
                const std::size_t next = column[std::min(k + c + kPrefetch, count - 1)];
                prefetch_read(x + next);
                prefetch_write(y + next);
            }
            const double w = weight[k + c];
            chain[c] += w * x[column[k + c]];
            y[column[k + c]] += w * own;
        }
    for (; k < count; ++k) {
        chain[0] += weight[k] * x[column[k]];
        y[column[k]] += weight[k] * own;
    }
    return (chain[0] + chain[1]) + (chain[2] + chain[3]);
}

// The graph of compared pairs, and what its passes share: threads, sums over items, buffers.
struct PairGraph {
    PairGraph(std::size_t n_items, Pairs&& given, ThreadPool& threads, ItemSums& items)
        : pairs(std::move(given)), n(n_items), pool(threads), sums(items),
          ranges(pairs.row_ranges(threads.size())) {}

    const Pairs pairs;
    const std::size_t n;
    ThreadPool& pool;
    ItemSums& sums;
    const std::vector<std::size_t> ranges;  // of lower items, with about equal numbers of pairs
    Buffers<double> buffers;

    // Calls visit(p, low, high, sums) for all pairs; a range adds to `sums`.
    template <class Visit>
    void add_to_items(const Visit& visit, double* out) {
        sums.add(
            ranges.size() - 1, pool,
            [&](std::size_t range, double* mine) {
                pairs.each(ranges[range], ranges[range + 1],
                           [&](std::size_t p, std::uint32_t low, std::uint32_t high) {
                               visit(p, low, high, mine);
                           });
            },
            out);
    }
};

class Laplacian {
public:
    explicit Laplacian(PairGraph& graph)
        : graph_(graph), weight_(graph.buffers.take(graph.pairs.size())), diagonal_(graph.n) {}
    ~Laplacian() { graph_.buffers.give(std::move(weight_)); }
    Laplacian(const Laplacian&) = delete;
    Laplacian& operator=(const Laplacian&) = delete;

    const Pairs& pairs() const { return graph_.pairs; }
    // One weight per pair, to be filled by the caller.
    Array<double>& weights() { return weight_; }
    std::vector<double>& diagonal() { return diagonal_; }
    const Array<double>& weights() const { return weight_; }
    const std::vector<double>& diagonal() const { return diagonal_; }

    // Computes the diagonal once all weights are set: it is their sum.
    void close() {
        over_rows(
            [&](std::size_t j, std::size_t from, std::size_t count, double* sums) {
                double own = 0.0;
                for (std::size_t k = from; k < from + count; ++k) {
                    own += weight_[k];
                    sums[graph_.pairs.high[k]] += weight_[k];
                }
                sums[j] += own;
            },
            diagonal_.data());
    }

    // y = (L + shift I) x
    void multiply(double shift, const double* x, double* y) const {
        if (graph_.n >= kMixedFrom)
            add_both_ways<true>(x, y);
        else
            add_both_ways<false>(x, y);
        for (std::size_t j = 0; j < graph_.n; ++j) y[j] = (diagonal_[j] + shift) * x[j] - y[j];
    }

    SolveReport solve(double shift, const double* rhs, double* x, double tolerance,
                      std::size_t most) const {
        return conjugate_gradient(
            graph_.n, [&](const double* v, double* out) { multiply(shift, v, out); },
            diagonal_.data(), shift, rhs, x, tolerance, most);
    }

private:
    template <bool Far>
    void add_both_ways(const double* x, double* y) const {
        over_rows(
            [&](std::size_t j, std::size_t from, std::size_t count, double* sums) {
                sums[j] += both_ways<Far>(weight_.data() + from, graph_.pairs.high.data() + from,
                                          count, x[j], x, sums);
            },
            y);
    }

    template <class Row>
    void over_rows(const Row& row, double* out) const {
        const std::vector<std::size_t>& ranges = graph_.ranges;
        graph_.sums.add(
            ranges.size() - 1, graph_.pool,
            [&](std::size_t range, double* sums) {
                const std::vector<std::uint32_t>& start = graph_.pairs.row;
                for (std::size_t j = ranges[range]; j < ranges[range + 1]; ++j)
                    row(j, start[j], start[j + 1] - start[j], sums);
            },
            out);
    }

    PairGraph& graph_;
    Array<double> weight_;
    std::vector<double> diagonal_;
};

}  // namespace crowdsift
