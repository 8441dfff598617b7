// Expectation propagation over a grid of worker types: the sites of one run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core.hpp"
#include "crowdsift/grid_sites.hpp"
#include "crowdsift/vote_correlations.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

struct Sites {
    CorePointer core;
    GridSites sites;

    std::size_t items() const { return core->votes.n_items; }
    std::size_t workers() const { return core->votes.n_workers; }
    std::size_t pairs() const { return sites.graph().pairs.size(); }
};
using SitesPointer = std::shared_ptr<Sites>;

// Masses (workers x types), means and variances of the side bias; gold may have rows, too.
using GivenPriors = std::tuple<Matrix<double>, In<double>, In<double>>;

OwnPriors own_priors(const Sites& self, const std::optional<GivenPriors>& given,
                     std::size_t types) {
    if (!given) return {};
    const auto& [masses, mean, variance] = *given;
    if (!masses.is_valid() || !mean.is_valid() || !variance.is_valid())
        throw std::invalid_argument("own priors are three arrays");  // None passes for an array
    const std::size_t rows = masses.shape(0);
    if (rows != self.sites.before_gold() && rows != self.workers())
        throw std::invalid_argument("own priors need one row per worker");
    require(masses, rows, types, "masses");
    require(mean, rows, "side_mean");
    require(variance, rows, "side_variance");
    for (std::size_t s = 0; s < rows; ++s)
        if (!(variance.data()[s] >= 0.0)) throw std::invalid_argument("a variance is at least 0");
    return {masses.data(), mean.data(), variance.data()};
}

void require_types(const Sites& self, const In<double>& prior) {
    if (!self.sites.updated()) throw std::invalid_argument("no update yet");
    require(prior, self.sites.types().n_types(), "prior");
}

void require_variances(const Sites& self) {
    if (self.sites.suspended())
        throw std::invalid_argument("suspended: the variances of pairs must be set first");
}

SitesPointer new_sites(CorePointer core, std::vector<double> widths, std::vector<double> side_only,
                       std::vector<double> side_only_widths, bool sides, std::size_t n_gold,
                       double variance) {
    if (widths.empty() || side_only.size() != side_only_widths.size())
        throw std::invalid_argument("a tie width is needed, and one for every side-only type");
    if (n_gold > 0 && n_gold > core->votes.n_workers)
        throw std::invalid_argument("more gold than workers");
    const bool ties = widths[0] > 0.0;
    core->sited = true;
    TypeShape shape{std::move(widths), std::move(side_only), std::move(side_only_widths), sides};
    return core->run([&] {
        return std::make_shared<Sites>(
            Sites{core, GridSites(core->votes, core->graph(), core->shared, core->split(ties),
                                  std::move(shape), n_gold, variance)});
    });
}

nb::tuple update(Sites& self, In<double> levels, In<double> prior, In<double> means, double damping,
                 bool clip, double side_mean, double side_variance, std::optional<GivenPriors> own,
                 std::optional<In<std::uint8_t>> workers) {
    const std::size_t half = levels.shape(0), types = self.sites.types().n_types(half);
    if (half < 2) throw std::invalid_argument("at least two levels are needed");
    if (half > TypeGrid::kMostLevels) throw std::invalid_argument("at most 1,024 levels");
    const std::size_t adaptive = self.sites.grids().length();
    if (adaptive > 0 && adaptive != half)
        throw std::invalid_argument("workers have adaptive grids of another number of levels");
    if (!(side_variance >= 0.0)) throw std::invalid_argument("a variance is at least 0");
    require(prior, types, "prior");
    self.core->require_items(means, "means");
    if (workers) require(*workers, self.workers(), "workers");
    require_variances(self);
    const UpdateRequest request{half,
                                levels.data(),
                                prior.data(),
                                means.data(),
                                damping,
                                clip,
                                {side_mean, side_variance},
                                own_priors(self, own, types),
                                workers ? workers->data() : nullptr};
    UpdateResult found = self.core->run([&] { return self.sites.update(request); });
    return nb::make_tuple(hand_over(std::move(found.counts)), found.log_messages, found.log_sites,
                          found.gold_margin, hand_over(std::move(found.regular)),
                          hand_over(std::move(found.side_tau)),
                          hand_over(std::move(found.side_nu)));
}

Out<double> type_counts(Sites& self, In<double> prior) {
    require_types(self, prior);
    Vec counts(prior.shape(0));
    self.core->run([&] { self.sites.type_counts(prior.data(), counts.data()); });
    return hand_over(std::move(counts));
}

nb::tuple posteriors(Sites& self, In<double> prior, std::size_t begin, std::size_t end,
                     std::optional<GivenPriors> own) {
    require_types(self, prior);
    if (begin > end || end > self.workers())
        throw std::invalid_argument("no such range of workers");
    const std::size_t rows = end - begin, types = prior.shape(0);
    const std::size_t width = self.sites.types().n_points();
    const OwnPriors priors = own_priors(self, own, types);
    Vec points(rows * width), masses(rows * types);
    self.core->run([&] {
        self.sites.posteriors(prior.data(), priors, begin, end, points.data(), masses.data());
    });
    return nb::make_tuple(hand_over<double, 2>(std::move(points), {rows, width}),
                          hand_over<double, 2>(std::move(masses), {rows, types}));
}

// Reliabilities, masses by reliability, by width and of side-only types, and `chosen` types at
// evenly spaced quantiles, one row per worker.
nb::tuple marginals(Sites& self, In<double> prior, std::size_t begin, std::size_t end,
                    std::size_t chosen, std::optional<GivenPriors> own) {
    require_types(self, prior);
    if (begin > end || end > self.workers())
        throw std::invalid_argument("no such range of workers");
    const WorkerTypes& types = self.sites.types();
    const std::size_t rows = end - begin, width = types.n_points();
    const std::size_t widths = types.shape().widths.size();
    const std::size_t only = types.shape().side_only.size();
    const OwnPriors priors = own_priors(self, own, prior.shape(0));
    Vec points(rows * width), reliability(rows * width), tie(rows * widths), side(rows * only);
    std::vector<std::int64_t> found(rows * chosen);
    self.core->run([&] {
        self.sites.marginals(prior.data(), priors, begin, end,
                             {width, widths, only, chosen, points.data(), reliability.data(),
                              tie.data(), side.data(), found.data()});
    });
    return nb::make_tuple(hand_over<double, 2>(std::move(points), {rows, width}),
                          hand_over<double, 2>(std::move(reliability), {rows, width}),
                          hand_over<double, 2>(std::move(tie), {rows, widths}),
                          hand_over<double, 2>(std::move(side), {rows, only}),
                          hand_over<std::int64_t, 2>(std::move(found), {rows, chosen}));
}

// Quantiles of masses at points, one row per worker.
nb::ndarray<nb::numpy, double, nb::ndim<2>> quantiles(Sites& self, Matrix<double> points,
                                                      Matrix<double> masses, In<double> levels,
                                                      In<double> atom) {
    const std::size_t rows = points.shape(0), width = points.shape(1), count = levels.shape(0);
    require(masses, rows, width, "masses");
    require(atom, rows, "atom");
    if (width < 2) throw std::invalid_argument("at least two points are needed");
    Vec out(rows * count);
    self.core->run([&] {
        const std::vector<std::size_t> ranges = shared_ranges(rows, kManyRows / 4, self.core->pool);
        self.core->pool.run(ranges.size() - 1, [&](std::size_t range) {
            std::vector<double> room;
            for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s)
                quantiles_of(width, points.data() + s * width, masses.data() + s * width,
                             atom.data()[s], count, levels.data(), room, out.data() + s * count);
        });
    });
    return hand_over<double, 2>(std::move(out), {rows, count});
}

std::size_t refine(Sites& self) {
    if (!self.sites.updated()) throw std::invalid_argument("no update yet");
    return self.core->run([&] { return self.sites.refine(); });
}

nb::ndarray<nb::numpy, double, nb::ndim<2>> pair_sums(Sites& self) {
    const std::size_t count = self.core->shared.size();
    Vec sums(2 * count);
    self.core->run([&] { self.sites.pair_sums(sums.data()); });
    return hand_over<double, 2>(std::move(sums), {count, 2});
}

// Laplacian, right-hand side, and the part of the pair effect in the evidence.
nb::tuple system_of(Sites& self, Matrix<double> shared, double pair_effect) {
    require(shared, self.core->shared.size(), 2, "shared");
    if (!(pair_effect >= 0.0)) throw std::invalid_argument("a variance is at least 0");
    SiteSystem found =
        self.core->run([&] { return self.sites.system(shared.data(), pair_effect); });
    return nb::make_tuple(LaplacianBinding{self.core, std::move(found.laplacian)},
                          hand_over(std::move(found.rhs)), found.log_pairs);
}

nb::tuple pair_posteriors(Sites& self, In<double> means) {
    self.core->require_items(means, "means");
    require_variances(self);
    Vec mean(self.pairs()), variance(self.pairs());
    const auto [slope, information] = self.core->run(
        [&] { return self.sites.pair_posteriors(means.data(), mean.data(), variance.data()); });
    const Pairs& pairs = self.sites.graph().pairs;
    std::vector<std::uint32_t> low(pairs.size());
    pairs.each([&](std::size_t p, std::uint32_t j, std::uint32_t) { low[p] = j; });
    return nb::make_tuple(hand_over(std::move(low)), hand_copy(pairs.high),
                          hand_over(std::move(mean)), hand_over(std::move(variance)), slope,
                          information);
}

void set_pair_variances(Sites& self, std::optional<In<double>> variances,
                        std::optional<In<double>> shared) {
    if (variances) {
        require(*variances, self.pairs(), "variances");
        self.core->run([&] { self.sites.set_pair_variances(variances->data()); });
    }
    if (shared) {
        require(*shared, self.core->shared.size(), "shared");
        self.core->run([&] { self.sites.set_shared_variances(shared->data()); });
    }
}

// Messages summed by item, number of unsettled ones, improper pairs, log-determinant, degrees, and
// variances of shared pairs.
nb::tuple propagate(Sites& self, In<double> precision, In<double> settled, bool fresh, bool last) {
    self.core->require_items(precision, "precision");
    self.core->require_items(settled, "settled");
    Vec sums(self.items()), degrees(self.items(), 0.0), shared(self.core->shared.size(), 0.0);
    const SweepReport report = self.core->run([&] {
        if (!last) return self.sites.sweep(precision.data(), settled.data(), fresh, sums.data());
        self.sites.degrees(degrees.data());
        return self.sites.finish(precision.data(), fresh, sums.data(), shared.data());
    });
    return nb::make_tuple(hand_over(std::move(sums)), report.unsettled, report.improper,
                          report.log_determinant, hand_over(std::move(degrees)),
                          hand_over(std::move(shared)));
}

// Votes of every worker, winner, loser, kind (1: won by the first, -1: by the second, 2: tied), tau
// and nu, those of the side bias, and the ends of adaptive grids, NaN where there is none.
nb::tuple vote_sites(Sites& self) {
    const SplitVotes& votes = self.sites.split();
    std::vector<std::int64_t> count(self.workers());
    for (std::size_t s = 0; s < count.size(); ++s)
        count[s] = static_cast<std::int64_t>(votes.start[s + 1] - votes.start[s]);
    std::vector<std::uint32_t> winner(votes.size()), loser(votes.size());
    std::vector<std::int8_t> kind(votes.size());
    self.core->run([&] {
        const auto parts = shared_ranges(votes.size(), kManyRows, self.core->pool);
        self.core->pool.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t i = parts[part]; i < parts[part + 1]; ++i) {
                winner[i] = votes.winner(i);
                loser[i] = votes.loser(i);
                kind[i] = votes.kind(i);
            }
        });
    });
    const double none = std::numeric_limits<double>::quiet_NaN();
    Vec low(self.workers(), none), high(self.workers(), none);
    const AdaptiveGrids& grids = self.sites.grids();
    for (std::size_t s = 0; s < self.workers(); ++s) {
        if (!grids.has(s)) continue;
        low[s] = grids.of(s)[0];
        high[s] = grids.of(s)[grids.length() - 1];
    }
    const bool sided = self.sites.types().sides();
    const Array<float> zeros(sided ? 0 : votes.size(), 0.0F);
    return nb::make_tuple(hand_over(std::move(count)), hand_over(std::move(winner)),
                          hand_over(std::move(loser)), hand_over(std::move(kind)),
                          hand_copy(self.sites.tau()), hand_copy(self.sites.nu()),
                          hand_copy(sided ? self.sites.side_tau() : zeros),
                          hand_copy(sided ? self.sites.side_nu() : zeros),
                          hand_over(std::move(low)), hand_over(std::move(high)));
}

// Sets the sites, in that order, and adaptive grids of `half` levels, evenly spaced between their
// ends.
void set_vote_sites(Sites& self, In<float> tau, In<float> nu, In<float> side_tau, In<float> side_nu,
                    In<double> low, In<double> high, std::size_t half) {
    const std::size_t votes = self.sites.split().size();
    require(tau, votes, "tau");
    require(nu, votes, "nu");
    require(side_tau, votes, "side_tau");
    require(side_nu, votes, "side_nu");
    self.core->require_workers(low, "low");
    self.core->require_workers(high, "high");
    if (half > TypeGrid::kMostLevels) throw std::invalid_argument("at most 1,024 levels");
    const auto has = [&](std::size_t s) { return std::isfinite(low.data()[s]); };
    for (std::size_t s = 0; s < self.sites.before_gold(); ++s)
        if (has(s) && (half < 2 || !(low.data()[s] >= 0.0) || !(high.data()[s] > low.data()[s]) ||
                       !std::isfinite(high.data()[s])))
            throw std::invalid_argument("an adaptive grid rises and has two levels or more");
    self.core->run([&] {
        self.sites.set_sites(tau.data(), nu.data());
        self.sites.set_side_sites(side_tau.data(), side_nu.data());
        self.sites.clear_grids();
        for (std::size_t s = 0; s < self.sites.before_gold(); ++s)
            if (has(s)) self.sites.set_grid(s, low.data()[s], high.data()[s], half);
    });
}

double likelihood_of(Sites& self, In<double> differences, In<double> variances,
                     Matrix<double> reliability, Matrix<double> width, Matrix<double> side,
                     Matrix<double> side_variance) {
    require(differences, self.pairs(), "differences");
    require(variances, self.pairs(), "variances");
    const std::size_t count = reliability.shape(1);
    if (count == 0) throw std::invalid_argument("points need at least one a worker");
    for (const auto& points : {reliability, width, side, side_variance})
        require(points, self.workers(), count, "points");
    return self.core->run([&] {
        return self.sites.pair_likelihood(
            self.sites.before_gold(), differences.data(), variances.data(),
            {reliability.data(), width.data(), side.data(), side_variance.data(), count});
    });
}

}  // namespace

void bind_grid(nb::module_& m, nb::class_<Core>& core) {
    nb::class_<Sites>(m, "GridSites")
        .def_prop_ro("n_votes", [](const Sites& self) { return self.sites.split().size(); })
        .def_prop_ro("n_pairs", [](const Sites& self) { return self.sites.n_pairs(); })
        .def_prop_ro("pairs_held", [](const Sites& self) { return self.pairs(); })
        .def("update", &update, "levels"_a, "prior"_a, "means"_a, "damping"_a, "clip"_a,
             "side_mean"_a, "side_variance"_a, "own"_a.none() = nb::none(),
             "workers"_a.none() = nb::none())
        .def("type_counts", &type_counts, "prior"_a)
        .def("posteriors", &posteriors, "prior"_a, "begin"_a, "end"_a, "own"_a.none() = nb::none())
        .def("marginals", &marginals, "prior"_a, "begin"_a, "end"_a, "chosen"_a,
             "own"_a.none() = nb::none())
        .def("quantiles", &quantiles, "points"_a, "masses"_a, "levels"_a, "atom"_a)
        .def("refine", &refine)
        .def("pair_sums", &pair_sums)
        .def("system", &system_of, "shared"_a, "pair_effect"_a = 0.0)
        .def("pair_posteriors", &pair_posteriors, "means"_a)
        .def("set_pair_variances", &set_pair_variances, "variances"_a.none() = nb::none(),
             "shared"_a.none() = nb::none())
        .def("propagate", &propagate, "precision"_a, "settled"_a, "fresh"_a, "last"_a)
        .def(
            "transform",
            [](Sites& self, double scale, bool flip, bool clip, bool grids) {
                if (!(scale > 0.0) || !std::isfinite(scale))
                    throw std::invalid_argument("a scale is above 0");
                self.core->run([&] { self.sites.transform({scale, flip, clip, grids}); });
            },
            "scale"_a, "flip"_a, "clip"_a, "grids"_a)
        .def("copy",
             [](const Sites& self) {
                 return self.core->run([&] { return std::make_shared<Sites>(self); });
             })
        .def("suspend", [](Sites& self) { self.core->run([&] { self.sites.suspend(); }); })
        .def("vote_sites", &vote_sites)
        .def("set_vote_sites", &set_vote_sites, "tau"_a, "nu"_a, "side_tau"_a, "side_nu"_a, "low"_a,
             "high"_a, "half"_a)
        .def("pair_likelihood", &likelihood_of, "differences"_a, "variances"_a, "reliability"_a,
             "width"_a, "side"_a, "side_variance"_a);
    core.def("sites", &new_sites, "widths"_a, "side_only"_a, "side_only_widths"_a, "sides"_a,
             "n_gold"_a, "variance"_a)
        .def(
            "set_shared",
            [](Core& self, In<std::uint32_t> low, In<std::uint32_t> high, In<bool> owner) {
                require(high, low.shape(0), "high");
                require(owner, low.shape(0), "owner");
                if (self.sited)
                    throw std::invalid_argument("shared pairs are set before there are sites");
                self.run([&] {
                    self.shared = SharedPairs(self.graph().pairs, self.votes.n_items, low.shape(0),
                                              low.data(), high.data(), owner.data());
                });
            },
            "low"_a, "high"_a, "owner"_a)
        .def(
            "correlate",
            [](Core& self, bool centred, In<double> v) {
                self.require_items(v, "v");
                return over_items(self, [&](double* out) {
                    VoteCorrelations(self.votes, centred)
                        .multiply(self.pool, self.sums, v.data(), out);
                });
            },
            "centred"_a, "v"_a)
        .def(
            "correlation_degrees",
            [](Core& self, bool centred) {
                return over_items(
                    self, [&](double* out) { VoteCorrelations(self.votes, centred).degrees(out); });
            },
            "centred"_a);
}
