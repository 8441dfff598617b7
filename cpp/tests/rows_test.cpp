// Sorting, merging, pooling and counting of rows.
#include <algorithm>
#include <tuple>

#include "check.hpp"

#include "crowdsift/collapse.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/tally.hpp"

namespace {

void test_collapse() {
    for (const bool oriented : {true, false}) {
        const Crowd crowd(5000, 7, 30, 1);
        ThreadPool pool(3);
        const RowInput in = crowd.input(oriented);
        NEAR(static_cast<double>(find_fault(in).fault), 0.0, 0.0);
        const Collapsed out = collapse(in, pool);
        double before = 0.0, after = 0.0;
        for (const float w : crowd.weight) before += static_cast<double>(w);
        for (const VoteRow& row : out.rows) after += static_cast<double>(row.weight);
        NEAR(after, before, 0.0);
        for (std::size_t s = 0; s < crowd.n_workers; ++s)
            for (std::int64_t i = out.offsets[s] + 1; i < out.offsets[s + 1]; ++i)
                NEAR(precedes(out.rows[static_cast<std::size_t>(i - 1)],
                              out.rows[static_cast<std::size_t>(i)]),
                     1.0, 0.0);
    }
    Crowd bad(10, 4, 3, 2);
    bad.weight[8] = 1e9F;
    NEAR(static_cast<double>(find_fault(bad.input(true)).fault), 0.0, 0.0);
    bad.weight[8] = 1.001e9F;
    NEAR(static_cast<double>(find_fault(bad.input(true)).row), 8.0, 0.0);
    bad.outcome[6] = 1.5F;
    NEAR(static_cast<double>(find_fault(bad.input(true)).row), 6.0, 0.0);
    bad.first[3] = bad.second[3];
    NEAR(static_cast<double>(find_fault(bad.input(true)).row), 3.0, 0.0);
    bad.worker[1] = 99;
    NEAR(static_cast<double>(find_fault(bad.input(true)).row), 1.0, 0.0);
}

void test_pool_pairs(std::size_t n, std::size_t items) {
    ThreadPool pool(1);
    const Sample sample(n, items, 3, pool);
    const Votes& votes = sample.votes;
    const PooledPairs pooled =
        pool_pairs(votes.n, items, votes.first, votes.second, votes.outcome, votes.weight);
    std::vector<double> wins(items * items, 0.0);
    for (std::size_t i = 0; i < votes.n; ++i) {
        const double m = votes.weight[i], y = votes.outcome[i];
        wins[votes.first[i] * items + votes.second[i]] += m * y;
        wins[votes.second[i] * items + votes.first[i]] += m * (1.0 - y);
    }
    for (std::size_t k = 0; k < pooled.first.size(); ++k) {
        const std::size_t a = pooled.first[k], b = pooled.second[k];
        const double m = pooled.weight[k], y = pooled.outcome[k];
        NEAR(m * y, wins[a * items + b], 1e-6);
        NEAR(m * (1.0 - y), wins[b * items + a], 1e-6);
        NEAR(y > 0.5 || (y == 0.5 && a < b), 1.0, 0.0);
        if (k > 0)
            NEAR(pooled.first[k - 1] < a || (pooled.first[k - 1] == a && pooled.second[k - 1] < b),
                 1.0, 0.0);
        wins[a * items + b] = wins[b * items + a] = 0.0;  // each pair once
    }
    for (const double left : wins) NEAR(left, 0.0, 0.0);
}

// Comparisons by pair, held against a sort of (lower, higher, place); the same for all threads.
void test_group_by_pair(std::size_t n, std::size_t items, std::size_t threads) {
    const Crowd crowd(n, items, 3, 11);
    ThreadPool pool(threads);
    const Pairs pairs = group_by_pair(n, items, crowd.first.data(), crowd.second.data(), pool);
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> known;
    for (std::size_t i = 0; i < n; ++i)
        known.emplace_back(std::min(crowd.first[i], crowd.second[i]),
                           std::max(crowd.first[i], crowd.second[i]),
                           static_cast<std::uint32_t>(i));
    std::sort(known.begin(), known.end());
    std::size_t seen = 0;
    pairs.each([&](std::size_t p, std::uint32_t low, std::uint32_t high) {
        NEAR(static_cast<double>(pairs.start[p]), static_cast<double>(seen), 0.0);
        for (std::size_t k = pairs.start[p]; k < pairs.start[p + 1]; ++k, ++seen)
            NEAR(known[k] == std::make_tuple(low, high, pairs.comparison[k]), 1.0, 0.0);
    });
    NEAR(static_cast<double>(seen), static_cast<double>(n), 0.0);
}

void test_components() {
    const std::vector<std::uint32_t> first{0, 3, 4}, second{1, 4, 5};
    const std::vector<std::uint32_t> found = components(7, 3, first.data(), second.data());
    const std::vector<std::uint32_t> want{0, 0, 1, 2, 2, 2, 3};
    for (std::size_t j = 0; j < want.size(); ++j) NEAR(found[j], want[j], 0.0);
}

void test_tally(const Votes& votes, ThreadPool& pool, const std::vector<double>& rank) {
    const Tally found = tally(votes, pool, rank.data());
    std::vector<double> appearances(votes.n_items, 0.0), wins(votes.n_items, 0.0);
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        double with = 0.0, apart = 0.0, all = 0.0, leaning = 0.0, load = 0.0;
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const double lean = static_cast<double>(votes.outcome[i]) - 0.5;
            const std::uint32_t a = votes.first[i], b = votes.second[i];
            const double n = static_cast<double>(votes.weight[i]);
            if (lean != 0.0) all += n;
            const double d = rank[b] - rank[a];
            if (lean * d > 0.0) with += n;
            if (lean != 0.0 && d != 0.0) apart += n;
            leaning += 2.0 * lean * n;
            load += n;
            appearances[a] += n;
            appearances[b] += n;
            wins[a] += n * (0.5 + lean);
            wins[b] += n * (0.5 - lean);
        }
        NEAR(found.agreed[s], with, 0.0);
        NEAR(found.ranked[s], apart, 0.0);
        NEAR(found.decided[s], all, 0.0);
        NEAR(found.leaning[s], leaning, 0.0);
        NEAR(found.loads[s], load, 0.0);
    }
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        NEAR(found.appearances[j], appearances[j], 0.0);
        NEAR(found.wins[j], wins[j], 0.0);
    }
}

void test_judged_by_one() {
    const std::vector<std::uint32_t> first{0, 3, 3, 0}, second{1, 4, 1, 5};
    const std::vector<std::int64_t> offsets{0, 2, 2, 4};  // the second worker has no votes
    const Votes votes{4, 6, 3, first.data(), second.data(), nullptr, nullptr, offsets.data()};
    const std::vector<std::uint8_t> found = judged_by_one(votes), want{0, 0, 0, 0, 1, 1};
    for (std::size_t j = 0; j < want.size(); ++j) NEAR(found[j], want[j], 0.0);
}

void test_counts(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    ThreadPool pool(threads);
    const Sample sample(n, items, workers, pool);
    std::vector<double> rank(items);
    for (std::size_t j = 0; j < items; ++j) rank[j] = static_cast<double>(j * 7 % items);
    test_tally(sample.votes, pool, rank);
    rank[1] = rank[0];  // equal ranks agree with nobody
    test_tally(sample.votes, pool, rank);
}

}  // namespace

void test_rows() {
    test_collapse();
    test_components();
    test_judged_by_one();
    test_pool_pairs(1, 2);
    for (const std::size_t threads : {1, 2, 3}) test_group_by_pair(20000, 90, threads);
    test_group_by_pair(5, 3, 2);
    test_group_by_pair(9000, 8000, 2);
    test_pool_pairs(3000, 25);
    test_counts(1, 2, 1, 1);
    test_counts(40, 5, 9, 2);
    test_counts(30000, 40, 500, 3);
    test_counts(90000, kMixedFrom, 500, 2);  // float32 partial sums
}
