// The kernels without Python, for the sanitizers: every kernel runs on inputs with the shapes
// that go wrong (empty workers, one comparison, blocks that end in the middle of a worker), and
// what it returns is checked against a plain loop.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "crowdsift/agreement.hpp"
#include "crowdsift/collapse.hpp"
#include "crowdsift/grid.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/logistic.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

using namespace crowdsift;

namespace {

int failures = 0, checks = 0;

void expect_near(double got, double want, double tolerance, const char* what, int line) {
    ++checks;
    if (std::fabs(got - want) <= tolerance * (1.0 + std::fabs(want))) return;
    ++failures;
    std::printf("line %d: %s is %.17g, expected %.17g\n", line, what, got, want);
}
#define NEAR(got, want, tolerance) expect_near(got, want, tolerance, #got, __LINE__)

struct Crowd {
    std::size_t n_items, n_workers;
    std::vector<std::uint32_t> first, second, worker;
    std::vector<float> outcome, weight;

    Crowd(std::size_t n, std::size_t items, std::size_t workers, unsigned seed)
        : n_items(items), n_workers(workers) {
        std::mt19937 random(seed);
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t a = static_cast<std::uint32_t>(random() % items);
            const std::uint32_t b =
                static_cast<std::uint32_t>((a + 1 + random() % (items - 1)) % items);
            first.push_back(a);
            second.push_back(b);
            // Squared, so that some workers are busy and some have no vote.
            const std::size_t u = random() % workers;
            worker.push_back(static_cast<std::uint32_t>(u * u / workers));
            outcome.push_back(static_cast<float>(random() % 3) / 2.0F);
            weight.push_back(1.0F + static_cast<float>(random() % 2));
        }
    }

    RowInput input(bool oriented) const {
        return {first.size(),   n_items,       n_workers, first.data(), second.data(),
                worker.data(),  outcome.data(), weight.data(), nullptr,  oriented};
    }
};

void test_functions() {
    for (double x = 0.0; x <= 710.0; x += 0.37) {
        const double held = std::fmin(x, 700.0);
        NEAR(exp_minus(x) / std::exp(-held), 1.0, 1e-14);
        NEAR(log1p_unit(std::exp(-x)), std::log1p(std::exp(-x)), 4e-16);
        const double mean = x == 0.0 ? 0.25 : std::tanh(x / 2.0) / (2.0 * x);
        NEAR(polya_gamma_mean(x, exp_minus(x)), mean, 1e-15);
        NEAR(polya_gamma_mean(-x, exp_minus(x)), mean, 1e-15);
    }
}

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
                              out.rows[static_cast<std::size_t>(i)]), 1.0, 0.0);
    }
    Crowd bad(10, 4, 3, 2);
    bad.outcome[6] = 1.5F;
    NEAR(static_cast<double>(find_fault(bad.input(true)).row), 6.0, 0.0);
    bad.first[3] = bad.second[3];
    NEAR(static_cast<double>(find_fault(bad.input(true)).row), 3.0, 0.0);
    bad.worker[1] = 99;
    NEAR(static_cast<double>(find_fault(bad.input(true)).row), 1.0, 0.0);
}

void test_passes(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    const Crowd crowd(n, items, workers, static_cast<unsigned>(n));
    ThreadPool pool(threads);
    const Collapsed rows = collapse(crowd.input(true), pool);
    std::vector<std::uint32_t> first, second;
    std::vector<float> outcome, weight;
    for (const VoteRow& row : rows.rows) {
        first.push_back(row.first);
        second.push_back(row.second);
        outcome.push_back(row.outcome);
        weight.push_back(row.weight);
    }
    const Votes votes{first.size(),   items,         workers, first.data(), second.data(),
                      outcome.data(), weight.data(), rows.offsets.data()};
    votes.validate();
    const Pairs pairs = group_by_pair(votes.n, items, first.data(), second.data());
    Laplacian laplacian(items, pairs, pool);
    LogisticPasses passes(votes, pairs, laplacian, pool);

    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::vector<double> scores(items), slopes(workers), rhs(items), product(items);
    for (double& value : scores) value = normal(random);
    for (double& value : slopes) value = normal(random);

    double likelihood = 0.0;
    std::vector<double> expected(items, 0.0), gradient(items, 0.0), information(workers, 0.0);
    for (std::size_t s = 0; s < workers; ++s) {
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const double d = scores[first[i]] - scores[second[i]], eta = slopes[s] * d;
            const double p = 1.0 / (1.0 + std::exp(-eta)), y = outcome[i], m = weight[i];
            likelihood += m * (y * std::log(p) + (1.0 - y) * std::log1p(-p));
            gradient[first[i]] += m * slopes[s] * (y - p);
            gradient[second[i]] -= m * slopes[s] * (y - p);
            const double curvature = m * p * (1.0 - p);
            expected[first[i]] += slopes[s] * slopes[s] * curvature * d;
            expected[second[i]] -= slopes[s] * slopes[s] * curvature * d;
            information[s] += curvature * d * d;
        }
    }
    NEAR(passes.score_derivatives(scores.data(), slopes.data(), rhs.data()), likelihood, 1e-12);
    laplacian.multiply(0.0, scores.data(), product.data());
    for (std::size_t j = 0; j < items; ++j) {
        NEAR(rhs[j], gradient[j], 1e-10);
        NEAR(product[j], expected[j], 1e-5);
    }
    std::vector<double> slope_information(workers), agreed(workers), decided(workers);
    passes.slope_information(scores.data(), slopes.data(), slope_information.data());
    for (std::size_t s = 0; s < workers; ++s) NEAR(slope_information[s], information[s], 1e-11);
    agreement(votes, pool, scores.data(), agreed.data(), decided.data());
    for (std::size_t s = 0; s < workers; ++s) NEAR(agreed[s] <= decided[s], 1.0, 0.0);

    NEAR(passes.expect(scores.data(), slopes.data()).first, likelihood, 1e-12);
    passes.regress_workers(scores.data(), 1.0, slopes.data(), rhs.data());
    std::vector<double> x(items, 0.0);
    const SolveReport report = laplacian.solve(0.1, rhs.data(), x.data(), 1e-10, 1000);
    NEAR(report.converged, 1.0, 0.0);
    laplacian.multiply(0.1, x.data(), product.data());
    for (std::size_t j = 0; j < items; ++j) NEAR(product[j], rhs[j], 1e-7);
}

void test_float_functions() {
    for (float x = 0.0F; x < 54.0F; x += 0.37F)
        NEAR(exp_minus(x) / std::exp(-static_cast<double>(x)), 1.0, 3e-7);
    NEAR(exp_minus(1e30F) > 1e-38F, 1.0, 0.0);  // never denormal
    for (float x = 1e-30F; x < 1e30F; x *= 3.1F)
        NEAR(log_positive(x), std::log(static_cast<double>(x)), 2e-7);
}

// Few items, so that workers have many votes and get levels of their own; outcomes of all kinds.
void test_grid(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    std::mt19937 random(7);
    std::vector<std::uint32_t> first(n), second(n);
    std::vector<float> outcome(n), weight(n);
    std::vector<std::int64_t> offsets(workers + 1, 0);
    for (std::size_t i = 0; i < n; ++i) {
        first[i] = static_cast<std::uint32_t>(random() % items);
        second[i] = static_cast<std::uint32_t>((first[i] + 1 + random() % (items - 1)) % items);
        outcome[i] = static_cast<float>(random() % 5) / 4.0F;
        weight[i] = static_cast<float>(1 + random() % 3);
    }
    for (std::size_t s = 1; s < workers; ++s)  // the last worker has no votes
        offsets[s] = static_cast<std::int64_t>(s + 1 == workers ? n : n * s / workers);
    offsets[workers] = static_cast<std::int64_t>(n);
    const Votes votes{n, items, workers, first.data(), second.data(), outcome.data(),
                      weight.data(), offsets.data()};
    votes.validate();
    ThreadPool pool(threads);
    const Pairs pairs = group_by_pair(n, items, first.data(), second.data());
    Laplacian laplacian(items, pairs, pool);
    GridSites sites(votes, pairs, laplacian, pool);
    const std::size_t half = 20, types = 2 * half + 1;
    std::vector<double> levels(half), prior(types, 1.0 / static_cast<double>(types));
    for (std::size_t j = 0; j < half; ++j) levels[j] = 0.3 * static_cast<double>(j + 1);
    std::vector<double> means(items), counts(types), rhs(items), variance(items), exact(items);
    for (std::size_t j = 0; j < items; ++j)
        means[j] = static_cast<double>(j) / static_cast<double>(items);
    double voting = 0.0, log_determinant = 0.0;
    for (std::size_t s = 0; s < workers; ++s) voting += offsets[s] < offsets[s + 1] ? 1.0 : 0.0;
    SparseInverse inverse(pairs, items, 1e9);
    NEAR(inverse.possible(), 1.0, 0.0);
    for (int round = 0; round < 4; ++round) {
        sites.update(half, levels.data(), prior.data(), means.data(), 0.5, true, counts.data(),
                     rhs.data());
        double total = 0.0;
        for (const double count : counts) total += count;
        NEAR(total, voting, 1e-4);
        sites.type_counts(prior.data(), counts.data());
        total = 0.0;
        for (const double count : counts) total += count;
        NEAR(total, voting, 1e-4);
        sites.refine();
        NEAR(sites.believe(1e-6, 100, variance.data()).definite, 1.0, 0.0);
        NEAR(sites.factorise(inverse, exact.data(), &log_determinant), 1.0, 0.0);
    }
    // a column of the inverse: (L + I) x = unit gives x_j = the variance of item j
    std::vector<double> unit(items, 0.0), x(items, 0.0);
    unit[0] = 1.0;
    laplacian.solve(1.0, unit.data(), x.data(), 1e-12, 10000);
    NEAR(exact[0], x[0], 1e-9);
    std::vector<double> points(workers * types), masses(workers * types);
    sites.posteriors(prior.data(), 0, workers, points.data(), masses.data());
    for (std::size_t s = 0; s < workers; ++s) {
        double total = 0.0;
        for (std::size_t t = 0; t < types; ++t) total += masses[s * types + t];
        NEAR(total, 1.0, 1e-5);
    }
    NEAR(sites.mixture_likelihood(means.data(), variance.data(), points.data(), types) < 0.0, 1.0,
         0.0);
    sites.correlate(true, means.data(), rhs.data());
    sites.drop_negative();
    sites.rescale(1.1, true);
    sites.refresh(rhs.data());
}

void test_components() {
    const std::vector<std::uint32_t> first{0, 3, 4}, second{1, 4, 5};
    const std::vector<std::uint32_t> found = components(7, 3, first.data(), second.data());
    const std::vector<std::uint32_t> want{0, 0, 1, 2, 2, 2, 3};
    for (std::size_t j = 0; j < want.size(); ++j) NEAR(found[j], want[j], 0.0);
}

}  // namespace

int main() {
    test_functions();
    test_collapse();
    test_components();
    test_passes(1, 2, 1, 1);
    test_passes(40, 5, 9, 2);
    test_passes(1500, 30, 3, 2);     // blocks end in the middle of a worker
    test_passes(60000, 400, 500, 3); // threads
    test_float_functions();
    test_grid(1, 2, 1, 1);
    test_grid(3000, 12, 4, 1);    // workers of many votes, in several blocks
    test_grid(30000, 90, 40, 3);  // threads
    std::printf("%d passed, %d failed\n", checks - failures, failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
