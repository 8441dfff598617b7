// Rows before they are votes: faults, canonical order, pooling, components.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <utility>

#include "core.hpp"
#include "crowdsift/collapse.hpp"
#include "crowdsift/tally.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

// The number of rows from which on it pays to start threads for one pass.
constexpr std::size_t kRowsOfOneCall = 60000;

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
                   const std::optional<In<float>>& outcome, const std::optional<In<float>>& weight,
                   const std::optional<In<std::uint32_t>>& context, std::size_t n_items,
                   std::size_t n_workers, bool oriented) {
    const std::size_t rows = first.shape(0);
    require(second, rows, "second");
    if (n_workers == 0) throw std::invalid_argument("at least one worker is needed");
    if (rows >= UINT32_MAX || n_items >= UINT32_MAX || n_workers >= UINT32_MAX)
        throw std::invalid_argument("more than 2^32 rows, items or workers");
    const std::uint32_t* const contexts = pointer(context, rows, "context");
    for (std::size_t i = 0; contexts != nullptr && i < rows; ++i)
        if (contexts[i] > UINT32_MAX / 2) throw std::invalid_argument("more than 2^31 contexts");
    return RowInput{rows,
                    n_items,
                    n_workers,
                    first.data(),
                    second.data(),
                    pointer(worker, rows, "worker"),
                    pointer(outcome, rows, "outcome"),
                    pointer(weight, rows, "weight"),
                    contexts,
                    oriented};
}

// Returns the number of rows; throws unless all of their items are below n_items.
std::size_t require_items(const In<std::uint32_t>& first, const In<std::uint32_t>& second,
                          std::size_t n_items) {
    const std::size_t n = first.shape(0);
    require(second, n, "second");
    if (n >= UINT32_MAX || n_items >= UINT32_MAX)
        throw std::invalid_argument("more than 2^32 comparisons or items");
    for (std::size_t i = 0; i < n; ++i)
        if (first.data()[i] >= n_items || second.data()[i] >= n_items)
            throw std::invalid_argument("bad item code in row " + std::to_string(i));
    return n;
}

}  // namespace

void bind_rows(nb::module_& m) {
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
            return nb::make_tuple(hand_over(std::move(out.first)), hand_over(std::move(out.second)),
                                  hand_over(std::move(out.outcome)),
                                  hand_over(std::move(out.weight)));
        },
        "first"_a, "second"_a, "outcome"_a, "weight"_a, "n_items"_a,
        "One row per pair, the preferred item first: first, second, mean outcome, sum of weights.");

    m.def(
        "components",
        [](In<std::uint32_t> first, In<std::uint32_t> second, std::size_t n_items) {
            const std::size_t n = require_items(first, second, n_items);
            return hand_over(components(n_items, n, first.data(), second.data()));
        },
        "first"_a, "second"_a, "n_items"_a, "The connected component of every item.");

    m.def(
        "tally",
        [](In<std::uint32_t> first, In<std::uint32_t> second, In<float> outcome, In<float> weight,
           In<std::int64_t> offsets, In<std::uint32_t> rank, std::size_t threads) {
            const std::size_t n = first.shape(0);
            require(second, n, "second");
            require(outcome, n, "outcome");
            require(weight, n, "weight");
            if (offsets.shape(0) < 1) throw std::invalid_argument("offsets are empty");
            const Votes votes{n,
                              rank.shape(0),
                              offsets.shape(0) - 1,
                              first.data(),
                              second.data(),
                              outcome.data(),
                              weight.data(),
                              offsets.data()};
            std::optional<Tally> found;
            {
                nb::gil_scoped_release release;
                ThreadPool pool(n < kRowsOfOneCall ? 1 : threads);
                votes.validate(pool);
                const Vec order(rank.data(), rank.data() + rank.shape(0));
                found = crowdsift::tally(votes, pool, order.data());
            }
            std::vector<std::uint8_t> ways(rank.shape(0));
            for (std::size_t j = 0; j < ways.size(); ++j)
                ways[j] = static_cast<std::uint8_t>(
                    (found->wins[j] > 0.0 ? 1 : 0) |
                    (found->appearances[j] - found->wins[j] > 0.0 ? 2 : 0));
            return nb::make_tuple(
                hand_over(std::move(found->agreed)), hand_over(std::move(found->decided)),
                hand_over(std::move(found->appearances)), hand_over(std::move(ways)));
        },
        "first"_a, "second"_a, "outcome"_a, "weight"_a, "offsets"_a, "rank"_a, "threads"_a,
        "Per worker, the weight of decided votes that agree with the order of ranks and of all; "
        "per item, the weight of its votes, and 1 where one is for it plus 2 where one is "
        "against.");

    m.def(
        "judged_by_one",
        [](In<std::uint32_t> first, In<std::uint32_t> second, In<std::int64_t> offsets,
           std::size_t n_items) {
            const std::size_t n = first.shape(0);
            require(second, n, "second");
            if (offsets.shape(0) < 1) throw std::invalid_argument("offsets are empty");
            const Votes votes{n,       n_items, offsets.shape(0) - 1, first.data(), second.data(),
                              nullptr, nullptr, offsets.data()};
            std::vector<std::uint8_t> alone;
            {
                nb::gil_scoped_release release;
                votes.validate_offsets();
                alone = judged_by_one(votes);
            }
            return hand_over(std::move(alone));
        },
        "first"_a, "second"_a, "offsets"_a, "n_items"_a,
        "Per item, 1 where one worker alone has votes on it.");
}
