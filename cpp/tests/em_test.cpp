// The passes of the logistic model and the Laplacian against plain loops.
#include "check.hpp"

#include "crowdsift/em.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/pairs.hpp"

namespace {

// Log-likelihood, gradient, curvature along the scores and information on slopes.
void test_derivatives(const Votes& votes, ThreadPool& pool, LaplacianPasses& passes,
                      const std::vector<double>& scores, const std::vector<double>& slopes) {
    double likelihood = 0.0;
    std::vector<double> expected(votes.n_items, 0.0), gradient(votes.n_items, 0.0);
    std::vector<double> information(votes.n_workers, 0.0);
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const std::uint32_t a = votes.first[i], b = votes.second[i];
            const double d = scores[a] - scores[b], eta = slopes[s] * d;
            const double p = 1.0 / (1.0 + std::exp(-eta)), y = votes.outcome[i];
            const double m = votes.weight[i], curvature = m * p * (1.0 - p);
            likelihood += m * (y * std::log(p) + (1.0 - y) * std::log1p(-p));
            gradient[a] += m * slopes[s] * (y - p);
            gradient[b] -= m * slopes[s] * (y - p);
            expected[a] += slopes[s] * slopes[s] * curvature * d;
            expected[b] -= slopes[s] * slopes[s] * curvature * d;
            information[s] += curvature * d * d;
        }
    }
    std::vector<double> found(votes.n_items), product(votes.n_items), by_slope(votes.n_workers);
    double value = 0.0;
    const std::shared_ptr<Laplacian> laplacian =
        passes.curvature(scores.data(), slopes.data(), value, found.data(), by_slope.data());
    NEAR(value, likelihood, 1e-12);
    laplacian->multiply(0.0, scores.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        NEAR(found[j], gradient[j], 1e-10);
        NEAR(product[j], expected[j], 1e-5);
    }
    for (std::size_t s = 0; s < votes.n_workers; ++s) NEAR(by_slope[s], information[s], 1e-11);
    NEAR(log_likelihood(votes, pool, scores.data(), slopes.data()), likelihood, 1e-12);
    Precisions<float> precision;
    double total = 0.0;
    value = 0.0;
    passes.e_step(scores.data(), slopes.data(), precision, value, total);
    NEAR(value, likelihood, 1e-12);
}

// The system for these slopes, after an E-step at `scores` and `at`: the Laplacian is seen through
// its product with the scores.
void expect_system(const Votes& votes, const ItemSystem& system, const std::vector<double>& scores,
                   const std::vector<double>& at, const std::vector<double>& slopes) {
    std::vector<double> want(votes.n_items, 0.0), flow(votes.n_items, 0.0), product(votes.n_items);
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const std::uint32_t a = votes.first[i], b = votes.second[i];
            const double d = scores[a] - scores[b], eta = at[s] * d, m = votes.weight[i];
            const double omega = std::fabs(eta) < 1e-4 ? 0.25 : std::tanh(eta / 2.0) / (2.0 * eta);
            const double push = slopes[s] * m * (static_cast<double>(votes.outcome[i]) - 0.5);
            want[a] += push;
            want[b] -= push;
            flow[a] += slopes[s] * slopes[s] * m * omega * d;
            flow[b] -= slopes[s] * slopes[s] * m * omega * d;
        }
    }
    system.laplacian->multiply(0.0, scores.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        NEAR(system.rhs[j], want[j], 1e-10);
        NEAR(product[j], flow[j], 1e-5);
    }
}

template <class Real>
void test_e_step(const Votes& votes, LaplacianPasses& passes, const std::vector<double>& scores,
                 const std::vector<double>& slopes) {
    const double ridge = 0.7, exact = sizeof(Real) == sizeof(double) ? 1e-12 : 1e-6;
    std::vector<double> fitted(votes.n_workers);
    Precisions<Real> precision;
    double value = 0.0, total = 0.0, sum = 0.0;
    const ItemSystem first = passes.e_step(scores.data(), slopes.data(), precision, value, total);
    for (const Real each : precision.by_worker) sum += static_cast<double>(each);
    NEAR(total, sum, exact);
    expect_system(votes, first, scores, slopes, slopes);
    const ItemSystem next = passes.regress(precision, scores.data(), ridge, fitted.data());
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        double top = 0.0, bottom = ridge;
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const double d = scores[votes.first[i]] - scores[votes.second[i]];
            const double eta = slopes[s] * d, m = votes.weight[i];
            const double omega = std::fabs(eta) < 1e-4 ? 0.25 : std::tanh(eta / 2.0) / (2.0 * eta);
            top += m * (static_cast<double>(votes.outcome[i]) - 0.5) * d;
            bottom += m * omega * d * d;
        }
        NEAR(fitted[s], top / bottom, 1e-6);
    }
    expect_system(votes, next, scores, slopes, fitted);
    expect_system(votes, first, scores, slopes, slopes);  // whoever holds a system keeps it
    std::vector<double> x(votes.n_items, 0.0), product(votes.n_items);
    const SolveReport report = next.laplacian->solve(0.1, next.rhs.data(), x.data(), 1e-10, 1000);
    NEAR(report.converged, 1.0, 0.0);
    next.laplacian->multiply(0.1, x.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) NEAR(product[j], next.rhs[j], 1e-7);
}

void test_passes(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    ThreadPool pool(threads);
    const Sample sample(n, items, workers, pool);
    const Votes& votes = sample.votes;
    ItemSums sums(items);
    PairGraph graph(items, group_by_pair(votes.n, items, votes.first, votes.second), pool, sums);
    LaplacianPasses passes(votes, graph);
    const std::vector<double> scores = normals(items, 7);
    const std::vector<double> slopes = normals(workers, 8);
    test_derivatives(votes, pool, passes, scores, slopes);
    test_e_step<float>(votes, passes, scores, slopes);
    test_e_step<double>(votes, passes, scores, slopes);
}

}  // namespace

void test_em() {
    test_passes(1, 2, 1, 1);
    test_passes(40, 5, 9, 2);
    test_passes(1500, 30, 3, 2);           // blocks end in the middle of a worker
    test_passes(60000, 400, 500, 3);       // threads
    test_passes(9000, kMixedFrom, 50, 2);  // items that are fetched ahead
}
