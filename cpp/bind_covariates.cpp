// Votes with covariates: passes over votes and types of workers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <mutex>

#include "core.hpp"
#include "crowdsift/covariate_types.hpp"

using namespace nb::literals;
using namespace crowdsift;

namespace {

// The votes, which Python keeps alive, and threads.
class CovariatePasses {
public:
    CovariatePasses(In<std::int64_t> starts, Matrix<double> C, In<double> weight, In<double> side,
                    In<std::uint8_t> tied, std::size_t threads)
        : kept_{starts, C, weight, side, tied}, pool_(threads) {
        const std::size_t n = weight.shape(0);
        if (C.shape(0) != n || C.shape(1) == 0 || C.shape(1) > kMostCovariates)
            throw std::invalid_argument("covariates need one row per vote, and 1 to 64 columns");
        require(side, n, "side");
        require(tied, n, "tied");
        if (starts.shape(0) < 2) throw std::invalid_argument("at least one worker is needed");
        const std::size_t workers = starts.shape(0) - 1;
        const std::int64_t* at = starts.data();
        for (std::size_t s = 0; s < workers; ++s)
            if (at[s] < 0 || at[s] > at[s + 1]) throw std::invalid_argument("starts must rise");
        if (at[0] != 0 || static_cast<std::size_t>(at[workers]) != n)
            throw std::invalid_argument("starts must cover the votes");
        votes_ = {n, workers, C.shape(1), at, C.data(), weight.data(), side.data(), tied.data()};
    }

    nb::tuple messages(Matrix<double> beta, In<double> width, In<double> only,
                       In<std::uint8_t> regular, In<double> m, In<double> v, Blocks<double> gamma,
                       Matrix<std::uint8_t> wanted) {
        const CovariateTypes types = checked(beta, width, only, regular);
        const std::size_t S = votes_.workers, T = types.count, P = votes_.covariates;
        require(m, votes_.n, "m");
        require(v, votes_.n, "v");
        require_blocks(gamma, T);
        require(wanted, S, T, "wanted");
        Vec log_z(S * T, 0.0), gradient(S * T * P, 0.0), hessian(S * T * P * P, 0.0);
        {
            nb::gil_scoped_release release;
            std::lock_guard<std::mutex> lock(busy_);
            covariate_messages(votes_, types, m.data(), v.data(), gamma.data(), wanted.data(),
                               log_z.data(), gradient.data(), hessian.data(), pool_);
        }
        const std::size_t two[2] = {S, T}, three[3] = {S, T, P}, four[4] = {S, T, P, P};
        return nb::make_tuple(hand_over<double, 2>(std::move(log_z), two),
                              hand_over<double, 3>(std::move(gradient), three),
                              hand_over<double, 4>(std::move(hessian), four));
    }

    nb::tuple moments(Matrix<double> beta, In<double> width, In<double> only,
                      In<std::uint8_t> regular, Matrix<double> m, Matrix<double> V,
                      Blocks<double> shift, Matrix<double> q, double least) {
        const CovariateTypes types = checked(beta, width, only, regular);
        const std::size_t S = votes_.workers, T = types.count;
        require(m, votes_.n, 2, "m");
        require(V, votes_.n, 3, "V");
        require_blocks(shift, T);
        require(q, S, T, "q");
        Vec alpha(2 * votes_.n), kappa(3 * votes_.n);
        {
            nb::gil_scoped_release release;
            std::lock_guard<std::mutex> lock(busy_);
            covariate_moments(votes_, types, m.data(), V.data(), shift.data(), q.data(), least,
                              alpha.data(), kappa.data(), pool_);
        }
        const std::size_t two[2] = {votes_.n, 2}, three[2] = {votes_.n, 3};
        return nb::make_tuple(hand_over<double, 2>(std::move(alpha), two),
                              hand_over<double, 2>(std::move(kappa), three));
    }

private:
    CovariateTypes checked(const Matrix<double>& beta, const In<double>& width,
                           const In<double>& only, const In<std::uint8_t>& regular) const {
        const std::size_t T = width.shape(0);
        require(beta, votes_.workers, T, "beta");
        require(only, T, "only");
        require(regular, T, "regular");
        return {T, beta.data(), width.data(), only.data(), regular.data()};
    }

    void require_blocks(const Blocks<double>& array, std::size_t types) const {
        if (array.shape(0) != votes_.workers || array.shape(1) != types ||
            array.shape(2) != votes_.covariates)
            throw std::invalid_argument("coefficients are workers x types x covariates");
    }

    struct Kept {
        In<std::int64_t> starts;
        Matrix<double> C;
        In<double> weight, side;
        In<std::uint8_t> tied;
    } kept_;
    ThreadPool pool_;
    std::mutex busy_;
    CovariateVotes votes_{};
};

}  // namespace

void bind_covariates(nb::module_& m) {
    nb::class_<CovariatePasses>(m, "CovariatePasses")
        .def(nb::init<In<std::int64_t>, Matrix<double>, In<double>, In<double>, In<std::uint8_t>,
                      std::size_t>(),
             "starts"_a, "C"_a, "weight"_a, "side"_a, "tied"_a, "threads"_a)
        .def("messages", &CovariatePasses::messages, "beta"_a, "width"_a, "only"_a, "regular"_a,
             "m"_a, "v"_a, "gamma"_a, "wanted"_a)
        .def("moments", &CovariatePasses::moments, "beta"_a, "width"_a, "only"_a, "regular"_a,
             "m"_a, "V"_a, "shift"_a, "q"_a, "least"_a);
}
