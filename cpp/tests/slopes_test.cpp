// The logistic model with slopes eliminated, against plain loops and differences of gradients.
#include "check.hpp"

#include "crowdsift/slopes.hpp"

namespace {

// Value, gradient in the scores and diagonal of A with the slopes given, by the book.
double plain(const Votes& votes, const std::vector<double>& scores,
             const std::vector<double>& slopes, std::vector<double>& gradient,
             std::vector<double>& diagonal) {
    gradient.assign(votes.n_items, 0.0);
    diagonal.assign(votes.n_items, 0.0);
    long double total = 0.0L;  // equal terms round alike, and their errors would add up
    for (std::size_t s = 0; s < votes.n_workers; ++s)
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const std::uint32_t a = votes.first[i], b = votes.second[i];
            const double eta = slopes[s] * (scores[a] - scores[b]), y = votes.outcome[i];
            const double p = 1.0 / (1.0 + std::exp(-eta)), m = votes.weight[i];
            total += m * (y * std::log(p) + (1.0 - y) * std::log1p(-p));
            gradient[a] += m * slopes[s] * (y - p);
            gradient[b] -= m * slopes[s] * (y - p);
            diagonal[a] += m * slopes[s] * slopes[s] * p * (1.0 - p);
            diagonal[b] += m * slopes[s] * slopes[s] * p * (1.0 - p);
        }
    return static_cast<double>(total);
}

// (A - B D^-1 B') v with the slopes given and the precision of their prior; the same of sizes.
void plain_product(const Votes& votes, const std::vector<double>& scores,
                   const std::vector<double>& slopes, double precision,
                   const std::vector<double>& v, std::vector<double>& product,
                   std::vector<double>& size) {
    product.assign(votes.n_items, 0.0);
    size.assign(votes.n_items, 0.0);
    for (std::size_t s = 0; s < votes.n_workers; ++s) {
        double coupling = 0.0, curvature = precision;
        for (const bool summed : {false, true}) {
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const std::uint32_t a = votes.first[i], b = votes.second[i];
                const double d = scores[a] - scores[b], eta = slopes[s] * d, m = votes.weight[i];
                const double p = 1.0 / (1.0 + std::exp(-eta)), y = votes.outcome[i];
                const double held = m * p * (1.0 - p), mixed = held * eta - m * (y - p);
                const double along = slopes[s] * slopes[s] * held * (v[a] - v[b]);
                if (summed) {
                    const double push = along - mixed * coupling / curvature;
                    product[a] += push;
                    product[b] -= push;
                    size[a] += std::fabs(along) + std::fabs(mixed * coupling / curvature);
                    size[b] += std::fabs(along) + std::fabs(mixed * coupling / curvature);
                } else {
                    coupling += mixed * (v[a] - v[b]);
                    curvature += held * d * d;
                }
            }
        }
    }
}

// The derivative of a worker's own objective.
double slope_derivative(const Votes& votes, const std::vector<double>& scores, std::size_t s,
                        double slope, const SlopePrior& prior) {
    double sum = prior.precision * (prior.mean - slope);
    for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
        const double d = scores[votes.first[i]] - scores[votes.second[i]];
        sum += static_cast<double>(votes.weight[i]) * d *
               (static_cast<double>(votes.outcome[i]) - 1.0 / (1.0 + std::exp(-slope * d)));
    }
    return sum;
}

void test_one(std::size_t n, std::size_t items, std::size_t workers, std::size_t threads,
              double resolution = 0.0) {
    ThreadPool pool(threads);
    const Sample sample(n, items, workers, pool);
    const Votes& votes = sample.votes;
    ItemSums sums(items);
    SlopePasses passes(votes, pool, sums);
    SlopeHessian hessian, other_hessian;
    const std::vector<double> scores = normals(items, 7), v = normals(items, 8);
    std::vector<double> gradient(items), diagonal(items), want(items), sizes(items), product(items);
    std::vector<double> up(items), down(items), moved(items), curvature(workers);
    const double step = 1e-4;
    const auto move = [&](double length) {
        for (std::size_t j = 0; j < items; ++j) moved[j] = scores[j] + length * v[j];
        return moved.data();
    };

    const std::vector<double> alike(workers, 0.7), zeros(items, 0.0);
    const bool rounded = items >= kMixedFrom && resolution > 0.0;  // scores to 30 bits, sums to 24
    for (const std::vector<double>* at : {&zeros, &scores}) {
        NEAR(passes.common(at->data(), 0.7, resolution, gradient.data(), hessian),
             plain(votes, *at, alike, want, sizes), rounded ? 1e-10 : 1e-12);
        passes.diagonal(hessian, diagonal.data());
        for (std::size_t j = 0; j < items; ++j) {
            NEAR(gradient[j], want[j], rounded ? 1e-6 : 1e-10);
            NEAR(diagonal[j], sizes[j], 1e-6);
        }
    }
    passes.multiply(hessian, 0.0, v.data(), product.data());
    plain_product(votes, scores, alike, HUGE_VAL, v, want, sizes);
    for (std::size_t j = 0; j < items; ++j) NEAR(product[j], want[j], 1e-6 * (1.0 + sizes[j]));

    const SlopePrior prior{0.5, 2.0, 1e-10};
    std::vector<double> slopes(workers, 3.0);
    const double value = passes.own(scores.data(), prior, resolution, slopes.data(),
                                    gradient.data(), curvature.data(), hessian);
    passes.multiply(hessian, 0.0, v.data(), product.data());
    NEAR(value, plain(votes, scores, slopes, want, sizes), 1e-9);
    passes.diagonal(hessian, diagonal.data());
    for (std::size_t j = 0; j < items; ++j) {
        NEAR(gradient[j], want[j], 1e-6);
        NEAR(diagonal[j], sizes[j], 1e-6);
    }
    for (std::size_t s = 0; s < workers; ++s) {
        NEAR(slope_derivative(votes, scores, s, slopes[s], prior), 0.0, 1e-6 * curvature[s]);
        const double across = slope_derivative(votes, scores, s, slopes[s] - step, prior) -
                              slope_derivative(votes, scores, s, slopes[s] + step, prior);
        NEAR(curvature[s], across / (2.0 * step), 1e-5);
    }
    plain_product(votes, scores, slopes, prior.precision, v, want, sizes);
    for (std::size_t j = 0; j < items; ++j) NEAR(product[j], want[j], 1e-6 * (1.0 + sizes[j]));
    if (rounded) return;  // too coarse for differences
    std::vector<double> other(slopes);
    passes.own(move(step), prior, resolution, other.data(), up.data(), curvature.data(),
               other_hessian);
    passes.own(move(-step), prior, resolution, other.data(), down.data(), curvature.data(),
               other_hessian);
    double size = 0.0;
    for (const double d : diagonal) size = std::fmax(size, d);
    for (std::size_t j = 0; j < items; ++j)
        NEAR(product[j], (down[j] - up[j]) / (2.0 * step), 1e-4 * (1.0 + size));
}

// Partial sums are float32 among many items, unless one of them is in a large part of the rows.
void test_hub() {
    ThreadPool pool(2);
    const std::size_t n = 2 * kMixedFrom;
    std::vector<std::uint32_t> first(n), second(n);
    const std::vector<float> ones(n, 1.0F);
    const std::vector<std::int64_t> offsets{0, static_cast<std::int64_t>(n)};
    const Votes votes{n,           kMixedFrom,    1, first.data(), second.data(), ones.data(),
                      ones.data(), offsets.data()};
    const auto draw = [&](std::size_t hub_every) {
        for (std::size_t i = 0; i < n; ++i) {
            first[i] =
                static_cast<std::uint32_t>(i % hub_every == 0 ? 0 : 1 + i % (kMixedFrom / 2));
            second[i] = static_cast<std::uint32_t>(kMixedFrom / 2 + 1 + i % (kMixedFrom / 2 - 1));
        }
        votes.validate(pool);
        return most_rows_of_an_item(votes, pool);
    };
    const auto rows = [&](std::size_t most, PartialLength limit) {
        return static_cast<double>(rows_between_totals(votes, most, limit));
    };
    const std::size_t even = draw(n + 1), some = draw(32), all = draw(1);
    NEAR(static_cast<double>(all), static_cast<double>(n), 0.0);
    NEAR(static_cast<double>(some), static_cast<double>(n / 32), 0.0);
    NEAR(rows(even, kFine), static_cast<double>(kFine.rows_an_item * kMixedFrom), 0.0);
    NEAR(rows(even, kCoarse), static_cast<double>(kCoarse.rows_an_item * kMixedFrom), 0.0);
    NEAR(rows(some, kFine), 0.0, 0.0);
    NEAR(rows(some, kCoarse), 32.0 * 4096.0, 0.0);
    NEAR(rows(all, kCoarse), 0.0, 0.0);
}

}  // namespace

void test_slopes() {
    test_one(1, 2, 1, 1);
    test_one(40, 5, 9, 2);
    test_one(9000, 30, 3, 2);                  // runs longer than a block
    test_one(60000, 400, 500, 3);              // threads
    test_one(9000, 300, 1, 4);                 // fewer ranges of workers than of rows
    test_one(60000, kMixedFrom, 500, 2, 1.0);  // fixed point scores, partial sums
    test_one(60000, kMixedFrom, 500, 2);       // partial sums of products alone
    test_hub();
}
