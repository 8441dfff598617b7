// The Python face of the core: checks shapes, releases the GIL, calls a kernel.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "arrays.hpp"
#include "crowdsift/collapse.hpp"
#include "crowdsift/eliminated.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/logistic.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/slopes.hpp"
#include "crowdsift/tally.hpp"
#include "crowdsift/votes.hpp"
#include "crowdsift/worker_prior.hpp"
#include "grid_binding.hpp"
#include "side_binding.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace crowdsift;

namespace {

template <class T, class F>
Out<T> column(const std::vector<VoteRow>& rows, F field) {
    std::vector<T> values(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) values[i] = field(rows[i]);
    return hand_over(std::move(values));
}

template <class T>
const T* pointer(const std::optional<In<T>>& array, std::size_t length, const char* name) {
    if (!array) return nullptr;
    require(*array, length, name);
    return array->data();
}

RowInput row_input(const In<std::uint32_t>& first, const In<std::uint32_t>& second,
                   const std::optional<In<std::uint32_t>>& worker,
                   const std::optional<In<float>>& outcome,
                   const std::optional<In<float>>& weight,
                   const std::optional<In<std::uint32_t>>& context, std::size_t n_items,
                   std::size_t n_workers, bool oriented) {
    const std::size_t rows = first.shape(0);
    require(second, rows, "second");
    if (n_workers == 0) throw std::invalid_argument("at least one worker is needed");
    return RowInput{rows, n_items, n_workers, first.data(), second.data(),
                    pointer(worker, rows, "worker"), pointer(outcome, rows, "outcome"),
                    pointer(weight, rows, "weight"), pointer(context, rows, "context"), oriented};
}

// The number of rows, all of whose items are below n_items.
std::size_t require_items(const In<std::uint32_t>& first, const In<std::uint32_t>& second,
                          std::size_t n_items) {
    const std::size_t n = first.shape(0);
    require(second, n, "second");
    if (n >= UINT32_MAX) throw std::invalid_argument("more than 2^32 comparisons");
    for (std::size_t i = 0; i < n; ++i)
        if (first.data()[i] >= n_items || second.data()[i] >= n_items)
            throw std::invalid_argument("bad item code in row " + std::to_string(i));
    return n;
}

// Everything a fit needs of the data: the votes and the passes over them; the pairs and the
// Laplacian, which cost memory, are made when they are first asked for.
class Core {
public:
    Core(In<std::uint32_t> first, In<std::uint32_t> second, In<float> outcome, In<float> weight,
         In<std::int64_t> offsets, std::optional<Matrix<float>> features, std::size_t n_items,
         std::size_t threads)
        : kept_{first, second, outcome, weight, offsets, features}, pool_(threads) {
        const std::size_t n = first.shape(0);
        require(second, n, "second");
        require(outcome, n, "outcome");
        require(weight, n, "weight");
        if (offsets.shape(0) < 2) throw std::invalid_argument("at least one worker is needed");
        if (features && features->shape(0) != n)
            throw std::invalid_argument("features need one row a comparison");
        if (features && features->shape(1) >= kMostParameters)
            throw std::invalid_argument("at most " + std::to_string(kMostParameters - 1) +
                                        " features");
        votes_ = Votes{n, n_items, offsets.shape(0) - 1, first.data(), second.data(),
                       outcome.data(), weight.data(), offsets.data()};
        nb::gil_scoped_release release;
        votes_.validate(pool_);
        eliminated_ = std::make_unique<EliminatedPasses>(
            votes_, pool_, features ? features->data() : nullptr,
            features ? features->shape(1) : 0);
    }

    std::pair<double, double> expect(In<double> scores, In<double> slopes) {
        check(scores, slopes);
        nb::gil_scoped_release release;
        return logistic().expect(scores.data(), slopes.data());
    }

    double log_likelihood(In<double> scores, In<double> slopes) {
        check(scores, slopes);
        nb::gil_scoped_release release;
        return crowdsift::log_likelihood(votes_, pool_, scores.data(), slopes.data());
    }

    Out<double> item_system(In<double> slopes) {
        require(slopes, votes_.n_workers, "slopes");
        std::vector<double> rhs(votes_.n_items);
        {
            nb::gil_scoped_release release;
            logistic().item_system(slopes.data(), rhs.data());
        }
        return hand_over(std::move(rhs));
    }

    std::pair<Out<double>, Out<double>> regress_workers(In<double> scores, double ridge) {
        require(scores, votes_.n_items, "scores");
        std::vector<double> slopes(votes_.n_workers), rhs(votes_.n_items);
        {
            nb::gil_scoped_release release;
            logistic().regress_workers(scores.data(), ridge, slopes.data(), rhs.data());
        }
        return {hand_over(std::move(slopes)), hand_over(std::move(rhs))};
    }

    std::pair<double, Out<double>> score_derivatives(In<double> scores, In<double> slopes) {
        check(scores, slopes);
        std::vector<double> gradient(votes_.n_items);
        double value = 0.0;
        {
            nb::gil_scoped_release release;
            value = logistic().score_derivatives(scores.data(), slopes.data(), gradient.data());
        }
        return {value, hand_over(std::move(gradient))};
    }

    Out<double> slope_information(In<double> scores, In<double> slopes) {
        check(scores, slopes);
        std::vector<double> information(votes_.n_workers);
        {
            nb::gil_scoped_release release;
            logistic().slope_information(scores.data(), slopes.data(), information.data());
        }
        return hand_over(std::move(information));
    }

    // Log-likelihood, gradient in items and in workers, blocks of workers, preconditioner.
    nb::tuple derivatives(const std::string& likelihood, In<double> scores, Matrix<double> theta) {
        require(scores, votes_.n_items, "scores");
        return with_likelihood(likelihood, [&](auto kind) {
            return derivatives_of<decltype(kind)>(scores, theta);
        });
    }

    // Parameters of workers at their maximum given the scores, and the most steps taken.
    nb::tuple fit_workers(const std::string& likelihood, In<double> scores, Matrix<double> theta,
                          In<double> centre, double penalty, double low, double high,
                          double tolerance) {
        require(scores, votes_.n_items, "scores");
        return with_likelihood(likelihood, [&](auto kind) {
            using Likelihood = decltype(kind);
            const std::size_t p = require_theta<Likelihood>(theta);
            require(centre, p, "centre");
            std::vector<double> fitted(theta.data(), theta.data() + votes_.n_workers * p);
            std::size_t steps = 0;
            {
                nb::gil_scoped_release release;
                steps = eliminated_->fit_workers<Likelihood>(
                    scores.data(), fitted.data(), centre.data(), penalty, low, high, tolerance, 100);
            }
            return nb::make_tuple(
                hand_over<double, 2>(std::move(fitted), {votes_.n_workers, p}), steps);
        });
    }

    nb::ndarray<nb::numpy, double, nb::ndim<2>> couple(In<double> v) {
        require(v, votes_.n_items, "v");
        std::vector<double> out(votes_.n_workers * parameters_);
        {
            nb::gil_scoped_release release;
            eliminated_->couple(v.data(), out.data());
        }
        return hand_over<double, 2>(std::move(out), {votes_.n_workers, parameters_});
    }

    Out<double> spread(Matrix<double> u) {
        require_parameters(u.shape(0), u.shape(1));
        std::vector<double> out(votes_.n_items);
        {
            nb::gil_scoped_release release;
            eliminated_->spread(u.data(), out.data());
        }
        return hand_over(std::move(out));
    }

    Out<double> reduced(In<double> v, Blocks<double> inverse) {
        require(v, votes_.n_items, "v");
        require_parameters(inverse.shape(0), inverse.shape(1));
        require_parameters(inverse.shape(0), inverse.shape(2));
        std::vector<double> out(votes_.n_items);
        {
            nb::gil_scoped_release release;
            eliminated_->reduced(v.data(), inverse.data(), out.data());
        }
        return hand_over(std::move(out));
    }

    // Puts the item block of the last derivatives() into the Laplacian.
    void item_curvature() {
        if (eliminated_->item_entries().size() != votes_.n)
            throw std::invalid_argument("no derivatives yet");
        nb::gil_scoped_release release;
        logistic().refresh_laplacian(eliminated_->item_entries());
    }

    Out<double> margin_flow(In<double> x, double prior) {
        require(x, votes_.n_items, "x");
        std::vector<double> out(votes_.n_items);
        {
            nb::gil_scoped_release release;
            crowdsift::margin_flow(votes_, pool_, prior, x.data(), out.data());
        }
        return hand_over(std::move(out));
    }

    Out<double> multiply(In<double> x, double shift) {
        require(x, votes_.n_items, "x");
        std::vector<double> y(votes_.n_items);
        {
            nb::gil_scoped_release release;
            laplacian().multiply(shift, x.data(), y.data());
        }
        return hand_over(std::move(y));
    }

    Out<double> diagonal() {
        return hand_over(std::vector<double>(laplacian().diagonal()));
    }

    // The weighted pairs as (low, high, weight): the entries of the Laplacian off its diagonal.
    std::tuple<Out<std::uint32_t>, Out<std::uint32_t>, Out<float>> weighted_pairs() {
        laplacian();
        std::vector<std::uint32_t> low(pairs_.size());
        pairs_.each([&](std::size_t p, std::uint32_t j, std::uint32_t) { low[p] = j; });
        return {hand_over(std::move(low)), hand_copy(pairs_.high),
                hand_copy(laplacian().pair_weights())};
    }

    // Log-likelihood with one slope for all and its gradient; see slopes.hpp.
    std::tuple<double, Out<double>> common_slope(In<double> scores, double slope, double finest) {
        require(scores, votes_.n_items, "scores");
        std::vector<double> gradient(votes_.n_items);
        double value = 0.0;
        {
            nb::gil_scoped_release release;
            value = slopes().common(scores.data(), slope, finest, gradient.data());
        }
        return {value, hand_over(std::move(gradient))};
    }

    // The same with every worker's slope at its optimum; then the slopes and their curvatures.
    std::tuple<double, Out<double>, Out<double>, Out<double>> own_slopes(
        In<double> scores, In<double> start, double mean, double precision, double last_step,
        double finest) {
        check(scores, start);
        if (!(precision > 0.0)) throw std::invalid_argument("precision must be above 0");
        std::vector<double> gradient(votes_.n_items);
        std::vector<double> fitted(start.data(), start.data() + votes_.n_workers);
        std::vector<double> curvature(votes_.n_workers);
        double value = 0.0;
        {
            nb::gil_scoped_release release;
            value = slopes().own(scores.data(), {mean, precision, last_step}, finest,
                                 fitted.data(), gradient.data(), curvature.data());
        }
        return {value, hand_over(std::move(gradient)), hand_over(std::move(fitted)),
                hand_over(std::move(curvature))};
    }

    // The diagonal of A of the last common_slope or own_slopes.
    Out<double> slope_diagonal() {
        require_slopes();
        std::vector<double> out(votes_.n_items);
        {
            nb::gil_scoped_release release;
            slopes().diagonal(out.data());
        }
        return hand_over(std::move(out));
    }

    // (S + shift I) v of the last common_slope or own_slopes.
    Out<double> slope_product(In<double> v, double shift) {
        require(v, votes_.n_items, "v");
        require_slopes();
        std::vector<double> out(votes_.n_items);
        {
            nb::gil_scoped_release release;
            slopes().multiply(shift, v.data(), out.data());
        }
        return hand_over(std::move(out));
    }

    // Sites of expectation propagation over these votes; they share the Laplacian.
    std::unique_ptr<GridBinding> grid_sites(std::size_t known) {
        return std::make_unique<GridBinding>(world(false, known));
    }

    std::unique_ptr<HabitBinding> habit_sites(std::vector<double> widths,
                                              std::vector<double> pure_sides,
                                              std::vector<double> pure_widths, bool sides,
                                              std::size_t known) {
        if (widths.empty() || pure_sides.size() != pure_widths.size())
            throw std::invalid_argument("a tie width is needed, and one for every pure type");
        const bool ties = widths[0] > 0.0;
        return std::make_unique<HabitBinding>(
            world(ties, known), crowdsift::HabitShape{std::move(widths), std::move(pure_sides),
                                                      std::move(pure_widths), sides});
    }

    // Of every worker, the weight of its decided votes and that for the first item less the other.
    std::tuple<Out<double>, Out<double>> side_totals() {
        std::vector<double> decided(votes_.n_workers, 0.0), leaning(votes_.n_workers, 0.0);
        {
            nb::gil_scoped_release release;
            crowdsift::side_totals(votes_, decided.data(), leaning.data());
        }
        return {hand_over(std::move(decided)), hand_over(std::move(leaning))};
    }

    // Passes of the model with a side term; they share the Laplacian.
    std::unique_ptr<SideBinding> side_passes() {
        return std::make_unique<SideBinding>(votes_, logistic(), pool_);
    }

    // Solution, iterations, relative residual, whether the tolerance was reached.
    std::tuple<Out<double>, std::size_t, double, bool> solve(In<double> rhs, In<double> start,
                                                             double shift, double tolerance,
                                                             std::size_t most) {
        require(rhs, votes_.n_items, "rhs");
        require(start, votes_.n_items, "start");
        std::vector<double> x(start.data(), start.data() + votes_.n_items);
        SolveReport report;
        {
            nb::gil_scoped_release release;
            report = laplacian().solve(shift, rhs.data(), x.data(), tolerance, most);
        }
        return {hand_over(std::move(x)), report.iterations, report.residual, report.converged};
    }

private:
    // What sites are made over; the votes are split once for each way to see ties.
    SiteWorld world(bool ties, std::size_t known) {
        if (known >= votes_.n_workers && known > 0)
            throw std::invalid_argument("only known workers are no crowd");
        laplacian();
        std::shared_ptr<SiteBasis>& basis = basis_[ties ? 1 : 0];
        if (!basis) basis = std::make_shared<SiteBasis>(votes_, pairs_, pool_, ties);
        return {votes_, pairs_, *laplacian_, pool_, inverse_, basis, known};
    }

    Laplacian& laplacian() {
        if (!laplacian_) {
            pairs_ = group_by_pair(votes_.n, votes_.n_items, votes_.first, votes_.second);
            laplacian_ = std::make_unique<Laplacian>(votes_.n_items, pairs_, pool_);
        }
        return *laplacian_;
    }

    LogisticPasses& logistic() {
        if (!logistic_)
            logistic_ = std::make_unique<LogisticPasses>(votes_, pairs_, laplacian(), pool_);
        return *logistic_;
    }

    void require_slopes() {
        if (slopes().entries().size() != votes_.n)
            throw std::invalid_argument("no slopes yet");
    }

    SlopePasses& slopes() {
        if (!slopes_) slopes_ = std::make_unique<SlopePasses>(votes_, pool_);
        return *slopes_;
    }

    template <class Task>
    static nb::tuple with_likelihood(const std::string& name, const Task& task) {
        if (name == "scaled-logit") return task(ScaledLogit{});
        if (name == "scaled-probit") return task(ScaledProbit{});
        if (name == "shifted-logit") return task(ShiftedLogit{});
        if (name == "flipped-logit") return task(FlippedLogit{});
        if (name == "led-logit") return task(LedLogit{});
        throw std::invalid_argument("unknown likelihood " + name);
    }

    template <class Likelihood>
    std::size_t require_theta(const Matrix<double>& theta) const {
        const std::size_t p = Likelihood::parameters(eliminated_->features());
        if (theta.shape(0) != votes_.n_workers || theta.shape(1) != p)
            throw std::invalid_argument("theta must have " + std::to_string(p) +
                                        " parameters for each of " +
                                        std::to_string(votes_.n_workers) + " workers");
        return p;
    }

    template <class Likelihood>
    nb::tuple derivatives_of(const In<double>& scores, const Matrix<double>& theta) {
        const std::size_t p = require_theta<Likelihood>(theta), m = votes_.n_workers;
        parameters_ = p;
        std::vector<double> items(votes_.n_items), workers(m * p), blocks(m * p * p),
            diagonal(votes_.n_items);
        double value = 0.0;
        {
            nb::gil_scoped_release release;
            value = eliminated_->derivatives<Likelihood>(scores.data(), theta.data(), items.data(),
                                                         workers.data(), blocks.data(),
                                                         diagonal.data());
        }
        return nb::make_tuple(value, hand_over(std::move(items)),
                              hand_over<double, 2>(std::move(workers), {m, p}),
                              hand_over<double, 3>(std::move(blocks), {m, p, p}),
                              hand_over(std::move(diagonal)));
    }

    void require_parameters(std::size_t workers, std::size_t parameters) const {
        if (workers != votes_.n_workers || parameters != parameters_)
            throw std::invalid_argument("expected " + std::to_string(parameters_) +
                                        " parameters for each of " +
                                        std::to_string(votes_.n_workers) + " workers");
    }

    void check(const In<double>& scores, const In<double>& slopes) const {
        require(scores, votes_.n_items, "scores");
        require(slopes, votes_.n_workers, "slopes");
    }

    // References that keep the arrays alive.
    std::tuple<In<std::uint32_t>, In<std::uint32_t>, In<float>, In<float>, In<std::int64_t>,
               std::optional<Matrix<float>>>
        kept_;
    ThreadPool pool_;
    Votes votes_{};
    Pairs pairs_;
    std::unique_ptr<Laplacian> laplacian_;
    std::unique_ptr<SparseInverse> inverse_;
    std::shared_ptr<SiteBasis> basis_[2];
    std::unique_ptr<LogisticPasses> logistic_;
    std::unique_ptr<SlopePasses> slopes_;
    std::unique_ptr<EliminatedPasses> eliminated_;
    std::size_t parameters_ = 0;  // of a worker, in the last derivatives()
};

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Kernels of crowdsift; use them through crowdsift.engines.";

    m.def(
        "find_fault",
        [](In<std::uint32_t> first, In<std::uint32_t> second,
           std::optional<In<std::uint32_t>> worker, std::optional<In<float>> outcome,
           std::optional<In<float>> weight, std::size_t n_items, std::size_t n_workers) {
            const RowInput in =
                row_input(first, second, worker, outcome, weight, {}, n_items, n_workers, true);
            nb::gil_scoped_release release;
            const FirstFault found = find_fault(in);
            return std::make_pair(static_cast<int>(found.fault), found.row);
        },
        "first"_a, "second"_a, "worker"_a.none(), "outcome"_a.none(), "weight"_a.none(),
        "n_items"_a, "n_workers"_a,
        "Number of the first fault (0 none, 1 item, 2 worker, 3 same item, 4 outcome, 5 weight) "
        "and its row.");

    m.def(
        "collapse",
        [](In<std::uint32_t> first, In<std::uint32_t> second,
           std::optional<In<std::uint32_t>> worker, std::optional<In<float>> outcome,
           std::optional<In<float>> weight, std::optional<In<std::uint32_t>> context,
           std::size_t n_items, std::size_t n_workers, bool oriented, std::size_t threads) {
            const RowInput in = row_input(first, second, worker, outcome, weight, context, n_items,
                                          n_workers, oriented);
            Collapsed out;
            {
                nb::gil_scoped_release release;
                if (find_fault(in).fault != RowFault::none)
                    throw std::invalid_argument("the rows have a fault; call find_fault");
                ThreadPool pool(threads);
                out = collapse(in, pool);
            }
            using Codes = std::uint32_t;
            return nb::make_tuple(
                column<Codes>(out.rows, [](const VoteRow& r) { return r.first; }),
                column<Codes>(out.rows, [](const VoteRow& r) { return r.second; }),
                column<float>(out.rows, [](const VoteRow& r) { return r.outcome; }),
                column<float>(out.rows, [](const VoteRow& r) { return r.weight; }),
                context ? column<Codes>(out.rows, [](const VoteRow& r) { return r.context; })
                        : hand_over(std::vector<Codes>()),
                hand_over(std::move(out.turned)), hand_over(std::move(out.offsets)));
        },
        "first"_a, "second"_a, "worker"_a.none(), "outcome"_a.none(), "weight"_a.none(),
        "context"_a.none(), "n_items"_a, "n_workers"_a, "oriented"_a, "threads"_a,
        "Rows in canonical order, equal ones merged: first, second, outcome, weight, context, "
        "turned, offsets.");

    m.def(
        "pool_pairs",
        [](In<std::uint32_t> first, In<std::uint32_t> second, In<float> outcome, In<float> weight,
           std::size_t n_items) {
            const std::size_t n = require_items(first, second, n_items);
            require(outcome, n, "outcome");
            require(weight, n, "weight");
            PooledPairs out;
            {
                nb::gil_scoped_release release;
                out = pool_pairs(n, n_items, first.data(), second.data(), outcome.data(),
                                 weight.data());
            }
            return nb::make_tuple(hand_over(std::move(out.first)),
                                  hand_over(std::move(out.second)),
                                  hand_over(std::move(out.outcome)),
                                  hand_over(std::move(out.weight)));
        },
        "first"_a, "second"_a, "outcome"_a, "weight"_a, "n_items"_a,
        "One row a pair, the preferred item first: first, second, mean outcome, sum of weights.");

    m.def(
        "components",
        [](In<std::uint32_t> first, In<std::uint32_t> second, std::size_t n_items) {
            const std::size_t n = require_items(first, second, n_items);
            return hand_over(components(n_items, n, first.data(), second.data()));
        },
        "first"_a, "second"_a, "n_items"_a, "The connected component of every item.");

    bind_grid(m);
    m.def(
        "update_prior",
        [](In<double> points, In<double> log_widths, std::size_t n_widths, In<double> counts,
           double centre, double spread, In<double> shares) {
            const std::size_t n = points.shape(0), types = counts.shape(0);
            require(log_widths, n, "log_widths");
            require(shares, 3, "shares");
            if (n < 3 || n_widths * n > types) throw std::invalid_argument("too few counts");
            crowdsift::Mixture mixture{
                centre, spread, {shares.data()[0], shares.data()[1], shares.data()[2]}};
            std::vector<double> masses(types);
            crowdsift::PriorUpdate(n, points.data(), log_widths.data())
                .update(n_widths, types - n_widths * n, counts.data(), mixture, masses.data());
            return nb::make_tuple(
                hand_over(std::move(masses)), mixture.centre, mixture.spread,
                hand_over(std::vector<double>(mixture.shares, mixture.shares + 3)));
        },
        "points"_a, "log_widths"_a, "n_widths"_a, "counts"_a, "centre"_a, "spread"_a, "shares"_a,
        "The distribution of worker types from their counts, and the mixture behind it.");
    bind_sides(m);
    m.def(
        "tally",
        [](In<std::uint32_t> first, In<std::uint32_t> second, In<float> outcome, In<float> weight,
           In<std::int64_t> offsets, In<std::uint32_t> rank, std::size_t threads) {
            const std::size_t n = first.shape(0);
            require(second, n, "second");
            require(outcome, n, "outcome");
            require(weight, n, "weight");
            if (offsets.shape(0) < 1) throw std::invalid_argument("offsets are empty");
            const Votes votes{n, rank.shape(0), offsets.shape(0) - 1, first.data(),
                              second.data(), outcome.data(), weight.data(), offsets.data()};
            Tally found;
            {
                nb::gil_scoped_release release;
                ThreadPool pool(threads);
                votes.validate(pool);
                found = crowdsift::tally(votes, pool, rank.data());
            }
            return nb::make_tuple(
                hand_over(std::move(found.agreed)), hand_over(std::move(found.decided)),
                hand_over(std::move(found.appearances)), hand_over(std::move(found.ways)));
        },
        "first"_a, "second"_a, "outcome"_a, "weight"_a, "offsets"_a, "rank"_a, "threads"_a,
        "Per worker, the weight of decided votes that agree with the order of ranks and of all; "
        "per item, the weight of its votes, and 1 where one is for it plus 2 where one is against.");

    nb::class_<Core>(m, "Core")
        .def(nb::init<In<std::uint32_t>, In<std::uint32_t>, In<float>, In<float>,
                      In<std::int64_t>, std::optional<Matrix<float>>, std::size_t, std::size_t>(),
             "first"_a, "second"_a, "outcome"_a, "weight"_a, "offsets"_a, "features"_a.none(),
             "n_items"_a, "threads"_a)
        .def("expect", &Core::expect, "scores"_a, "slopes"_a)
        .def("item_system", &Core::item_system, "slopes"_a)
        .def("regress_workers", &Core::regress_workers, "scores"_a, "ridge"_a)
        .def("score_derivatives", &Core::score_derivatives, "scores"_a, "slopes"_a)
        .def("slope_information", &Core::slope_information, "scores"_a, "slopes"_a)
        .def("common_slope", &Core::common_slope, "scores"_a, "slope"_a, "finest"_a)
        .def("own_slopes", &Core::own_slopes, "scores"_a, "start"_a, "mean"_a, "precision"_a,
             "last_step"_a, "finest"_a)
        .def("slope_diagonal", &Core::slope_diagonal)
        .def("slope_product", &Core::slope_product, "v"_a, "shift"_a)
        .def("derivatives", &Core::derivatives, "likelihood"_a, "scores"_a, "theta"_a)
        .def("fit_workers", &Core::fit_workers, "likelihood"_a, "scores"_a, "theta"_a, "centre"_a,
             "penalty"_a, "low"_a, "high"_a, "tolerance"_a)
        .def("couple", &Core::couple, "v"_a)
        .def("spread", &Core::spread, "u"_a)
        .def("reduced", &Core::reduced, "v"_a, "inverse"_a)
        .def("item_curvature", &Core::item_curvature)
        .def("margin_flow", &Core::margin_flow, "x"_a, "prior"_a)
        .def("log_likelihood", &Core::log_likelihood, "scores"_a, "slopes"_a)
        .def("multiply", &Core::multiply, "x"_a, "shift"_a)
        .def("diagonal", &Core::diagonal)
        .def("weighted_pairs", &Core::weighted_pairs)
        .def("grid_sites", &Core::grid_sites, nb::keep_alive<0, 1>(), "known"_a = 0)
        .def("side_totals", &Core::side_totals)
        .def("habit_sites", &Core::habit_sites, nb::keep_alive<0, 1>(), "widths"_a,
             "pure_sides"_a, "pure_widths"_a, "sides"_a, "known"_a = 0)
        .def("side_passes", &Core::side_passes, nb::keep_alive<0, 1>())
        .def("solve", &Core::solve, "rhs"_a, "start"_a, "shift"_a, "tolerance"_a, "most"_a);
}
