// The passes of every likelihood with parameters of workers.
#include "check.hpp"

#include "crowdsift/eliminated.hpp"
#include "crowdsift/likelihoods.hpp"

namespace {

// The passes of one likelihood against plain sums over its values and first derivatives, and
// against differences of those.
template <class Likelihood>
struct EliminatedTest {
    using Vector = std::vector<double>;
    ThreadPool pool;
    const Sample sample;
    const Votes& votes;
    const std::size_t features, p, items, workers;
    const double low, high;
    std::vector<float> x;
    EliminatedPasses passes;
    Vector scores, v, theta, u, blocks;
    Vector up_g, up_h, down_g, down_h;  // gradients on either side
    const double step = 1e-5;

    EliminatedTest(std::size_t n, std::size_t n_items, std::size_t n_workers,
                   std::size_t n_features, std::size_t threads, double lowest, double highest)
        : pool(threads), sample(n, n_items, n_workers, pool), votes(sample.votes),
          features(n_features), p(Likelihood::parameters(n_features)), items(n_items),
          workers(n_workers), low(lowest), high(highest), x(votes.n * features),
          passes(votes, pool, x.data(), features), scores(normals(items, 4)),
          v(normals(items, 5)), theta(normals(workers * p, 6)), u(normals(workers * p, 9)),
          blocks(workers * p * p) {
        const Vector values = normals(x.size(), 3);
        for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(values[k]);
        for (double& t : theta) t = low + (high - low) * (0.1 + 0.8 / (1.0 + std::exp(-t)));
    }

    double gradients(const Vector& r, const Vector& t, Vector& by_item, Vector& by_worker) const {
        by_item.assign(items, 0.0);
        by_worker.assign(workers * p, 0.0);
        double total = 0.0;
        Local local{};
        for (std::size_t s = 0; s < workers; ++s)
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const double m = votes.weight[i], y = votes.outcome[i];
                Likelihood::evaluate(r[votes.first[i]] - r[votes.second[i]], t.data() + s * p,
                                     x.data() + i * features, features, y, local);
                total += m * local.value;
                by_item[votes.first[i]] += m * local.d;
                by_item[votes.second[i]] -= m * local.d;
                for (std::size_t k = 0; k < p; ++k) by_worker[s * p + k] += m * local.t[k];
            }
        return total;
    }

    static Vector moved(Vector from, const Vector& along, double by) {
        for (std::size_t j = 0; j < from.size(); ++j) from[j] += by * along[j];
        return from;
    }

    // Second derivatives of -log-likelihood along a move, by differences.
    double curved(const Vector& up, const Vector& down, std::size_t at) const {
        return (down[at] - up[at]) / (2.0 * step);
    }

    // D u, or D times another vector of the workers.
    Vector times_blocks(const Vector& vector) const {
        Vector out(workers * p, 0.0);
        for (std::size_t s = 0; s < workers; ++s)
            for (std::size_t j = 0; j < p; ++j)
                for (std::size_t k = 0; k < p; ++k)
                    out[s * p + j] += blocks[(s * p + j) * p + k] * vector[s * p + k];
        return out;
    }

    void test_gradients() {
        Vector g(items), h(workers * p), diagonal(items), want_g, want_h;
        const double value = passes.template derivatives<Likelihood>(
            scores.data(), theta.data(), g.data(), h.data(), blocks.data(), diagonal.data());
        NEAR(value, gradients(scores, theta, want_g, want_h), 1e-11);
        for (std::size_t j = 0; j < items; ++j) NEAR(g[j], want_g[j], 1e-9);
        for (std::size_t k = 0; k < workers * p; ++k) NEAR(h[k], want_h[k], 1e-9);
    }

    // A v and B' v, then (A - B M B') v with D in the place of M.
    void test_along_items() {
        gradients(moved(scores, v, step), theta, up_g, up_h);
        gradients(moved(scores, v, -step), theta, down_g, down_h);
        Vector coupled(workers * p), own(items), rest(items), reduced(items);
        const Vector none(workers * p * p, 0.0);
        passes.couple(v.data(), coupled.data());
        passes.reduced(v.data(), none.data(), own.data());
        for (std::size_t k = 0; k < workers * p; ++k)
            NEAR(coupled[k], curved(up_h, down_h, k), 2e-5);
        for (std::size_t j = 0; j < items; ++j) NEAR(own[j], curved(up_g, down_g, j), 2e-5);
        passes.spread(times_blocks(coupled).data(), rest.data());
        passes.reduced(v.data(), blocks.data(), reduced.data());
        for (std::size_t j = 0; j < items; ++j) NEAR(reduced[j], own[j] - rest[j], 1e-9);
    }

    // B u and D u.
    void test_along_workers() {
        gradients(scores, moved(theta, u, step), up_g, up_h);
        gradients(scores, moved(theta, u, -step), down_g, down_h);
        Vector spread(items);
        passes.spread(u.data(), spread.data());
        const Vector product = times_blocks(u);
        for (std::size_t j = 0; j < items; ++j) NEAR(spread[j], curved(up_g, down_g, j), 2e-5);
        for (std::size_t k = 0; k < workers * p; ++k)
            NEAR(product[k], curved(up_h, down_h, k), 2e-5);
    }

    // At the fitted parameters the penalised gradient is 0, or points out of the box.
    void test_fit() {
        const double penalty = 1.0, middle = 0.5 * (low + high);
        const Vector centre(p, middle);
        Vector g, h;
        passes.template fit_workers<Likelihood>(scores.data(), theta.data(), centre.data(),
                                                penalty, low, high, 1e-10, 100);
        gradients(scores, theta, g, h);
        for (std::size_t k = 0; k < workers * p; ++k) {
            const double slope = h[k] - penalty * (theta[k] - middle);
            NEAR(theta[k] >= low && theta[k] <= high, 1.0, 0.0);
            if (theta[k] > low && theta[k] < high) NEAR(slope, 0.0, 1e-4);
            else NEAR(theta[k] > low ? slope >= 0.0 : slope <= 0.0, 1.0, 0.0);
        }
    }
};

template <class Likelihood>
void test_eliminated(std::size_t n, std::size_t items, std::size_t workers, std::size_t features,
                     std::size_t threads, double low, double high) {
    EliminatedTest<Likelihood> test(n, items, workers, features, threads, low, high);
    test.test_gradients();
    test.test_along_items();
    test.test_along_workers();
    test.test_fit();
}

void test_all(std::size_t n, std::size_t items, std::size_t workers,
                      std::size_t threads) {
    test_eliminated<ScaledLogit>(n, items, workers, 0, threads, -3.0, 3.0);
    test_eliminated<ScaledProbit>(n, items, workers, 0, threads, -3.0, 3.0);
    test_eliminated<ShiftedLogit>(n, items, workers, 2, threads, -2.0, 2.0);
    test_eliminated<FlippedLogit>(n, items, workers, 0, threads, 0.01, 0.99);
    test_eliminated<LedLogit>(n, items, workers, 2, threads, -2.0, 2.0);
}

}  // namespace

void test_likelihoods() {
    test_all(1, 2, 1, 1);
    test_all(60, 5, 9, 2);
    test_all(25000, 60, 40, 3);
}
