// The Python module: the votes of an engine, tallies of them, and Laplacians over their pairs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "core.hpp"
#include "crowdsift/row_solve.hpp"
#include "crowdsift/tally.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

nb::tuple tally_of(Core& core, const In<double>& rank) {
    core.require_items(rank, "rank");
    Tally found = core.run([&] { return tally(core.votes, core.pool, rank.data()); });
    return nb::make_tuple(hand_over(std::move(found.agreed)), hand_over(std::move(found.ranked)),
                          hand_over(std::move(found.decided)), hand_over(std::move(found.leaning)),
                          hand_over(std::move(found.loads)),
                          hand_over(std::move(found.appearances)),
                          hand_over(std::move(found.wins)));
}

// The pairs as (low, high, weight): the entries off the diagonal.
nb::tuple pairs_of(const LaplacianBinding& self) {
    const Pairs& pairs = self.laplacian->pairs();
    std::vector<std::uint32_t> low(pairs.size());
    pairs.each([&](std::size_t p, std::uint32_t j, std::uint32_t) { low[p] = j; });
    return nb::make_tuple(hand_over(std::move(low)), hand_copy(pairs.high),
                          hand_copy(self.laplacian->weights()));
}

// Solves for many right-hand sides, one per row.
nb::ndarray<nb::numpy, float, nb::ndim<2>> solve_rows(const LaplacianBinding& self,
                                                      Matrix<float> rhs, Matrix<float> start,
                                                      double shift, double tolerance,
                                                      std::size_t most) {
    const std::size_t rows = rhs.shape(0), n = self.core->votes.n_items;
    require(rhs, rows, n, "rhs");
    require(start, rows, n, "start");
    std::vector<float> x(start.data(), start.data() + rows * n);
    self.core->run([&] {
        RowSolver(*self.laplacian, shift, tolerance, most)
            .solve(rhs.data(), x.data(), rows, self.core->pool);
    });
    return hand_over(std::move(x), {rows, n});
}

// Squared distances of rows, one per item, for every pair.
nb::ndarray<nb::numpy, double, nb::ndim<1>> distances_of(const LaplacianBinding& self,
                                                         Matrix<float> rows) {
    require(rows, self.core->votes.n_items, rows.shape(1), "rows");
    Vec out(self.laplacian->pairs().size());
    self.core->run([&] {
        pair_distances(*self.laplacian, rows.data(), rows.shape(1), out.data(), self.core->pool);
    });
    return hand_over(std::move(out));
}

void bind_laplacian(nb::module_& m) {
    nb::class_<LaplacianBinding>(m, "Laplacian")
        .def(
            "multiply",
            [](const LaplacianBinding& self, In<double> v, double shift) {
                self.core->require_items(v, "v");
                return over_items(*self.core, [&](double* out) {
                    self.laplacian->multiply(shift, v.data(), out);
                });
            },
            "v"_a, "shift"_a = 0.0)
        .def(
            "diagonal",
            [](const LaplacianBinding& self) { return hand_over(Vec(self.laplacian->diagonal())); })
        .def("pairs", &pairs_of)
        .def(
            "solve",
            [](const LaplacianBinding& self, In<double> rhs, In<double> start, double shift,
               double tolerance, std::size_t most) {
                return solved(*self.core, rhs, start, [&](const double* b, double* x) {
                    return self.laplacian->solve(shift, b, x, tolerance, most);
                });
            },
            "rhs"_a, "start"_a, "shift"_a, "tolerance"_a, "most"_a)
        .def("pair_distances", &distances_of, "rows"_a)
        .def("solve_rows", &solve_rows, "rhs"_a, "start"_a, "shift"_a, "tolerance"_a, "most"_a);
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Kernels of crowdsift; use them through crowdsift.engines.";
    bind_rows(m);
    bind_laplacian(m);
#if defined(__linux__)
    m.def(
        "spill_to", [](const std::string& folder) { Spill::instance().set_folder(folder); },
        "folder"_a);
    m.def("evict", [] { return Spill::instance().evict(); });
#endif
    nb::class_<Core> core(m, "Core");
    core.def(nb::init<In<std::uint32_t>, In<std::uint32_t>, In<float>, In<float>, In<std::int64_t>,
                      std::optional<Matrix<float>>, std::size_t, std::size_t>(),
             "first"_a, "second"_a, "outcome"_a, "weight"_a, "offsets"_a, "features"_a.none(),
             "n_items"_a, "threads"_a)
        .def("tally", &tally_of, "rank"_a)
        .def(
            "margin_flow",
            [](Core& self, In<double> x, double prior) {
                self.require_items(x, "x");
                return over_items(self, [&](double* out) {
                    margin_flow(self.votes, self.pool, self.sums, prior, x.data(), out);
                });
            },
            "x"_a, "prior"_a);
    bind_logistic(m, core);
    bind_likelihood(m, core);
    bind_grid(m, core);
    bind_factoriser(m);
    bind_covariates(m);
    bind_dimensions(m, core);
}
