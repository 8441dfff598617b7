// Exact variances of items and pairs under L + I by a sparse factorisation.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <mutex>
#include <numeric>

#include "core.hpp"
#include "crowdsift/sparse_inverse.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

// A pair may be given more than once: its weights add up.
class Factoriser {
public:
    Factoriser(In<std::uint32_t> low, In<std::uint32_t> high, std::size_t n_items, double most)
        : n_(n_items) {
        const std::size_t count = low.shape(0);
        require(high, count, "high");
        if (count >= UINT32_MAX || n_items >= UINT32_MAX)
            throw std::invalid_argument("more than 2^32 pairs or items");
        if (bad_rows(count, n_items, low.data(), high.data()) > 0)
            throw std::invalid_argument("a pair is two different items");
        nb::gil_scoped_release release;
        pairs_ = group_by_pair(count, n_items, low.data(), high.data());
        inverse_ = std::make_unique<SparseInverse>(pairs_, n_items, most);
    }

    bool possible() const { return inverse_->possible(); }
    double work() const { return inverse_->work(); }
    double refused() const { return inverse_->refused(); }

    // Variances of items and of pairs, log-determinant, whether positive definite.
    nb::tuple variances(In<double> weight) {
        const std::size_t given = pairs_.comparison.size();
        require(weight, given, "weight");
        if (!possible()) throw std::invalid_argument("the factorisation was refused");
        Vec items(n_, 1.0), pairs(given, 1.0);
        double log_determinant = 0.0;
        bool definite = false;
        {
            nb::gil_scoped_release release;
            std::lock_guard<std::mutex> lock(busy_);
            Vec weights(pairs_.size(), 0.0), diagonal(n_, 0.0), found(pairs_.size());
            pairs_.each([&](std::size_t p, std::uint32_t a, std::uint32_t b) {
                for (std::size_t k = pairs_.start[p]; k < pairs_.start[p + 1]; ++k)
                    weights[p] += weight.data()[pairs_.comparison[k]];
                diagonal[a] += weights[p];
                diagonal[b] += weights[p];
            });
            definite = inverse_->invert(weights.data(), diagonal.data(), items.data(), found.data(),
                                        &log_determinant);
            if (definite)
                for (std::size_t p = 0; p < pairs_.size(); ++p)
                    for (std::size_t k = pairs_.start[p]; k < pairs_.start[p + 1]; ++k)
                        pairs[pairs_.comparison[k]] = found[p];
        }
        return nb::make_tuple(hand_over(std::move(items)), hand_over(std::move(pairs)),
                              log_determinant, definite);
    }

private:
    std::size_t n_;
    Pairs pairs_;
    std::unique_ptr<SparseInverse> inverse_;
    std::mutex busy_;
};

}  // namespace

void bind_factoriser(nb::module_& m) {
    nb::class_<Factoriser>(m, "Factoriser")
        .def(nb::init<In<std::uint32_t>, In<std::uint32_t>, std::size_t, double>(), "low"_a,
             "high"_a, "n_items"_a, "most"_a)
        .def_prop_ro("possible", &Factoriser::possible)
        .def_prop_ro("work", &Factoriser::work)
        .def_prop_ro("refused", &Factoriser::refused)
        .def("__call__", &Factoriser::variances, "weight"_a);
}
