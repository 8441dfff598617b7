// Puts rows of votes into canonical order: sorted by worker, then by pair, outcome and context,
// with equal rows merged by adding their weights. The result depends only on the set of rows, not
// on their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "crowdsift/parallel.hpp"

namespace crowdsift {

struct VoteRow {
    std::uint32_t first, second;
    float outcome, weight;
    std::uint32_t context;
};

struct RowInput {
    std::size_t rows, n_items, n_workers;
    const std::uint32_t* first;
    const std::uint32_t* second;
    const std::uint32_t* worker;   // null: all votes are of worker 0
    const float* outcome;          // null: the first item won every time
    const float* weight;           // null: 1 each
    const std::uint32_t* context;  // null: 0 each
    bool oriented;                 // first and second are known sides, not to be exchanged
};

// The largest weight of a row: a sum of 2^32 such weights is far from the limits of float.
constexpr float kMostWeight = 1e9F;

enum class RowFault : int { none, item, worker, same_item, outcome, weight };

struct FirstFault {
    RowFault fault = RowFault::none;
    std::size_t row = 0;
};

inline FirstFault find_fault(const RowInput& in) {
    for (std::size_t i = 0; i < in.rows; ++i) {
        if (in.first[i] >= in.n_items || in.second[i] >= in.n_items) return {RowFault::item, i};
        if (in.first[i] == in.second[i]) return {RowFault::same_item, i};
        if (in.worker != nullptr && in.worker[i] >= in.n_workers) return {RowFault::worker, i};
        if (in.outcome != nullptr && !(in.outcome[i] >= 0.0F && in.outcome[i] <= 1.0F))
            return {RowFault::outcome, i};
        if (in.weight != nullptr && !(in.weight[i] >= 0.0F && in.weight[i] <= kMostWeight))
            return {RowFault::weight, i};
    }
    return {};
}

// If sides are unknown a vote has the preferred item first (a tie: the smaller code).
inline bool reversed(std::uint32_t first, std::uint32_t second, float outcome) {
    return outcome < 0.5F || (outcome == 0.5F && first > second);
}

inline bool precedes(const VoteRow& a, const VoteRow& b) {
    if (a.first != b.first) return a.first < b.first;
    if (a.second != b.second) return a.second < b.second;
    if (a.outcome != b.outcome) return a.outcome < b.outcome;
    if (a.context != b.context) return a.context < b.context;
    return a.weight < b.weight;  // so that weights are always summed in one order
}

inline bool same_vote(const VoteRow& a, const VoteRow& b) {
    return a.first == b.first && a.second == b.second && a.outcome == b.outcome &&
           a.context == b.context;
}

struct Collapsed {
    std::vector<VoteRow> rows;
    std::vector<std::int64_t> offsets;  // run of worker s: [offsets[s], offsets[s + 1])
    std::vector<std::uint32_t> turned;  // 1 if first and second were exchanged
};

// The input must be free of faults (find_fault). Rows of weight 0 are dropped.
inline Collapsed collapse(const RowInput& in, ThreadPool& pool) {
    std::vector<std::int64_t> start(in.n_workers + 1, 0);
    const auto kept = [&](std::size_t i) { return in.weight == nullptr || in.weight[i] > 0.0F; };
    const auto worker = [&](std::size_t i) -> std::size_t {
        return in.worker == nullptr ? 0 : in.worker[i];
    };
    for (std::size_t i = 0; i < in.rows; ++i)
        if (kept(i)) ++start[worker(i) + 1];
    for (std::size_t s = 0; s < in.n_workers; ++s) start[s + 1] += start[s];

    std::vector<VoteRow> sorted(static_cast<std::size_t>(start[in.n_workers]));
    std::vector<std::int64_t> next(start.begin(), start.end() - 1);
    for (std::size_t i = 0; i < in.rows; ++i) {
        if (!kept(i)) continue;
        // Adding 0 makes 0 of -0, which is equal to it but has other bytes.
        VoteRow row{in.first[i], in.second[i], in.outcome == nullptr ? 1.0F : in.outcome[i] + 0.0F,
                    in.weight == nullptr ? 1.0F : in.weight[i],
                    in.context == nullptr ? 0U : in.context[i] << 1U};
        if (!in.oriented && reversed(row.first, row.second, row.outcome)) {
            std::swap(row.first, row.second);
            row.outcome = 1.0F - row.outcome;
            if (in.context != nullptr) row.context |= 1U;
        }
        sorted[static_cast<std::size_t>(next[worker(i)]++)] = row;
    }

    // Each worker's run is sorted and merged in place; then the runs are moved together.
    std::vector<std::int64_t> length(in.n_workers, 0);
    const std::vector<std::size_t> bounds =
        even_ranges(in.n_workers, in.rows < 20000 ? 1 : pool.size() * 8);
    pool.run(bounds.size() - 1, [&](std::size_t chunk) {
        for (std::size_t s = bounds[chunk]; s < bounds[chunk + 1]; ++s) {
            VoteRow* const run = sorted.data() + start[s];
            VoteRow* const end = sorted.data() + start[s + 1];
            std::sort(run, end, precedes);
            VoteRow* out = run;
            for (const VoteRow* row = run; row != end;) {
                const VoteRow head = *row;
                double weight = 0.0;
                for (; row != end && same_vote(*row, head); ++row)
                    weight += static_cast<double>(row->weight);
                *out = head;
                out->weight = static_cast<float>(weight);
                ++out;
            }
            length[s] = out - run;
        }
    });
    Collapsed result;
    result.offsets.assign(in.n_workers + 1, 0);
    for (std::size_t s = 0; s < in.n_workers; ++s) {
        result.offsets[s + 1] = result.offsets[s] + length[s];
        if (result.offsets[s] != start[s])
            std::copy(sorted.begin() + start[s], sorted.begin() + start[s] + length[s],
                      sorted.begin() + result.offsets[s]);
    }
    sorted.resize(static_cast<std::size_t>(result.offsets[in.n_workers]));
    if (in.context != nullptr) {
        result.turned.resize(sorted.size());
        for (std::size_t i = 0; i < sorted.size(); ++i) {
            result.turned[i] = sorted[i].context & 1U;
            sorted[i].context >>= 1U;
        }
    }
    result.rows = std::move(sorted);
    return result;
}

}  // namespace crowdsift
