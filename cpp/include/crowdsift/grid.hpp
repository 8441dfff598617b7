// Expectation propagation over a grid of worker types: the sites of all votes and their passes.
// What each pass computes is specified in src/crowdsift/engines/grid.py and grid_reference.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/beliefs.hpp"
#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/pair_effect.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/sparse_inverse.hpp"
#include "crowdsift/split_votes.hpp"
#include "crowdsift/type_grid.hpp"
#include "crowdsift/vote_correlations.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

struct SiteSums {
    double log_messages = 0.0, log_sites = 0.0, log_pairs = 0.0;
};

class GridSites {
public:
    GridSites(const Votes& votes, const Pairs& pairs, Laplacian& laplacian, ThreadPool& pool)
        : votes_(votes), pairs_(pairs), laplacian_(laplacian), pool_(pool),
          beliefs_(pairs, votes.n_items, pool), ranges_(votes.worker_ranges(pool.size())),
          rhs_(ranges_.size() - 1, votes.n_items), split_(votes, pairs), a_(split_.size()),
          h_(split_.size()), pair_variance_(pairs.size()), own_(votes.n_workers) {
        reset(2.0);
    }

    std::size_t n_types() const { return 2 * grid_.half() + 1; }
    const TypeGrid& grid() const { return grid_; }

    void reset(double variance) {
        std::fill(a_.begin(), a_.end(), 0.0F);
        std::fill(h_.begin(), h_.end(), 0.0F);
        std::fill(pair_variance_.begin(), pair_variance_.end(), static_cast<float>(variance));
        std::fill(own_.begin(), own_.end(), -1);
        own_levels_.clear();
        likelihood_.clear();
        beliefs_.forget();
        effect_.set(0.0, pairs_.size());
    }

    // The variance of a common effect of all votes on a pair; refresh() before the next pass.
    void set_pair_effect(double variance) { effect_.set(variance, pairs_.size()); }

    SiteSums update(std::size_t half, const double* levels, const double* prior,
                    const double* means, double damping, bool clip, double* counts, double* rhs) {
        grid_.set(half, levels, prior);
        likelihood_.resize(votes_.n_workers * grid_.types());
        rhs_.clear();
        std::vector<Partial> parts(ranges_.size() - 1, Partial(n_types()));
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            Scratch scratch(grid_);
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s)
                update_worker(s, means, static_cast<float>(damping), clip ? 0.0F : -1e30F,
                              scratch, parts[range], rhs_.range(range));
        });
        SiteSums sums;
        sums.log_pairs = effect_.log_pairs();
        std::fill(counts, counts + n_types(), 0.0);
        for (const Partial& part : parts) {
            sums.log_messages += part.log_messages;
            sums.log_sites += part.log_sites;
            for (std::size_t t = 0; t < n_types(); ++t) counts[t] += part.counts[t];
        }
        rhs_.reduce(rhs);
        refresh_laplacian(rhs);
        return sums;
    }

    // Counts of types under another prior, for the messages of the last update.
    void type_counts(const double* prior, double* counts) {
        grid_.set_prior(prior);
        const std::size_t types = grid_.types();
        std::vector<Partial> parts(ranges_.size() - 1, Partial(n_types()));
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            Scratch scratch(grid_);
            std::vector<float> sums(types, 0.0F);
            double* const out = parts[range].counts.data();
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                const float* const likelihood = likelihood_.data() + s * types;
                const float* const p = prior_of(s, scratch);
                const float scale = 1.0F / weighted_sum(types, p, likelihood);
                if (split_.start[s] == split_.start[s + 1]) {
                    // without votes: not counted
                } else if (own_[s] < 0) {  // the common prior is multiplied in below, once
                    add_scaled(types, scale, likelihood, sums.data());
                } else {
                    grid_.deposit(own_levels(s), p, likelihood, static_cast<double>(scale), out);
                }
                if (s % 256 == 255 || s + 1 == ranges_[range + 1]) {
                    for (std::size_t t = 0; t < types; ++t) {
                        scratch.total[t] += static_cast<double>(sums[t]);
                        sums[t] = 0.0F;
                    }
                }
            }
            for (std::size_t t = 0; t < types; ++t)
                scratch.total[t] *= static_cast<double>(grid_.lane_prior()[t]);
            grid_.add_from_lanes(scratch.total.data(), 1.0, out);
        });
        std::fill(counts, counts + n_types(), 0.0);
        for (const Partial& part : parts)
            for (std::size_t t = 0; t < n_types(); ++t) counts[t] += part.counts[t];
    }

    // Reliabilities and posterior masses of types, rising, of workers [begin, end).
    void posteriors(const double* prior, std::size_t begin, std::size_t end, double* points,
                    double* masses) {
        grid_.set_prior(prior);
        Scratch scratch(grid_);
        std::vector<float> q(grid_.types());
        const std::size_t half = grid_.half();
        for (std::size_t s = begin; s < end; ++s) {
            const float* const likelihood = likelihood_.data() + s * grid_.types();
            const float* const p = prior_of(s, scratch);
            double total = 0.0;
            for (std::size_t t = 0; t < grid_.types(); ++t) {
                q[t] = p[t] * likelihood[t];
                total += static_cast<double>(q[t]);
            }
            double* const mass = masses + (s - begin) * n_types();
            double* const point = points + (s - begin) * n_types();
            std::fill(mass, mass + n_types(), 0.0);
            grid_.add_from_lanes(q.data(), 1.0 / total, mass);
            const double* const levels = own_[s] < 0 ? grid_.levels().data() : own_levels(s);
            point[half] = 0.0;
            for (std::size_t j = 0; j < half; ++j) {
                point[half + 1 + j] = levels[j];
                point[half - 1 - j] = -levels[j];
            }
        }
    }

    // Own levels for workers whose likelihood is narrow; how many changed. A worker that goes back
    // to the common levels keeps its place among the own ones, marked by -2 - place.
    std::size_t refine() {
        std::vector<double> levels;
        std::size_t moved = 0;
        for (std::size_t s = 0; s < votes_.n_workers; ++s) {
            const bool has_own = own_[s] >= 0;
            const TypeGrid::Choice choice = grid_.refine(
                has_own ? own_levels(s) : grid_.levels().data(), has_own,
                likelihood_.data() + s * grid_.types(), levels);
            if (choice == TypeGrid::Choice::stay) continue;
            ++moved;
            if (choice == TypeGrid::Choice::common) {
                own_[s] = -2 - own_[s];
                continue;
            }
            if (own_[s] == -1) {
                own_[s] = static_cast<std::int64_t>(own_levels_.size());
                own_levels_.resize(own_levels_.size() + grid_.half());
            } else if (own_[s] < -1) {
                own_[s] = -2 - own_[s];
            }
            std::copy(levels.begin(), levels.end(), own_levels_.begin() + own_[s]);
        }
        return moved;
    }

    BeliefReport believe(double tolerance, std::size_t most, double* item_variance) {
        return beliefs_.propagate(laplacian_.pair_weights().data(), laplacian_.diagonal().data(),
                                  tolerance, most, item_variance, pair_variance_.data());
    }

    // Exact variances by a sparse factorisation, whose order the caller keeps.
    bool factorise(SparseInverse& inverse, double* item_variance, double* log_determinant) {
        return inverse.invert(laplacian_.pair_weights().data(), laplacian_.diagonal().data(),
                              item_variance, pair_variance_.data(), log_determinant);
    }

    std::vector<float>& pair_variances() { return pair_variance_; }

    void refresh(double* rhs) {
        rhs_.clear();
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            double* const sums = rhs_.range(range);
            const std::size_t end = split_.start[ranges_[range + 1]];
            for (std::size_t i = split_.start[ranges_[range]]; i < end; ++i) push(i, sums);
        });
        rhs_.reduce(rhs);
        refresh_laplacian(rhs);
    }

    void drop_negative() {
        for (float& a : a_) a = a > 0.0F ? a : 0.0F;
    }

    void rescale(double factor, bool levels) {
        const float once = static_cast<float>(factor), twice = static_cast<float>(factor * factor);
        for (float& a : a_) a *= twice;
        for (float& h : h_) h *= once;
        for (float& v : pair_variance_) v /= twice;
        if (!levels) return;
        for (double& level : own_levels_) level *= factor;
        effect_.rescale(factor);
    }

    // (X'X - L(e^2)) x with e = 2y - 1, less its mean over the worker's votes if `centred`.
    void correlate(bool centred, const double* x, double* out) {
        VoteCorrelations(votes_, centred).multiply(ranges_, pool_, rhs_, x, out);
    }

    void correlation_degrees(bool centred, double* out) const {
        VoteCorrelations(votes_, centred).degrees(out);
    }

    // Posterior mean (lower less higher item) and variance of all pairs; returns the derivative of
    // the evidence in the variance of the pair effect.
    double pair_posteriors(const double* means, double* mean, double* variance) const {
        for (std::size_t p = 0; p < pairs_.size(); ++p) {
            float e = static_cast<float>(means[pairs_.low[p]] - means[pairs_.high[p]]);
            float v = pair_variance_[p];
            if (effect_.on()) effect_.posterior(p, 1.0F, e, v);
            mean[p] = static_cast<double>(e);
            variance[p] = static_cast<double>(v);
        }
        return PairEffect::slope(split_, pairs_.size(), a_.data(), h_.data(), mean, variance);
    }

    // Of the votes, for differences (lower less higher item) and variances of pairs.
    double pair_likelihood(const double* differences, const double* variances,
                           const double* points, std::size_t n_points) const {
        return crowdsift::mixture_likelihood(
            split_, ranges_, pool_, points, n_points,
            [&](std::size_t i) {
                const double d = differences[split_.pair[i]];
                return split_.straight(i) ? d : -d;
            },
            [&](std::size_t i) { return variances[split_.pair[i]]; });
    }

    // Of the votes, for scores and variances of items and points of workers.
    double mixture_likelihood(const double* scores, const double* variances, const double* points,
                              std::size_t n_points) const {
        const auto &winner = split_.winner, &loser = split_.loser;
        return crowdsift::mixture_likelihood(
            split_, ranges_, pool_, points, n_points,
            [&](std::size_t i) { return scores[winner[i]] - scores[loser[i]]; },
            [&](std::size_t i) { return variances[winner[i]] + variances[loser[i]]; });
    }

private:
    struct Partial {
        explicit Partial(std::size_t types) : counts(types, 0.0) {}
        std::vector<double> counts;
        double log_messages = 0.0, log_sites = 0.0;
    };

    // What one thread needs beside the data; reused from worker to worker.
    struct Scratch {
        explicit Scratch(const TypeGrid& grid)
            : mean(kBufferVotes), variance(kBufferVotes), m(kBufferVotes), v(kBufferVotes),
              log_site(kBufferVotes), alpha(kBufferVotes), f(kBufferVotes),
              slope(kBufferVotes * grid.lanes()), win(kBufferVotes * grid.lanes()),
              levels(grid.lanes()), prior(grid.types()), up(grid.lanes()), down(grid.lanes()),
              shared(grid.lanes()), product(grid.lanes()), cost(grid.types()), q(grid.lanes()),
              both(grid.lanes()), total(grid.types()) {}
        std::vector<float> mean, variance, m, v, log_site, alpha, f, slope, win, levels, prior, up,
            down, shared, product, cost, q, both;
        std::vector<double> total;
    };

    const double* own_levels(std::size_t s) const {
        return own_levels_.data() + static_cast<std::size_t>(own_[s]);
    }

    const float* prior_of(std::size_t s, Scratch& scratch) const {
        if (own_[s] < 0) return grid_.lane_prior();
        grid_.own_prior(own_levels(s), scratch.prior.data());
        return scratch.prior.data();
    }

    void update_worker(std::size_t s, const double* means, float damping, float least,
                       Scratch& at, Partial& out, double* rhs) {
        const std::size_t begin = split_.start[s], count = split_.start[s + 1] - begin;
        const std::size_t lanes = grid_.lanes(), types = grid_.types();
        const float* level = grid_.lane_levels();
        if (own_[s] >= 0) {
            grid_.spread_levels(own_levels(s), at.levels.data());
            level = at.levels.data();
        }
        const float* const prior = prior_of(s, at);
        std::fill(at.total.begin(), at.total.end(), 0.0);
        double votes = 0.0;
        for (std::size_t from = 0; from < count; from += kBufferVotes) {
            const std::size_t some = std::min(kBufferVotes, count - from);
            votes += read_block(begin + from, some, means, at, out.log_sites);
            smooth(begin + from, some, level, at, true);
        }
        float* const likelihood = likelihood_.data() + s * types;
        const double top = relative_likelihood(votes, at, likelihood);
        const float sum = weighted_sum(types, prior, likelihood);
        out.log_messages += std::log(static_cast<double>(sum)) - top;
        const float scale = 1.0F / sum;
        for (std::size_t j = 0; j < lanes; ++j) {
            at.q[j] = scale * prior[j] * likelihood[j];
            at.both[j] = at.q[j] + scale * prior[lanes + j] * likelihood[lanes + j];
        }
        if (count > 0) count_types(s, prior, likelihood, scale, out);
        for (std::size_t from = 0; from < count; from += kBufferVotes) {
            const std::size_t some = std::min(kBufferVotes, count - from);
            if (count > kBufferVotes) {
                double ignored = 0.0;
                read_block(begin + from, some, means, at, ignored);
                smooth(begin + from, some, level, at, false);
            }
            type_moments(some, lanes, at.slope.data(), at.win.data(), at.q.data(), at.both.data(),
                         at.alpha.data(), at.f.data());
            move_sites(some, at.alpha.data(), at.f.data(), at.m.data(), at.v.data(), damping,
                       least, a_.data() + begin + from, h_.data() + begin + from);
            for (std::size_t i = begin + from; i < begin + from + some; ++i) push(i, rhs);
        }
    }

    // Cavities of a block; returns the weight of its votes and adds their log-normalisers.
    double read_block(std::size_t begin, std::size_t count, const double* means, Scratch& at,
                      double& log_sites) const {
        double votes = 0.0, sites = 0.0;
        for (std::size_t i = 0; i < count; ++i) {
            at.mean[i] = static_cast<float>(means[split_.winner[begin + i]] -
                                            means[split_.loser[begin + i]]);
            at.variance[i] = pair_variance_[split_.pair[begin + i]];
            votes += static_cast<double>(split_.n[begin + i]);
        }
        if (effect_.on())
            for (std::size_t i = 0; i < count; ++i)
                effect_.posterior(split_.pair[begin + i],
                                  split_.straight(begin + i) ? 1.0F : -1.0F, at.mean[i],
                                  at.variance[i]);
        cavities(count, at.mean.data(), at.variance.data(), a_.data() + begin, h_.data() + begin,
                 split_.n.data() + begin, at.m.data(), at.v.data(), at.log_site.data());
        for (std::size_t i = 0; i < count; ++i) sites += static_cast<double>(at.log_site[i]);
        log_sites += sites;
        return votes;
    }

    // Slopes and probabilities of a block; with `keep`, its share of the message is added up.
    void smooth(std::size_t begin, std::size_t count, const float* level, Scratch& at, bool keep) {
        const std::size_t lanes = grid_.lanes();
        for (std::size_t from = 0; from < count; from += kVoteBlock) {
            const std::size_t some = std::min(kVoteBlock, count - from);
            std::fill(at.up.begin(), at.up.end(), 0.0F);
            std::fill(at.down.begin(), at.down.end(), 0.0F);
            std::fill(at.shared.begin(), at.shared.end(), 0.0F);
            type_messages(some, lanes, level, at.m.data() + from, at.v.data() + from,
                          split_.n.data() + begin + from, at.slope.data() + from * lanes,
                          at.win.data() + from * lanes, at.up.data(), at.down.data(),
                          at.shared.data(), at.product.data());
            if (!keep) continue;
            for (std::size_t j = 0; j < lanes; ++j) {
                const double shared = static_cast<double>(at.shared[j]);
                at.total[j] += shared + static_cast<double>(at.up[j]);
                at.total[lanes + j] += shared + static_cast<double>(at.down[j]);
            }
        }
    }

    // exp(cheapest - cost) of every type; returns the cheapest -log-likelihood.
    double relative_likelihood(double votes, Scratch& at, float* likelihood) const {
        const std::size_t zero = grid_.zero();
        at.total[zero] = votes * 0.6931471805599453;
        double top = at.total[zero];
        for (std::size_t t = 0; t < zero; ++t) top = std::min(top, at.total[t]);
        for (std::size_t t = 0; t <= zero; ++t)
            at.cost[t] = static_cast<float>(at.total[t] - top);
        for (std::size_t t = zero + 1; t < grid_.types(); ++t) at.cost[t] = 0.0F;
        likelihoods(grid_.types(), at.cost.data(), likelihood);
        return top;
    }

    void count_types(std::size_t s, const float* prior, const float* likelihood, float scale,
                     Partial& out) const {
        if (own_[s] >= 0) {
            grid_.deposit(own_levels(s), prior, likelihood, static_cast<double>(scale),
                          out.counts.data());
            return;
        }
        const std::size_t half = grid_.half(), lanes = grid_.lanes();
        for (std::size_t j = 0; j < half; ++j) {
            out.counts[half + 1 + j] += static_cast<double>(scale * prior[j] * likelihood[j]);
            out.counts[half - 1 - j] +=
                static_cast<double>(scale * prior[lanes + j] * likelihood[lanes + j]);
        }
        out.counts[half] +=
            static_cast<double>(scale * prior[grid_.zero()] * likelihood[grid_.zero()]);
    }

    void push(std::size_t i, double* rhs) const {
        const double value = static_cast<double>(split_.n[i] * h_[i]);
        rhs[split_.winner[i]] += value;
        rhs[split_.loser[i]] -= value;
    }

    void refresh_laplacian(double* rhs) {
        std::vector<float>& weights = laplacian_.pair_weights();
        if (effect_.on()) {
            effect_.gather(split_, pairs_, a_.data(), h_.data(), pool_, votes_.n_items,
                           weights.data(), rhs);
            laplacian_.refresh();
            return;
        }
        const std::vector<std::size_t> parts =
            even_ranges(pairs_.size(), pairs_.size() < 20000 ? 1 : pool_.size());
        pool_.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p) {
                double sum = 0.0;
                const std::size_t end = split_.by_pair_start[p + 1];
                for (std::size_t k = split_.by_pair_start[p]; k < end; ++k) {
                    const std::size_t i = split_.by_pair[k];
                    sum += static_cast<double>(split_.n[i] * a_[i]);
                }
                weights[p] = static_cast<float>(sum);
            }
        });
        laplacian_.refresh();
    }

    const Votes& votes_;
    const Pairs& pairs_;
    Laplacian& laplacian_;
    ThreadPool& pool_;
    PairBeliefs beliefs_;
    PairEffect effect_;
    TypeGrid grid_;
    const std::vector<std::size_t> ranges_;
    ItemSums rhs_;
    const SplitVotes split_;
    std::vector<float> a_, h_, pair_variance_, likelihood_;
    std::vector<std::int64_t> own_;  // where a worker's own levels start; negative: has none
    std::vector<double> own_levels_;
};

}  // namespace crowdsift
