// The sites of expectation propagation.
#include "check.hpp"

#include "crowdsift/grid.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/pairs.hpp"

namespace {

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
    ThreadPool pool(threads);
    votes.validate(pool);
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
    sites.rescale(1.1);
    sites.refresh(rhs.data());
}

}  // namespace

void test_grids() {
    test_grid(1, 2, 1, 1);
    test_grid(3000, 12, 4, 1);    // workers of many votes, in several blocks
    test_grid(30000, 90, 40, 3);  // threads
}
