// Types of tie width and side: kernels against plain loops in double, and passes on odd shapes.
#include <algorithm>

#include "site_sample.hpp"

namespace {

// log(1 + e^x)
double softplus(double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}
double sigma(double x) {
    return std::exp(-softplus(-x));
}

// One vote on types of every width and side, winners far ahead, level and far behind.
void test_kernels(float width, float m) {
    const std::size_t count = 16;
    std::vector<float> b(count), d(count, width), g(count, 0.0F), r(count, 1.0F);
    for (std::size_t t = 0; t < count; ++t) b[t] = 0.25F * (static_cast<float>(t) - 6.0F);
    for (std::size_t t = 12; t < count; ++t) {  // side-only types
        b[t] = r[t] = 0.0F;
        g[t] = 2.0F * (static_cast<float>(t) - 13.5F);
    }
    const TypeArrays types{b.data(), d.data(), g.data(), r.data(), count};
    const SidedVote vote{m, 0.3F, 0.4F, 0.2F, -1.0F, 3.0F};
    const double c = 3.14159 / 8.0;
    for (const bool tied : {false, true}) {
        std::vector<float> k(count), e(count), f(count), cost(count, 1.0F), q(count, 1.0F / 16.0F);
        (tied ? type_tie : type_win)(types, vote, k.data(), e.data(), f.data(), cost.data());
        double alpha = 0.0, second = 0.0, plain = 0.0;
        for (std::size_t t = 0; t < count; ++t) {
            const double bt = b[t], dt = width;
            const double kt = 1.0 / std::sqrt(1.0 + c * (bt * bt * 0.3 + (t < 12 ? 0.2 : 0.0)));
            const double gt = g[t], at = m;
            const double z = bt * at - (t < 12 ? 0.4 : 0.0) - gt;
            const double one = kt * (z - dt), two = kt * (-z - dt), p1 = sigma(one),
                         p2 = sigma(two);
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
        sided_moments(count, b.data(), q.data(), k.data(), e.data(), f.data(), &got, &got2);
        NEAR(static_cast<double>(got), alpha, 1e-5);
        NEAR(static_cast<double>(got2), second, 1e-5);
        sided_moments(count, nullptr, q.data(), k.data(), e.data(), f.data(), &got, &got2);
        NEAR(static_cast<double>(got), plain, 1e-5);
    }
}

void test_log_gap() {
    for (const double y : {1e-25, 1e-6, 0.01, 0.29, 0.31, 1.0, 9.0, 80.0, 1e4})
        NEAR(double(log_gap(static_cast<float>(y))), std::log(-std::expm1(-y)), 2e-6);
}

// Votes of all outcomes; the last worker is gold where there is some, the one before has no votes.
void test_sites(std::size_t n, std::size_t threads, const TypeShape& shape, std::size_t n_gold) {
    const std::size_t items = 7, workers = 5, half = 5, points = 2 * half + 1;
    const auto at = [&](std::size_t share) { return static_cast<std::int64_t>(n * share / 4); };
    SiteSample sample(n, items, {0, at(1), at(2), at(3), at(3), at(4)}, 3, threads, half);
    GridSites sites = sample.sites(shape, n_gold);
    const std::size_t types = sample.prior.size();
    std::vector<double> again(types);
    UpdateResult found(workers);
    for (int round = 0; round < 4; ++round) {
        UpdateRequest request = sample.request(0.5, round < 2);
        if (round == 3) request.side.variance = 0.0;
        found = sites.update(request);
        sites.type_counts(sample.prior.data(), again.data());
        NEAR(sum_of(found.counts), sample.voting(n_gold), 1e-4);
        NEAR(sum_of(again), sample.voting(n_gold), 1e-4);
        double side_only = 0.0;
        for (std::size_t t = shape.widths.size() * points; t < types; ++t)
            side_only += found.counts[t];
        NEAR(sum_of(found.regular), sample.voting(n_gold) - side_only, 1e-4);
        for (std::size_t s = 0; s < workers; ++s) {
            NEAR(found.side_tau[s] >= 0.0 && std::isfinite(found.side_nu[s]), 1.0, 0.0);
            if (!shape.sides || s + n_gold >= workers) NEAR(found.side_tau[s], 0.0, 0.0);
        }
        NEAR(std::isfinite(found.log_messages - found.log_sites), 1.0, 0.0);
        sites.refine();
        sites.system(nullptr, 0.0);
    }
    const SiteSystem system = sites.system(nullptr, 0.0);
    GridSites twin(sites);  // a copy, turned twice, has the same right-hand side
    twin.transform({1.0, true, false, false});
    twin.transform({1.0, true, false, false});
    const SiteSystem turned = twin.system(nullptr, 0.0);
    for (std::size_t j = 0; j < items; ++j) NEAR(turned.rhs[j], system.rhs[j], 1e-9);

    // sites of workers that are not marked stay, own priors and no prior variance do no harm
    std::vector<double> own(workers * types, 1.0), mean(workers, 0.2), variance(workers, 0.0);
    const std::vector<std::uint8_t> marked{1, 0, 1, 1, 1};
    const std::vector<float> before(sites.tau().begin(), sites.tau().end());
    UpdateRequest request = sample.request(1.0, false);
    request.own = {own.data(), mean.data(), variance.data()};
    request.marked = marked.data();
    found = sites.update(request);
    NEAR(found.regular[1], 0.0, 0.0);
    for (std::size_t i = sites.split().start[1]; i < sites.split().start[2]; ++i)
        NEAR(static_cast<double>(sites.tau()[i]), static_cast<double>(before[i]), 0.0);

    std::vector<double> place(workers * points), masses(workers * types);
    sites.posteriors(sample.prior.data(), {}, 0, workers, place.data(), masses.data());
    for (std::size_t s = 0; s < workers; ++s) {
        double total = 0.0;
        for (std::size_t t = 0; t < types; ++t) total += masses[s * types + t];
        NEAR(total, 1.0, 1e-5);
        if (s + n_gold >= workers) NEAR(masses[s * types + points - 1], 1.0, 1e-6);
    }
    const std::size_t pairs = sample.world->pairs.size();
    std::vector<double> differences(pairs), spread(pairs);
    sites.pair_posteriors(sample.means.data(), differences.data(), spread.data());
    const std::vector<double> ones(workers * 2, 1.0), zeros(workers * 2, 0.0);
    const double* const width = shape.widths[0] > 0.0 ? ones.data() : zeros.data();
    const WorkerPoints given{ones.data(), width, zeros.data(), ones.data(), 2};
    NEAR(sites.pair_likelihood(workers - n_gold, differences.data(), spread.data(), given) < 0.0,
         1.0, 0.0);
}

}  // namespace

void test_types() {
    test_log_gap();
    for (const float width : {1e-6F, 0.02F, 0.75F, 4.5F, 40.0F})
        for (const float m : {0.0F, -0.7F, 2.0F, 400.0F, -400.0F}) test_kernels(width, m);
    const std::vector<double> widths{0.02, 0.4, 2.0}, sides{-2.0, 1.0, 4.0};
    const std::vector<TypeShape> shapes{{{0.0}, sides, {0.0, 0.0, 0.0}, true},
                                        {widths, {}, {}, false},
                                        {widths, sides, {0.02, 0.4, 2.0}, true}};
    for (const TypeShape& shape : shapes)
        for (const std::size_t n_gold : {0U, 1U}) {
            test_sites(1, 1, shape, n_gold);
            test_sites(900, 1, shape, n_gold);   // several blocks a worker, adaptive grids
            test_sites(2000, 3, shape, n_gold);  // threads
        }
}
