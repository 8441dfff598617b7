// The sites of expectation propagation where a type is a reliability alone, and what pairs and
// items receive from them.
#include "site_sample.hpp"

namespace {

const TypeShape kReliabilityOnly{{0.0}, {}, {}, false};

std::vector<std::int64_t> last_has_none(std::size_t n, std::size_t workers) {
    std::vector<std::int64_t> offsets(workers + 1, static_cast<std::int64_t>(n));
    offsets[0] = 0;
    for (std::size_t s = 1; s + 1 < workers; ++s)
        offsets[s] = static_cast<std::int64_t>(n * s / workers);
    return offsets;
}

// Sweeps until messages rest, then variances of pairs; false where there is no proper Gaussian.
bool settle(SiteSample& at, GridSites& sites, const Laplacian& laplacian) {
    const std::size_t items = at.votes.n_items;
    std::vector<double> precision(items), settled(items), sums(items), none(at.shared.size());
    const auto less = [&](const std::vector<double>& messages) {
        for (std::size_t j = 0; j < items; ++j)
            precision[j] = 1.0 + laplacian.diagonal()[j] - messages[j];
    };
    for (std::size_t j = 0; j < items; ++j) settled[j] = 1e-6 * (1.0 + laplacian.diagonal()[j]);
    less(std::vector<double>(items, 0.0));
    for (int round = 0; round < 100; ++round) {
        const SweepReport report =
            sites.sweep(precision.data(), settled.data(), round == 0, sums.data());
        less(sums);
        if (report.improper > 0) return false;
        if (report.unsettled == 0) break;
    }
    return sites.finish(precision.data(), false, sums.data(), none.data()).improper == 0;
}

// Few items, so that workers have many votes and get adaptive grids; outcomes of all kinds.
void test_grid(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    SiteSample at(n, items, last_has_none(n, workers), 5, threads, 20);
    GridSites sites = at.sites(kReliabilityOnly, 0);
    const Pairs& pairs = at.graph->pairs;
    SparseInverse inverse(pairs, items, 1e9);
    NEAR(inverse.possible(), 1.0, 0.0);
    std::vector<double> counts(at.prior.size()), exact(items), variances(pairs.size());
    SiteSystem system;
    double log_determinant = 0.0;
    for (int round = 0; round < 4; ++round) {
        const UpdateResult found = sites.update(at.request(0.5, true));
        NEAR(sum_of(found.counts), at.voting(0), 1e-4);
        sites.type_counts(at.prior.data(), counts.data());
        for (std::size_t t = 0; t < counts.size(); ++t) NEAR(counts[t], found.counts[t], 1e-4);
        sites.refine();
        system = sites.system(nullptr, 0.0);
        NEAR(settle(at, sites, *system.laplacian), 1.0, 0.0);
        NEAR(inverse.invert(system.laplacian->weights().data(), system.laplacian->diagonal().data(),
                            exact.data(), variances.data(), &log_determinant),
             1.0, 0.0);
        sites.set_pair_variances(variances.data());
    }
    // a column of the inverse: (L + I) x = unit gives x_j = the variance of item j
    std::vector<double> unit(items, 0.0), x(items, 0.0);
    unit[0] = 1.0;
    system.laplacian->solve(1.0, unit.data(), x.data(), 1e-12, 10000);
    NEAR(exact[0], x[0], 1e-9);

    {  // a pair effect on a copy of the sites leaves these and their system as they are
        const std::vector<double> before(system.rhs);
        GridSites twin(sites);
        NEAR(std::isfinite(twin.system(nullptr, 0.3).log_pairs), 1.0, 0.0);
        twin.update(at.request(0.5, false));
        std::vector<double> mean(pairs.size()), spread(pairs.size());
        const auto [slope, information] =
            twin.pair_posteriors(at.means.data(), mean.data(), spread.data());
        NEAR(std::isfinite(slope) && information > 0.0, 1.0, 0.0);
        const std::vector<double> one(workers, 1.0), none(workers, 0.0);
        const WorkerPoints single{one.data(), none.data(), none.data(), none.data(), 1};
        NEAR(twin.pair_likelihood(workers, mean.data(), spread.data(), single) < 0.0, 1.0, 0.0);
        const SiteSystem again = sites.system(nullptr, 0.0);
        for (std::size_t j = 0; j < items; ++j) NEAR(again.rhs[j], before[j], 1e-9);
        for (std::size_t j = 0; j < items; ++j)
            NEAR(again.laplacian->diagonal()[j], system.laplacian->diagonal()[j], 0.0);
    }
    const std::size_t types = at.prior.size();
    std::vector<double> points(workers * types), masses(workers * types);
    sites.posteriors(at.prior.data(), {}, 0, workers, points.data(), masses.data());
    for (std::size_t s = 0; s < workers; ++s)
        NEAR(sum_of({masses.begin() + static_cast<std::ptrdiff_t>(s * types),
                     masses.begin() + static_cast<std::ptrdiff_t>((s + 1) * types)}),
             1.0, 1e-5);
    sites.transform({1.1, true, true, true});
    sites.suspend();
    NEAR(sites.suspended() && !sites.updated(), 1.0, 0.0);
    sites.system(nullptr, 0.0);
}

// Two shards of the same votes add up to the whole, a pair of both at its owner.
void test_shards() {
    const std::size_t n = 600, items = 6, half_votes = 300;
    const auto cut = static_cast<std::int64_t>(half_votes);
    SiteSample whole(n, items, {0, cut, static_cast<std::int64_t>(n)}, 2, 2, 5);
    GridSites all = whole.sites(kReliabilityOnly, 0);
    all.update(whole.request(1.0, true));
    const SiteSystem want = all.system(nullptr, 0.2);
    std::vector<std::unique_ptr<SiteSample>> parts;
    std::vector<GridSites> sites;
    std::vector<std::vector<double>> sums;
    std::vector<std::uint32_t> low, high;
    for (std::size_t shard = 0; shard < 2; ++shard) {
        parts.push_back(std::make_unique<SiteSample>(half_votes, items,
                                                     std::vector<std::int64_t>{0, cut}, 2, 1, 5));
        SiteSample& part = *parts.back();
        const auto from = static_cast<std::ptrdiff_t>(shard * half_votes);
        const auto to = from + static_cast<std::ptrdiff_t>(half_votes);
        std::copy(whole.first.begin() + from, whole.first.begin() + to, part.first.begin());
        std::copy(whole.second.begin() + from, whole.second.begin() + to, part.second.begin());
        std::copy(whole.outcome.begin() + from, whole.outcome.begin() + to, part.outcome.begin());
        std::copy(whole.weight.begin() + from, whole.weight.begin() + to, part.weight.begin());
        part.graph = std::make_unique<PairGraph>(
            items, group_by_pair(half_votes, items, part.first.data(), part.second.data()),
            part.pool, part.sums);
        if (shard == 0)
            part.graph->pairs.each([&](std::size_t, std::uint32_t a, std::uint32_t b) {
                low.push_back(a);
                high.push_back(b);
            });
        const std::unique_ptr<bool[]> owner(new bool[low.size()]);
        for (std::size_t k = 0; k < low.size(); ++k) owner[k] = (k % 2 == 0) == (shard == 0);
        part.shared =
            SharedPairs(part.graph->pairs, items, low.size(), low.data(), high.data(), owner.get());
        sites.push_back(part.sites(kReliabilityOnly, 0));
        sites.back().update(part.request(1.0, true));
        sums.emplace_back(2 * low.size());
        sites.back().pair_sums(sums.back().data());
    }
    NEAR(static_cast<double>(sites[0].n_pairs() + sites[1].n_pairs()),
         static_cast<double>(all.n_pairs()), 0.0);
    for (std::size_t k = 0; k < sums[0].size(); ++k) sums[0][k] += sums[1][k];
    std::vector<double> diagonal(items, 0.0), rhs(items, 0.0);
    double log_pairs = 0.0;
    for (GridSites& part : sites) {
        const SiteSystem found = part.system(sums[0].data(), 0.2);
        log_pairs += found.log_pairs;
        for (std::size_t j = 0; j < items; ++j) {
            diagonal[j] += found.laplacian->diagonal()[j];
            rhs[j] += found.rhs[j];
        }
    }
    NEAR(log_pairs, want.log_pairs, 1e-6);
    for (std::size_t j = 0; j < items; ++j) {
        NEAR(diagonal[j], want.laplacian->diagonal()[j], 1e-6);
        NEAR(rhs[j], want.rhs[j], 1e-6);
    }
}

}  // namespace

void test_grids() {
    test_grid(1, 2, 1, 1);
    test_grid(3000, 12, 4, 1);    // workers of many votes, in several blocks
    test_grid(30000, 90, 40, 3);  // threads
    test_shards();
}
