// Votes in several dimensions: passes over workers, and the matrices that they return.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>

#include "core.hpp"
#include "crowdsift/dimensions.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

using Anything = nb::ndarray<const double, nb::numpy, nb::c_contig, nb::device::cpu>;

// Checks and returns the arguments of a pass.
Space space_of(Core& core, const Matrix<double>& x, const Anything& covariance, std::size_t weights,
               std::size_t n_gold, const In<double>& width, bool ties, int part) {
    const std::size_t K = core.votes.n_items, D = x.shape(1);
    require(x, K, D, "positions");
    core.require_workers(width, "width");
    if (D < 1 || D > kMostDimensions || weights < D || weights > D + 1)
        throw std::invalid_argument("1 to 8 dimensions, and one side at most");
    const bool dense = covariance.ndim() == 2;
    const std::size_t size = dense ? K * D * K * D : K * D * D;
    if (covariance.size() != size || (!dense && covariance.ndim() != 3))
        throw std::invalid_argument("the covariance is one matrix, or a block per item");
    if (part < 0 || part > 2) throw std::invalid_argument("part is 0, 1 or 2");
    return {core.votes, D,
            weights,    std::min(n_gold, core.votes.n_workers),
            x.data(),   covariance.data(),
            dense,      width.data(),
            ties,       static_cast<Part>(part)};
}

struct CrowdArrays {
    In<double> mean;
    Matrix<double> precision;
    In<double> log_shares;
    double one_sided, gold;

    Crowd checked(std::size_t E) const {
        require(mean, E, "mean");
        require(precision, E, E, "precision");
        require(log_shares, kClasses, "shares");
        return {mean.data(), precision.data(), log_shares.data(), one_sided, gold};
    }
};

void require_moments(const Core& core, const Matrix<double>& mean, const Blocks<double>* second) {
    const std::size_t S = core.votes.n_workers, E = mean.shape(1);
    require(mean, S, E, "weights");
    if (second != nullptr &&
        (second->shape(0) != S || second->shape(1) != E || second->shape(2) != E))
        throw std::invalid_argument("second moments are workers x weights x weights");
}

// The matrix over items that a pass returns.
struct BlocksBinding {
    std::shared_ptr<Core> core;
    std::size_t D, E;
    Vec second;
    std::vector<float> w;

    ItemBlocks blocks() const { return {core->votes, D, E, second.data(), w.data()}; }

    nb::ndarray<nb::numpy, double, nb::ndim<2>> multiply(Matrix<double> v) const {
        const std::size_t K = core->votes.n_items;
        require(v, K, D, "v");
        Vec out(K * D);
        core->run([&] { blocks().multiply(v.data(), out.data(), core->pool); });
        return hand_over<double, 2>(std::move(out), {K, D});
    }

    nb::ndarray<nb::numpy, double, nb::ndim<3>> diagonal() const {
        const std::size_t K = core->votes.n_items;
        Vec out(K * D * D);
        core->run([&] { blocks().diagonal(out.data(), core->pool); });
        return hand_over<double, 3>(std::move(out), {K, D, D});
    }

    // Blocks of distinct pairs: lower item, higher item, D x D weights.
    nb::tuple pairs() const {
        std::vector<std::uint32_t> low, high;
        Vec out;
        core->run([&] {
            const Pairs& pairs = core->graph().pairs;
            const Votes& votes = core->votes;
            low.resize(pairs.size());
            high.assign(pairs.high.begin(), pairs.high.end());
            out.assign(pairs.size() * D * D, 0.0);
            std::vector<std::uint32_t> pair(votes.n);
            pairs.each([&](std::size_t p, std::uint32_t j, std::uint32_t) {
                low[p] = j;
                for (std::size_t k = pairs.start[p]; k < pairs.start[p + 1]; ++k)
                    pair[pairs.comparison[k]] = static_cast<std::uint32_t>(p);
            });
            const ItemBlocks mine = blocks();
            for (std::size_t s = 0; s < votes.n_workers; ++s)
                for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i)
                    mine.add(i, s, out.data() + pair[i] * D * D);
        });
        const std::size_t shape[3] = {low.size(), D, D};
        return nb::make_tuple(hand_over(std::move(low)), hand_over(std::move(high)),
                              hand_over<double, 3>(std::move(out), shape));
    }
};

// Residuals of votes; their products show what workers have in common.
struct ResidualsBinding {
    std::shared_ptr<Core> core;
    std::vector<float> r;

    Space space() const {
        return {core->votes, 0, 0, 0, nullptr, nullptr, false, nullptr, false, Part::all};
    }

    nb::ndarray<nb::numpy, double, nb::ndim<2>> multiply(Matrix<double> v) const {
        const std::size_t K = core->votes.n_items, columns = v.shape(1);
        require(v, K, columns, "v");
        if (columns == 0 || columns > kMostColumns) throw std::invalid_argument("1 to 32 columns");
        Vec out(K * columns);
        core->run([&] {
            multiply_residuals(space(), r.data(), v.data(), columns, out.data(), core->pool);
        });
        return hand_over<double, 2>(std::move(out), {K, columns});
    }

    Out<double> diagonal() const {
        return over_items(
            *core, [&](double* out) { residual_degrees(space(), r.data(), out, core->pool); });
    }
};

}  // namespace

void bind_dimensions(nb::module_& m, nb::class_<Core>& core) {
    nb::class_<BlocksBinding>(m, "ItemBlocks")
        .def("multiply", &BlocksBinding::multiply, "v"_a)
        .def("diagonal", &BlocksBinding::diagonal)
        .def("pairs", &BlocksBinding::pairs);
    nb::class_<ResidualsBinding>(m, "Residuals")
        .def("multiply", &ResidualsBinding::multiply, "v"_a)
        .def("diagonal", &ResidualsBinding::diagonal);
    core.def(
        "update_dimensions",
        [](std::shared_ptr<Core> self, Matrix<double> x, Anything covariance, In<double> mean,
           Matrix<double> precision, In<double> log_shares, double one_sided, double gold,
           Matrix<double> weights, Blocks<double> second, In<double> width, std::size_t n_gold,
           bool ties, int part, double caution) {
            const std::size_t S = self->votes.n_workers, E = weights.shape(1), D = x.shape(1);
            const std::size_t K = self->votes.n_items;
            const Space space = space_of(*self, x, covariance, E, n_gold, width, ties, part);
            const Crowd crowd =
                CrowdArrays{mean, precision, log_shares, one_sided, gold}.checked(E);
            require_moments(*self, weights, &second);
            Vec a(weights.data(), weights.data() + S * E);
            Vec M(second.data(), second.data() + S * E * E), share(S * kClasses), rhs(K * D);
            std::vector<float> w(self->votes.n);
            const DimensionSums found = self->run([&] {
                return with_dimensions(D, E, [&](auto d, auto e) {
                    return update_dimensions<decltype(d)::value, decltype(e)::value>(
                        space, crowd, a.data(), M.data(), share.data(), w.data(), rhs.data(),
                        caution, self->pool);
                });
            });
            Vec sums(found.shares.begin(), found.shares.end());
            sums.insert(sums.end(), found.weights.begin(),
                        found.weights.begin() + static_cast<std::ptrdiff_t>(E));
            sums.insert(sums.end(), found.squares.begin(),
                        found.squares.begin() + static_cast<std::ptrdiff_t>(E * E));
            BlocksBinding blocks{self, D, E, M, std::move(w)};
            return nb::make_tuple(hand_over<double, 2>(std::move(a), {S, E}),
                                  hand_over<double, 3>(std::move(M), {S, E, E}),
                                  hand_over<double, 2>(std::move(share), {S, kClasses}),
                                  hand_over(std::move(sums)), found.bound,
                                  hand_over<double, 2>(std::move(rhs), {K, D}), std::move(blocks));
        },
        "positions"_a, "covariance"_a, "mean"_a, "precision"_a, "log_shares"_a, "one_sided"_a,
        "gold"_a, "weights"_a, "second"_a, "width"_a, "n_gold"_a, "ties"_a, "part"_a, "caution"_a);
    core.def(
        "dimension_residuals",
        [](std::shared_ptr<Core> self, Matrix<double> x, Matrix<double> weights, In<double> width,
           In<double> taken, std::size_t n_gold, bool ties, int part) {
            require_moments(*self, weights, nullptr);
            self->require_workers(taken, "taken");
            const std::size_t D = x.shape(1), E = weights.shape(1);
            require(x, self->votes.n_items, D, "positions");
            self->require_workers(width, "width");
            if (D > kMostDimensions || E < D || E > D + 1)
                throw std::invalid_argument("1 to 8 dimensions, and one side at most");
            const Space space{self->votes, D,
                              E,           n_gold,
                              x.data(),    nullptr,
                              false,       width.data(),
                              ties,        static_cast<Part>(part)};
            std::vector<float> r(self->votes.n);
            self->run(
                [&] { residuals(space, weights.data(), taken.data(), r.data(), self->pool); });
            return ResidualsBinding{self, std::move(r)};
        },
        "positions"_a, "weights"_a, "width"_a, "taken"_a, "n_gold"_a, "ties"_a, "part"_a);
    core.def(
        "dimension_loss",
        [](Core& self, Matrix<double> x, Anything covariance, Matrix<double> weights,
           Blocks<double> second, In<double> width, std::size_t n_gold, bool ties, int part) {
            const Space space =
                space_of(self, x, covariance, weights.shape(1), n_gold, width, ties, part);
            require_moments(self, weights, &second);
            double out[2];
            self.run(
                [&] { log_probability(space, weights.data(), second.data(), out, self.pool); });
            return nb::make_tuple(out[0], out[1]);
        },
        "positions"_a, "covariance"_a, "weights"_a, "second"_a, "width"_a, "n_gold"_a, "ties"_a,
        "part"_a);
    core.def(
        "dimension_classes",
        [](Core& self, Matrix<double> x, Anything covariance, In<double> mean,
           Matrix<double> precision, In<double> log_shares, double one_sided, double gold,
           Matrix<double> weights, In<double> width, std::size_t n_gold, bool ties) {
            const std::size_t S = self.votes.n_workers, E = weights.shape(1);
            const Space space = space_of(self, x, covariance, E, n_gold, width, ties, 0);
            const Crowd crowd =
                CrowdArrays{mean, precision, log_shares, one_sided, gold}.checked(E);
            require_moments(self, weights, nullptr);
            const std::size_t columns = E > space.D ? 4 : 3;
            Vec out(S * columns);
            self.run([&] { class_evidence(space, crowd, weights.data(), out.data(), self.pool); });
            return hand_over<double, 2>(std::move(out), {S, columns});
        },
        "positions"_a, "covariance"_a, "mean"_a, "precision"_a, "log_shares"_a, "one_sided"_a,
        "gold"_a, "weights"_a, "width"_a, "n_gold"_a, "ties"_a);
    core.def(
        "dimension_response",
        [](Core& self, Matrix<double> x, Blocks<double> covariance, In<double> mean,
           Matrix<double> precision, In<double> log_shares, double one_sided, double gold,
           Matrix<double> weights, Matrix<double> shares, In<double> width, std::size_t n_gold,
           bool ties, bool whole) {
            const std::size_t E = weights.shape(1), D = x.shape(1), KD = self.votes.n_items * D,
                              rows = whole ? KD + E + D : KD, columns = whole ? rows : D;
            const Space space = space_of(self, x, Anything(covariance), E, n_gold, width, ties, 0);
            const Crowd crowd =
                CrowdArrays{mean, precision, log_shares, one_sided, gold}.checked(E);
            require_moments(self, weights, nullptr);
            require(shares, self.votes.n_workers, kClasses, "shares");
            Vec out(rows * columns);
            const auto pass = whole ? response<true> : response<false>;
            self.run(
                [&] { pass(space, crowd, weights.data(), shares.data(), out.data(), self.pool); });
            return hand_over<double, 2>(std::move(out), {rows, columns});
        },
        "positions"_a, "covariance"_a, "mean"_a, "precision"_a, "log_shares"_a, "one_sided"_a,
        "gold"_a, "weights"_a, "shares"_a, "width"_a, "n_gold"_a, "ties"_a, "whole"_a);
}
