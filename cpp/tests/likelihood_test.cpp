// The passes of every likelihood with parameters of workers.
#include "check.hpp"

#include "crowdsift/likelihood_passes.hpp"
#include "plain_likelihoods.hpp"

namespace {

// The passes of one likelihood against plain sums over its values and first derivatives, and
// against differences of those.
template <class Likelihood, class Plain>
struct LikelihoodTest {
    using Vector = std::vector<double>;
    ThreadPool pool;
    const Sample sample;
    const Votes& votes;
    const std::size_t features, p, items, workers;
    const double low, high;
    std::vector<float> x;
    ItemSums sums;
    LikelihoodPasses passes;
    SchurEntries kept;
    Vector scores, v, theta, u, blocks;
    Vector up_g, up_h, down_g, down_h;  // gradients on either side
    const double step = 1e-5;

    LikelihoodTest(std::size_t n, std::size_t n_items, std::size_t n_workers,
                   std::size_t n_features, std::size_t threads, double lowest, double highest)
        : pool(threads), sample(n, n_items, n_workers, pool), votes(sample.votes),
          features(n_features), p(Likelihood::parameters(n_features)), items(n_items),
          workers(n_workers), low(lowest), high(highest), x(votes.n * features), sums(items),
          passes(votes, pool, sums, x.data(), features), scores(normals(items, 4)),
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
        plain::Local local{};
        for (std::size_t s = 0; s < workers; ++s)
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const double m = votes.weight[i], y = votes.outcome[i];
                Plain::evaluate(r[votes.first[i]] - r[votes.second[i]], t.data() + s * p,
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
        Vector g(items), h(workers * p), want_g, want_h;
        const double value = passes.template derivatives<Likelihood>(
            scores.data(), theta.data(), g.data(), h.data(), blocks.data(), kept);
        NEAR(value, gradients(scores, theta, want_g, want_h), 1e-11);
        for (std::size_t j = 0; j < items; ++j) NEAR(g[j], want_g[j], 1e-9);
        for (std::size_t k = 0; k < workers * p; ++k) NEAR(h[k], want_h[k], 1e-9);
    }

    // A v, and (A - B M B') v with D in the place of M: B' v and B u are seen by differences.
    void test_reduced() {
        gradients(moved(scores, v, step), theta, up_g, up_h);
        gradients(moved(scores, v, -step), theta, down_g, down_h);
        Vector own(items), reduced(items), coupled(workers * p);
        const Vector none(workers * p * p, 0.0);
        passes.reduced(kept, v.data(), none.data(), own.data());
        for (std::size_t j = 0; j < items; ++j) NEAR(own[j], curved(up_g, down_g, j), 2e-5);
        for (std::size_t k = 0; k < workers * p; ++k) coupled[k] = curved(up_h, down_h, k);
        passes.reduced(kept, v.data(), blocks.data(), reduced.data());
        const Vector along = times_blocks(coupled);
        double size = 1.0;
        for (const double a : along) size = std::fmax(size, std::fabs(a));
        const double small = step / size;  // so that the move stays as short
        gradients(scores, moved(theta, along, small), up_g, up_h);
        gradients(scores, moved(theta, along, -small), down_g, down_h);
        for (std::size_t j = 0; j < items; ++j) {
            const double rest = (down_g[j] - up_g[j]) / (2.0 * small);
            NEAR(reduced[j], own[j] - rest, 2e-5 * (1.0 + size));
        }
    }

    // The product is that of the entries kept, also where workers have parameters of 0 and are
    // held: of a scaled likelihood their rows are left out.
    void test_held() {
        Vector g(items), h(workers * p), held(theta), inverse(workers * p * p, 0.0), want(items),
            product(items), own(workers * p * p);
        for (std::size_t s = 0; s < workers; s += 2)
            for (std::size_t k = 0; k < p; ++k) held[s * p + k] = 0.0;
        SchurEntries entries;
        passes.template derivatives<Likelihood>(scores.data(), held.data(), g.data(), h.data(),
                                                own.data(), entries);
        for (std::size_t s = 1; s < workers; s += 2)
            for (std::size_t k = 0; k < p * p; ++k) inverse[s * p * p + k] = 0.1 + 0.2 * h[s * p];
        passes.reduced(entries, v.data(), inverse.data(), product.data());
        for (std::size_t s = 0; s < workers; ++s) {
            Vector coupled(p, 0.0);
            const auto difference = [&](std::size_t i) {
                return v[votes.first[i]] - v[votes.second[i]];
            };
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i)
                for (std::size_t k = 0; k < p; ++k)
                    coupled[k] += static_cast<double>(entries.b[i * p + k]) * difference(i);
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                double push = static_cast<double>(entries.a[i]) * difference(i);
                for (std::size_t k = 0; k < p; ++k)
                    for (std::size_t m = 0; m < p; ++m)
                        push -= static_cast<double>(entries.b[i * p + k]) *
                                inverse[(s * p + k) * p + m] * coupled[m];
                want[votes.first[i]] += push;
                want[votes.second[i]] -= push;
            }
        }
        for (std::size_t j = 0; j < items; ++j) NEAR(product[j], want[j], 1e-8);
    }

    // D u.
    void test_blocks() {
        gradients(scores, moved(theta, u, step), up_g, up_h);
        gradients(scores, moved(theta, u, -step), down_g, down_h);
        const Vector product = times_blocks(u);
        for (std::size_t k = 0; k < workers * p; ++k)
            NEAR(product[k], curved(up_h, down_h, k), 2e-5);
    }

    // The diagonal is that of |A|; a shift that makes the matrix definite lets it be solved.
    void test_solve() {
        Vector diagonal(items), want(items, 0.0), found(items, 0.0), back(items);
        passes.diagonal(kept, diagonal.data());
        for (std::size_t i = 0; i < votes.n; ++i) {
            const double size = std::fabs(static_cast<double>(kept.a[i]));
            want[votes.first[i]] += size;
            want[votes.second[i]] += size;
        }
        double largest = 0.0;
        for (std::size_t j = 0; j < items; ++j) {
            NEAR(diagonal[j], want[j], 1e-9);
            largest = std::fmax(largest, diagonal[j]);
        }
        const Vector none(workers * p * p, 0.0);
        const double shift = 2.0 * largest + 1.0;
        NEAR(passes.solve(kept, none.data(), shift, v.data(), found.data(), 1e-10, 1000).converged,
             1.0, 0.0);
        passes.reduced(kept, found.data(), none.data(), back.data());
        for (std::size_t j = 0; j < items; ++j) NEAR(back[j] + shift * found[j], v[j], 1e-7);
    }

    // Numbers that are not finite end the search instead of going on for ever.
    void test_hopeless() {
        Vector hopeless(scores), fitted(theta);
        hopeless[0] = std::nan("");
        const Vector centre(p, 0.5 * (low + high));
        passes.template fit_workers<Likelihood>(hopeless.data(), fitted.data(),
                                                {centre.data(), 1.0, low, high, 1e-10, 100});
    }

    // At the fitted parameters the penalised gradient is 0, or points out of the box.
    void test_fit() {
        const double penalty = 1.0, middle = 0.5 * (low + high);
        const Vector centre(p, middle);
        Vector g, h;
        passes.template fit_workers<Likelihood>(scores.data(), theta.data(),
                                                {centre.data(), penalty, low, high, 1e-10, 100});
        gradients(scores, theta, g, h);
        for (std::size_t k = 0; k < workers * p; ++k) {
            const double slope = h[k] - penalty * (theta[k] - middle);
            NEAR(theta[k] >= low && theta[k] <= high, 1.0, 0.0);
            if (theta[k] > low && theta[k] < high)
                NEAR(slope, 0.0, 1e-4);
            else
                NEAR(theta[k] > low ? slope >= 0.0 : slope <= 0.0, 1.0, 0.0);
        }
    }
};

template <class Likelihood, class Plain>
void test_likelihood(std::size_t n, std::size_t items, std::size_t workers, std::size_t features,
                     std::size_t threads, double low, double high) {
    LikelihoodTest<Likelihood, Plain> test(n, items, workers, features, threads, low, high);
    test.test_gradients();
    test.test_reduced();
    test.test_blocks();
    test.test_held();
    test.test_solve();
    test.test_hopeless();
    test.test_fit();
}

// A vote in lanes against the same with the library's functions, from the middle to far tails.
template <class Likelihood, class Plain>
void test_votes(double parameter, double tolerance, double furthest = 700.0) {
    plain::Local want{};
    const double t[2] = {parameter, -0.4};
    const float x[1] = {1.5F};
    const double lead = Likelihood::kHead ? -0.6 : 1.5 * parameter;
    for (const double size : {0.0, 1e-9, 0.3, 1.0, 2.5, 6.0, 9.0, 20.0, 35.0, 60.0, 300.0, 700.0})
        for (const double d : {size, -size})
            for (const double y : {0.0, 0.5, 1.0}) {
                if (size > furthest) continue;
                Plain::evaluate(d, t, x, 1, y, want);
                const Point got = Likelihood::at(d, parameter, lead, y);
                const bool with_head = Likelihood::kHead;
                NEAR(got.value, want.value, tolerance);
                NEAR(got.d, want.d, tolerance);
                NEAR(got.dd, want.dd, tolerance * (1.0 + d * d));
                NEAR(with_head ? got.h : 1.5 * got.z, want.t[0], tolerance);
                NEAR(with_head ? got.dh : 1.5 * got.dz, want.dt[0], tolerance * (1.0 + d * d));
                NEAR(with_head ? got.hh : 2.25 * got.zz, want.tt[0], tolerance * (1.0 + d * d));
                if (!Likelihood::kHead || !Likelihood::kLead) continue;
                NEAR(1.5 * got.z, want.t[1], tolerance);
                NEAR(1.5 * got.dz, want.dt[1], tolerance);
                NEAR(1.5 * got.hz, want.tt[1], tolerance);
                NEAR(2.25 * got.zz, want.tt[3], tolerance);
            }
}

void test_every_vote() {
    test_votes<ScaledLogit, plain::ScaledLogit>(0.9, 1e-14);
    test_votes<ScaledProbit, plain::ScaledProbit>(0.9, 2e-13);
    test_votes<ScaledProbit, plain::ScaledProbit>(std::sqrt(2.0), 2e-13);
    test_votes<ShiftedLogit, plain::ShiftedLogit>(0.3, 1e-14);
    test_votes<FlippedLogit, plain::FlippedLogit>(0.8, 1e-14);
    test_votes<FlippedLogit, plain::FlippedLogit>(0.0, 1e-13, 300.0);  // then 1/P^2 overflows
    test_votes<LedLogit, plain::LedLogit>(0.7, 1e-14);
}

void test_all(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads) {
    test_likelihood<ScaledLogit, plain::ScaledLogit>(n, items, workers, 0, threads, -3.0, 3.0);
    test_likelihood<ScaledProbit, plain::ScaledProbit>(n, items, workers, 0, threads, -3.0, 3.0);
    test_likelihood<ShiftedLogit, plain::ShiftedLogit>(n, items, workers, 2, threads, -2.0, 2.0);
    test_likelihood<FlippedLogit, plain::FlippedLogit>(n, items, workers, 0, threads, 0.01, 0.99);
    test_likelihood<LedLogit, plain::LedLogit>(n, items, workers, 2, threads, -2.0, 2.0);
}

}  // namespace

void test_likelihoods() {
    test_every_vote();
    test_all(1, 2, 1, 1);
    test_all(60, 5, 9, 2);
    test_all(25000, 60, 40, 3);
}
