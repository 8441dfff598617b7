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

// -log Z of a vote, its first derivative e in z and e^2 plus the second one, by the book.
struct Terms {
    double cost, e, f;
};

Terms by_the_book(double kz, double kd, bool tied) {
    const double p1 = sigma(kz - kd), p2 = sigma(-kz - kd), q1 = sigma(kd - kz),
                 q2 = sigma(kd + kz);
    if (!tied) return {softplus(kd - kz), q1, q1 * (q1 - p1)};
    const double e = p2 - p1;
    return {softplus(kd - kz) + softplus(kd + kz) - std::log(std::expm1(2.0 * kd)), e,
            e * e - p1 * q1 - p2 * q2};
}

// A vote of weight n on types of two widths, winners far ahead, level and far behind.
void test_kernels(float width, float m, int n, bool tied) {
    const std::size_t lanes = 8, slice = 3 * lanes, widths = 2;
    const float width_of[8] = {width, 0.5F * width};
    const SidedVote vote{m, 0.3F, -0.4F, 0.2F, static_cast<float>(n), tied};
    std::vector<float> level(lanes), terms(7 * lanes), q(widths * slice);
    for (std::size_t j = 0; j < lanes; ++j) level[j] = 0.25F * static_cast<float>(j + 1);
    for (std::size_t t = 0; t < q.size(); ++t) q[t] = 0.01F * static_cast<float>(t % 7);
    std::vector<double> sums(3 * lanes, 0.0), costs(2 * lanes, 0.0);
    const std::size_t cells = widths * lanes + 8;
    const int power = n <= 8 ? n : 0;
    std::vector<float> products(3 * cells, power > 0 ? 1.0F : 0.0F);
    std::vector<std::int32_t> exponents(3 * cells, 0);
    float *const up = products.data(), *const down = up + cells, *const gap = down + cells;
    lane_terms(lanes, level.data(), vote, terms.data(), sums.data());
    multiply_products(widths, lanes, width_of, power, vote.n, tied, terms.data(), up, down, gap);
    if (power > 0) take_exponents(products.size(), products.data(), exponents.data());
    double alpha = 0.0, second = 0.0, side_alpha = 0.0, side_second = 0.0;
    for (std::size_t w = 0; w < widths; ++w) {
        const std::size_t c = w * lanes;
        const double d = static_cast<double>(width_of[w]);
        std::fill(costs.begin(), costs.end(), 0.0);
        if (power > 0) {
            lane_costs(lanes, d, sums.data(), &sums[lanes], up + c, gap + c, 0.0, costs.data());
            lane_costs(lanes, d, sums.data(), &sums[2 * lanes], down + c, gap + c, 0.0,
                       &costs[lanes]);
            add_exponents(lanes, &exponents[c], &exponents[2 * cells + c], costs.data());
            add_exponents(lanes, &exponents[cells + c], &exponents[2 * cells + c], &costs[lanes]);
        }
        for (std::size_t t = 0; t < 2 * lanes; ++t) {
            const std::size_t j = t % lanes;
            const double b = static_cast<double>(level[j]) * (t < lanes ? 1.0 : -1.0);
            const double k = 1.0 / std::sqrt(1.0 + 3.14159 / 8.0 * (b * b * 0.3 + 0.2));
            const Terms want = by_the_book(k * (b * static_cast<double>(m) - 0.4), k * d, tied);
            if (power == 0)
                costs[t] = d * sums[j] + sums[(t < lanes ? 1 : 2) * lanes + j] +
                           static_cast<double>((t < lanes ? up : down)[c + j]) -
                           static_cast<double>(gap[c + j]);
            NEAR(costs[t] / n, want.cost, 2e-6);
            const double mass = static_cast<double>(q[w * slice + t]);
            alpha += mass * want.e * b * k;
            second += mass * want.f * b * k * b * k;
            side_alpha += mass * want.e * k;
            side_second += mass * want.f * k * k;
        }
    }
    const std::uint16_t groups[4] = {0, 0, 1, 0};
    VoteMoments found;
    vote_moments(lanes, slice, level.data(), width_of, 2, groups, tied, terms.data(), q.data(),
                 q.data(), found);
    NEAR(static_cast<double>(found.alpha), alpha, 1e-5);
    NEAR(static_cast<double>(found.f), second, 1e-5);
    NEAR(static_cast<double>(found.side_alpha), side_alpha, 1e-5);
    NEAR(static_cast<double>(found.side_f), side_second, 1e-5);
}

// Reliability 0: the same for every width.
void test_zero(float shift, bool tied) {
    const float widths[8] = {0.02F, 0.1F, 0.4F, 0.75F, 1.0F, 2.0F, 3.0F, 4.5F};
    const SidedVote vote{0.7F, 0.3F, shift, 0.2F, 2.0F, tied};
    const VoteTerm term = vote_term(0.0F, vote);
    std::vector<float> product(8, 1.0F), gap(8, 1.0F), q(8, 0.1F);
    zero_products(8, widths, 2, 2.0F, tied, term, product.data(), gap.data());
    const double k = 1.0 / std::sqrt(1.0 + 3.14159 / 8.0 * 0.2);
    VoteMoments found{0.0F, 0.0F, 0.0F, 0.0F};
    zero_moments(8, widths, q.data(), tied, term, found);
    double alpha = 0.0, second = 0.0;
    for (std::size_t w = 0; w < 8; ++w) {
        const double d = static_cast<double>(widths[w]);
        const Terms want = by_the_book(k * static_cast<double>(shift), k * d, tied);
        const double rest = 2.0 * static_cast<double>(term.cost) + (tied ? 0.0 : 2.0 * k * d);
        NEAR(rest + std::log(static_cast<double>(product[w] / gap[w])), 2.0 * want.cost, 4e-6);
        alpha += 0.1 * k * want.e;
        second += 0.1 * k * k * want.f;
    }
    NEAR(static_cast<double>(found.side_alpha), alpha, 1e-5);
    NEAR(static_cast<double>(found.side_f), second, 1e-5);
}

void test_logarithms() {
    for (const double x :
         {1e-30, 1e-6, 0.01, 0.29, 0.7072, 0.99, 1.0, 1.01, 1.414, 9.0, 80.0, 1e30})
        NEAR(static_cast<double>(log_positive(static_cast<float>(x))),
             std::log(static_cast<double>(static_cast<float>(x))), 2e-7);
    for (const double y : {1e-6, 0.01, 0.29, 0.31, 1.0, 9.0})
        NEAR(static_cast<double>(
                 one_minus_exp(static_cast<float>(y), exp_minus(static_cast<float>(y)))) /
                 y,
             -std::expm1(-y) / y, 1e-6);
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

// Workers with the same votes are evaluated once; marked apart, each by itself, with the same
// result.
void test_equal_workers() {
    const std::size_t workers = 60;
    std::vector<std::int64_t> offsets(workers + 1);
    for (std::size_t s = 0; s <= workers; ++s) offsets[s] = static_cast<std::int64_t>(s);
    SiteSample sample(workers, 3, offsets, 3, 2, 5);
    const TypeShape shape{{0.1, 0.4}, {-2.0, 2.0}, {0.1, 0.4}, true};
    GridSites together = sample.sites(shape, 1), apart = sample.sites(shape, 1);
    NEAR(EqualWorkers(together.split(), {0, workers}, workers).pays(), 1.0, 0.0);
    const std::vector<std::uint8_t> all(workers, 1);
    for (int round = 0; round < 3; ++round) {
        UpdateRequest request = sample.request(0.7, true);
        const UpdateResult one = together.update(request);
        request.marked = all.data();
        const UpdateResult two = apart.update(request);
        NEAR(one.log_messages, two.log_messages, 1e-6);
        NEAR(one.log_sites, two.log_sites, 1e-6);
        for (std::size_t t = 0; t < one.counts.size(); ++t)
            NEAR(one.counts[t], two.counts[t], 1e-5);
        for (std::size_t s = 0; s < workers; ++s) {
            NEAR(one.regular[s], two.regular[s], 1e-6);
            NEAR(one.side_tau[s], two.side_tau[s], 1e-6);
            NEAR(static_cast<double>(together.tau()[s]), static_cast<double>(apart.tau()[s]), 1e-6);
        }
        std::vector<double> counts(one.counts.size());
        together.type_counts(sample.prior.data(), counts.data());
        for (std::size_t t = 0; t < counts.size(); ++t) NEAR(counts[t], one.counts[t], 1e-5);
        together.system(nullptr, 0.0);
        apart.system(nullptr, 0.0);
    }
}

}  // namespace

void test_types() {
    test_logarithms();
    test_equal_workers();
    for (const bool tied : {false, true}) {
        for (const float width : {1e-3F, 0.02F, 0.75F, 4.5F})
            for (const float m : {0.0F, -0.7F, 2.0F, 20.0F, -20.0F})
                for (const int n : {1, 2, 3, 4, 7, 8, 11}) test_kernels(width, m, n, tied);
        for (const float shift : {0.0F, 1.5F, -1.5F}) test_zero(shift, tied);
    }
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
