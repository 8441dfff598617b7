// The sites of all votes on the differences of scores, whatever the workers' types are.
// What each pass computes is specified in src/crowdsift/engines/grid.py and grid_reference.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/beliefs.hpp"
#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/pair_effect.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/predictive.hpp"
#include "crowdsift/sparse_inverse.hpp"
#include "crowdsift/split_votes.hpp"
#include "crowdsift/vote_correlations.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// Cavities of a block of votes, and the room to compute them.
struct CavityBlock {
    explicit CavityBlock(std::size_t votes)
        : mean(votes), variance(votes), m(votes), v(votes), log_site(votes) {}
    std::vector<float> mean, variance, m, v, log_site;
};

// What all sites of the same votes share: the votes as wins, and room for messages between items,
// which belong to whoever sent the last ones.
struct SiteBasis {
    SiteBasis(const Votes& votes, const Pairs& pairs, ThreadPool& pool, bool ties)
        : split(votes, pairs, ties), beliefs(pairs, votes.n_items, pool) {}
    const SplitVotes split;
    PairBeliefs beliefs;
};

class SiteStore {
public:
    SiteStore(const Votes& votes, const Pairs& pairs, Laplacian& laplacian, ThreadPool& pool,
              std::shared_ptr<SiteBasis> basis)
        : votes_(votes), pairs_(pairs), laplacian_(laplacian), pool_(pool),
          ranges_(votes.worker_ranges(pool.size())), rhs_(ranges_.size() - 1, votes.n_items),
          basis_(std::move(basis)), split_(basis_->split), owner_(basis_->beliefs.new_owner()),
          a_(split_.size(), 0.0F), h_(split_.size(), 0.0F) {}

    void reset(double variance) {
        std::fill(a_.begin(), a_.end(), 0.0F);
        std::fill(h_.begin(), h_.end(), 0.0F);
        pair_variance_.assign(pairs_.size(), static_cast<float>(variance));
        basis_->beliefs.forget();
        effect_.set(0.0, pairs_.size());
    }

    // Gives back what can be computed again: before the next pass, refresh() and variances.
    void suspend() { pair_variance_ = Array<float>(); }
    bool suspended() const { return pair_variance_.size() != pairs_.size(); }

    // The variance of a common effect of all votes on a pair; refresh() before the next pass.
    void set_pair_effect(double variance) { effect_.set(variance, pairs_.size()); }

    BeliefReport believe(double tolerance, std::size_t most, double* item_variance) {
        pair_variance_.resize(pairs_.size(), 0.0F);
        return basis_->beliefs.propagate(owner_, laplacian_.pair_weights().data(),
                                         laplacian_.diagonal().data(), tolerance, most,
                                         item_variance, pair_variance_.data());
    }

    // Exact variances by a sparse factorisation, whose order the caller keeps.
    bool factorise(SparseInverse& inverse, double* item_variance, double* log_determinant) {
        pair_variance_.resize(pairs_.size(), 0.0F);
        return inverse.invert(laplacian_.pair_weights().data(), laplacian_.diagonal().data(),
                              item_variance, pair_variance_.data(), log_determinant);
    }

    Array<float>& pair_variances() {
        pair_variance_.resize(pairs_.size(), 0.0F);
        return pair_variance_;
    }

    // The workers whose sites the next pass moves, one entry each; empty: all. Sums over messages
    // are then over these workers alone.
    std::vector<std::uint8_t>& moving() { return moving_; }

    // Votes and their sites A and h, in the same order; refresh() after a change of sites.
    const SplitVotes& split() const { return split_; }
    Array<float>& precisions() { return a_; }
    Array<float>& pulls() { return h_; }

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

    // The same sites for scores of the other sign; refresh() before the next pass.
    void flip() {
        for (float& h : h_) h = -h;
    }

    // The sites for scores divided by the factor; the Laplacian must be that of these sites, and
    // `rhs` theirs: both follow.
    void hold_scale(double factor, double* rhs) {
        scale_sites(factor);
        if (effect_.on()) {
            refresh(rhs);
            return;
        }
        const float twice = static_cast<float>(factor * factor);
        for (float& w : laplacian_.pair_weights()) w *= twice;
        laplacian_.refresh();
        for (std::size_t j = 0; j < votes_.n_items; ++j) rhs[j] *= factor;
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
        pairs_.each([&](std::size_t p, std::uint32_t low, std::uint32_t high) {
            float e = static_cast<float>(means[low] - means[high]);
            float v = pair_variance_[p];
            if (effect_.on()) effect_.posterior(p, 1.0F, e, v);
            mean[p] = static_cast<double>(e);
            variance[p] = static_cast<double>(v);
        });
        return PairEffect::slope(split_, pairs_.size(), a_.data(), h_.data(), mean, variance);
    }

    // Of the votes, for differences (lower less higher item) and variances of pairs.
    double pair_likelihood(std::size_t crowd, const double* differences, const double* variances,
                           const WorkerPoints& points) const {
        return crowdsift::pair_likelihood(split_, ranges_, pool_, crowd, differences, variances,
                                          points);
    }

protected:
    void scale_sites(double factor) {
        const float once = static_cast<float>(factor), twice = static_cast<float>(factor * factor);
        for (float& a : a_) a *= twice;
        for (float& h : h_) h *= once;
        for (float& v : pair_variance_) v /= twice;
    }

    // Cavities of a block; returns the weight of its votes and adds their log-normalisers.
    double read_block(std::size_t begin, std::size_t count, const double* means, CavityBlock& at,
                      double& log_sites) const {
        const std::size_t last = split_.size() - 1;
        double votes = 0.0, sites = 0.0;
        for (std::size_t i = 0; i < count; ++i) {
            will_read(&pair_variance_[split_.pair[std::min(begin + i + kAhead, last)]]);
            at.mean[i] = split_.side(begin + i) *
                         static_cast<float>(means[split_.first[begin + i]] -
                                            means[split_.second[begin + i]]);
            at.variance[i] = pair_variance_[split_.pair[begin + i]];
            votes += static_cast<double>(split_.n[begin + i]);
        }
        if (effect_.on())
            for (std::size_t i = 0; i < count; ++i)
                effect_.posterior(split_.pair[begin + i],
                                  split_.straight(begin + i) ? 1.0F : -1.0F, at.mean[i],
                                  at.variance[i]);
        cavities(count, at.mean.data(), at.variance.data(), a_.data() + begin, h_.data() + begin,
                 split_.n + begin, at.m.data(), at.v.data(), at.log_site.data());
        for (std::size_t i = 0; i < count; ++i) sites += static_cast<double>(at.log_site[i]);
        log_sites += sites;
        return votes;
    }

    void push(std::size_t i, double* rhs) const {
        const double value = static_cast<double>(split_.side(i) * split_.n[i] * h_[i]);
        rhs[split_.first[i]] += value;
        rhs[split_.second[i]] -= value;
    }

    // Whether a worker's sites stay in this pass; if so they are pushed as they are.
    bool rests(std::size_t s, double* rhs) const {
        if (moving_.empty() || moving_[s]) return false;
        for (std::size_t i = split_.start[s]; i < split_.start[s + 1]; ++i) push(i, rhs);
        return true;
    }

    void refresh_laplacian(double* rhs) {
        Array<float>& weights = laplacian_.pair_weights();
        if (effect_.on()) {
            effect_.gather(split_, pairs_, a_.data(), h_.data(), pool_, votes_.n_items,
                           weights.data(), rhs);
            laplacian_.refresh();
            return;
        }
        const std::size_t last = split_.size() - 1;
        const std::vector<std::size_t> parts =
            shared_ranges(pairs_.size(), kManyPairs, pool_);
        pool_.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p) {
                double sum = 0.0;
                const std::size_t end = split_.by_pair_start[p + 1];
                for (std::size_t k = split_.by_pair_start[p]; k < end; ++k) {
                    will_read(&a_[split_.by_pair[std::min(k + kAhead, last)]]);
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
    PairEffect effect_;
    const std::vector<std::size_t> ranges_;
    ItemSums rhs_;
    const std::shared_ptr<SiteBasis> basis_;
    const SplitVotes& split_;
    const std::size_t owner_;  // of messages; a copy of the sites goes on with them
    Array<float> a_, h_, pair_variance_;
    std::vector<std::uint8_t> moving_;
};

}  // namespace crowdsift
