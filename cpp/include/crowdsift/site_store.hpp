// The sites of all votes on the differences of scores, for any types of workers, and the systems of
// items and pairs from them. Each pass is specified in src/crowdsift/engines/grid.py and
// tests/reference_engine/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/loopy_bp.hpp"
#include "crowdsift/pair_effect.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/predictive.hpp"
#include "crowdsift/shared_pairs.hpp"
#include "crowdsift/split_votes.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// Cavities of a block of votes, and buffers to compute them.
struct CavityBlock {
    explicit CavityBlock(std::size_t votes)
        : mean(votes), variance(votes), m(votes), v(votes), log_site(votes) {}
    std::vector<float> mean, variance, m, v, log_site;
};

struct SiteSystem {
    std::shared_ptr<const Laplacian> laplacian;
    std::vector<double> rhs;
    double log_pairs = 0.0;
};

struct Transform {
    double scale = 1.0;
    bool flip = false, clip = false, grids = false;
};

class SiteStore {
public:
    SiteStore(const Votes& votes, PairGraph& graph, const SharedPairs& shared,
              std::shared_ptr<const SplitVotes> split, double variance)
        : votes_(votes), graph_(graph), shared_(shared), pool_(graph.pool),
          split_kept_(std::move(split)), split_(*split_kept_),
          ranges_(votes.worker_ranges(graph.pool.size())), tau_(split_.size(), 0.0F),
          nu_(split_.size(), 0.0F),
          pair_variance_(graph.pairs.size(), static_cast<float>(variance)),
          shared_sums_(shared.size()) {}

    const SplitVotes& split() const { return split_; }
    const PairGraph& graph() const { return graph_; }
    std::size_t n_pairs() const { return graph_.pairs.size() - shared_.foreign(); }
    bool suspended() const { return pair_variance_.size() != graph_.pairs.size(); }

    // Sites in the order of the votes.
    const Array<float>& tau() const { return tau_; }
    const Array<float>& nu() const { return nu_; }
    void set_sites(const float* tau, const float* nu) {
        std::copy(tau, tau + tau_.size(), tau_.begin());
        std::copy(nu, nu + nu_.size(), nu_.begin());
        rhs_.clear();
    }

    // Sums of the pairs that several shards have.
    void pair_sums(double* out) const {
        for (std::size_t k = 0; k < shared_.size(); ++k) {
            const PairSums sums = sums_of(shared_.pair(k));
            out[2 * k] = sums.tau;
            out[2 * k + 1] = sums.nu;
        }
    }

    SiteSystem system(const double* shared, double pair_effect) {
        system_.reset();  // so that its weights can be reused
        auto made = std::make_shared<Laplacian>(graph_);
        effect_.set(pair_effect, graph_.pairs.size());
        SiteSystem out{nullptr, std::vector<double>(votes_.n_items), 0.0};
        for (std::size_t k = 0; k < shared_.size(); ++k)
            shared_sums_[k] = {shared[2 * k], shared[2 * k + 1]};
        if (effect_.on())
            gather_effect(made->weights(), out);
        else
            gather(made->weights(), out.rhs);
        made->close();
        system_ = made;
        out.laplacian = std::move(made);
        return out;
    }

    // Posterior mean (lower less higher item) and variance of all pairs; returns the derivative of
    // the evidence in the variance of the pair effect, and the information on it.
    std::pair<double, double> pair_posteriors(const double* means, double* mean,
                                              double* variance) const {
        double slope = 0.0, information = 0.0;
        const auto add = [&](std::size_t p, const PairSums& sums) {
            const double gap = sums.nu - sums.tau * mean[p];
            const double left = sums.tau * (1.0 - sums.tau * variance[p]);
            slope += gap * gap - left;
            information += left * left;
        };
        graph_.pairs.each([&](std::size_t p, std::uint32_t low, std::uint32_t high) {
            float e = static_cast<float>(means[low] - means[high]);
            float v = pair_variance_[p];
            if (effect_.on()) effect_.posterior(p, 1.0F, e, v);
            mean[p] = static_cast<double>(e);
            variance[p] = static_cast<double>(v);
            if (!shared_.is(p)) add(p, sums_of(p));
        });
        for (std::size_t k = 0; k < shared_.size(); ++k)
            if (shared_.owned(k)) add(shared_.pair(k), shared_sums_[k]);
        return {0.5 * slope, 0.5 * information};
    }

    // Sets the variances of all pairs, or of shared ones.
    void set_pair_variances(const double* variances) {
        pair_variance_.resize(graph_.pairs.size());
        for (std::size_t p = 0; p < pair_variance_.size(); ++p)
            pair_variance_[p] = static_cast<float>(variances[p]);
    }
    void set_shared_variances(const double* variances) {
        pair_variance_.resize(graph_.pairs.size(), 0.0F);
        for (std::size_t k = 0; k < shared_.size(); ++k)
            pair_variance_[shared_.pair(k)] = static_cast<float>(variances[k]);
    }

    // One sweep of belief propagation over the pairs of the last system(), or the last sweep.
    SweepReport sweep(const double* precision, const double* settled, bool fresh, double* sums) {
        require_system();
        if (fresh) messages_.forget();
        return messages_.sweep(graph_, system_->weights(), precision, settled,
                               shared_.foreign_pairs(), sums);
    }
    SweepReport finish(const double* precision, bool fresh, double* sums, double* shared) {
        require_system();
        if (fresh) messages_.forget();
        pair_variance_.resize(graph_.pairs.size(), 0.0F);
        const SweepReport report = messages_.finish(
            graph_, system_->weights(), precision, shared_.foreign_pairs(),
            [&](std::size_t p, double variance) {
                pair_variance_[p] = static_cast<float>(variance);
            },
            sums);
        for (std::size_t k = 0; k < shared_.size(); ++k)
            shared[k] =
                shared_.owned(k) ? static_cast<double>(pair_variance_[shared_.pair(k)]) : 0.0;
        return report;
    }
    // The number of pairs of every item, those of other shards left out; counted once.
    void degrees(double* out) {
        if (degrees_.empty()) {
            degrees_.resize(votes_.n_items);
            graph_.add_to_items(
                [&](std::size_t p, std::uint32_t low, std::uint32_t high, double* sums) {
                    if (shared_.is_foreign(p)) return;
                    sums[low] += 1.0;
                    sums[high] += 1.0;
                },
                degrees_.data());
        }
        std::copy(degrees_.begin(), degrees_.end(), out);
    }

    // Log-likelihood of the votes, for differences (lower minus higher item) and variances of
    // pairs.
    double pair_likelihood(std::size_t before_gold, const double* differences,
                           const double* variances, const WorkerPoints& points) const {
        return crowdsift::pair_likelihood(split_, ranges_, pool_, before_gold, differences,
                                          variances, points);
    }

protected:
    void transform_sites(const Transform& to) {
        const float once = static_cast<float>(to.flip ? -to.scale : to.scale);
        const float twice = static_cast<float>(to.scale * to.scale);
        const float least = to.clip ? 0.0F : -HUGE_VALF;
        const auto each = [&](Array<float>& values, const auto& change) {
            const std::vector<std::size_t> parts = shared_ranges(values.size(), kManyRows, pool_);
            pool_.run(parts.size() - 1, [&](std::size_t part) {
                for (std::size_t i = parts[part]; i < parts[part + 1]; ++i)
                    values[i] = change(values[i]);
            });
        };
        each(tau_, [=](float tau) { return std::max(tau * twice, least); });
        each(nu_, [=](float nu) { return nu * once; });
        each(pair_variance_, [=](float v) { return v / twice; });
        for (double& value : rhs_) value *= static_cast<double>(once);
        effect_.rescale(to.scale);
    }

    // Releases what can be computed again.
    void suspend_pairs() {
        pair_variance_ = Array<float>();
        messages_.forget();
        system_.reset();
    }

    // Computes cavities of a block; returns the weight of its votes and adds their log-normalisers.
    double read_block(std::size_t begin, std::size_t count, const double* means, CavityBlock& at,
                      double& log_sites) const {
        const std::size_t last = split_.size() - 1;
        const std::uint32_t* const pair = split_.pair.data() + begin;
        for (std::size_t i = 0; i < count; ++i) {
            prefetch_read(&pair_variance_[split_.pair[std::min(begin + i + kPrefetch, last)]]);
            at.variance[i] = pair_variance_[pair[i]];
        }
        for (std::size_t i = 0; i < count; ++i)
            at.mean[i] =
                split_.side(begin + i) * static_cast<float>(means[split_.first[begin + i]] -
                                                            means[split_.second[begin + i]]);
        if (effect_.on())
            for (std::size_t i = 0; i < count; ++i)
                effect_.posterior(split_.pair[begin + i], split_.straight(begin + i) ? 1.0F : -1.0F,
                                  at.mean[i], at.variance[i]);
        cavities(count, at.mean.data(), at.variance.data(), tau_.data() + begin, nu_.data() + begin,
                 split_.n + begin, at.m.data(), at.v.data(), at.log_site.data());
        log_sites += sum_short(at.log_site.data(), count);
        return split_.single() ? static_cast<double>(count) : sum_short(split_.n + begin, count);
    }

    void push(std::size_t i, double* rhs) const {
        const double value = static_cast<double>(split_.side(i) * split_.n[i] * nu_[i]);
        rhs[split_.first[i]] += value;
        rhs[split_.second[i]] -= value;
    }

    const Votes& votes_;
    PairGraph& graph_;
    const SharedPairs& shared_;
    ThreadPool& pool_;
    const std::shared_ptr<const SplitVotes> split_kept_;
    const SplitVotes& split_;
    const std::vector<std::size_t> ranges_;
    Array<float> tau_, nu_, pair_variance_;
    PairEffect effect_;
    std::vector<double> rhs_;  // signed sums of n nu per item, if a pass has just computed them

private:
    void require_system() const {
        if (!system_) throw std::invalid_argument("no system yet: call system() before sweeps");
    }

    PairSums sums_of(std::size_t p) const {
        PairSums sums;
        for (std::size_t k = split_.by_pair_start[p]; k < split_.by_pair_start[p + 1]; ++k) {
            const std::size_t i = split_.by_pair[k];
            const double value = static_cast<double>(split_.n[i] * nu_[i]);
            sums.tau += static_cast<double>(split_.n[i] * tau_[i]);
            sums.nu += split_.straight(i) ? value : -value;
        }
        return sums;
    }

    // Weights and the right-hand side without a pair effect.
    void gather(Array<double>& weights, std::vector<double>& rhs) {
        const std::size_t last = split_.size() - 1;
        const std::vector<std::size_t> parts =
            shared_ranges(graph_.pairs.size(), kManyPairs, pool_);
        const bool single = split_.single();  // then weights need not be read
        pool_.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p) {
                double sum = 0.0;
                const std::size_t end = split_.by_pair_start[p + 1];
                for (std::size_t k = split_.by_pair_start[p]; k < end; ++k) {
                    const std::size_t ahead = split_.by_pair[std::min(k + kPrefetch, last)];
                    prefetch_read(&tau_[ahead]);
                    if (!single) prefetch_read(&split_.n[ahead]);
                    const std::size_t i = split_.by_pair[k];
                    sum += static_cast<double>(single ? tau_[i] : split_.n[i] * tau_[i]);
                }
                weights[p] = sum;
            }
        });
        for (std::size_t k = 0; k < shared_.size(); ++k)
            weights[shared_.pair(k)] = shared_.owned(k) ? shared_sums_[k].tau : 0.0;
        if (rhs_.empty()) {
            rhs_.resize(votes_.n_items);
            graph_.sums.add(
                ranges_.size() - 1, pool_,
                [&](std::size_t range, double* sums) {
                    const std::size_t end = split_.start[ranges_[range + 1]];
                    for (std::size_t i = split_.start[ranges_[range]]; i < end; ++i) push(i, sums);
                },
                rhs_.data());
        }
        rhs = rhs_;
    }

    void gather_effect(Array<double>& weights, SiteSystem& out) {
        const std::vector<std::size_t> parts =
            shared_ranges(graph_.pairs.size(), kManyPairs, pool_);
        std::vector<double> logs(parts.size() - 1, 0.0);
        pool_.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p) {
                if (shared_.is(p)) continue;
                const PairSums sums = sums_of(p);
                weights[p] = effect_.take(p, sums);
                logs[part] += effect_.evidence(sums);
            }
        });
        for (const double value : logs) out.log_pairs += value;
        for (std::size_t k = 0; k < shared_.size(); ++k) {
            const double weight = effect_.take(shared_.pair(k), shared_sums_[k]);
            weights[shared_.pair(k)] = shared_.owned(k) ? weight : 0.0;
            if (shared_.owned(k)) out.log_pairs += effect_.evidence(shared_sums_[k]);
        }
        graph_.add_to_items(
            [&](std::size_t p, std::uint32_t low, std::uint32_t high, double* sums) {
                if (shared_.is_foreign(p)) return;
                sums[low] += effect_.nu(p);
                sums[high] -= effect_.nu(p);
            },
            out.rhs.data());
    }

    std::vector<double> degrees_;
    std::vector<PairSums> shared_sums_;  // of all shards, as given to system()
    std::shared_ptr<const Laplacian> system_;
    PairMessages messages_;
};

}  // namespace crowdsift
