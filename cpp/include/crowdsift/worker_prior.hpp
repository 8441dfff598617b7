// The distribution of worker types from their expected counts: see solvers/worker_prior.py.
//
// pi = (n + 50 p0)/(M + 50); over reliabilities p0 is the mixture plus N(mu, tau^2) + minus
// N(-mu, tau^2) + zero at 0, on the grid; times the shares of tie widths; pure types share the rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace crowdsift {

struct Mixture {
    double centre, spread;
    double shares[3];  // of the majority's side, of the other, of reliability 0
};

class PriorUpdate {
public:
    static constexpr double kPriorWorkers = 50.0;  // how many workers p0 counts for
    static constexpr double kShareWorkers = 5.0, kSpreadWorkers = 20.0;  // ... the shares, mu/2
    static constexpr double kShares[3] = {0.7, 0.1, 0.2};
    static constexpr double kLeastSpread = 0.05;
    static constexpr int kSteps = 3;

    // The symmetric grid of reliabilities, and logarithms of the widths of its cells.
    PriorUpdate(std::size_t n, const double* points, const double* log_widths)
        : n_(n), points_(points), log_widths_(log_widths), able_(n), plus_(n), minus_(n),
          total_(n), by_level_(n) {}

    // Counts of n_widths times n regular types, then pure ones; without a mixture yet, its centre
    // is not a number. Writes the masses, moves the mixture.
    void update(std::size_t n_widths, std::size_t n_pure, const double* counts, Mixture& mixture,
                double* masses) {
        std::fill(by_level_.begin(), by_level_.end(), 0.0);
        double regular = 0.0, pure = 0.0;
        for (std::size_t w = 0; w < n_widths; ++w)
            for (std::size_t t = 0; t < n_; ++t) by_level_[t] += counts[w * n_ + t];
        for (std::size_t t = 0; t < n_; ++t) regular += by_level_[t];
        for (std::size_t p = 0; p < n_pure; ++p) pure += counts[n_widths * n_ + p];
        regular = std::max(regular, 1e-12);
        if (std::isnan(mixture.centre)) begin(regular, mixture);
        for (int step = 0; step < kSteps; ++step) learn(mixture);
        parts(mixture);
        const double everyone = regular + pure, scale = 1.0 / (everyone + kPriorWorkers);
        const double share = n_pure > 0 ? (pure + 0.5) / (everyone + 1.0) : 0.0;
        for (std::size_t w = 0; w < n_widths; ++w) {
            double held = kShareWorkers / static_cast<double>(n_widths);
            for (std::size_t t = 0; t < n_; ++t) held += counts[w * n_ + t];
            const double part = kPriorWorkers * (1.0 - share) * held / (regular + kShareWorkers);
            for (std::size_t t = 0; t < n_; ++t)
                masses[w * n_ + t] = scale * (counts[w * n_ + t] + part * total_[t]);
        }
        for (std::size_t p = n_widths * n_; p < n_widths * n_ + n_pure; ++p)
            masses[p] =
                scale * (counts[p] + kPriorWorkers * share / static_cast<double>(n_pure));
    }

private:
    // Mean and spread of the first counts.
    void begin(double regular, Mixture& mixture) const {
        double mean = 0.0, variance = 0.0;
        for (std::size_t t = 0; t < n_; ++t) mean += points_[t] * by_level_[t] / regular;
        for (std::size_t t = 0; t < n_; ++t) {
            const double d = points_[t] - mean;
            variance += d * d * by_level_[t] / regular;
        }
        mixture.centre = mean;
        mixture.spread = std::max(std::sqrt(variance), kLeastSpread);
    }

    // The parts of p0 on the grid, normalised, times their shares; their sum in total_.
    void parts(const Mixture& mixture) {
        double top = -INFINITY, sum = 0.0;
        for (std::size_t t = 0; t < n_; ++t) {
            const double z = (points_[t] - mixture.centre) / mixture.spread;
            able_[t] = log_widths_[t] - 0.5 * z * z;
            top = std::max(top, able_[t]);
        }
        for (double& a : able_) {
            a = std::exp(a - top);
            sum += a;
        }
        for (std::size_t t = 0; t < n_; ++t) {
            plus_[t] = mixture.shares[0] * able_[t] / sum;
            minus_[t] = mixture.shares[1] * able_[n_ - 1 - t] / sum;
            total_[t] = plus_[t] + minus_[t];
        }
        total_[n_ / 2] += mixture.shares[2];
    }

    // One step of EM for p0.
    void learn(Mixture& mixture) {
        parts(mixture);
        double held[3] = {0.0, 0.0, 0.0}, everyone = 0.0;
        for (std::size_t t = 0; t < n_; ++t) {
            const double ratio = by_level_[t] / std::max(total_[t], 1e-300);
            plus_[t] *= ratio;
            minus_[t] *= ratio;
            held[0] += plus_[t];
            held[1] += minus_[t];
            everyone += by_level_[t];
        }
        if (held[1] > held[0]) {  // + is the majority's side
            std::swap(held[0], held[1]);
            plus_.swap(minus_);
        }
        held[2] = everyone - held[0] - held[1];
        for (int k = 0; k < 3; ++k)
            mixture.shares[k] =
                (held[k] + kShareWorkers * kShares[k]) / (everyone + kShareWorkers);
        const double able = std::max(held[0] + held[1], 1e-12);
        double mean = 0.0, squares = 0.0;
        for (std::size_t t = 0; t < n_; ++t) {
            plus_[t] += minus_[n_ - 1 - t];  // reliabilities of adversaries with their sign turned
            mean += points_[t] * plus_[t] / able;
        }
        for (std::size_t t = 0; t < n_; ++t) {
            const double d = points_[t] - mean;
            squares += d * d * plus_[t];
        }
        const double variance =
            (squares + kSpreadWorkers * 0.25 * mean * mean) / (able + kSpreadWorkers);
        mixture.centre = mean;
        mixture.spread = std::max(std::sqrt(variance), kLeastSpread);
    }

    std::size_t n_;
    const double *points_, *log_widths_;
    std::vector<double> able_, plus_, minus_, total_, by_level_;
};

}  // namespace crowdsift
