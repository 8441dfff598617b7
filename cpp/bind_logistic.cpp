// The logistic model with a slope for every worker, and its Polya-Gamma EM.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include "core.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

// The operator S from one pass; its arrays are reused by the next one.
struct SlopeOperator {
    CorePointer core;
    SlopeHessian hessian;

    explicit SlopeOperator(CorePointer kept) : core(std::move(kept)) {
        hessian.a = core->entries_a.take(core->votes.n);
    }
    ~SlopeOperator() {
        core->entries_a.give(std::move(hessian.a));
        core->entries_b.give(std::move(hessian.b));
    }
    SlopeOperator(const SlopeOperator&) = delete;
    SlopeOperator& operator=(const SlopeOperator&) = delete;
};

// n E[omega] of every comparison, in single precision if that is accurate enough.
struct EStep {
    CorePointer core;
    bool single;
    Precisions<float> rounded;
    Precisions<double> exact;

    EStep(CorePointer kept, double resolution)
        : core(std::move(kept)), single(resolution >= kMixedResolution) {
        if (single)
            rounded = core->rounded_precisions.take(core->votes.n);
        else
            exact = core->exact_precisions.take(core->votes.n);
    }
    ~EStep() {
        core->rounded_precisions.give(std::move(rounded));
        core->exact_precisions.give(std::move(exact));
    }
    EStep(const EStep&) = delete;
    EStep& operator=(const EStep&) = delete;
};

void check(const Core& core, const In<double>& scores, const In<double>& slopes) {
    core.require_items(scores, "scores");
    core.require_workers(slopes, "slopes");
}

nb::tuple common_slope(CorePointer core, In<double> scores, double slope, double resolution) {
    core->require_items(scores, "scores");
    auto kept = std::make_shared<SlopeOperator>(core);
    Vec gradient(core->votes.n_items);
    const double value = core->run([&] {
        return core->slopes().common(scores.data(), slope, resolution, gradient.data(),
                                     kept->hessian);
    });
    return nb::make_tuple(value, hand_over(std::move(gradient)), kept);
}

// The same with every worker's slope at its optimum; then the slopes and their curvatures.
nb::tuple own_slopes(CorePointer core, In<double> scores, In<double> start, double mean,
                     double precision, double last_step, double resolution) {
    check(*core, scores, start);
    if (!(precision > 0.0)) throw std::invalid_argument("precision must be above 0");
    auto kept = std::make_shared<SlopeOperator>(core);
    kept->hessian.b = core->entries_b.take(core->votes.n);
    Vec gradient(core->votes.n_items), curvature(core->votes.n_workers);
    Vec fitted(start.data(), start.data() + start.shape(0));
    const double value = core->run([&] {
        return core->slopes().own(scores.data(), {mean, precision, last_step}, resolution,
                                  fitted.data(), gradient.data(), curvature.data(), kept->hessian);
    });
    return nb::make_tuple(value, hand_over(std::move(gradient)), hand_over(std::move(fitted)),
                          hand_over(std::move(curvature)), kept);
}

nb::tuple curvature(CorePointer core, In<double> scores, In<double> slopes) {
    check(*core, scores, slopes);
    Vec gradient(core->votes.n_items), information(core->votes.n_workers);
    double value = 0.0;
    LaplacianBinding laplacian{core, core->run([&] {
                                   return core->laplacians().curvature(scores.data(), slopes.data(),
                                                                       value, gradient.data(),
                                                                       information.data());
                               })};
    return nb::make_tuple(value, hand_over(std::move(gradient)), hand_over(std::move(information)),
                          std::move(laplacian));
}

// The E-step, log-likelihood, sum of n E[omega], Laplacian and right-hand side.
nb::tuple e_step(CorePointer core, In<double> scores, In<double> slopes, double resolution) {
    check(*core, scores, slopes);
    auto kept = std::make_shared<EStep>(core, resolution);
    double value = 0.0, total = 0.0;
    const auto pass = [&](auto& precision) {
        return core->laplacians().e_step(scores.data(), slopes.data(), precision, value, total);
    };
    ItemSystem system =
        core->run([&] { return kept->single ? pass(kept->rounded) : pass(kept->exact); });
    return nb::make_tuple(kept, value, total, LaplacianBinding{core, std::move(system.laplacian)},
                          hand_over(std::move(system.rhs)));
}

nb::tuple regress(const EStep& self, In<double> scores, double ridge) {
    Core& core = *self.core;
    core.require_items(scores, "scores");
    Vec slopes(core.votes.n_workers);
    const auto pass = [&](const auto& precision) {
        return core.laplacians().regress(precision, scores.data(), ridge, slopes.data());
    };
    ItemSystem system =
        core.run([&] { return self.single ? pass(self.rounded) : pass(self.exact); });
    return nb::make_tuple(hand_over(std::move(slopes)),
                          LaplacianBinding{self.core, std::move(system.laplacian)},
                          hand_over(std::move(system.rhs)));
}

void bind_slope_operator(nb::module_& m) {
    nb::class_<SlopeOperator>(m, "SlopeHessian")
        .def(
            "multiply",
            [](const SlopeOperator& self, In<double> v, double shift) {
                Core& core = *self.core;
                core.require_items(v, "v");
                return over_items(core, [&](double* out) {
                    core.slopes().multiply(self.hessian, shift, v.data(), out);
                });
            },
            "v"_a, "shift"_a = 0.0)
        .def("diagonal",
             [](const SlopeOperator& self) {
                 return over_items(*self.core, [&](double* out) {
                     self.core->slopes().diagonal(self.hessian, out);
                 });
             })
        .def(
            "solve",
            [](const SlopeOperator& self, In<double> rhs, In<double> start, double shift,
               double tolerance, std::size_t most) {
                return solved(*self.core, rhs, start, [&](const double* b, double* x) {
                    return self.core->slopes().solve(self.hessian, shift, b, x, tolerance, most);
                });
            },
            "rhs"_a, "start"_a, "shift"_a, "tolerance"_a, "most"_a);
}

}  // namespace

void bind_logistic(nb::module_& m, nb::class_<Core>& core) {
    bind_slope_operator(m);
    nb::class_<EStep>(m, "EStep").def("regress", &regress, "scores"_a, "ridge"_a);
    core.def(
            "log_likelihood",
            [](Core& self, In<double> scores, In<double> slopes) {
                check(self, scores, slopes);
                return self.run([&] {
                    return log_likelihood(self.votes, self.pool, scores.data(), slopes.data());
                });
            },
            "scores"_a, "slopes"_a)
        .def("common_slope", &common_slope, "scores"_a, "slope"_a, "resolution"_a)
        .def("own_slopes", &own_slopes, "scores"_a, "start"_a, "mean"_a, "precision"_a,
             "last_step"_a, "resolution"_a)
        .def("curvature", &curvature, "scores"_a, "slopes"_a)
        .def("e_step", &e_step, "scores"_a, "slopes"_a, "resolution"_a);
}
