// Rows of any codes, outcomes and weights: what has no fault collapses without a loss.
#include <cmath>

#include "crowdsift/collapse.hpp"
#include "crowdsift/sparse_inverse.hpp"
#include "crowdsift/tally.hpp"
#include "input.hpp"

using namespace fuzz;

namespace {

struct Rows {
    std::vector<std::uint32_t> first, second, worker, context;
    std::vector<float> outcome, weight;

    explicit Rows(Input& in) {
        const std::size_t count = in.below(64);
        for (std::size_t i = 0; i < count; ++i) {
            first.push_back(in.byte() % 9U);
            second.push_back(in.byte() % 9U);
            worker.push_back(in.byte() % 5U);
            context.push_back(in.byte() % 3U);
            outcome.push_back(in.flag() ? static_cast<float>(in.below(5)) / 4.0F
                                        : static_cast<float>(in.number()));
            weight.push_back(in.flag() ? 1.0F : static_cast<float>(in.number()));
        }
    }
};

void collapse_all(const RowInput& rows, ThreadPool& pool) {
    const Collapsed out = collapse(rows, pool);
    REQUIRE(out.offsets.size() == rows.n_workers + 1);
    REQUIRE(static_cast<std::size_t>(out.offsets.back()) == out.rows.size());
    double before = 0.0, after = 0.0;
    for (std::size_t i = 0; i < rows.rows; ++i)
        before += rows.weight == nullptr ? 1.0 : static_cast<double>(rows.weight[i]);
    for (const VoteRow& row : out.rows) {
        after += static_cast<double>(row.weight);
        REQUIRE(row.weight > 0.0F && row.first != row.second);
    }
    REQUIRE(std::fabs(before - after) <= 1e-5 * before);
}

// Variances of pairs under L + I are those of a solve.
void invert(Input& in, const Sample& sample) {
    SparseInverse inverse(sample.graph->pairs, sample.votes.n_items, in.flag() ? 1e9 : 10.0);
    if (!inverse.possible()) return;
    const Pairs& pairs = sample.graph->pairs;
    const std::vector<double> weights =
        in.flag() ? in.positives(pairs.size()) : in.numbers(pairs.size());
    std::vector<double> diagonal(sample.votes.n_items, 0.0), items(diagonal.size()),
        found(pairs.size());
    pairs.each([&](std::size_t p, std::uint32_t a, std::uint32_t b) {
        diagonal[a] += weights[p];
        diagonal[b] += weights[p];
    });
    double log_determinant = 0.0;
    if (!inverse.invert(weights.data(), diagonal.data(), items.data(), found.data(),
                        &log_determinant))
        return;
    for (const double weight : weights)
        if (!(weight > 0.0 && weight < 1e6)) return;
    for (const double variance : items) REQUIRE(variance > 0.0 && variance <= 1.0 + 1e-9);
    for (const double variance : found) REQUIRE(variance > 0.0 && variance <= 2.0 + 1e-9);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input in(data, size);
    const Rows rows(in);
    const std::size_t n = rows.first.size(), items = 1 + in.below(9), workers = 1 + in.below(5);
    ThreadPool pool(1 + in.below(3));
    const RowInput input{n,
                         items,
                         workers,
                         rows.first.data(),
                         rows.second.data(),
                         in.flag() ? rows.worker.data() : nullptr,
                         in.flag() ? rows.outcome.data() : nullptr,
                         in.flag() ? rows.weight.data() : nullptr,
                         in.flag() ? rows.context.data() : nullptr,
                         in.flag()};
    if (find_fault(input).fault == RowFault::none) collapse_all(input, pool);
    Sample sample(in);
    const Votes& votes = sample.votes;
    const PooledPairs pooled =
        pool_pairs(votes.n, votes.n_items, votes.first, votes.second, votes.outcome, votes.weight);
    REQUIRE(pooled.first.size() == sample.graph->pairs.size());
    REQUIRE(components(votes.n_items, votes.n, votes.first, votes.second).size() == votes.n_items);
    const std::vector<double> rank = in.numbers(votes.n_items);
    const Tally found = tally(votes, sample.pool, rank.data());
    for (std::size_t s = 0; s < votes.n_workers; ++s)
        REQUIRE(found.agreed[s] <= found.decided[s] && found.decided[s] <= found.loads[s]);
    invert(in, sample);
    return 0;
}
