// The Python face of GridSites and HabitSites: checks shapes, releases the GIL, calls a pass.
#pragma once

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>

#include "arrays.hpp"
#include "crowdsift/grid.hpp"
#include "crowdsift/habits.hpp"

// What a pass needs beside the sites; owned by the core, which outlives them.
struct SiteWorld {
    const crowdsift::Votes& votes;
    const crowdsift::Pairs& pairs;
    crowdsift::Laplacian& laplacian;
    crowdsift::ThreadPool& pool;
    std::unique_ptr<crowdsift::SparseInverse>& inverse;  // made when first asked for
    std::shared_ptr<crowdsift::SiteBasis> basis;
    std::size_t known;
};

// What does not depend on the kind of types.
template <class Sites>
class SitesBinding {
public:
    template <class... Shape>
    explicit SitesBinding(const SiteWorld& world, Shape... shape)
        : k_(world.votes.n_items), m_(world.votes.n_workers), n_pairs_(world.pairs.size()),
          crowd_(m_ - world.known), pairs_(world.pairs), inverse_(world.inverse),
          sites_(world.votes, world.pairs, world.laplacian, world.pool, world.basis, shape...,
                 world.known) {}

    void reset(double variance) {
        sites_.reset(variance);
        half_ = 0;
    }

    void suspend() {
        sites_.suspend();
        half_ = 0;
    }

    Out<double> set_pair_effect(double variance) {
        if (!(variance >= 0.0)) throw std::invalid_argument("a variance is at least 0");
        sites_.set_pair_effect(variance);
        return refresh();
    }

    // Priors of workers' own, a row of types each, none given: the common one.
    void set_worker_priors(Matrix<double> masses) {
        const std::size_t rows = masses.shape(0), types = masses.shape(1);
        if (rows > 0 && rows != crowd_) throw std::invalid_argument("one row a worker is needed");
        crowdsift::WorkerPriors& priors = sites_.worker_priors();
        priors.types = rows > 0 ? types : 0;
        priors.masses.assign(masses.data(), masses.data() + rows * types);
    }

    // Means and variances of workers' own side habits, none given: the common ones.
    void set_worker_sides(In<double> mean, In<double> variance) {
        const std::size_t rows = mean.shape(0);
        if (rows > 0) require(mean, crowd_, "mean");
        require(variance, rows, "variance");
        std::vector<crowdsift::SidePrior>& sides = sites_.worker_priors().sides;
        sides.clear();
        for (std::size_t s = 0; s < rows; ++s) {
            if (!(variance.data()[s] > 0.0)) throw std::invalid_argument("a variance is above 0");
            sides.push_back({mean.data()[s], variance.data()[s]});
        }
    }

    Out<double> type_counts(In<double> prior) {
        require_prior(prior);
        if (sites_.worker_priors().given())
            throw std::invalid_argument("types are counted under a common prior");
        std::vector<double> counts(prior.shape(0));
        {
            nb::gil_scoped_release release;
            sites_.type_counts(prior.data(), counts.data());
        }
        return hand_over(std::move(counts));
    }

    nb::tuple posteriors(In<double> prior, std::size_t begin, std::size_t end) {
        require_prior(prior);
        if (begin > end || end > m_) throw std::invalid_argument("no such range of workers");
        const std::size_t rows = end - begin, types = prior.shape(0), width = 2 * half_ + 1;
        std::vector<double> points(rows * width), masses(rows * types);
        {
            nb::gil_scoped_release release;
            sites_.posteriors(prior.data(), begin, end, points.data(), masses.data());
        }
        return nb::make_tuple(hand_over<double, 2>(std::move(points), {rows, width}),
                              hand_over<double, 2>(std::move(masses), {rows, types}));
    }

    std::size_t refine() {
        if (half_ == 0) throw std::invalid_argument("no update yet");
        nb::gil_scoped_release release;
        return sites_.refine();
    }

    // Diagonal of the inverse, log-determinant, whether positive definite.
    std::tuple<Out<double>, double, bool> believe(double tolerance, std::size_t most) {
        std::vector<double> variance(k_, 1.0);
        crowdsift::BeliefReport report;
        {
            nb::gil_scoped_release release;
            report = sites_.believe(tolerance, most, variance.data());
        }
        return {hand_over(std::move(variance)), report.log_determinant, report.definite};
    }

    // Whether a factorisation takes at most so many multiplications.
    bool is_sparse(double most) {
        nb::gil_scoped_release release;
        if (!inverse_ || (!inverse_->possible() && most > inverse_->most()))
            inverse_ = std::make_unique<crowdsift::SparseInverse>(pairs_, k_, most);
        return inverse_->possible() && inverse_->work() <= most;
    }

    // The same as believe(), exactly, after is_sparse() said yes.
    std::tuple<Out<double>, double, bool> factorise() {
        if (!inverse_ || !inverse_->possible()) throw std::invalid_argument("not sparse");
        std::vector<double> variance(k_, 1.0);
        double log_determinant = 0.0;
        bool definite = false;
        {
            nb::gil_scoped_release release;
            definite = sites_.factorise(*inverse_, variance.data(), &log_determinant);
        }
        return {hand_over(std::move(variance)), log_determinant, definite};
    }

    void set_pair_variances(In<float> variance) {
        require(variance, n_pairs_, "variance");
        std::copy(variance.data(), variance.data() + n_pairs_, sites_.pair_variances().begin());
    }

    std::size_t n_votes() const { return sites_.split().size(); }
    std::size_t n_pairs() const { return n_pairs_; }

    // Worker, winner, loser, kind (1: won by the first, -1: by the second, 2: tied), A and h.
    nb::tuple sites() {
        const crowdsift::SplitVotes& votes = sites_.split();
        std::vector<std::uint32_t> worker(votes.size()), winner(votes.size()), loser(votes.size());
        std::vector<std::int8_t> kind(votes.size());
        for (std::size_t s = 0; s < m_; ++s)
            std::fill(worker.begin() + static_cast<std::ptrdiff_t>(votes.start[s]),
                      worker.begin() + static_cast<std::ptrdiff_t>(votes.start[s + 1]),
                      static_cast<std::uint32_t>(s));
        for (std::size_t i = 0; i < votes.size(); ++i) {
            winner[i] = votes.winner(i);
            loser[i] = votes.loser(i);
            kind[i] = votes.kind(i);
        }
        return nb::make_tuple(hand_over(std::move(worker)), hand_over(std::move(winner)),
                              hand_over(std::move(loser)), hand_over(std::move(kind)),
                              hand_copy(sites_.precisions()),
                              hand_copy(sites_.pulls()));
    }

    void set_sites(In<float> precision, In<float> pull) {
        fill(sites_.precisions(), precision);
        fill(sites_.pulls(), pull);
    }

    // Which workers a pass moves from now on, none given: all; returns their share of the votes.
    double set_moving(In<std::uint8_t> workers) {
        if (workers.shape(0) > 0) require(workers, m_, "workers");
        sites_.moving().assign(workers.data(), workers.data() + workers.shape(0));
        const crowdsift::SplitVotes& votes = sites_.split();
        std::size_t moved = 0;
        for (std::size_t s = 0; s < workers.shape(0); ++s)
            if (workers.data()[s]) moved += votes.start[s + 1] - votes.start[s];
        return static_cast<double>(moved) / static_cast<double>(votes.size());
    }

    // The lowest and the highest of every worker's own levels; NaN where it has none.
    std::tuple<Out<double>, Out<double>> own_levels() {
        const double none = std::numeric_limits<double>::quiet_NaN();
        std::vector<double> low(m_, none), high(m_, none);
        for (std::size_t s = 0; s < crowd_; ++s) {
            if (half_ == 0 || !sites_.own_levels().has(s)) continue;
            low[s] = sites_.own_levels().of(s)[0];
            high[s] = sites_.own_levels().of(s)[half_ - 1];
        }
        return {hand_over(std::move(low)), hand_over(std::move(high))};
    }

    void set_own_levels(std::size_t worker, In<double> levels) {
        if (worker >= crowd_) throw std::invalid_argument("no such worker");
        const std::size_t length = sites_.own_levels().length();
        if (levels.shape(0) < 2 || (length > 0 && levels.shape(0) != length))
            throw std::invalid_argument("own levels of another number than those before");
        sites_.own_levels().set(
            worker, std::vector<double>(levels.data(), levels.data() + levels.shape(0)));
    }

    Out<float> pair_variances() { return hand_copy(sites_.pair_variances()); }

    Out<double> refresh() {
        std::vector<double> rhs(k_);
        {
            nb::gil_scoped_release release;
            sites_.refresh(rhs.data());
        }
        return hand_over(std::move(rhs));
    }

    Out<double> flip() {
        sites_.flip();
        return refresh();
    }

    Out<double> drop_negative() {
        sites_.drop_negative();
        return refresh();
    }

    void rescale(double factor) { sites_.rescale(factor); }

    Out<double> hold_scale(double factor, In<double> rhs) {
        require(rhs, k_, "rhs");
        std::vector<double> held(rhs.data(), rhs.data() + k_);
        {
            nb::gil_scoped_release release;
            sites_.hold_scale(factor, held.data());
        }
        return hand_over(std::move(held));
    }

    Out<double> correlate(bool centred, In<double> x) {
        require(x, k_, "x");
        std::vector<double> out(k_);
        {
            nb::gil_scoped_release release;
            sites_.correlate(centred, x.data(), out.data());
        }
        return hand_over(std::move(out));
    }

    Out<double> correlation_degrees(bool centred) {
        std::vector<double> out(k_);
        sites_.correlation_degrees(centred, out.data());
        return hand_over(std::move(out));
    }

    // Posterior mean and variance of the pairs, the derivative of the evidence in the effect.
    std::tuple<Out<double>, Out<double>, double> pair_posteriors(In<double> means) {
        require(means, k_, "means");
        require_variances();
        std::vector<double> mean(n_pairs_), variance(n_pairs_);
        const double slope = sites_.pair_posteriors(means.data(), mean.data(), variance.data());
        return {hand_over(std::move(mean)), hand_over(std::move(variance)), slope};
    }

    double pair_likelihood(In<double> differences, In<double> variances,
                           Matrix<double> reliability, Matrix<double> width, Matrix<double> side,
                           Matrix<double> side_variance) {
        require(differences, n_pairs_, "differences");
        require(variances, n_pairs_, "variances");
        const std::size_t count = reliability.shape(1);
        for (const auto& points : {reliability, width, side, side_variance})
            if (points.shape(0) != m_ || points.shape(1) != count)
                throw std::invalid_argument("points need one row a worker");
        nb::gil_scoped_release release;
        return sites_.pair_likelihood(
            crowd_, differences.data(), variances.data(),
            {reliability.data(), width.data(), side.data(), side_variance.data(), count});
    }

protected:
    static void fill(crowdsift::Array<float>& values, const In<float>& given) {
        require(given, values.size(), "sites");
        std::copy(given.data(), given.data() + values.size(), values.begin());
    }

    void require_prior(const In<double>& prior) {
        if (half_ == 0) throw std::invalid_argument("no update yet");
        require(prior, sites_.n_types(), "prior");
        const crowdsift::WorkerPriors& own = sites_.worker_priors();
        if (own.given()) require(prior, own.types, "prior");
    }

    // The checks before an update; the prior's length is for the caller.
    void prepare(const In<double>& levels, const In<double>& prior, const In<double>& means) {
        const crowdsift::WorkerPriors& own = sites_.worker_priors();
        if (own.given()) require(prior, own.types, "prior");
        if (levels.shape(0) < 2) throw std::invalid_argument("at least two levels are needed");
        half_ = levels.shape(0);
        if (sites_.own_levels().length() > 0 && sites_.own_levels().length() != half_)
            throw std::invalid_argument("workers have own levels of another number");
        require(means, k_, "means");
        require_variances();
    }

    void require_variances() const {
        if (sites_.suspended()) throw std::invalid_argument("suspended, without variances");
    }

    std::size_t k_, m_, n_pairs_, crowd_, half_ = 0;
    const crowdsift::Pairs& pairs_;
    std::unique_ptr<crowdsift::SparseInverse>& inverse_;
    Sites sites_;
};

class GridBinding : public SitesBinding<crowdsift::GridSites> {
public:
    explicit GridBinding(const SiteWorld& world) : SitesBinding(world) {}

    // A copy of the sites as they stand, over the same Laplacian.
    std::unique_ptr<GridBinding> copy() const { return std::make_unique<GridBinding>(*this); }

    // Counts of types, sums of log messages, of log site normalisers and of the pairs' evidence,
    // right-hand side, and by how much known workers are likelier right than reversed.
    std::tuple<Out<double>, double, double, double, Out<double>, double> update(
        In<double> levels, In<double> prior, In<double> means, double damping, bool clip) {
        prepare(levels, prior, means);
        require(prior, 2 * half_ + 1, "prior");
        std::vector<double> counts(prior.shape(0)), rhs(k_);
        crowdsift::SiteSums sums;
        {
            nb::gil_scoped_release release;
            sums = sites_.update(half_, levels.data(), prior.data(), means.data(), damping, clip,
                                 counts.data(), rhs.data());
        }
        return {hand_over(std::move(counts)), sums.log_messages, sums.log_sites, sums.log_pairs,
                hand_over(std::move(rhs)), sums.known_margin};
    }
};

class HabitBinding : public SitesBinding<crowdsift::HabitSites> {
public:
    HabitBinding(const SiteWorld& world, crowdsift::HabitShape shape)
        : SitesBinding(world, shape), shape_(std::move(shape)) {}

    std::unique_ptr<HabitBinding> copy() const { return std::make_unique<HabitBinding>(*this); }

    // As for GridBinding, and the sums over side habits.
    nb::tuple update(In<double> levels, In<double> prior, In<double> means, double damping,
                     bool clip, double side_mean, double side_variance) {
        prepare(levels, prior, means);
        if (!(side_variance > 0.0)) throw std::invalid_argument("a variance is above 0");
        require(prior, shape_.widths.size() * (2 * half_ + 1) + shape_.pure_sides.size(), "prior");
        std::vector<double> counts(prior.shape(0)), rhs(k_);
        crowdsift::SiteSums sums;
        crowdsift::SideSums sides;
        {
            nb::gil_scoped_release release;
            sums = sites_.update(half_, levels.data(), prior.data(), means.data(), damping, clip,
                                 {side_mean, side_variance}, counts.data(), rhs.data(), sides);
        }
        return nb::make_tuple(hand_over(std::move(counts)), sums.log_messages, sums.log_sites,
                              sums.log_pairs, hand_over(std::move(rhs)), sums.known_margin, sides.count, sides.first,
                              sides.second);
    }

    std::tuple<Out<float>, Out<float>> side_sites() {
        return {hand_copy(sites_.side_precisions()),
                hand_copy(sites_.side_pulls())};
    }

    void set_side_sites(In<float> precision, In<float> pull) {
        fill(sites_.side_precisions(), precision);
        fill(sites_.side_pulls(), pull);
    }

    // Mean and variance of every worker's side habit.
    std::tuple<Out<double>, Out<double>> sides() {
        return {hand_over(std::vector<double>(sites_.side_means())),
                hand_over(std::vector<double>(sites_.side_variances()))};
    }

private:
    crowdsift::HabitShape shape_;
};

template <class Binding>
nb::class_<Binding> bind_sites(nb::module_& m, const char* name) {
    using namespace nb::literals;
    return nb::class_<Binding>(m, name)
        .def("reset", &Binding::reset, "variance"_a)
        .def("copy", &Binding::copy, nb::keep_alive<0, 1>())
        .def("set_pair_effect", &Binding::set_pair_effect, "variance"_a)
        .def("set_worker_priors", &Binding::set_worker_priors, "masses"_a)
        .def("set_worker_sides", &Binding::set_worker_sides, "mean"_a, "variance"_a)
        .def("type_counts", &Binding::type_counts, "prior"_a)
        .def("posteriors", &Binding::posteriors, "prior"_a, "begin"_a, "end"_a)
        .def("refine", &Binding::refine)
        .def("believe", &Binding::believe, "tolerance"_a, "most"_a)
        .def("is_sparse", &Binding::is_sparse, "most"_a)
        .def("factorise", &Binding::factorise)
        .def("set_pair_variances", &Binding::set_pair_variances, "variance"_a)
        .def("pair_variances", &Binding::pair_variances)
        .def("suspend", &Binding::suspend)
        .def("n_votes", &Binding::n_votes)
        .def("n_pairs", &Binding::n_pairs)
        .def("sites", &Binding::sites)
        .def("set_sites", &Binding::set_sites, "precision"_a, "pull"_a)
        .def("set_moving", &Binding::set_moving, "workers"_a)
        .def("own_levels", &Binding::own_levels)
        .def("set_own_levels", &Binding::set_own_levels, "worker"_a, "levels"_a)
        .def("refresh", &Binding::refresh)
        .def("flip", &Binding::flip)
        .def("drop_negative", &Binding::drop_negative)
        .def("rescale", &Binding::rescale, "factor"_a)
        .def("hold_scale", &Binding::hold_scale, "factor"_a, "rhs"_a)
        .def("correlate", &Binding::correlate, "centred"_a, "x"_a)
        .def("correlation_degrees", &Binding::correlation_degrees, "centred"_a)
        .def("pair_posteriors", &Binding::pair_posteriors, "means"_a)
        .def("pair_likelihood", &Binding::pair_likelihood, "differences"_a, "variances"_a,
             "reliability"_a, "width"_a, "side"_a, "side_variance"_a);
}

inline void bind_grid(nb::module_& m) {
    using namespace nb::literals;
    bind_sites<GridBinding>(m, "GridSites")
        .def("update", &GridBinding::update, "levels"_a, "prior"_a, "means"_a, "damping"_a,
             "clip"_a);
    bind_sites<HabitBinding>(m, "HabitSites")
        .def("update", &HabitBinding::update, "levels"_a, "prior"_a, "means"_a, "damping"_a,
             "clip"_a, "side_mean"_a, "side_variance"_a)
        .def("side_sites", &HabitBinding::side_sites)
        .def("set_side_sites", &HabitBinding::set_side_sites, "precision"_a, "pull"_a)
        .def("sides", &HabitBinding::sides);
}
