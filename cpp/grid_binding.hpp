// The Python face of GridSites: checks shapes, releases the GIL, calls a pass.
#pragma once

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <tuple>

#include "arrays.hpp"
#include "crowdsift/grid.hpp"

class GridBinding {
public:
    GridBinding(const crowdsift::Votes& votes, const crowdsift::Pairs& pairs,
                crowdsift::Laplacian& laplacian, crowdsift::ThreadPool& pool,
                std::unique_ptr<crowdsift::SparseInverse>& inverse)
        : k_(votes.n_items), m_(votes.n_workers), n_pairs_(pairs.size()),
          pairs_(pairs), inverse_(inverse), sites_(votes, pairs, laplacian, pool) {}

    void reset(double variance) {
        sites_.reset(variance);
        half_ = 0;
    }

    // A copy of the sites as they stand, over the same Laplacian.
    std::unique_ptr<GridBinding> copy() const { return std::make_unique<GridBinding>(*this); }

    Out<double> set_pair_effect(double variance) {
        if (!(variance >= 0.0)) throw std::invalid_argument("a variance is at least 0");
        sites_.set_pair_effect(variance);
        return refresh();
    }

    // Counts of types, sums of log messages, of log site normalisers and of the pairs' evidence,
    // right-hand side.
    std::tuple<Out<double>, double, double, double, Out<double>> update(
        In<double> levels, In<double> prior, In<double> means, double damping, bool clip) {
        if (levels.shape(0) < 2) throw std::invalid_argument("at least two levels are needed");
        half_ = levels.shape(0);
        require_prior(prior);
        require(means, k_, "means");
        std::vector<double> counts(prior.shape(0)), rhs(k_);
        crowdsift::SiteSums sums;
        {
            nb::gil_scoped_release release;
            sums = sites_.update(half_, levels.data(), prior.data(), means.data(), damping, clip,
                                 counts.data(), rhs.data());
        }
        return {hand_over(std::move(counts)), sums.log_messages, sums.log_sites, sums.log_pairs,
                hand_over(std::move(rhs))};
    }

    Out<double> type_counts(In<double> prior) {
        require_prior(prior);
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
        const std::size_t rows = end - begin, types = prior.shape(0);
        std::vector<double> points(rows * types), masses(rows * types);
        {
            nb::gil_scoped_release release;
            sites_.posteriors(prior.data(), begin, end, points.data(), masses.data());
        }
        return nb::make_tuple(hand_over<double, 2>(std::move(points), {rows, types}),
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

    Out<float> pair_variances() { return hand_over(std::vector<float>(sites_.pair_variances())); }

    Out<double> refresh() {
        std::vector<double> rhs(k_);
        {
            nb::gil_scoped_release release;
            sites_.refresh(rhs.data());
        }
        return hand_over(std::move(rhs));
    }

    Out<double> drop_negative() {
        sites_.drop_negative();
        return refresh();
    }

    void rescale(double factor, bool levels) { sites_.rescale(factor, levels); }

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

    double mixture_likelihood(In<double> scores, In<double> variances, Matrix<double> points) {
        require(scores, k_, "scores");
        require(variances, k_, "variances");
        if (points.shape(0) != m_) throw std::invalid_argument("points need one row a worker");
        nb::gil_scoped_release release;
        return sites_.mixture_likelihood(scores.data(), variances.data(), points.data(),
                                         points.shape(1));
    }

    // Posterior mean and variance of the pairs, the derivative of the evidence in the effect.
    std::tuple<Out<double>, Out<double>, double> pair_posteriors(In<double> means) {
        require(means, k_, "means");
        std::vector<double> mean(n_pairs_), variance(n_pairs_);
        const double slope = sites_.pair_posteriors(means.data(), mean.data(), variance.data());
        return {hand_over(std::move(mean)), hand_over(std::move(variance)), slope};
    }

    double pair_likelihood(In<double> differences, In<double> variances, Matrix<double> points) {
        require(differences, n_pairs_, "differences");
        require(variances, n_pairs_, "variances");
        if (points.shape(0) != m_) throw std::invalid_argument("points need one row a worker");
        nb::gil_scoped_release release;
        return sites_.pair_likelihood(differences.data(), variances.data(), points.data(),
                                      points.shape(1));
    }

private:
    void require_prior(const In<double>& prior) const {
        if (half_ == 0) throw std::invalid_argument("no update yet");
        require(prior, 2 * half_ + 1, "prior");
    }

    std::size_t k_, m_, n_pairs_, half_ = 0;
    const crowdsift::Pairs& pairs_;
    std::unique_ptr<crowdsift::SparseInverse>& inverse_;  // shared, made when first asked for
    crowdsift::GridSites sites_;
};

inline void bind_grid(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<GridBinding>(m, "GridSites")
        .def("reset", &GridBinding::reset, "variance"_a)
        .def("copy", &GridBinding::copy, nb::keep_alive<0, 1>())
        .def("set_pair_effect", &GridBinding::set_pair_effect, "variance"_a)
        .def("update", &GridBinding::update, "levels"_a, "prior"_a, "means"_a, "damping"_a,
             "clip"_a)
        .def("type_counts", &GridBinding::type_counts, "prior"_a)
        .def("posteriors", &GridBinding::posteriors, "prior"_a, "begin"_a, "end"_a)
        .def("refine", &GridBinding::refine)
        .def("believe", &GridBinding::believe, "tolerance"_a, "most"_a)
        .def("is_sparse", &GridBinding::is_sparse, "most"_a)
        .def("factorise", &GridBinding::factorise)
        .def("set_pair_variances", &GridBinding::set_pair_variances, "variance"_a)
        .def("pair_variances", &GridBinding::pair_variances)
        .def("refresh", &GridBinding::refresh)
        .def("drop_negative", &GridBinding::drop_negative)
        .def("rescale", &GridBinding::rescale, "factor"_a, "levels"_a)
        .def("correlate", &GridBinding::correlate, "centred"_a, "x"_a)
        .def("correlation_degrees", &GridBinding::correlation_degrees, "centred"_a)
        .def("mixture_likelihood", &GridBinding::mixture_likelihood, "scores"_a, "variances"_a,
             "points"_a)
        .def("pair_posteriors", &GridBinding::pair_posteriors, "means"_a)
        .def("pair_likelihood", &GridBinding::pair_likelihood, "differences"_a, "variances"_a,
             "points"_a);
}
