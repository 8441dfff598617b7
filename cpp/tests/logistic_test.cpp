// The passes of the logistic model and the Laplacian against plain loops.
#include "check.hpp"

#include "crowdsift/laplacian.hpp"
#include "crowdsift/logistic.hpp"
#include "crowdsift/pairs.hpp"

namespace {

// Log-likelihood, gradient, curvature along the scores and information on slopes.
void test_derivatives(const Votes& votes, LogisticPasses& passes, Laplacian& laplacian,
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
    NEAR(passes.score_derivatives(scores.data(), slopes.data(), found.data()), likelihood, 1e-12);
    laplacian.multiply(0.0, scores.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        NEAR(found[j], gradient[j], 1e-10);
        NEAR(product[j], expected[j], 1e-5);
    }
    passes.slope_information(scores.data(), slopes.data(), by_slope.data());
    for (std::size_t s = 0; s < votes.n_workers; ++s) NEAR(by_slope[s], information[s], 1e-11);
    NEAR(passes.expect(scores.data(), slopes.data()).first, likelihood, 1e-12);
}

// The system that item_system and regress_workers build for these slopes, after expect() at
// `scores` and `at`: the Laplacian is seen through its product with the scores.
void expect_system(const Votes& votes, Laplacian& laplacian, const std::vector<double>& scores,
                   const std::vector<double>& at, const std::vector<double>& slopes,
                   const std::vector<double>& rhs) {
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
    laplacian.multiply(0.0, scores.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) {
        NEAR(rhs[j], want[j], 1e-10);
        NEAR(product[j], flow[j], 1e-5);
    }
}

void test_expectation(const Votes& votes, LogisticPasses& passes, Laplacian& laplacian,
                      const std::vector<double>& scores, const std::vector<double>& slopes) {
    const double ridge = 0.7;
    std::vector<double> rhs(votes.n_items), fitted(votes.n_workers);
    passes.expect(scores.data(), slopes.data());
    passes.item_system(slopes.data(), rhs.data());
    expect_system(votes, laplacian, scores, slopes, slopes, rhs);
    passes.regress_workers(scores.data(), ridge, fitted.data(), rhs.data());
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
    expect_system(votes, laplacian, scores, slopes, fitted, rhs);
    std::vector<double> x(votes.n_items, 0.0), product(votes.n_items);
    const SolveReport report = laplacian.solve(0.1, rhs.data(), x.data(), 1e-10, 1000);
    NEAR(report.converged, 1.0, 0.0);
    laplacian.multiply(0.1, x.data(), product.data());
    for (std::size_t j = 0; j < votes.n_items; ++j) NEAR(product[j], rhs[j], 1e-7);
}

void test_passes(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    ThreadPool pool(threads);
    const Sample sample(n, items, workers, pool);
    const Votes& votes = sample.votes;
    const Pairs pairs = group_by_pair(votes.n, items, votes.first, votes.second);
    Laplacian laplacian(items, pairs, pool);
    LogisticPasses passes(votes, pairs, laplacian, pool);
    const std::vector<double> scores = normals(items, 7);
    const std::vector<double> slopes = normals(workers, 8);
    test_derivatives(votes, passes, laplacian, scores, slopes);
    test_expectation(votes, passes, laplacian, scores, slopes);
}

}  // namespace

void test_logistic() {
    test_passes(1, 2, 1, 1);
    test_passes(40, 5, 9, 2);
    test_passes(1500, 30, 3, 2);      // blocks end in the middle of a worker
    test_passes(60000, 400, 500, 3);  // threads
}
