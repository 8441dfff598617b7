// Expectation propagation where a worker's type is a reliability and a tie width, with a side habit
// or none but a side. What each pass computes is specified in src/crowdsift/engines/grid.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/grid.hpp"
#include "crowdsift/habit_kernels.hpp"
#include "crowdsift/habit_types.hpp"
#include "crowdsift/own_levels.hpp"
#include "crowdsift/site_store.hpp"
#include "crowdsift/worker_priors.hpp"

namespace crowdsift {

// Over workers with votes, w the probability of being regular: sums of w, wG and w(G^2 + V).
struct SideSums {
    double count = 0.0, first = 0.0, second = 0.0;
};

// The last `known` workers are of the largest reliability and the least width, see no side, and
// are not counted.
class HabitSites : public SiteStore {
public:
    HabitSites(const Votes& votes, const Pairs& pairs, Laplacian& laplacian, ThreadPool& pool,
               std::shared_ptr<SiteBasis> basis, HabitShape shape, std::size_t known)
        : SiteStore(votes, pairs, laplacian, pool, std::move(basis)), types_(std::move(shape)),
          own_(votes.n_workers), crowd_(votes.n_workers - known),
          side_a_(types_.sides() ? split_.size() : 0), side_h_(side_a_.size()),
          side_mean_(votes.n_workers), side_variance_(votes.n_workers) {
        reset(2.0);
    }

    std::size_t n_types() const { return types_.n_types(); }
    OwnLevels& own_levels() { return own_; }
    WorkerPriors& worker_priors() { return priors_; }
    // Sites on the side habit, in the order of the votes; none where there is no such habit.
    Array<float>& side_precisions() { return side_a_; }
    Array<float>& side_pulls() { return side_h_; }
    const std::vector<double>& side_means() const { return side_mean_; }
    const std::vector<double>& side_variances() const { return side_variance_; }

    void suspend() {
        SiteStore::suspend();
        likelihood_ = Array<float>();
    }

    void reset(double variance) {
        SiteStore::reset(variance);
        own_.clear();
        priors_ = {};
        likelihood_.clear();
        std::fill(side_a_.begin(), side_a_.end(), 0.0F);
        std::fill(side_h_.begin(), side_h_.end(), 0.0F);
    }

    // Own levels and the pair effect follow; refresh() before the next pass.
    void rescale(double factor) {
        scale_sites(factor);
        own_.rescale(factor);
        effect_.rescale(factor);
    }

    SiteSums update(std::size_t half, const double* levels, const double* prior,
                    const double* means, double damping, bool clip, const SidePrior& side,
                    double* counts, double* rhs, SideSums& side_sums) {
        types_.set(half, levels, prior);
        likelihood_.resize(votes_.n_workers * types_.size(), 0.0F);
        rhs_.clear();
        std::vector<Partial> parts(ranges_.size() - 1, Partial(n_types()));
        const float least = clip ? 0.0F : -1e30F;
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            Scratch scratch(types_);
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                if (rests(s, rhs_.range(range))) continue;
                update_worker(s, means, static_cast<float>(damping), least, side, scratch,
                              parts[range], rhs_.range(range));
            }
        });
        SiteSums sums;
        sums.log_pairs = effect_.log_pairs();
        for (const Partial& part : parts) {
            sums.log_messages += part.log_messages;
            sums.log_sites += part.log_sites;
            sums.known_margin += part.known_margin;
            side_sums.count += part.side.count;
            side_sums.first += part.side.first;
            side_sums.second += part.side.second;
        }
        add_up(parts, counts);
        rhs_.reduce(rhs);
        refresh_laplacian(rhs);
        return sums;
    }

    // Counts of types under another prior, for the messages of the last update.
    void type_counts(const double* prior, double* counts) {
        types_.set_prior(prior);
        std::vector<Partial> parts(ranges_.size() - 1, Partial(n_types()));
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            std::vector<float> own(types_.size());
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                if (s >= crowd_ || split_.start[s] == split_.start[s + 1]) continue;
                const float* const likelihood = likelihood_.data() + s * types_.size();
                const float* const p = prior_of(s, own);
                const float scale = 1.0F / weighted_sum(types_.size(), p, likelihood);
                types_.count(levels_of(s), p, likelihood, scale, parts[range].counts.data());
            }
        });
        add_up(parts, counts);
    }

    // Reliabilities, rising, and posterior masses of types of workers [begin, end).
    void posteriors(const double* prior, std::size_t begin, std::size_t end, double* points,
                    double* masses) {
        types_.set_prior(prior);
        std::vector<float> own(types_.size());
        for (std::size_t s = begin; s < end; ++s) {
            const float* const likelihood = likelihood_.data() + s * types_.size();
            const float* const p = prior_of(s, own);
            const float scale = 1.0F / weighted_sum(types_.size(), p, likelihood);
            double* const mass = masses + (s - begin) * n_types();
            std::fill(mass, mass + n_types(), 0.0);
            types_.add_masses(p, likelihood, scale, mass);
            types_.mirror(levels_of(s), points + (s - begin) * types_.n_points());
        }
    }

    // Own levels for workers whose likelihood is narrow; how many changed.
    std::size_t refine() {
        std::vector<double> levels;
        std::vector<float> summed(types_.slice());
        std::size_t moved = 0;
        for (std::size_t s = 0; s < crowd_; ++s) {
            types_.over_widths(likelihood_.data() + s * types_.size(), summed.data());
            moved += own_.refine(s, types_.grid(), summed.data(), levels);
        }
        return moved;
    }

private:
    static constexpr double kFarBehind = 20.0;  // nats: regular types beside the likeliest one

    struct Partial {
        explicit Partial(std::size_t types) : counts(types, 0.0) {}
        std::vector<double> counts;
        double log_messages = 0.0, log_sites = 0.0, known_margin = 0.0;
        SideSums side;
    };

    // What one thread needs beside the data; the buffers of a block of votes stay in cache.
    struct Scratch {
        explicit Scratch(const HabitTypes& types)
            : votes(std::min<std::size_t>(std::max<std::size_t>(32768 / types.size(), 8), 256)),
              cavity(votes), side(votes), k(votes * types.size()), e(k.size()), f(k.size()),
              b(types.size()), prior(types.size()), cost(types.size()), q(types.size()),
              given(types.size()), alpha(votes), second(votes), total(types.size()) {}
        std::size_t votes;
        CavityBlock cavity, side;
        std::vector<float> k, e, f, b, prior, cost, q, given, alpha, second;
        std::vector<double> total;
    };

    const double* levels_of(std::size_t s) const { return own_.has(s) ? own_.of(s) : nullptr; }

    const float* prior_of(std::size_t s, std::vector<float>& room) const {
        if (s < crowd_ && !own_.has(s) && !priors_.given()) return types_.prior();
        if (s < crowd_ && priors_.given())
            types_.spread_prior(priors_.of(s), levels_of(s), room.data());
        else if (s < crowd_)
            types_.own_prior(own_.of(s), room.data());
        else
            types_.known_prior(room.data());
        return room.data();
    }

    static void add_up(const std::vector<Partial>& parts, double* counts) {
        std::fill(counts, counts + parts[0].counts.size(), 0.0);
        for (const Partial& part : parts)
            for (std::size_t t = 0; t < part.counts.size(); ++t) counts[t] += part.counts[t];
    }

    void update_worker(std::size_t s, const double* means, float damping, float least,
                       const SidePrior& side, Scratch& at, Partial& out, double* rhs) {
        const std::size_t begin = split_.start[s], count = split_.start[s + 1] - begin;
        const bool sided = types_.sides() && s < crowd_;
        const float* b = types_.reliabilities();
        if (own_.has(s)) {
            types_.spread(own_.of(s), at.b.data());
            b = at.b.data();
        }
        double family = side_posterior(s, sided ? priors_.side(s, side) : side, sided);
        std::fill(at.total.begin(), at.total.end(), 0.0);
        for (std::size_t from = 0; from < count; from += at.votes) {
            const std::size_t some = std::min(at.votes, count - from);
            read_block(begin + from, some, means, at.cavity, out.log_sites);
            if (sided) family -= read_sides(begin + from, some, s, at.side);
            smooth(begin + from, some, b, sided, at);
            for (std::size_t t = 0; t < at.total.size(); ++t)
                at.total[t] += static_cast<double>(at.cost[t]);
        }
        const float* const prior = prior_of(s, at.prior);
        double regular = posterior_of(s, prior, family, sided, at, out);
        if (s < crowd_ && count > 0) {
            const double g = side_mean_[s], v = side_variance_[s];
            types_.count(levels_of(s), at.q.data(), nullptr, 1.0F, out.counts.data());
            if (!sided) regular = 0.0;  // no side habits to add up
            out.side.count += regular;
            out.side.first += regular * g;
            out.side.second += regular * (g * g + v);
        }
        for (std::size_t from = 0; from < count; from += at.votes) {
            const std::size_t some = std::min(at.votes, count - from), first = begin + from;
            if (count > at.votes) {
                double ignored = 0.0;
                read_block(first, some, means, at.cavity, ignored);
                if (sided) read_sides(first, some, s, at.side);
                smooth(first, some, b, sided, at);
            }
            moments(some, b, at.q.data(), at);
            move_sites(some, at.alpha.data(), at.second.data(), at.cavity.m.data(),
                       at.cavity.v.data(), damping, least, a_.data() + first, h_.data() + first);
            for (std::size_t i = first; i < first + some; ++i) push(i, rhs);
            if (!sided) continue;
            moments(some, nullptr, at.given.data(), at);
            for (std::size_t i = 0; i < some; ++i) at.alpha[i] *= split_.side(first + i);
            move_sites(some, at.alpha.data(), at.second.data(), at.side.m.data(),
                       at.side.v.data(), damping, 0.0F, side_a_.data() + first,
                       side_h_.data() + first);
        }
    }

    // G and V of the side habit; returns the evidence of its Gaussian before the sites' share.
    double side_posterior(std::size_t s, const SidePrior& side, bool sided) {
        double precision = 1.0 / side.variance, pull = side.mean / side.variance;
        if (sided)
            for (std::size_t i = split_.start[s]; i < split_.start[s + 1]; ++i) {
                precision += static_cast<double>(split_.n[i] * side_a_[i]);
                pull += static_cast<double>(split_.n[i] * side_h_[i]);
            }
        side_variance_[s] = 1.0 / precision;
        side_mean_[s] = pull / precision;
        return 0.5 * (pull * pull / precision - side.mean * side.mean / side.variance -
                      std::log(side.variance * precision));
    }

    // Cavities of the side habit; returns the sum of the sites' log-normalisers.
    double read_sides(std::size_t begin, std::size_t count, std::size_t s, CavityBlock& at) const {
        std::fill(at.mean.begin(), at.mean.end(), static_cast<float>(side_mean_[s]));
        std::fill(at.variance.begin(), at.variance.end(), static_cast<float>(side_variance_[s]));
        cavities(count, at.mean.data(), at.variance.data(), side_a_.data() + begin,
                 side_h_.data() + begin, split_.n + begin, at.m.data(), at.v.data(),
                 at.log_site.data());
        double sum = 0.0;
        for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(at.log_site[i]);
        return sum;
    }

    // Every vote of a block on every type; the block's -log-likelihoods are left in at.cost.
    void smooth(std::size_t begin, std::size_t count, const float* b, bool sided, Scratch& at) {
        const TypeArrays types = types_.arrays(b);
        std::fill(at.cost.begin(), at.cost.end(), 0.0F);
        for (std::size_t i = 0; i < count; ++i) {
            const HabitVote vote{at.cavity.m[i],
                                 at.cavity.v[i],
                                 sided ? at.side.m[i] : 0.0F,
                                 sided ? at.side.v[i] : 0.0F,
                                 sided ? split_.side(begin + i) : 0.0F,
                                 split_.n[begin + i]};
            const std::size_t to = i * types.count;
            (split_.tied(begin + i) ? habit_tie : habit_win)(types, vote, &at.k[to], &at.e[to],
                                                             &at.f[to], at.cost.data());
        }
    }

    // q over all types, and over the regular ones given that the worker is regular; returns the
    // probability of that.
    double posterior_of(std::size_t s, const float* prior, double family, bool sided, Scratch& at,
                        Partial& out) {
        const std::size_t size = types_.size(), n_regular = types_.n_regular();
        for (std::size_t t = 0; t < n_regular; ++t) at.total[t] -= family;
        const auto begin = at.total.begin();
        const double best = *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(n_regular));
        double top = best;
        for (std::size_t t = n_regular; t < size; ++t) top = std::min(top, at.total[t]);
        float* const likelihood = likelihood_.data() + s * size;
        if (s < crowd_) {
            relative(top, at, likelihood);
        } else {  // of one type, however unlikely
            top = at.total[types_.known()];
            out.known_margin += at.total[types_.known() + types_.grid().lanes()] - top;
            std::fill(likelihood, likelihood + size, 1.0F);
        }
        const float sum = weighted_sum(size, prior, likelihood);
        out.log_messages += std::log(static_cast<double>(sum)) - top;
        double regular = 0.0;
        for (std::size_t t = 0; t < size; ++t) {
            at.q[t] = prior[t] * likelihood[t] / sum;
            if (t < n_regular) regular += static_cast<double>(at.q[t]);
        }
        if (!sided) return regular;
        const bool far = best - top > kFarBehind;
        if (far) relative(best, at, at.given.data());
        float total = 0.0F;
        for (std::size_t t = 0; t < n_regular; ++t) {
            at.given[t] = far ? prior[t] * at.given[t] : at.q[t];
            total += at.given[t];
        }
        for (std::size_t t = 0; t < size; ++t)
            at.given[t] = t < n_regular ? at.given[t] / total : 0.0F;
        return regular;
    }

    void relative(double top, Scratch& at, float* likelihood) const {
        for (std::size_t t = 0; t < types_.size(); ++t)
            at.cost[t] = static_cast<float>(std::max(at.total[t] - top, 0.0));
        likelihoods(types_.size(), at.cost.data(), likelihood);
    }

    void moments(std::size_t count, const float* b, const float* q, Scratch& at) const {
        const std::size_t size = types_.size();
        for (std::size_t i = 0; i < count; ++i)
            habit_moments(size, b, q, &at.k[i * size], &at.e[i * size], &at.f[i * size],
                          &at.alpha[i], &at.second[i]);
    }

    HabitTypes types_;
    OwnLevels own_;
    std::size_t crowd_;
    Array<float> side_a_, side_h_, likelihood_;
    std::vector<double> side_mean_, side_variance_;
    WorkerPriors priors_;
};

}  // namespace crowdsift
