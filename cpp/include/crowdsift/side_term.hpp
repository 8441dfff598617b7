// Passes over the comparisons for the logistic model with a side term,
// eta = slope_s (r_first - r_second) + side_s: the first item is the one shown on the left.
// An outcome y in [0, 1] with weight n counts as n y wins and n (1 - y) losses.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/logistic.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// The parameters of workers: a slope and a side each.
struct SideParameters {
    const double* slopes;
    const double* sides;
};

class SidePasses {
public:
    SidePasses(const Votes& votes, LogisticPasses& logistic, ThreadPool& pool)
        : votes_(votes), logistic_(logistic), pool_(pool),
          ranges_(votes.worker_ranges(pool.size())), precision_(votes.n, 0.0F),
          contribution_(votes.n, 0.0F), sums_(ranges_.size() - 1, votes.n_items) {}

    // E-step: keeps n E[omega | eta] of every comparison; returns {log-likelihood, their sum}.
    std::pair<double, double> expect(const double* scores, SideParameters at) {
        std::vector<double> part(2 * (ranges_.size() - 1), 0.0);
        over_blocks(scores, at, [&](std::size_t range, std::size_t, std::size_t begin,
                                    std::size_t count, const double*, const double* eta) {
            double level[kBlock], growth[kBlock], precision[kBlock];
            expect_block(count, eta, votes_.outcome + begin, votes_.weight + begin, level, growth,
                         precision);
            for (std::size_t j = 0; j < count; ++j)
                precision_[begin + j] = static_cast<float>(precision[j]);
            part[2 * range] += log_likelihood_of(count, level, growth, votes_.weight + begin);
            part[2 * range + 1] += sum_block(precision, count);
        });
        std::pair<double, double> total{0.0, 0.0};
        for (std::size_t k = 0; k < part.size(); k += 2) {
            total.first += part[k];
            total.second += part[k + 1];
        }
        return total;
    }

    // Refreshes the Laplacian with slope^2 n E[omega];
    // rhs_j = sum of +- slope (n (y - 1/2) - n E[omega] side).
    void item_system(SideParameters at, double* rhs) {
        sums_.clear();
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s)
                contribute(s, at.slopes[s], at.sides[s], sums_.range(range));
        });
        sums_.reduce(rhs);
        logistic_.refresh_laplacian(contribution_);
    }

    // One ridge regression a worker of n (y - 1/2) on (d, 1) with precisions n E[omega], in
    // closed form; then, while the rows are at hand, item_system for the result.
    void regress_workers(const double* scores, double ridge, double side_ridge, double* slopes,
                         double* sides, double* rhs) {
        sums_.clear();
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                regress(s, scores, ridge, side_ridge, slopes[s], sides[s]);
                contribute(s, slopes[s], sides[s], sums_.range(range));
            }
        });
        sums_.reduce(rhs);
        logistic_.refresh_laplacian(contribution_);
    }

    // Log-likelihood; its gradient in the scores and, two numbers a worker, in slope and side; the
    // negative Hessian in the latter, three numbers a worker (slope, mixed, side). Refreshes the
    // Laplacian with slope^2 n p (1 - p), the negative Hessian in the scores.
    double derivatives(const double* scores, SideParameters at, double* items, double* workers,
                       double* blocks) {
        std::vector<double> part(ranges_.size() - 1, 0.0);
        sums_.clear();
        std::fill(workers, workers + 2 * votes_.n_workers, 0.0);
        std::fill(blocks, blocks + 3 * votes_.n_workers, 0.0);
        over_blocks(scores, at, [&](std::size_t range, std::size_t s, std::size_t begin,
                                    std::size_t count, const double* d, const double* eta) {
            double level[kBlock], growth[kBlock], residual[kBlock], information[kBlock];
            logistic_block(count, eta, votes_.outcome + begin, votes_.weight + begin, level, growth,
                           residual, information);
            double* const sums = sums_.range(range);
            const double slope = at.slopes[s];
            for (std::size_t j = 0; j < count; ++j) {
                const double push = slope * residual[j];
                sums[votes_.first[begin + j]] += push;
                sums[votes_.second[begin + j]] -= push;
                contribution_[begin + j] = static_cast<float>(slope * slope * information[j]);
                workers[2 * s] += residual[j] * d[j];
                workers[2 * s + 1] += residual[j];
                blocks[3 * s] += information[j] * d[j] * d[j];
                blocks[3 * s + 1] += information[j] * d[j];
                blocks[3 * s + 2] += information[j];
            }
            part[range] += log_likelihood_of(count, level, growth, votes_.weight + begin);
        });
        sums_.reduce(items);
        logistic_.refresh_laplacian(contribution_);
        double total = 0.0;
        for (const double p : part) total += p;
        return total;
    }

private:
    // Blocks of rows of one worker each, with d and eta of every row.
    template <class Block>
    void over_blocks(const double* scores, SideParameters at, const Block& block) {
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double d[kBlock], eta[kBlock];
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                const std::size_t end = votes_.begin_of(s + 1);
                for (std::size_t begin = votes_.begin_of(s); begin < end; begin += kBlock) {
                    const std::size_t count = std::min(kBlock, end - begin);
                    for (std::size_t j = 0; j < count; ++j) {
                        d[j] = scores[votes_.first[begin + j]] - scores[votes_.second[begin + j]];
                        eta[j] = at.slopes[s] * d[j] + at.sides[s];
                    }
                    block(range, s, begin, count, d, eta);
                }
            }
        });
    }

    void regress(std::size_t worker, const double* scores, double ridge, double side_ridge,
                 double& slope, double& side) const {
        double a = ridge, b = 0.0, c = side_ridge, u = 0.0, v = 0.0;
        for (std::size_t i = votes_.begin_of(worker); i < votes_.begin_of(worker + 1); ++i) {
            const double d = scores[votes_.first[i]] - scores[votes_.second[i]];
            const double target =
                static_cast<double>(votes_.weight[i] * (votes_.outcome[i] - 0.5F));
            const double precision = static_cast<double>(precision_[i]);
            a += precision * d * d;
            b += precision * d;
            c += precision;
            u += target * d;
            v += target;
        }
        const double determinant = a * c - b * b;
        slope = determinant > 0.0 ? (c * u - b * v) / determinant : 0.0;
        side = determinant > 0.0 ? (a * v - b * u) / determinant : 0.0;
    }

    void contribute(std::size_t worker, double slope, double side, double* sums) {
        const float square = static_cast<float>(slope * slope);
        for (std::size_t i = votes_.begin_of(worker); i < votes_.begin_of(worker + 1); ++i) {
            contribution_[i] = square * precision_[i];
            const double target =
                static_cast<double>(votes_.weight[i] * (votes_.outcome[i] - 0.5F));
            const double push = slope * (target - static_cast<double>(precision_[i]) * side);
            sums[votes_.first[i]] += push;
            sums[votes_.second[i]] -= push;
        }
    }

    const Votes& votes_;
    LogisticPasses& logistic_;
    ThreadPool& pool_;
    const std::vector<std::size_t> ranges_;
    Array<float> precision_, contribution_;
    ItemSums sums_;
};

}  // namespace crowdsift
