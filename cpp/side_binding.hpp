// The Python face of SidePasses: checks shapes, releases the GIL, calls a pass.
#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <tuple>
#include <utility>

#include "arrays.hpp"
#include "crowdsift/side_term.hpp"

class SideBinding {
public:
    SideBinding(const crowdsift::Votes& votes, crowdsift::LogisticPasses& logistic,
                crowdsift::ThreadPool& pool)
        : k_(votes.n_items), m_(votes.n_workers), passes_(votes, logistic, pool) {}

    std::pair<double, double> expect(In<double> scores, In<double> slopes, In<double> sides) {
        require(scores, k_, "scores");
        const crowdsift::SideParameters at = parameters(slopes, sides);
        nb::gil_scoped_release release;
        return passes_.expect(scores.data(), at);
    }

    Out<double> item_system(In<double> slopes, In<double> sides) {
        const crowdsift::SideParameters at = parameters(slopes, sides);
        std::vector<double> rhs(k_);
        {
            nb::gil_scoped_release release;
            passes_.item_system(at, rhs.data());
        }
        return hand_over(std::move(rhs));
    }

    // Slopes, sides, right-hand side.
    std::tuple<Out<double>, Out<double>, Out<double>> regress_workers(In<double> scores,
                                                                      double ridge,
                                                                      double side_ridge) {
        require(scores, k_, "scores");
        std::vector<double> slopes(m_), sides(m_), rhs(k_);
        {
            nb::gil_scoped_release release;
            passes_.regress_workers(scores.data(), ridge, side_ridge, slopes.data(), sides.data(),
                                    rhs.data());
        }
        return {hand_over(std::move(slopes)), hand_over(std::move(sides)),
                hand_over(std::move(rhs))};
    }

    // Log-likelihood, gradients in items and workers, blocks of workers.
    nb::tuple derivatives(In<double> scores, In<double> slopes, In<double> sides) {
        require(scores, k_, "scores");
        const crowdsift::SideParameters at = parameters(slopes, sides);
        std::vector<double> items(k_), workers(2 * m_), blocks(3 * m_);
        double value = 0.0;
        {
            nb::gil_scoped_release release;
            value = passes_.derivatives(scores.data(), at, items.data(), workers.data(),
                                        blocks.data());
        }
        return nb::make_tuple(value, hand_over(std::move(items)),
                              hand_over<double, 2>(std::move(workers), {m_, 2}),
                              hand_over<double, 2>(std::move(blocks), {m_, 3}));
    }

private:
    crowdsift::SideParameters parameters(const In<double>& slopes, const In<double>& sides) const {
        require(slopes, m_, "slopes");
        require(sides, m_, "sides");
        return {slopes.data(), sides.data()};
    }

    const std::size_t k_, m_;
    crowdsift::SidePasses passes_;
};

inline void bind_sides(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<SideBinding>(m, "SidePasses")
        .def("expect", &SideBinding::expect, "scores"_a, "slopes"_a, "sides"_a)
        .def("item_system", &SideBinding::item_system, "slopes"_a, "sides"_a)
        .def("regress_workers", &SideBinding::regress_workers, "scores"_a, "ridge"_a,
             "side_ridge"_a)
        .def("derivatives", &SideBinding::derivatives, "scores"_a, "slopes"_a, "sides"_a);
}
