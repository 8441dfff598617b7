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
#include "crowdsift/eliminated.hpp"
#include "crowdsift/grid.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/likelihoods.hpp"
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

// Collapsed votes that own their arrays.
struct Sample {
    std::vector<std::uint32_t> first, second;
    std::vector<float> outcome, weight;
    std::vector<std::int64_t> offsets;
    Votes votes{};

    Sample(std::size_t n, std::size_t items, std::size_t workers, ThreadPool& pool) {
        const Crowd crowd(n, items, workers, static_cast<unsigned>(n));
        const Collapsed rows = collapse(crowd.input(true), pool);
        for (const VoteRow& row : rows.rows) {
            first.push_back(row.first);
            second.push_back(row.second);
            outcome.push_back(row.outcome);
            weight.push_back(row.weight);
        }
        offsets = rows.offsets;
        votes = {first.size(),   items,         workers, first.data(), second.data(),
                 outcome.data(), weight.data(), offsets.data()};
        votes.validate();
    }
    Sample(const Sample&) = delete;
    Sample& operator=(const Sample&) = delete;
};

std::vector<double> normals(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> values(count);
    for (double& value : values) value = normal(random);
    return values;
}

// Log-likelihood, gradient, curvature along the scores and information on slopes.
void test_derivatives(const Votes& votes, LogisticPasses& passes, Laplacian& laplacian,
                      const std::vector<double>& scores, const std::vector<double>& slopes) {
    double likelihood = 0.0;
    std::vector<double> expected(votes.n_items, 0.0), gradient(votes.n_items, 0.0);
    std::vector<double> information(votes.n_workers, 0.0);
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const std::uint32_t a = votes.first[i], b = votes.second[i];
            const double d = scores[a] - scores[b], eta = slopes[s] * d;
            const double p = 1.0 / (1.0 + std::exp(-eta)), y = votes.outcome[i];
            const double m = votes.weight[i], curvature = m * p * (1.0 - p);
            likelihood += m * (y * std::log(p) + (1.0 - y) * std::log1p(-p));
            gradient[a] += m * slopes[s] * (y - p);
            gradient[b] -= m * slopes[s] * (y - p);
            expected[a] += slopes[s] * slopes[s] * curvature * d;
            expected[b] -= slopes[s] * slopes[s] * curvature * d;
            information[s] += curvature * d * d;
        }
    }
    std::vector<double> found(votes.n_items), product(votes.n_items), by_slope(votes.n_workers);
    NEAR(passes.score_derivatives(scores.data(), slopes.data(), found.data()), likelihood, 1e-12);
    laplacian.multiply(0.0, scores.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        NEAR(found[j], gradient[j], 1e-10);
        NEAR(product[j], expected[j], 1e-5);
    }
    passes.slope_information(scores.data(), slopes.data(), by_slope.data());
    for (std::size_t s = 0; s < votes.n_workers; ++s) NEAR(by_slope[s], information[s], 1e-11);
    NEAR(passes.expect(scores.data(), slopes.data()).first, likelihood, 1e-12);
}

// The system that item_system and regress_workers build for these slopes, after expect() at
// `scores` and `at`: the Laplacian is seen through its product with the scores.
void expect_system(const Votes& votes, Laplacian& laplacian, const std::vector<double>& scores,
                   const std::vector<double>& at, const std::vector<double>& slopes,
                   const std::vector<double>& rhs) {
    std::vector<double> want(votes.n_items, 0.0), flow(votes.n_items, 0.0), product(votes.n_items);
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const std::uint32_t a = votes.first[i], b = votes.second[i];
            const double d = scores[a] - scores[b], eta = at[s] * d, m = votes.weight[i];
            const double omega = std::fabs(eta) < 1e-4 ? 0.25 : std::tanh(eta / 2.0) / (2.0 * eta);
            const double push = slopes[s] * m * (static_cast<double>(votes.outcome[i]) - 0.5);
            want[a] += push;
            want[b] -= push;
            flow[a] += slopes[s] * slopes[s] * m * omega * d;
            flow[b] -= slopes[s] * slopes[s] * m * omega * d;
        }
    }
    laplacian.multiply(0.0, scores.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        NEAR(rhs[j], want[j], 1e-10);
        NEAR(product[j], flow[j], 1e-5);
    }
}

void test_expectation(const Votes& votes, LogisticPasses& passes, Laplacian& laplacian,
                      const std::vector<double>& scores, const std::vector<double>& slopes) {
    const double ridge = 0.7;
    std::vector<double> rhs(votes.n_items), fitted(votes.n_workers);
    passes.expect(scores.data(), slopes.data());
    passes.item_system(slopes.data(), rhs.data());
    expect_system(votes, laplacian, scores, slopes, slopes, rhs);
    passes.regress_workers(scores.data(), ridge, fitted.data(), rhs.data());
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        double top = 0.0, bottom = ridge;
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const double d = scores[votes.first[i]] - scores[votes.second[i]];
            const double eta = slopes[s] * d, m = votes.weight[i];
            const double omega = std::fabs(eta) < 1e-4 ? 0.25 : std::tanh(eta / 2.0) / (2.0 * eta);
            top += m * (static_cast<double>(votes.outcome[i]) - 0.5) * d;
            bottom += m * omega * d * d;
        }
        NEAR(fitted[s], top / bottom, 1e-6);
    }
    expect_system(votes, laplacian, scores, slopes, fitted, rhs);
    std::vector<double> x(votes.n_items, 0.0), product(votes.n_items);
    const SolveReport report = laplacian.solve(0.1, rhs.data(), x.data(), 1e-10, 1000);
    NEAR(report.converged, 1.0, 0.0);
    laplacian.multiply(0.1, x.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) NEAR(product[j], rhs[j], 1e-7);
}

void test_agreement(const Votes& votes, ThreadPool& pool, const std::vector<double>& scores) {
    std::vector<double> agreed(votes.n_workers), decided(votes.n_workers);
    agreement(votes, pool, scores.data(), agreed.data(), decided.data());
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        double with = 0.0, all = 0.0;
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const double lean = static_cast<double>(votes.outcome[i]) - 0.5;
            const double d = scores[votes.first[i]] - scores[votes.second[i]];
            if (lean != 0.0) all += static_cast<double>(votes.weight[i]);
            if (lean * d > 0.0) with += static_cast<double>(votes.weight[i]);
        }
        NEAR(agreed[s], with, 0.0);
        NEAR(decided[s], all, 0.0);
    }
}

void test_passes(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    ThreadPool pool(threads);
    const Sample sample(n, items, workers, pool);
    const Votes& votes = sample.votes;
    const Pairs pairs = group_by_pair(votes.n, items, votes.first, votes.second);
    Laplacian laplacian(items, pairs, pool);
    LogisticPasses passes(votes, pairs, laplacian, pool);
    std::vector<double> scores = normals(items, 7);
    const std::vector<double> slopes = normals(workers, 8);
    test_derivatives(votes, passes, laplacian, scores, slopes);
    test_expectation(votes, passes, laplacian, scores, slopes);
    test_agreement(votes, pool, scores);
    scores[1] = scores[0];  // equal scores agree with nobody
    test_agreement(votes, pool, scores);
}

// The passes of one likelihood against plain sums over its values and first derivatives, and
// against differences of those.
template <class Likelihood>
struct EliminatedTest {
    using Vector = std::vector<double>;
    ThreadPool pool;
    const Sample sample;
    const Votes& votes;
    const std::size_t features, p, items, workers;
    const double low, high;
    std::vector<float> x;
    EliminatedPasses passes;
    Vector scores, v, theta, u, blocks;
    Vector up_g, up_h, down_g, down_h;  // gradients on either side
    const double step = 1e-5;

    EliminatedTest(std::size_t n, std::size_t n_items, std::size_t n_workers,
                   std::size_t n_features, std::size_t threads, double lowest, double highest)
        : pool(threads), sample(n, n_items, n_workers, pool), votes(sample.votes),
          features(n_features), p(Likelihood::parameters(n_features)), items(n_items),
          workers(n_workers), low(lowest), high(highest), x(votes.n * features),
          passes(votes, pool, x.data(), features), scores(normals(items, 4)),
          v(normals(items, 5)), theta(normals(workers * p, 6)), u(normals(workers * p, 9)),
          blocks(workers * p * p) {
        const Vector values = normals(x.size(), 3);
        for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(values[k]);
        for (double& t : theta) t = low + (high - low) * (0.1 + 0.8 / (1.0 + std::exp(-t)));
    }

    double gradients(const Vector& r, const Vector& t, Vector& by_item, Vector& by_worker) const {
        by_item.assign(items, 0.0);
        by_worker.assign(workers * p, 0.0);
        double total = 0.0;
        Local local{};
        for (std::size_t s = 0; s < workers; ++s)
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const double m = votes.weight[i], y = votes.outcome[i];
                Likelihood::evaluate(r[votes.first[i]] - r[votes.second[i]], t.data() + s * p,
                                     x.data() + i * features, features, y, local);
                total += m * local.value;
                by_item[votes.first[i]] += m * local.d;
                by_item[votes.second[i]] -= m * local.d;
                for (std::size_t k = 0; k < p; ++k) by_worker[s * p + k] += m * local.t[k];
            }
        return total;
    }

    static Vector moved(Vector from, const Vector& along, double by) {
        for (std::size_t j = 0; j < from.size(); ++j) from[j] += by * along[j];
        return from;
    }

    // Second derivatives of -log-likelihood along a move, by differences.
    double curved(const Vector& up, const Vector& down, std::size_t at) const {
        return (down[at] - up[at]) / (2.0 * step);
    }

    // D u, or D times another vector of the workers.
    Vector times_blocks(const Vector& vector) const {
        Vector out(workers * p, 0.0);
        for (std::size_t s = 0; s < workers; ++s)
            for (std::size_t j = 0; j < p; ++j)
                for (std::size_t k = 0; k < p; ++k)
                    out[s * p + j] += blocks[(s * p + j) * p + k] * vector[s * p + k];
        return out;
    }

    void test_gradients() {
        Vector g(items), h(workers * p), diagonal(items), want_g, want_h;
        const double value = passes.template derivatives<Likelihood>(
            scores.data(), theta.data(), g.data(), h.data(), blocks.data(), diagonal.data());
        NEAR(value, gradients(scores, theta, want_g, want_h), 1e-11);
        for (std::size_t j = 0; j < items; ++j) NEAR(g[j], want_g[j], 1e-9);
        for (std::size_t k = 0; k < workers * p; ++k) NEAR(h[k], want_h[k], 1e-9);
    }

    // A v and B' v, then (A - B M B') v with D in the place of M.
    void test_along_items() {
        gradients(moved(scores, v, step), theta, up_g, up_h);
        gradients(moved(scores, v, -step), theta, down_g, down_h);
        Vector coupled(workers * p), own(items), rest(items), reduced(items);
        const Vector none(workers * p * p, 0.0);
        passes.couple(v.data(), coupled.data());
        passes.reduced(v.data(), none.data(), own.data());
        for (std::size_t k = 0; k < workers * p; ++k)
            NEAR(coupled[k], curved(up_h, down_h, k), 2e-5);
        for (std::size_t j = 0; j < items; ++j) NEAR(own[j], curved(up_g, down_g, j), 2e-5);
        passes.spread(times_blocks(coupled).data(), rest.data());
        passes.reduced(v.data(), blocks.data(), reduced.data());
        for (std::size_t j = 0; j < items; ++j) NEAR(reduced[j], own[j] - rest[j], 1e-9);
    }

    // B u and D u.
    void test_along_workers() {
        gradients(scores, moved(theta, u, step), up_g, up_h);
        gradients(scores, moved(theta, u, -step), down_g, down_h);
        Vector spread(items);
        passes.spread(u.data(), spread.data());
        const Vector product = times_blocks(u);
        for (std::size_t j = 0; j < items; ++j) NEAR(spread[j], curved(up_g, down_g, j), 2e-5);
        for (std::size_t k = 0; k < workers * p; ++k)
            NEAR(product[k], curved(up_h, down_h, k), 2e-5);
    }

    // At the fitted parameters the penalised gradient is 0, or points out of the box.
    void test_fit() {
        const double penalty = 1.0, middle = 0.5 * (low + high);
        const Vector centre(p, middle);
        Vector g, h;
        passes.template fit_workers<Likelihood>(scores.data(), theta.data(), centre.data(),
                                                penalty, low, high, 1e-10, 100);
        gradients(scores, theta, g, h);
        for (std::size_t k = 0; k < workers * p; ++k) {
            const double slope = h[k] - penalty * (theta[k] - middle);
            NEAR(theta[k] >= low && theta[k] <= high, 1.0, 0.0);
            if (theta[k] > low && theta[k] < high) NEAR(slope, 0.0, 1e-4);
            else NEAR(theta[k] > low ? slope >= 0.0 : slope <= 0.0, 1.0, 0.0);
        }
    }
};

template <class Likelihood>
void test_eliminated(std::size_t n, std::size_t items, std::size_t workers, std::size_t features,
                     std::size_t threads, double low, double high) {
    EliminatedTest<Likelihood> test(n, items, workers, features, threads, low, high);
    test.test_gradients();
    test.test_along_items();
    test.test_along_workers();
    test.test_fit();
}

void test_likelihoods(std::size_t n, std::size_t items, std::size_t workers,
                      std::size_t threads) {
    test_eliminated<ScaledLogit>(n, items, workers, 0, threads, -3.0, 3.0);
    test_eliminated<ScaledProbit>(n, items, workers, 0, threads, -3.0, 3.0);
    test_eliminated<ShiftedLogit>(n, items, workers, 2, threads, -2.0, 2.0);
    test_eliminated<FlippedLogit>(n, items, workers, 0, threads, 0.01, 0.99);
    test_eliminated<LedLogit>(n, items, workers, 2, threads, -2.0, 2.0);
}

void test_pool_pairs(std::size_t n, std::size_t items) {
    ThreadPool pool(1);
    const Sample sample(n, items, 3, pool);
    const Votes& votes = sample.votes;
    const PooledPairs pooled = pool_pairs(votes.n, items, votes.first, votes.second, votes.outcome,
                                          votes.weight);
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
    {  // a pair effect on a copy of the sites; without one, the same right-hand side as before
        std::vector<double> with(items), mean(pairs.size()), spread(pairs.size());
        GridSites twin(sites);
        twin.set_pair_effect(0.3);
        twin.refresh(with.data());
        NEAR(twin.factorise(inverse, exact.data(), &log_determinant), 1.0, 0.0);
        twin.update(half, levels.data(), prior.data(), means.data(), 0.5, false, counts.data(),
                    with.data());
        const double slope = twin.pair_posteriors(means.data(), mean.data(), spread.data());
        NEAR(std::isfinite(slope), 1.0, 0.0);
        const std::vector<double> one(workers, 1.0), none(workers, 0.0);
        const WorkerPoints single{one.data(), none.data(), none.data(), none.data(), 1};
        NEAR(twin.pair_likelihood(workers, mean.data(), spread.data(), single) < 0.0, 1.0, 0.0);
        twin.set_pair_effect(0.0);
        sites.refresh(with.data());
        for (std::size_t j = 0; j < items; ++j) NEAR(with[j], rhs[j], 1e-9);
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
    std::vector<double> mean(pairs.size()), spread(pairs.size());
    sites.pair_posteriors(means.data(), mean.data(), spread.data());
    const std::vector<double> none(workers * types, 0.0);
    const WorkerPoints all{points.data(), none.data(), none.data(), none.data(), types};
    NEAR(sites.pair_likelihood(workers, mean.data(), spread.data(), all) < 0.0, 1.0, 0.0);
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
    test_likelihoods(1, 2, 1, 1);
    test_likelihoods(60, 5, 9, 2);
    test_likelihoods(25000, 60, 40, 3);
    test_pool_pairs(1, 2);
    test_pool_pairs(3000, 25);
    test_float_functions();
    test_grid(1, 2, 1, 1);
    test_grid(3000, 12, 4, 1);    // workers of many votes, in several blocks
    test_grid(30000, 90, 40, 3);  // threads
    std::printf("%d passed, %d failed\n", checks - failures, failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
