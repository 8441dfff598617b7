// Expectation propagation where a worker's type is its reliability alone: one exponential serves
// the types b and -b. What each pass computes is specified in src/crowdsift/engines/grid.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/own_levels.hpp"
#include "crowdsift/site_store.hpp"
#include "crowdsift/type_grid.hpp"
#include "crowdsift/worker_priors.hpp"

namespace crowdsift {

struct SiteSums {
    double log_messages = 0.0, log_sites = 0.0, log_pairs = 0.0, known_margin = 0.0;
};

// The last `known` workers are of the largest reliability and not counted.
class GridSites : public SiteStore {
public:
    GridSites(const Votes& votes, const Pairs& pairs, Laplacian& laplacian, ThreadPool& pool,
              std::shared_ptr<SiteBasis> basis, std::size_t known = 0)
        : SiteStore(votes, pairs, laplacian, pool, std::move(basis)), own_(votes.n_workers),
          crowd_(votes.n_workers - known) {
        reset(2.0);
    }

    GridSites(const Votes& votes, const Pairs& pairs, Laplacian& laplacian, ThreadPool& pool)
        : GridSites(votes, pairs, laplacian, pool,
                    std::make_shared<SiteBasis>(votes, pairs, pool, false)) {}

    std::size_t n_types() const { return 2 * grid_.half() + 1; }
    const TypeGrid& grid() const { return grid_; }
    OwnLevels& own_levels() { return own_; }
    WorkerPriors& worker_priors() { return priors_; }

    void suspend() {
        SiteStore::suspend();
        likelihood_ = Array<float>();
    }

    void reset(double variance) {
        SiteStore::reset(variance);
        own_.clear();
        priors_ = {};
        likelihood_.clear();
    }

    // Own levels and the pair effect follow; refresh() before the next pass.
    void rescale(double factor) {
        scale_sites(factor);
        own_.rescale(factor);
        effect_.rescale(factor);
    }

    SiteSums update(std::size_t half, const double* levels, const double* prior,
                    const double* means, double damping, bool clip, double* counts, double* rhs) {
        grid_.set(half, levels, prior);
        likelihood_.resize(votes_.n_workers * grid_.types(), 0.0F);
        rhs_.clear();
        std::vector<Partial> parts(ranges_.size() - 1, Partial(n_types()));
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            Scratch scratch(grid_);
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                if (rests(s, rhs_.range(range))) continue;
                update_worker(s, means, static_cast<float>(damping), clip ? 0.0F : -1e30F,
                              scratch, parts[range], rhs_.range(range));
            }
        });
        SiteSums sums;
        sums.log_pairs = effect_.log_pairs();
        std::fill(counts, counts + n_types(), 0.0);
        for (const Partial& part : parts) {
            sums.log_messages += part.log_messages;
            sums.log_sites += part.log_sites;
            sums.known_margin += part.known_margin;
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
                if (s >= crowd_ || split_.start[s] == split_.start[s + 1]) {
                    // known, or without votes: not counted
                } else if (!own_.has(s)) {  // the common prior is multiplied in below, once
                    add_scaled(types, scale, likelihood, sums.data());
                } else {
                    grid_.deposit(own_.of(s), p, likelihood, static_cast<double>(scale), out);
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
            const double* const levels = !own_.has(s) ? grid_.levels().data() : own_.of(s);
            point[half] = 0.0;
            for (std::size_t j = 0; j < half; ++j) {
                point[half + 1 + j] = levels[j];
                point[half - 1 - j] = -levels[j];
            }
        }
    }

    // Own levels for workers whose likelihood is narrow; how many changed.
    std::size_t refine() {
        std::vector<double> levels;
        std::size_t moved = 0;
        for (std::size_t s = 0; s < crowd_; ++s)
            moved += own_.refine(s, grid_, likelihood_.data() + s * grid_.types(), levels);
        return moved;
    }

private:
    struct Partial {
        explicit Partial(std::size_t types) : counts(types, 0.0) {}
        std::vector<double> counts;
        double log_messages = 0.0, log_sites = 0.0, known_margin = 0.0;
    };

    // What one thread needs beside the data; reused from worker to worker.
    struct Scratch {
        explicit Scratch(const TypeGrid& grid)
            : cavity(kBufferVotes), alpha(kBufferVotes), f(kBufferVotes),
              slope(kBufferVotes * grid.lanes()), win(kBufferVotes * grid.lanes()),
              levels(grid.lanes()), prior(grid.types()), up(grid.lanes()), down(grid.lanes()),
              shared(grid.lanes()), product(grid.lanes()), cost(grid.types()), q(grid.lanes()),
              both(grid.lanes()), total(grid.types()) {}
        CavityBlock cavity;
        std::vector<float> alpha, f, slope, win, levels, prior, up,
            down, shared, product, cost, q, both;
        std::vector<double> total;
    };

    const float* prior_of(std::size_t s, Scratch& scratch) const {
        if (s >= crowd_) {
            std::fill(scratch.prior.begin(), scratch.prior.end(), 0.0F);
            scratch.prior[grid_.half() - 1] = 1.0F;
            return scratch.prior.data();
        }
        if (priors_.given()) {
            const double* const levels = own_.has(s) ? own_.of(s) : nullptr;
            grid_.spread_prior(priors_.of(s), levels, scratch.prior.data());
            return scratch.prior.data();
        }
        if (!own_.has(s)) return grid_.lane_prior();
        grid_.own_prior(own_.of(s), scratch.prior.data());
        return scratch.prior.data();
    }

    void update_worker(std::size_t s, const double* means, float damping, float least,
                       Scratch& at, Partial& out, double* rhs) {
        const std::size_t begin = split_.start[s], count = split_.start[s + 1] - begin;
        const std::size_t lanes = grid_.lanes(), types = grid_.types();
        const float* level = grid_.lane_levels();
        if (own_.has(s)) {
            grid_.spread_levels(own_.of(s), at.levels.data());
            level = at.levels.data();
        }
        const float* const prior = prior_of(s, at);
        std::fill(at.total.begin(), at.total.end(), 0.0);
        double votes = 0.0;
        for (std::size_t from = 0; from < count; from += kBufferVotes) {
            const std::size_t some = std::min(kBufferVotes, count - from);
            votes += read_block(begin + from, some, means, at.cavity, out.log_sites);
            smooth(begin + from, some, level, at, true);
        }
        float* const likelihood = likelihood_.data() + s * types;
        double top = relative_likelihood(votes, at, likelihood);
        if (s >= crowd_) {  // of one type, however unlikely
            top = at.total[grid_.half() - 1];
            out.known_margin += at.total[lanes + grid_.half() - 1] - top;
            std::fill(likelihood, likelihood + types, 1.0F);
        }
        const float sum = weighted_sum(types, prior, likelihood);
        out.log_messages += std::log(static_cast<double>(sum)) - top;
        const float scale = 1.0F / sum;
        for (std::size_t j = 0; j < lanes; ++j) {
            at.q[j] = scale * prior[j] * likelihood[j];
            at.both[j] = at.q[j] + scale * prior[lanes + j] * likelihood[lanes + j];
        }
        if (count > 0 && s < crowd_) count_types(s, prior, likelihood, scale, out);
        for (std::size_t from = 0; from < count; from += kBufferVotes) {
            const std::size_t some = std::min(kBufferVotes, count - from);
            if (count > kBufferVotes) {
                double ignored = 0.0;
                read_block(begin + from, some, means, at.cavity, ignored);
                smooth(begin + from, some, level, at, false);
            }
            type_moments(some, lanes, at.slope.data(), at.win.data(), at.q.data(), at.both.data(),
                         at.alpha.data(), at.f.data());
            move_sites(some, at.alpha.data(), at.f.data(), at.cavity.m.data(), at.cavity.v.data(), damping,
                       least, a_.data() + begin + from, h_.data() + begin + from);
            for (std::size_t i = begin + from; i < begin + from + some; ++i) push(i, rhs);
        }
    }

    // Slopes and probabilities of a block; with `keep`, its share of the message is added up.
    void smooth(std::size_t begin, std::size_t count, const float* level, Scratch& at, bool keep) {
        const std::size_t lanes = grid_.lanes();
        for (std::size_t from = 0; from < count; from += kVoteBlock) {
            const std::size_t some = std::min(kVoteBlock, count - from);
            std::fill(at.up.begin(), at.up.end(), 0.0F);
            std::fill(at.down.begin(), at.down.end(), 0.0F);
            std::fill(at.shared.begin(), at.shared.end(), 0.0F);
            type_messages(some, lanes, level, at.cavity.m.data() + from, at.cavity.v.data() + from,
                          split_.n + begin + from, at.slope.data() + from * lanes,
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
        if (own_.has(s)) {
            grid_.deposit(own_.of(s), prior, likelihood, static_cast<double>(scale),
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

    TypeGrid grid_;
    OwnLevels own_;
    std::size_t crowd_;  // workers of the crowd, before the known ones
    WorkerPriors priors_;
    Array<float> likelihood_;
};

}  // namespace crowdsift
