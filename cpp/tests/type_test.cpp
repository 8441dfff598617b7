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

// A vote of weight n on types of four widths, one the sum of two others, and of reliability 0;
// winners far ahead, level and far behind.
void test_kernels(float width, float m, float shift, int n, bool tied) {
    const std::size_t lanes = 16, slice = 40;
    const double given = static_cast<double>(width);
    const TypeCells cells({0.25 * given, 0.5 * given, 0.75 * given, given}, lanes, slice);
    NEAR(cells.recipes[0].first, 0.0, 0.0);
    NEAR(cells.recipes[1].first + cells.recipes[1].second, 0.0, 0.0);  // twice the first
    const std::size_t size = cells.size();
    const SidedVote vote{m, 0.3F, shift, 0.2F, static_cast<float>(n), tied};
    std::vector<float> level(lanes), terms(5 * lanes), growth(size), q(4 * slice), costs(2 * lanes);
    for (std::size_t j = 0; j < lanes; ++j) level[j] = 0.125F * static_cast<float>(j + 1);
    for (std::size_t t = 0; t < q.size(); ++t) q[t] = 0.01F * static_cast<float>(t % 7);
    const std::vector<float> zero_q(8, 0.1F);
    const int power = n <= 8 ? n : 0;
    std::vector<float> products(3 * size, power > 0 ? 1.0F : 0.0F);
    std::vector<std::int32_t> exponents(3 * size, 0);
    VoteRoom room{terms.data(), {}, growth.data()};
    vote_terms(cells, level.data(), vote, room, costs.data());
    const Entry entry = power == 0 ? Entry::logarithm : power > 1 ? Entry::power : Entry::once;
    multiply_products(cells, entry, vote.n, tied, room, &products[0], &products[size],
                      &products[2 * size]);
    if (power > 0) take_exponents(products.size(), products.data(), exponents.data());
    std::vector<double> found_costs(2 * size, 0.0);
    for (std::size_t sign = 0; sign < 2; ++sign)
        for (std::size_t c = 0; c < size; ++c) {
            const std::size_t at = sign * size + c;
            if (power > 0)
                add_products(1, &products[at], &products[2 * size + c], &exponents[at],
                             &exponents[2 * size + c], &found_costs[at]);
            else
                found_costs[at] = static_cast<double>(products[at] - products[2 * size + c]);
        }
    double alpha = 0.0, second = 0.0, side_alpha = 0.0, side_second = 0.0;
    const auto check = [&](double b, std::size_t w, double cost, double mass) {
        const double k = 1.0 / std::sqrt(1.0 + crowdsift::kLogisticSmoothing * (b * b * 0.3 + 0.2));
        const double z = b * static_cast<double>(m) + static_cast<double>(shift);
        const Terms want = by_the_book(k * z, k * given * 0.25 * static_cast<double>(w + 1), tied);
        NEAR(cost / n, want.cost, 2e-6);
        alpha += mass * want.e * b * k;
        second += mass * want.f * b * k * b * k;
        side_alpha += mass * want.e * k;
        side_second += mass * want.f * k * k;
    };
    for (std::size_t w = 0; w < 4; ++w) {
        for (std::size_t t = 0; t < 2 * lanes; ++t) {
            const std::size_t j = t % lanes, sign = t / lanes;
            const std::size_t cell = (j / 8 * 4 + w) * 8 + j % 8;
            check(static_cast<double>(level[j]) * (sign == 0 ? 1.0 : -1.0), w,
                  found_costs[sign * size + cell] + static_cast<double>(costs[t]),
                  static_cast<double>(q[w * slice + t]));
        }
        check(0.0, w, found_costs[cells.zeros() + w] + n * static_cast<double>(room.zero.cost),
              0.1);
    }
    const std::uint16_t starts[3] = {0, 4, 8}, all[8] = {0, 1, 2, 3, 0, 1, 2, 3};
    std::vector<float> padded(zero_q);
    std::fill(padded.begin() + 4, padded.end(), 0.0F);
    VoteMoments found;
    vote_moments(cells, {starts, all}, level.data(), tied, room, q.data(), padded.data(), found);
    NEAR(static_cast<double>(found.alpha), alpha, 1e-5);
    NEAR(static_cast<double>(found.f), second, 1e-5);
    NEAR(static_cast<double>(found.side_alpha), side_alpha, 1e-5);
    NEAR(static_cast<double>(found.side_f), side_second, 1e-5);
}

void test_logarithms() {
    for (const double x :
         {1e-30, 1e-6, 0.01, 0.29, 0.7072, 0.99, 1.0, 1.01, 1.414, 9.0, 80.0, 1e30})
        NEAR(static_cast<double>(log_positive(static_cast<float>(x))),
             std::log(static_cast<double>(static_cast<float>(x))), 2e-7);
    for (const double y : {1e-6, 0.01, 0.29, 0.31, 1.0, 9.0, 40.0}) {
        float eight[8];
        std::fill(eight, eight + 8, static_cast<float>(y));
        Lanes e, less_one;
        exp_of(load(eight), e);
        exp_minus_one(load(eight), e, less_one);
        NEAR(static_cast<double>(e[3]) / std::exp(static_cast<double>(eight[3])), 1.0, 3e-7);
        NEAR(static_cast<double>(less_one[5]) / std::expm1(static_cast<double>(eight[5])), 1.0,
             1e-6);
    }
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
    const std::size_t pairs = sample.graph->pairs.size();
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
    NEAR(EqualWorkers(together.split(), {0, workers}, workers).is_worthwhile(), 1.0, 0.0);
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
                for (const int n : {1, 2, 7, 8, 11})
                    for (const float shift : {0.0F, -0.4F, 1.5F})
                        test_kernels(width, m, shift, n, tied);
    }
    const std::vector<double> widths{0.02, 0.4, 2.0}, sides{-2.0, 1.0, 4.0};
    const std::vector<TypeShape> shapes{{{0.0}, sides, {0.0, 0.0, 0.0}, true},
                                        {widths, {}, {}, false},
                                        {widths, sides, {0.02, 0.4, 2.0}, true}};
    for (const TypeShape& shape : shapes)
        for (const std::size_t n_gold : {0U, 1U}) {
            test_sites(1, 1, shape, n_gold);
            test_sites(900, 1, shape, n_gold);   // several blocks per worker, adaptive grids
            test_sites(2000, 3, shape, n_gold);  // threads
        }
}
