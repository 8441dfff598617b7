// Types of tie width and side: kernels against plain loops in double, and passes on odd shapes.
#include "check.hpp"

#include <algorithm>
#include <memory>

#include "crowdsift/habits.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/pairs.hpp"

namespace {

// log(1 + e^x)
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double sigma(double x) { return std::exp(-softplus(-x)); }

// One vote on types of every width and side, winners far ahead, level and far behind.
void test_kernels(float width, float m) {
    const std::size_t count = 16;
    std::vector<float> b(count), d(count, width), g(count, 0.0F), r(count, 1.0F);
    for (std::size_t t = 0; t < count; ++t) b[t] = 0.25F * (static_cast<float>(t) - 6.0F);
    for (std::size_t t = 12; t < count; ++t) {  // pure types
        b[t] = r[t] = 0.0F;
        g[t] = 2.0F * (static_cast<float>(t) - 13.5F);
    }
    const TypeArrays types{b.data(), d.data(), g.data(), r.data(), count};
    const HabitVote vote{m, 0.3F, 0.4F, 0.2F, -1.0F, 3.0F};
    const double c = 3.14159 / 8.0;
    for (const bool tied : {false, true}) {
        std::vector<float> k(count), e(count), f(count), cost(count, 1.0F), q(count, 1.0F / 16.0F);
        (tied ? habit_tie : habit_win)(types, vote, k.data(), e.data(), f.data(), cost.data());
        double alpha = 0.0, second = 0.0, plain = 0.0;
        for (std::size_t t = 0; t < count; ++t) {
            const double bt = b[t], dt = width;
            const double kt = 1.0 / std::sqrt(1.0 + c * (bt * bt * 0.3 + (t < 12 ? 0.2 : 0.0)));
            const double gt = g[t], at = m;
            const double z = bt * at - (t < 12 ? 0.4 : 0.0) - gt;
            const double one = kt * (z - dt), two = kt * (-z - dt), p1 = sigma(one), p2 = sigma(two);
            const double edge = p2 - p1;
            double log_z = -softplus(-one), e_t = sigma(-one);
            double f_t = e_t * (1.0 - 2.0 * p1);
            if (tied) {
                log_z += -softplus(-two) + std::log(std::expm1(2.0 * kt * dt));
                e_t = edge;
                f_t = edge * edge - p1 * sigma(-one) - p2 * sigma(-two);
            }
            NEAR(static_cast<double>(k[t]), kt, 1e-6);
            NEAR(static_cast<double>(e[t]), e_t, 1e-6);
            NEAR(static_cast<double>(f[t]), f_t, 2e-6);
            NEAR(static_cast<double>(cost[t]), 1.0 - 3.0 * log_z, 2e-6);
            alpha += e_t * bt * kt / 16.0;
            second += f_t * bt * kt * bt * kt / 16.0;
            plain += e_t * kt / 16.0;
        }
        float got = 0.0F, got2 = 0.0F;
        habit_moments(count, b.data(), q.data(), k.data(), e.data(), f.data(), &got, &got2);
        NEAR(static_cast<double>(got), alpha, 1e-5);
        NEAR(static_cast<double>(got2), second, 1e-5);
        habit_moments(count, nullptr, q.data(), k.data(), e.data(), f.data(), &got, &got2);
        NEAR(static_cast<double>(got), plain, 1e-5);
    }
}

void test_log_gap() {
    for (const double y : {1e-25, 1e-6, 0.01, 0.29, 0.31, 1.0, 9.0, 80.0, 1e4})
        NEAR(double(log_gap(static_cast<float>(y))), std::log(-std::expm1(-y)), 2e-6);
}

// Votes of all outcomes; the last worker is known, the one before has no votes.
void test_sites(std::size_t n, std::size_t threads, const HabitShape& shape, std::size_t known) {
    const std::size_t items = 7, workers = 5;
    std::mt19937 random(11);
    std::vector<std::uint32_t> first(n), second(n);
    std::vector<float> outcome(n), weight(n);
    for (std::size_t i = 0; i < n; ++i) {
        first[i] = static_cast<std::uint32_t>(random() % items);
        second[i] = static_cast<std::uint32_t>((first[i] + 1 + random() % (items - 1)) % items);
        outcome[i] = static_cast<float>(random() % 3) / 2.0F;
        weight[i] = static_cast<float>(1 + random() % 2);
    }
    const auto at = [&](std::size_t share) { return static_cast<std::int64_t>(n * share / 4); };
    const std::vector<std::int64_t> offsets{0, at(1), at(2), at(3), at(3), at(4)};
    const Votes votes{n, items, workers, first.data(), second.data(), outcome.data(),
                      weight.data(), offsets.data()};
    ThreadPool pool(threads);
    votes.validate(pool);
    const Pairs pairs = group_by_pair(n, items, first.data(), second.data());
    Laplacian laplacian(items, pairs, pool);
    const auto basis =
        std::make_shared<SiteBasis>(votes, pairs, pool, shape.widths[0] > 0.0);
    HabitSites sites(votes, pairs, laplacian, pool, basis, shape, known);
    const std::size_t half = 5, points = 2 * half + 1;
    const std::size_t types = shape.widths.size() * points + shape.pure_sides.size();
    std::vector<double> levels(half), prior(types, 1.0 / static_cast<double>(types));
    for (std::size_t j = 0; j < half; ++j) levels[j] = 0.6 * static_cast<double>(j + 1);
    std::vector<double> means(items), counts(types), again(types), rhs(items), variance(items);
    for (std::size_t j = 0; j < items; ++j) means[j] = 0.3 * static_cast<double>(j);
    double voting = 0.0;
    for (std::size_t s = 0; s + known < workers; ++s)
        voting += offsets[s] < offsets[s + 1] ? 1.0 : 0.0;
    for (int round = 0; round < 4; ++round) {
        SideSums sums;
        sites.update(half, levels.data(), prior.data(), means.data(), 0.5, round < 2, {0.1, 0.3},
                     counts.data(), rhs.data(), sums);
        double total = 0.0, total_again = 0.0, pure = 0.0;
        sites.type_counts(prior.data(), again.data());
        for (std::size_t t = 0; t < types; ++t) {
            total += counts[t];
            total_again += again[t];
            if (t >= shape.widths.size() * points) pure += counts[t];
        }
        NEAR(total, voting, 1e-4);
        NEAR(total_again, voting, 1e-4);
        NEAR(sums.count, shape.sides ? voting - pure : 0.0, 1e-4);
        NEAR(sums.second * sums.count + 1e-9 >= sums.first * sums.first, 1.0, 0.0);
        sites.refine();
        sites.believe(1e-6, 100, variance.data());
    }
    for (const double v : sites.side_variances()) NEAR(v > 0.0 && v < 0.31, 1.0, 0.0);
    HabitSites twin(sites);  // a copy, turned twice, has the same right-hand side
    std::vector<double> turned(items);
    twin.flip();
    twin.flip();
    twin.refresh(turned.data());
    for (std::size_t j = 0; j < items; ++j) NEAR(turned[j], rhs[j], 1e-9);
    std::vector<double> place(workers * points), masses(workers * types);
    sites.posteriors(prior.data(), 0, workers, place.data(), masses.data());
    for (std::size_t s = 0; s < workers; ++s) {
        double total = 0.0;
        for (std::size_t t = 0; t < types; ++t) total += masses[s * types + t];
        NEAR(total, 1.0, 1e-5);
        if (s + known >= workers) NEAR(masses[s * types + points - 1], 1.0, 1e-6);
    }
    std::vector<double> mean(pairs.size()), spread(pairs.size());
    sites.pair_posteriors(means.data(), mean.data(), spread.data());
    const std::vector<double> ones(workers * 2, 1.0), zeros(workers * 2, 0.0);
    const double* const width = shape.widths[0] > 0.0 ? ones.data() : zeros.data();
    const WorkerPoints told{ones.data(), width, zeros.data(), ones.data(), 2};
    NEAR(sites.pair_likelihood(workers - known, mean.data(), spread.data(), told) < 0.0, 1.0, 0.0);
    sites.rescale(1.1);
    sites.drop_negative();
    sites.refresh(rhs.data());
    sites.reset(2.0);
    sites.refresh(rhs.data());
    for (std::size_t j = 0; j < items; ++j) NEAR(rhs[j], 0.0, 0.0);
}

}  // namespace

void test_habits() {
    test_log_gap();
    for (const float width : {1e-6F, 0.02F, 0.75F, 4.5F, 40.0F})
        for (const float m : {0.0F, -0.7F, 2.0F, 400.0F, -400.0F}) test_kernels(width, m);
    const std::vector<double> widths{0.02, 0.4, 2.0}, sides{-2.0, 1.0, 4.0};
    const std::vector<HabitShape> shapes{{{0.0}, sides, {0.0, 0.0, 0.0}, true},
                                         {widths, {}, {}, false},
                                         {widths, sides, {0.02, 0.4, 2.0}, true}};
    for (const HabitShape& shape : shapes)
        for (const std::size_t known : {0U, 1U}) {
            test_sites(1, 1, shape, known);
            test_sites(900, 1, shape, known);   // several blocks a worker, own levels
            test_sites(2000, 3, shape, known);  // threads
        }
}
