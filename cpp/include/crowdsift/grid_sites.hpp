// Expectation propagation over a grid of worker types: the sites of one run and the passes that
// update them. Each pass is specified in src/crowdsift/engines/grid.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "crowdsift/adaptive_grids.hpp"
#include "crowdsift/array.hpp"
#include "crowdsift/equal_workers.hpp"
#include "crowdsift/kernel_policies.hpp"
#include "crowdsift/lane_counts.hpp"
#include "crowdsift/site_store.hpp"
#include "crowdsift/site_update.hpp"
#include "crowdsift/type_marginals.hpp"
#include "crowdsift/type_window.hpp"
#include "crowdsift/worker_types.hpp"

namespace crowdsift {

// The last `n_gold` workers have the largest reliability and the least width, no side bias, and are
// not counted.
class GridSites : public SiteStore {
public:
    GridSites(const Votes& votes, PairGraph& graph, const SharedPairs& shared,
              std::shared_ptr<const SplitVotes> split, TypeShape shape, std::size_t n_gold,
              double variance)
        : SiteStore(votes, graph, shared, std::move(split), variance), types_(std::move(shape)),
          grids_(votes.n_workers), before_gold_(votes.n_workers - n_gold),
          side_tau_(types_.sides() ? split_.size() : 0, 0.0F), side_nu_(side_tau_.size(), 0.0F),
          equal_(std::make_shared<const EqualWorkers>(split_, ranges_, before_gold_)) {
        if (!equal_->is_worthwhile()) equal_.reset();
    }

    const WorkerTypes& types() const { return types_; }
    const AdaptiveGrids& grids() const { return grids_; }
    std::size_t before_gold() const { return before_gold_; }
    bool updated() const { return !likelihood_.empty(); }

    // Sites on the side bias, in the order of the votes; none where there is no such bias.
    const Array<float>& side_tau() const { return side_tau_; }
    const Array<float>& side_nu() const { return side_nu_; }
    void set_sites(const float* tau, const float* nu) {
        if (!alike(tau) || !alike(nu)) separate();
        SiteStore::set_sites(tau, nu);
    }
    void set_side_sites(const float* tau, const float* nu) {
        if (!side_tau_.empty() && (!alike(tau) || !alike(nu))) separate();
        std::copy(tau, tau + side_tau_.size(), side_tau_.begin());
        std::copy(nu, nu + side_nu_.size(), side_nu_.begin());
    }

    // Removes adaptive grids before others are set, evenly spaced. Likelihoods of the last update
    // refer to the old levels, so they are dropped as well.
    void clear_grids() {
        grids_.clear();
        likelihood_ = over_widths_ = Array<float>();
        window_.clear();
    }
    void set_grid(std::size_t s, double from, double to, std::size_t half) {
        if (first_of(s) != s || times(s) != 1.0F) separate();  // the others may get another grid
        std::vector<double> levels(half);
        for (std::size_t j = 0; j < half; ++j)
            levels[j] = from + (to - from) * static_cast<double>(j) / static_cast<double>(half - 1);
        levels[half - 1] = to;
        grids_.set(s, levels);
    }

    void suspend() {
        suspend_pairs();
        likelihood_ = over_widths_ = Array<float>();
        window_.free();
    }

    void transform(const Transform& to) {
        transform_sites(to);
        if (to.grids) grids_.rescale(to.scale);
    }

    UpdateResult update(const UpdateRequest& request) {
        const TypeShape& shape = types_.shape();
        if (request.own.masses != nullptr || request.marked != nullptr) separate();
        const bool plain = shape.widths.size() == 1 && !(shape.widths[0] > 0.0) &&
                           shape.side_only.empty() && !shape.sides;
        return plain ? update_with<ReliabilityKernel>(request) : update_with<TypeKernel>(request);
    }

    // Counts of types under another prior, for the messages of the last update.
    void type_counts(const double* prior, double* counts) {
        types_.set_prior(prior);
        const bool windowed = window_.holds(types_.prior());
        const bool copying = !windowed && window_.choose(held_, rows());
        std::vector<float> chosen(window_.size());
        window_.pick(types_.prior(), chosen.data());
        std::vector<Partial> parts(ranges_.size() - 1, Partial(types_.n_types()));
        const auto count = [&](std::size_t range) {
            if (windowed)
                count_windows(range, chosen, parts[range]);
            else
                count_range(range, copying ? chosen.data() : nullptr, parts[range]);
        };
        if (votes_.n_workers * (windowed ? chosen.size() : types_.size()) >= kManyNumbers)
            pool_.run(parts.size(), count);
        else  // added up before a second thread wakes up
            for (std::size_t range = 0; range < parts.size(); ++range) count(range);
        add_up(parts, counts);
        std::vector<double> sums = lane_sums(parts);
        if (windowed) sums = window_.sums(sums);
        types_.add_products(sums.data(), counts);
        if (windowed) return;
        for (std::size_t t = 0; t < sums.size(); ++t)
            held_[t] = static_cast<double>(types_.prior()[t]) * sums[t];
        if (copying) window_.close(std::move(sums), types_.prior());
    }

    // Reliabilities, rising, and posterior masses of types of workers [begin, end).
    void posteriors(const double* prior, const OwnPriors& own, std::size_t begin, std::size_t end,
                    double* points, double* masses) {
        types_.set_prior(prior);
        over_workers(begin, end, [&](std::size_t from, std::size_t to) {
            std::vector<float> room(types_.size());
            for (std::size_t s = from; s < to; ++s) {
                masses_of(s, own, room, masses + (s - begin) * types_.n_types());
                types_.mirror(levels_of(s), points + (s - begin) * types_.n_points());
            }
        });
    }

    // Marginals of these posteriors, one row per worker of [begin, end).
    void marginals(const double* prior, const OwnPriors& own, std::size_t begin, std::size_t end,
                   const MarginalRows& out) {
        types_.set_prior(prior);
        over_workers(begin, end, [&](std::size_t from, std::size_t to) {
            std::vector<float> room(types_.size());
            std::vector<double> masses(types_.n_types());
            for (std::size_t s = from; s < to; ++s) {
                masses_of(s, own, room, masses.data());
                types_.mirror(levels_of(s), out.points + (s - begin) * out.n_points);
                take_marginals(out, s - begin, masses);
            }
        });
    }

    // Gives adaptive grids to workers whose likelihood is narrow; returns how many changed.
    std::size_t refine() {
        struct Change {
            std::size_t worker;
            TypeGrid::Choice choice;
            std::vector<double> levels;
        };
        const std::vector<std::size_t> ranges = worker_parts(0, before_gold_);
        std::vector<std::vector<Change>> changes(ranges.size() - 1);
        pool_.run(changes.size(), [&](std::size_t range) {
            std::vector<double> levels;
            for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s) {
                const TypeGrid::Choice choice =
                    grids_.choice(s, types_.grid(), over_widths(s), levels);
                if (choice == TypeGrid::Choice::stay) continue;
                const bool own = choice == TypeGrid::Choice::own;
                changes[range].push_back({s, choice, own ? levels : std::vector<double>()});
            }
        });
        std::size_t moved = 0;
        for (const std::vector<Change>& some : changes) {
            for (const Change& change : some)
                grids_.take(change.worker, change.choice, change.levels);
            moved += some.size();
        }
        if (moved > 0) window_.clear();
        return moved;
    }

private:
    static constexpr std::size_t kManyNumbers = 200000;
    static constexpr double kFarBehind = 20.0;  // nats of regular types below the likeliest type

    struct Partial {
        explicit Partial(std::size_t types) : counts(types, 0.0) {}
        std::vector<double> counts, lanes;  // by lane: sums without the common prior, or counts
        double log_messages = 0.0, log_sites = 0.0, gold_margin = 0.0;
    };

    // The buffers of one thread; those of a block of votes stay in cache.
    template <class Kernel>
    struct Scratch {
        explicit Scratch(const WorkerTypes& types)
            : votes(Kernel::block_votes()), kernel(types), cavity(votes), side(votes),
              moments(votes), levels(types.grid().lanes()), prior(types.size()), cost(types.size()),
              q(types.size()), given(types.size()), total(types.size()), counts(types.size()) {}
        const std::size_t votes;
        Kernel kernel;
        CavityBlock cavity, side;
        BlockMoments moments;
        std::vector<float> levels, prior, cost, q, given;
        std::vector<double> total;
        LaneCounts counts;
    };

    // Mean G and variance V of a worker's side bias given all its sites, and its evidence without
    // that of the sites.
    struct SidePosterior {
        double mean = 0.0, variance = 0.0, evidence = 0.0;
    };

    // Likelihoods of a worker's reliabilities, added up over widths by the last update.
    const float* over_widths(std::size_t s) const {
        return (over_widths_.empty() ? likelihood_.data() : over_widths_.data()) +
               row(s) * types_.slice();
    }
    float* likelihood_of(std::size_t s) { return likelihood_.data() + row(s) * types_.size(); }
    const float* likelihood_of(std::size_t s) const {
        return likelihood_.data() + row(s) * types_.size();
    }

    // Among workers with the same votes, the one that represents all, and how many it represents.
    std::size_t first_of(std::size_t s) const { return equal_ ? equal_->first(s) : s; }
    std::size_t row(std::size_t s) const { return equal_ ? equal_->row(s) : s; }
    std::size_t rows() const { return equal_ ? equal_->rows() : votes_.n_workers; }
    float times(std::size_t s) const { return equal_ ? equal_->count(s) : 1.0F; }

    // Returns whether values by vote are the same for all of them.
    bool alike(const float* values) const {
        for (std::size_t s = 0; equal_ && s < votes_.n_workers; ++s)
            if (!std::equal(values + split_.start[s], values + split_.start[s + 1],
                            values + split_.start[first_of(s)]))
                return false;
        return true;
    }

    // Treats them separately: from now on their sites may differ.
    void separate() {
        if (!equal_) return;
        const auto spread = [&](Array<float>& values) {
            const std::size_t each = values.size() / rows();
            Array<float> all(votes_.n_workers * each);
            for (std::size_t s = 0; s < votes_.n_workers; ++s)
                std::copy_n(values.data() + row(s) * each, each, all.data() + s * each);
            values = std::move(all);
        };
        spread(likelihood_);
        spread(over_widths_);
        equal_.reset();
        window_.clear();
    }

    // Counts of types over the workers of a range, for the present likelihoods: of those with
    // adaptive grids, and for the others sums without the common prior. With the window's part of
    // that prior, likelihoods are copied.
    void count_range(std::size_t range, const float* chosen, Partial& out) {
        const std::size_t size = types_.size();
        EvidenceCounts shared(size, types_.prior());
        each_counted(
            range,
            [&](std::size_t s) {
                const float* const likelihood = likelihood_of(s);
                shared.add(likelihood, 0.0F, times(s));
                if (chosen != nullptr)
                    window_.take(row(s), chosen, likelihood,
                                 weighted_sum(size, types_.prior(), likelihood));
            },
            out);
        out.lanes.assign(shared.close(), shared.close() + size);
    }

    // The same from the copies: sums of the window's types alone.
    void count_windows(std::size_t range, const std::vector<float>& chosen, Partial& out) const {
        EvidenceCounts shared(chosen.size(), chosen.data());
        each_counted(
            range,
            [&](std::size_t s) { shared.add(window_.row(row(s)), window_.rest(row(s)), times(s)); },
            out);
        out.lanes.assign(shared.close(), shared.close() + chosen.size());
    }

    // Visits the workers of a range with the common grid; others are counted.
    template <class Visit>
    void each_counted(std::size_t range, const Visit& visit, Partial& out) const {
        const std::size_t size = types_.size();
        std::vector<float> own(size);
        for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
            if (!counted(s) || first_of(s) != s) continue;
            if (!grids_.has(s)) {
                visit(s);
                continue;
            }
            const float* const likelihood = likelihood_of(s);
            const float* const p = prior_of(s, {}, own);
            const float scale = times(s) / weighted_sum(size, p, likelihood);
            types_.count(grids_.of(s), p, likelihood, scale, out.counts.data());
        }
    }

    static std::vector<double> lane_sums(const std::vector<Partial>& parts) {
        std::vector<double> sums(parts[0].lanes);
        for (std::size_t part = 1; part < parts.size(); ++part)
            for (std::size_t t = 0; t < sums.size(); ++t) sums[t] += parts[part].lanes[t];
        return sums;
    }

    void copy_sites(std::size_t from, std::size_t to) {
        const std::size_t at = split_.start[from], count = split_.start[from + 1] - at;
        for (Array<float>* sites : {&tau_, &nu_, &side_tau_, &side_nu_})
            if (!sites->empty())
                std::copy_n(sites->data() + at, count, sites->data() + split_.start[to]);
    }

    bool counted(std::size_t s) const {
        return s < before_gold_ && split_.start[s] < split_.start[s + 1];
    }
    const double* levels_of(std::size_t s) const { return grids_.has(s) ? grids_.of(s) : nullptr; }

    const float* prior_of(std::size_t s, const OwnPriors& own, std::vector<float>& room) const {
        if (s >= before_gold_)
            types_.gold_prior(room.data());
        else if (own.masses != nullptr)
            types_.spread_prior(own.masses + s * types_.n_types(), levels_of(s), room.data());
        else if (grids_.has(s))
            types_.own_prior(grids_.of(s), room.data());
        else
            return types_.prior();
        return room.data();
    }

    // Posterior masses of one worker's types under the last prior, or its own.
    void masses_of(std::size_t s, const OwnPriors& own, std::vector<float>& room,
                   double* masses) const {
        const float* const likelihood = likelihood_of(s);
        const float* const p = prior_of(s, own, room);
        std::fill(masses, masses + types_.n_types(), 0.0);
        types_.add_masses(p, likelihood, 1.0F / weighted_sum(types_.size(), p, likelihood), masses);
    }

    // Ranges of the workers [begin, end) for threads; one range if threads do not pay.
    std::vector<std::size_t> worker_parts(std::size_t begin, std::size_t end) const {
        const std::size_t parts = (end - begin) * types_.size() < kManyNumbers ? 1 : pool_.size();
        std::vector<std::size_t> ranges = even_ranges(end - begin, parts);
        for (std::size_t& bound : ranges) bound += begin;
        return ranges;
    }

    template <class Visit>
    void over_workers(std::size_t begin, std::size_t end, const Visit& visit) const {
        const std::vector<std::size_t> ranges = worker_parts(begin, end);
        pool_.run(ranges.size() - 1,
                  [&](std::size_t range) { visit(ranges[range], ranges[range + 1]); });
    }

    static void add_up(const std::vector<Partial>& parts, double* counts) {
        std::fill(counts, counts + parts[0].counts.size(), 0.0);
        for (const Partial& part : parts)
            for (std::size_t t = 0; t < part.counts.size(); ++t) counts[t] += part.counts[t];
    }

    template <class Kernel>
    UpdateResult update_with(const UpdateRequest& request) {
        types_.set(request.half, request.levels, request.prior);
        const bool fresh = likelihood_.size() != rows() * types_.size();
        likelihood_.resize(rows() * types_.size());  // threads touch their pages first
        if (types_.slice() < types_.size()) over_widths_.resize(rows() * types_.slice(), 0.0F);
        UpdateResult out(votes_.n_workers);
        std::vector<Partial> parts(ranges_.size() - 1, Partial(types_.n_types()));
        const auto pass = [&](std::size_t range, double* rhs) {
            Scratch<Kernel> scratch(types_);
            for (std::size_t s = ranges_[range]; s < ranges_[range + 1]; ++s) {
                if (first_of(s) != s) {
                    copy_sites(first_of(s), s);
                    out.regular[s] = out.regular[first_of(s)];
                } else if (request.marked == nullptr || request.marked[s] != 0) {
                    update_worker(s, request, scratch, parts[range], out);
                } else if (fresh) {
                    std::fill_n(likelihood_of(s), types_.size(), 0.0F);
                }
                if (!effect_.on())
                    for (std::size_t i = split_.start[s]; i < split_.start[s + 1]; ++i)
                        push(i, rhs);
                add_sides(s, out);
            }
            const double* const lanes = scratch.counts.close();
            parts[range].lanes.assign(lanes, lanes + types_.size());
            types_.add_sums(lanes, parts[range].counts.data());
        };
        rhs_.resize(votes_.n_items);
        graph_.sums.add(parts.size(), pool_, pass, rhs_.data());
        if (effect_.on()) rhs_.clear();
        for (const Partial& part : parts) {
            out.log_messages += part.log_messages;
            out.log_sites += part.log_sites;
            out.gold_margin += part.gold_margin;
        }
        out.counts.resize(types_.n_types());
        add_up(parts, out.counts.data());
        held_ = lane_sums(parts);
        window_.clear();
        return out;
    }

    template <class Kernel>
    void update_worker(std::size_t s, const UpdateRequest& request, Scratch<Kernel>& at,
                       Partial& out, UpdateResult& rows) {
        const std::size_t begin = split_.start[s], count = split_.start[s + 1] - begin;
        const bool sided = types_.sides() && s < before_gold_;
        const float* level = types_.levels();
        if (grids_.has(s)) {
            types_.spread(grids_.of(s), at.levels.data());
            level = at.levels.data();
        }
        const SidePosterior side = sided ? side_posterior(s, request) : SidePosterior{};
        at.kernel.begin(level, at.total);
        const auto read = [&](std::size_t from, double& of_sites, double& of_sides) {
            const std::size_t some = std::min(at.votes, count - from), first = begin + from;
            const double weight = read_block(first, some, request.means, at.cavity, of_sites);
            if (sided) of_sides += read_sides(first, some, side, at.side);
            return VoteBlock{split_, first, some, at.cavity, sided ? &at.side : nullptr, weight};
        };
        double log_sites = 0.0, log_sides = 0.0;
        for (std::size_t from = 0; from < count; from += at.votes)
            at.kernel.evaluate(read(from, log_sites, log_sides), true);
        out.log_sites += static_cast<double>(times(s)) * log_sites;
        const float* const prior = prior_of(s, request.own, at.prior);
        const PriorSums found = posterior_of(s, side.evidence - log_sides, prior, sided, at, out);
        if (!over_widths_.empty())
            types_.over_widths(likelihood_of(s), over_widths_.data() + row(s) * types_.slice());
        if (counted(s)) {
            const float scale = times(s) / found.sum;
            if (grids_.has(s))
                types_.count(grids_.of(s), at.q.data(), nullptr, scale, out.counts.data());
            else
                at.counts.add(scale, at.q.data());
            rows.regular[s] = static_cast<double>(found.regular / found.sum);
        }
        for (std::size_t from = 0; from < count; from += at.votes) {
            VoteBlock block{split_,    begin + from, std::min(at.votes, count - from),
                            at.cavity, nullptr,      0.0};
            if (count > at.votes) {
                double ignored = 0.0;
                at.kernel.evaluate(read(from, ignored, ignored), false);
            }
            move(block, sided, request, at);
        }
    }

    // Computes new sites of the block that was evaluated last.
    template <class Kernel>
    void move(const VoteBlock& block, bool sided, const UpdateRequest& request,
              Scratch<Kernel>& at) {
        const float damping = static_cast<float>(request.damping);
        const std::size_t first = block.begin;
        BlockMoments& found = at.moments;
        at.kernel.moments(block, found);
        move_sites(block.count, found.alpha.data(), found.f.data(), at.cavity.m.data(),
                   at.cavity.v.data(), damping, request.clip ? 0.0F : -1e30F, tau_.data() + first,
                   nu_.data() + first);
        if (!sided) return;
        for (std::size_t i = 0; i < block.count; ++i) found.side_alpha[i] *= split_.side(first + i);
        move_sites(block.count, found.side_alpha.data(), found.side_f.data(), at.side.m.data(),
                   at.side.v.data(), damping, 0.0F, side_tau_.data() + first,
                   side_nu_.data() + first);
    }

    // Sums of a worker's sites on its side bias.
    PairSums side_sums(std::size_t s) const {
        PairSums sums;
        for (std::size_t i = split_.start[s]; i < split_.start[s + 1]; ++i) {
            sums.tau += static_cast<double>(split_.n[i] * side_tau_[i]);
            sums.nu += static_cast<double>(split_.n[i] * side_nu_[i]);
        }
        return sums;
    }

    void add_sides(std::size_t s, UpdateResult& out) const {
        if (!types_.sides() || s >= before_gold_) return;
        const PairSums sums = side_sums(s);
        out.side_tau[s] = sums.tau;
        out.side_nu[s] = sums.nu;
    }

    // With D = 1 + t^2 tau nothing is divided by the prior variance t^2, which may be 0.
    SidePosterior side_posterior(std::size_t s, const UpdateRequest& request) const {
        const bool own = request.own.side_mean != nullptr;
        const double g0 = own ? request.own.side_mean[s] : request.side.mean;
        const double t2 = own ? request.own.side_variance[s] : request.side.variance;
        const auto [tau, nu] = side_sums(s);
        const double d = std::max(1.0 + t2 * tau, static_cast<double>(kLeastDenominator));
        return {(g0 + t2 * nu) / d, t2 / d,
                0.5 * ((t2 * nu * nu + 2.0 * g0 * nu - g0 * g0 * tau) / d - std::log(d))};
    }

    // Cavities of the side bias; returns the sum of the sites' log-normalisers.
    double read_sides(std::size_t begin, std::size_t count, const SidePosterior& side,
                      CavityBlock& at) const {
        std::fill(at.mean.begin(), at.mean.end(), static_cast<float>(side.mean));
        std::fill(at.variance.begin(), at.variance.end(), static_cast<float>(side.variance));
        cavities(count, at.mean.data(), at.variance.data(), side_tau_.data() + begin,
                 side_nu_.data() + begin, split_.n + begin, at.m.data(), at.v.data(),
                 at.log_site.data());
        double sum = 0.0;
        for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(at.log_site[i]);
        return sum;
    }

    // Computes q over all types, not normalised, and with sides also over the regular types given
    // that the worker is regular; returns their sums.
    template <class Kernel>
    PriorSums posterior_of(std::size_t s, double evidence, const float* prior, bool sided,
                           Scratch<Kernel>& at, Partial& out) {
        float* const likelihood = likelihood_of(s);
        PriorSums found;
        if (s >= before_gold_ ||
            !at.kernel.few(evidence, sided, prior, likelihood, at.q.data(), found)) {
            at.kernel.finish(evidence);
            found = many_posterior(s, prior, sided, at, out);
        }
        out.log_messages +=
            static_cast<double>(times(s)) * (std::log(static_cast<double>(found.sum)) - found.top);
        return found;
    }

    // Computes these from -log-likelihoods.
    template <class Kernel>
    PriorSums many_posterior(std::size_t s, const float* prior, bool sided, Scratch<Kernel>& at,
                             Partial& out) {
        const std::size_t size = types_.size(), n_regular = types_.n_regular();
        const double best = least(n_regular, at.total.data());
        double top = best;
        if (n_regular < size)
            top = std::min(top, least(size - n_regular, at.total.data() + n_regular));
        float* const likelihood = likelihood_of(s);
        if (s < before_gold_) {
            relative(top, at.total, at.cost, likelihood);
        } else {  // all mass on one type, however unlikely
            top = at.total[types_.gold()];
            out.gold_margin += at.total[types_.reversed_gold()] - top;
            std::fill(likelihood, likelihood + size, 1.0F);
        }
        const float sum = weighted_sum(size, prior, likelihood);
        products(size, 1.0F / sum, prior, likelihood, at.q.data());
        const float share =
            n_regular == size ? 1.0F : weighted_sum(n_regular, prior, likelihood) / sum;
        if (!sided) {
            at.kernel.set_posterior(at.q.data(), nullptr, 1.0F);
        } else if (best - top <= kFarBehind) {
            at.kernel.set_posterior(at.q.data(), at.q.data(), 1.0F / share);
        } else {  // regular types are so unlikely that they are compared among themselves
            relative(best, at.total, at.cost, at.given.data());
            const float among = weighted_sum(n_regular, prior, at.given.data());
            products(size, 1.0F / among, prior, at.given.data(), at.given.data());
            at.kernel.set_posterior(at.q.data(), at.given.data(), 1.0F);
        }
        return {top - std::log(static_cast<double>(sum)), 1.0F, share};
    }

    // exp(top - cost) of every type.
    static void relative(double top, const std::vector<double>& total, std::vector<float>& cost,
                         float* likelihood) {
        relative_costs(total.size(), total.data(), top, cost.data());
        likelihoods(total.size(), cost.data(), likelihood);
    }

    WorkerTypes types_;
    AdaptiveGrids grids_;
    std::size_t before_gold_;  // workers before gold
    Array<float> side_tau_, side_nu_, likelihood_;
    Array<float> over_widths_;  // likelihoods of reliabilities; empty: these are all types
    std::shared_ptr<const EqualWorkers> equal_;  // null if all differ, or may differ
    std::vector<double> held_;                   // the last counts of types, by lane
    TypeWindow window_;                          // for counts under further priors
};

}  // namespace crowdsift
