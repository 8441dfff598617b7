// The votes of an engine, and what their passes share; operators and sites keep it alive.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "arrays.hpp"
#include "crowdsift/buffers.hpp"
#include "crowdsift/em.hpp"
#include "crowdsift/item_sums.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/likelihood_passes.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/shared_pairs.hpp"
#include "crowdsift/slopes.hpp"
#include "crowdsift/split_votes.hpp"
#include "crowdsift/votes.hpp"

// Pairs, which need memory, and passes are created when they are first used.
class Core {
public:
    Core(In<std::uint32_t> first, In<std::uint32_t> second, In<float> outcome, In<float> weight,
         In<std::int64_t> offsets, std::optional<Matrix<float>> features, std::size_t n_items,
         std::size_t threads)
        : kept_{first, second, outcome, weight, offsets, features}, pool(threads), sums(n_items) {
        using namespace crowdsift;
        const std::size_t n = first.shape(0);
        require(second, n, "second");
        require(outcome, n, "outcome");
        require(weight, n, "weight");
        if (offsets.shape(0) < 2) throw std::invalid_argument("at least one worker is needed");
        if (features && features->shape(0) != n)
            throw std::invalid_argument("features need one row per comparison");
        if (features && features->shape(1) >= kMostParameters)
            throw std::invalid_argument("at most " + std::to_string(kMostParameters - 1) +
                                        " features");
        votes = Votes{n,
                      n_items,
                      offsets.shape(0) - 1,
                      first.data(),
                      second.data(),
                      outcome.data(),
                      weight.data(),
                      offsets.data()};
        votes.validate(pool);
        likelihood = std::make_unique<LikelihoodPasses>(votes, pool, sums,
                                                        features ? features->data() : nullptr,
                                                        features ? features->shape(1) : 0);
    }

    // Runs a pass: the GIL is released, and only one pass at a time uses the threads and the sums.
    template <class Pass>
    auto run(const Pass& pass) {
        nb::gil_scoped_release release;
        std::lock_guard<std::mutex> lock(busy_);
        return pass();
    }

    // For passes only, inside run().
    crowdsift::PairGraph& graph() {
        if (!graph_)
            graph_ = std::make_unique<crowdsift::PairGraph>(
                votes.n_items,
                crowdsift::group_by_pair(votes.n, votes.n_items, votes.first, votes.second, pool),
                pool, sums);
        return *graph_;
    }

    crowdsift::LaplacianPasses& laplacians() {
        if (!laplacians_)
            laplacians_ = std::make_unique<crowdsift::LaplacianPasses>(votes, graph());
        return *laplacians_;
    }

    crowdsift::SlopePasses& slopes() {
        if (!slopes_) slopes_ = std::make_unique<crowdsift::SlopePasses>(votes, pool, sums);
        return *slopes_;
    }

    // The votes as wins, computed once for each treatment of ties.
    std::shared_ptr<const crowdsift::SplitVotes> split(bool ties) {
        std::shared_ptr<const crowdsift::SplitVotes>& found = split_[ties ? 1 : 0];
        if (!found)
            found = std::make_shared<const crowdsift::SplitVotes>(votes, graph().pairs, ties, pool);
        return found;
    }

    void require_items(const In<double>& values, const char* name) const {
        require(values, votes.n_items, name);
    }
    void require_workers(const In<double>& values, const char* name) const {
        require(values, votes.n_workers, name);
    }

private:
    // References that keep the arrays alive.
    std::tuple<In<std::uint32_t>, In<std::uint32_t>, In<float>, In<float>, In<std::int64_t>,
               std::optional<Matrix<float>>>
        kept_;
    std::mutex busy_;

public:
    crowdsift::ThreadPool pool;
    crowdsift::ItemSums sums;
    crowdsift::Votes votes{};
    std::unique_ptr<crowdsift::LikelihoodPasses> likelihood;
    // Reusable arrays of operators and E-steps.
    crowdsift::Buffers<float> entries_a, entries_b;
    crowdsift::PrecisionBuffers<float> rounded_precisions;
    crowdsift::PrecisionBuffers<double> exact_precisions;
    crowdsift::SharedPairs shared;
    bool sited = false;  // sites refer to the shared pairs, which are fixed from then on

private:
    std::unique_ptr<crowdsift::PairGraph> graph_;
    std::unique_ptr<crowdsift::LaplacianPasses> laplacians_;
    std::unique_ptr<crowdsift::SlopePasses> slopes_;
    std::shared_ptr<const crowdsift::SplitVotes> split_[2];
};

using CorePointer = std::shared_ptr<Core>;

// Solution, iterations, relative residual, whether the tolerance was reached; solve(rhs, x) is the
// operator's own.
template <class Solve>
nb::tuple solved(Core& core, const In<double>& rhs, const In<double>& start, const Solve& solve) {
    core.require_items(rhs, "rhs");
    core.require_items(start, "start");
    Vec x(start.data(), start.data() + start.shape(0));
    const crowdsift::SolveReport report = core.run([&] { return solve(rhs.data(), x.data()); });
    return nb::make_tuple(hand_over(std::move(x)), report.iterations, report.residual,
                          report.converged);
}

// Returns a vector over items that a pass fills.
template <class Pass>
Out<double> over_items(Core& core, const Pass& pass) {
    Vec out(core.votes.n_items);
    core.run([&] { pass(out.data()); });
    return hand_over(std::move(out));
}

// A Laplacian as a Python object.
struct LaplacianBinding {
    CorePointer core;
    std::shared_ptr<const crowdsift::Laplacian> laplacian;
};

void bind_rows(nb::module_& m);
void bind_logistic(nb::module_& m, nb::class_<Core>& core);
void bind_likelihood(nb::module_& m, nb::class_<Core>& core);
void bind_grid(nb::module_& m, nb::class_<Core>& core);
void bind_factoriser(nb::module_& m);
void bind_covariates(nb::module_& m);
void bind_dimensions(nb::module_& m, nb::class_<Core>& core);
