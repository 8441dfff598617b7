// Sweeps of Gaussian belief propagation over compared pairs, for variances under L + I.
//
// Weights W of pairs, D_j = 1 + sum of W. A pair sends M = W^2/l to each end, l the precision of
// the other end without it: `precision` + M, `precision` being D less all messages to the item. On
// trees exact; on graphs without many short cycles close. Whoever drives the sweeps adds up
// messages by item and decides when they have settled.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

struct SweepReport {
    std::size_t unsettled = 0, improper = 0;
    double log_determinant = 0.0;
};

// Consecutive pairs with the values gathered for their lower and higher items.
struct MessageBlock {
    static constexpr std::size_t kSize = 128;
    double low[kSize], high[kSize], settled_low[kSize], settled_high[kSize];
};

// Computes new messages of a block; counts those that moved too far, and pairs without a proper
// Gaussian.
CROWDSIFT_CLONES
inline void send_messages(std::size_t count, const double* CROWDSIFT_RESTRICT weight,
                          MessageBlock& block, float* CROWDSIFT_RESTRICT to_low,
                          float* CROWDSIFT_RESTRICT to_high, std::int64_t* unsettled,
                          std::int64_t* improper) {
    std::int64_t moved = 0, without = 0;
    for (std::size_t k = 0; k < count; ++k) {
        const double w = weight[k];
        const double old_a = static_cast<double>(to_low[k]);
        const double old_b = static_cast<double>(to_high[k]);
        const double la = block.low[k] + old_a, lb = block.high[k] + old_b;
        const double least = la > 0.0 ? lb : la;  // > 0 where both are
        const double inverse = least > 0.0 ? w * w / (la * lb) : 0.0;
        const double new_a = inverse * la, new_b = inverse * lb;  // W^2/lb, W^2/la
        without += least > 0.0 ? 0 : 1;
        moved += std::fabs(new_a - old_a) > block.settled_low[k] ? 1 : 0;
        moved += std::fabs(new_b - old_b) > block.settled_high[k] ? 1 : 0;
        to_low[k] = static_cast<float>(new_a);
        to_high[k] = static_cast<float>(new_b);
    }
    *unsettled += moved;
    *improper += without;
}

// Messages of every pair; copies share them until one of them sweeps.
class PairMessages {
public:
    void forget() { values_.reset(); }

    // New messages and their sums by item; those of a pair without a proper Gaussian are 0. Pairs
    // for which skip(p) holds send none.
    template <class Skip>
    SweepReport sweep(PairGraph& graph, const Array<double>& weight, const double* precision,
                      const double* settled, const Skip& skip, double* sums_out) {
        Values& at = own(graph.pairs.size());
        set_items(graph.n, precision, settled);
        std::vector<SweepReport> parts(graph.ranges.size() - 1);
        graph.sums.add(
            parts.size(), graph.pool,
            [&](std::size_t range, double* sums) {
                std::int64_t unsettled = 0, improper = 0;
                MessageBlock block;
                over(graph, range, [&](std::size_t from, std::size_t count, std::size_t row) {
                    gather(graph.pairs, from, count, row, skip, block);
                    send_messages(count, weight.data() + from, block, at.to_low.data() + from,
                                  at.to_high.data() + from, &unsettled, &improper);
                    add(graph.pairs, from, count, row, at, sums);
                });
                // Written once per range: otherwise threads would compete for the cache line.
                parts[range].unsettled = static_cast<std::size_t>(unsettled);
                parts[range].improper = static_cast<std::size_t>(improper);
            },
            sums_out);
        return total(parts);
    }

    // The last sweep leaves messages unchanged and calls found(p, variance); the pairs' part of
    // Bethe's form of log|L + I| is the sum of log(la lb - W^2).
    template <class Skip, class Found>
    SweepReport finish(PairGraph& graph, const Array<double>& weight, const double* precision,
                       const Skip& skip, const Found& found, double* sums_out) {
        const Values& at = own(graph.pairs.size());
        std::vector<SweepReport> parts(graph.ranges.size() - 1);
        graph.sums.add(
            parts.size(), graph.pool,
            [&](std::size_t range, double* sums) {
                double product = 1.0, sum = 0.0;
                std::size_t improper = 0;
                const auto close = [&](std::size_t p, std::uint32_t a, std::uint32_t b) {
                    if (skip(p)) return;
                    const double w = weight[p];
                    const double to_a = static_cast<double>(at.to_low[p]);
                    const double to_b = static_cast<double>(at.to_high[p]);
                    sums[a] += to_a;
                    sums[b] += to_b;
                    const double la = precision[a] + to_a, lb = precision[b] + to_b;
                    const double determinant = la * lb - w * w, top = la + lb - 2.0 * w;
                    if (!(determinant > 0.0 && top > 0.0)) {
                        ++improper;
                        return;
                    }
                    found(p, top / determinant);
                    product *= determinant;
                    if (product > 1e100 || product < 1e-100) {
                        sum += std::log(product);
                        product = 1.0;
                    }
                };
                graph.pairs.each(graph.ranges[range], graph.ranges[range + 1], close);
                parts[range] = {0, improper, sum + std::log(product)};
            },
            sums_out);
        return total(parts);
    }

private:
    struct Values {
        explicit Values(std::size_t pairs) : to_low(pairs, 0.0F), to_high(pairs, 0.0F) {}
        Array<float> to_low, to_high;
    };

    // The values of an item that messages need, in one place: items are accessed at random.
    struct ItemLimits {
        double precision, settled;
    };

    void set_items(std::size_t n, const double* precision, const double* settled) {
        items_.resize(n);
        for (std::size_t j = 0; j < n; ++j) items_[j] = {precision[j], settled[j]};
    }

    Values& own(std::size_t pairs) {
        if (!values_)
            values_ = std::make_shared<Values>(pairs);
        else if (values_.use_count() > 1)
            values_ = std::make_shared<Values>(*values_);
        return *values_;
    }

    // Calls visit(first pair, count, row of the first) for blocks of the pairs of a range.
    template <class Visit>
    static void over(const PairGraph& graph, std::size_t range, const Visit& visit) {
        const std::vector<std::uint32_t>& start = graph.pairs.row;
        std::size_t row = graph.ranges[range];
        const std::size_t end = start[graph.ranges[range + 1]];
        for (std::size_t p = start[row]; p < end; p += MessageBlock::kSize) {
            while (start[row + 1] <= p) ++row;
            visit(p, std::min(MessageBlock::kSize, end - p), row);
        }
    }

    // Calls visit(row, begin, end) for the part of every row in a block, as indices into it.
    template <class Visit>
    static void by_rows(const Pairs& pairs, std::size_t from, std::size_t count, std::size_t row,
                        const Visit& visit) {
        for (std::size_t k = 0; k < count; ++row) {
            const std::size_t end = std::min<std::size_t>(pairs.row[row + 1] - from, count);
            if (k < end) visit(row, k, end);
            k = end;
        }
    }

    // Precisions and limits of the items of a block; a skipped pair has weight 0, and so always a
    // proper Gaussian.
    template <class Skip>
    void gather(const Pairs& pairs, std::size_t from, std::size_t count, std::size_t row,
                const Skip& skip, MessageBlock& block) const {
        const ItemLimits* const items = items_.data();
        by_rows(pairs, from, count, row, [&](std::size_t j, std::size_t begin, std::size_t end) {
            std::fill(block.low + begin, block.low + end, items[j].precision);
            std::fill(block.settled_low + begin, block.settled_low + end, items[j].settled);
            const std::uint32_t* const high = pairs.high.data() + from;
            for (std::size_t k = begin; k < end; ++k) {
                block.high[k] = items[high[k]].precision;
                block.settled_high[k] = items[high[k]].settled;
            }
            for (std::size_t k = begin; skip.any() && k < end; ++k)
                if (skip(from + k)) block.low[k] = block.high[k] = 1.0;
        });
    }

    // Adds the messages of a block by item.
    static void add(const Pairs& pairs, std::size_t from, std::size_t count, std::size_t row,
                    const Values& at, double* sums) {
        by_rows(pairs, from, count, row, [&](std::size_t j, std::size_t begin, std::size_t end) {
            const std::uint32_t* const high = pairs.high.data() + from;
            const float *const to_low = at.to_low.data() + from, *const to_high =
                                                                     at.to_high.data() + from;
            double chain[4] = {0.0, 0.0, 0.0, 0.0};  // so that additions do not wait
            std::size_t k = begin;
            for (; k + 4 <= end; k += 4)
                for (std::size_t c = 0; c < 4; ++c) {
                    chain[c] += static_cast<double>(to_low[k + c]);
                    sums[high[k + c]] += static_cast<double>(to_high[k + c]);
                }
            for (; k < end; ++k) {
                chain[0] += static_cast<double>(to_low[k]);
                sums[high[k]] += static_cast<double>(to_high[k]);
            }
            sums[j] += (chain[0] + chain[1]) + (chain[2] + chain[3]);
        });
    }

    static SweepReport total(const std::vector<SweepReport>& parts) {
        SweepReport all;
        for (const SweepReport& part : parts) {
            all.unsettled += part.unsettled;
            all.improper += part.improper;
            all.log_determinant += part.log_determinant;
        }
        return all;
    }

    std::shared_ptr<Values> values_;
    Array<ItemLimits> items_;  // of the sweep that runs
};

}  // namespace crowdsift
