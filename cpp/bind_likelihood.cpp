// Likelihoods with parameters of workers, and their second derivatives as operators.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "core.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

// The entries of A and B from one pass; the arrays are reused by the next one.
struct Schur {
    CorePointer core;
    SchurEntries entries;

    explicit Schur(CorePointer kept) : core(std::move(kept)) {
        entries.a = core->entries_a.take(core->votes.n);
    }
    ~Schur() {
        core->entries_a.give(std::move(entries.a));
        core->entries_b.give(std::move(entries.b));
    }
    Schur(const Schur&) = delete;
    Schur& operator=(const Schur&) = delete;
};

// A - B inverse B'.
struct Reduced {
    std::shared_ptr<Schur> schur;
    Blocks<double> inverse;
};

template <class Task>
nb::object with_likelihood(const std::string& name, const Task& task) {
    if (name == "scaled-logit") return task(ScaledLogit{});
    if (name == "scaled-probit") return task(ScaledProbit{});
    if (name == "shifted-logit") return task(ShiftedLogit{});
    if (name == "flipped-logit") return task(FlippedLogit{});
    if (name == "led-logit") return task(LedLogit{});
    throw std::invalid_argument("unknown likelihood " + name);
}

// The number of parameters per worker.
template <class Likelihood>
std::size_t require_theta(const Core& core, const Matrix<double>& theta) {
    const std::size_t p = Likelihood::parameters(core.likelihood->features());
    require(theta, core.votes.n_workers, p, "theta");
    return p;
}

// Log-likelihood, gradient in items and in workers, blocks of workers, the Schur complement.
nb::object derivatives(CorePointer core, const std::string& likelihood, In<double> scores,
                       Matrix<double> theta) {
    core->require_items(scores, "scores");
    return with_likelihood(likelihood, [&](auto kind) -> nb::object {
        using Likelihood = decltype(kind);
        const std::size_t p = require_theta<Likelihood>(*core, theta), m = core->votes.n_workers;
        auto kept = std::make_shared<Schur>(core);
        kept->entries.b = core->entries_b.take(core->votes.n * p);
        Vec items(core->votes.n_items), workers(m * p), blocks(m * p * p);
        const double value = core->run([&] {
            return core->likelihood->derivatives<Likelihood>(scores.data(), theta.data(),
                                                             items.data(), workers.data(),
                                                             blocks.data(), kept->entries);
        });
        return nb::make_tuple(value, hand_over(std::move(items)),
                              hand_over<double, 2>(std::move(workers), {m, p}),
                              hand_over<double, 3>(std::move(blocks), {m, p, p}), kept);
    });
}

// Parameters of workers at their maximum given the scores.
nb::object fit_workers(CorePointer core, const std::string& likelihood, In<double> scores,
                       Matrix<double> theta, In<double> centre, double penalty, double low,
                       double high, double tolerance) {
    core->require_items(scores, "scores");
    require_finite(scores.data(), scores.shape(0), "scores");
    require_finite(theta.data(), theta.size(), "theta");
    require_finite(centre.data(), centre.shape(0), "centre");
    if (!(penalty >= 0.0) || !(low <= high) || !(tolerance >= 0.0))
        throw std::invalid_argument("a penalty and a tolerance of at least 0 and bounds in order");
    return with_likelihood(likelihood, [&](auto kind) -> nb::object {
        using Likelihood = decltype(kind);
        const std::size_t p = require_theta<Likelihood>(*core, theta);
        require(centre, p, "centre");
        Vec fitted(theta.data(), theta.data() + theta.size());
        core->run([&] {
            core->likelihood->fit_workers<Likelihood>(
                scores.data(), fitted.data(), {centre.data(), penalty, low, high, tolerance, 100});
        });
        return nb::cast(hand_over<double, 2>(std::move(fitted), {core->votes.n_workers, p}));
    });
}

Reduced reduced(std::shared_ptr<Schur> schur, Blocks<double> inverse) {
    const std::size_t m = schur->core->votes.n_workers, p = schur->entries.p;
    if (inverse.shape(0) != m || inverse.shape(1) != p || inverse.shape(2) != p)
        throw std::invalid_argument("the inverse needs a block of " + std::to_string(p) + " x " +
                                    std::to_string(p) + " for each of " + std::to_string(m) +
                                    " workers");
    return {std::move(schur), std::move(inverse)};
}

void bind_reduced(nb::module_& m) {
    nb::class_<Reduced>(m, "Reduced")
        .def(
            "multiply",
            [](const Reduced& self, In<double> v) {
                Core& core = *self.schur->core;
                core.require_items(v, "v");
                return over_items(core, [&](double* out) {
                    core.likelihood->reduced(self.schur->entries, v.data(), self.inverse.data(),
                                             out);
                });
            },
            "v"_a)
        .def("diagonal",
             [](const Reduced& self) {
                 Core& core = *self.schur->core;
                 return over_items(core, [&](double* out) {
                     core.likelihood->diagonal(self.schur->entries, out);
                 });
             })
        .def(
            "solve",
            [](const Reduced& self, In<double> rhs, In<double> start, double shift,
               double tolerance, std::size_t most) {
                Core& core = *self.schur->core;
                return solved(core, rhs, start, [&](const double* b, double* x) {
                    return core.likelihood->solve(self.schur->entries, self.inverse.data(), shift,
                                                  b, x, tolerance, most);
                });
            },
            "rhs"_a, "start"_a, "shift"_a, "tolerance"_a, "most"_a);
}

}  // namespace

void bind_likelihood(nb::module_& m, nb::class_<Core>& core) {
    bind_reduced(m);
    nb::class_<Schur>(m, "Schur")
        .def("reduced", &reduced, "inverse"_a)
        .def("laplacian", [](const Schur& self) {
            Core& of = *self.core;
            return LaplacianBinding{
                self.core, of.run([&] { return of.laplacians().laplacian_of(self.entries.a); })};
        });
    core.def("derivatives", &derivatives, "likelihood"_a, "scores"_a, "theta"_a)
        .def("fit_workers", &fit_workers, "likelihood"_a, "scores"_a, "theta"_a, "centre"_a,
             "penalty"_a, "low"_a, "high"_a, "tolerance"_a);
}
