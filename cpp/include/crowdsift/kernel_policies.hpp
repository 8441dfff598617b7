// Evaluation of a worker's votes on its types: two policies of GridSites.
//
// A policy takes the votes of a worker in blocks, adds up -log-likelihoods of the types, stores the
// values of the last block, and turns a posterior over types into the moments of that block's
// votes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/site_store.hpp"
#include "crowdsift/split_votes.hpp"
#include "crowdsift/type_kernels.hpp"
#include "crowdsift/worker_types.hpp"

namespace crowdsift {

// Votes [begin, begin + count) and their cavities; `side` is null where no side bias is used.
struct VoteBlock {
    const SplitVotes& votes;
    std::size_t begin, count;
    const CavityBlock& cavity;
    const CavityBlock* side;
    double weight;  // of all these votes
};

// Moments of a block of votes: of the differences, and of the side bias.
struct BlockMoments {
    explicit BlockMoments(std::size_t votes)
        : alpha(votes), f(votes), side_alpha(votes), side_f(votes) {}
    std::vector<float> alpha, f, side_alpha, side_f;
};

// Sums of a worker's likelihoods under a prior: over all types and over regular types, of exp(top)
// times likelihoods.
struct PriorSums {
    double top = 0.0;
    float sum = 1.0F, regular = 1.0F;
};

// For types with a reliability only: one exponential serves the types b and -b.
class ReliabilityKernel {
public:
    explicit ReliabilityKernel(const WorkerTypes& types)
        : lanes_(types.grid().lanes()), zero_(types.grid().zero()), size_(types.size()),
          slope_(kBufferVotes * lanes_), win_(kBufferVotes * lanes_), up_(lanes_), down_(lanes_),
          shared_(lanes_), product_(lanes_), q_(lanes_), both_(lanes_) {}

    static std::size_t block_votes() { return kBufferVotes; }

    // A worker with these levels, of an adaptive grid or the common one.
    void begin(const float* level, std::vector<double>& total) {
        level_ = level;
        total_ = total.data();
        std::fill(total.begin(), total.end(), 0.0);
    }

    // Evaluates every vote of a block on every type; adds up -log-likelihoods if `messages` is set.
    void evaluate(const VoteBlock& block, bool messages) {
        double* const total = total_;
        for (std::size_t from = 0; from < block.count; from += kVoteBlock) {
            const std::size_t some = std::min(kVoteBlock, block.count - from);
            std::fill(up_.begin(), up_.end(), 0.0F);
            std::fill(down_.begin(), down_.end(), 0.0F);
            std::fill(shared_.begin(), shared_.end(), 0.0F);
            type_messages(some, lanes_, level_, block.cavity.m.data() + from,
                          block.cavity.v.data() + from, block.votes.n + block.begin + from,
                          slope_.data() + from * lanes_, win_.data() + from * lanes_, up_.data(),
                          down_.data(), shared_.data(), product_.data());
            if (!messages) continue;
            for (std::size_t j = 0; j < lanes_; ++j) {
                const double shared = static_cast<double>(shared_[j]);
                total[j] += shared + static_cast<double>(up_[j]);
                total[lanes_ + j] += shared + static_cast<double>(down_[j]);
            }
        }
        if (!messages) return;
        for (std::size_t t = zero_; t < size_; ++t) total[t] += block.weight * kLogTwo;
    }

    // All workers are treated alike here; see TypeKernel.
    static bool few(double, bool, const float*, float*, float*, PriorSums&) { return false; }

    // Adds this evidence to regular types, which all types are here.
    void finish(double evidence) {
        if (evidence == 0.0) return;
        for (std::size_t t = 0; t < size_; ++t) total_[t] -= evidence;
    }

    void set_posterior(const float* q, const float*, float) {
        for (std::size_t j = 0; j < lanes_; ++j) {
            q_[j] = q[j];
            both_[j] = q[j] + q[lanes_ + j];
        }
    }

    // alpha = sum of q e s and f = sum of q f s^2 over types, s = kb.
    void moments(const VoteBlock& block, BlockMoments& out) const {
        type_moments(block.count, lanes_, slope_.data(), win_.data(), q_.data(), both_.data(),
                     out.alpha.data(), out.f.data());
    }

private:
    static constexpr double kLogTwo = 0.6931471805599453;
    const std::size_t lanes_, zero_, size_;
    const float* level_ = nullptr;
    double* total_ = nullptr;
    std::vector<float> slope_, win_, up_, down_, shared_, product_, q_, both_;
};

// Types of reliability, tie width and side; see type_kernels.hpp.
class TypeKernel {
public:
    explicit TypeKernel(const WorkerTypes& types)
        : types_(types), cells_(types.shape().widths, types.grid().lanes(), types.slice()),
          lanes_(cells_.lanes), slice_(cells_.slice), n_widths_(cells_.n_widths()),
          size_(cells_.size()), terms_(kVotes * kTerms * lanes_), growths_(kVotes * size_),
          rooms_(kVotes), costs_(2 * lanes_), sums_(2 * lanes_ + kLaneBlock), start_(sums_.size()),
          products_(3 * size_), logs_(3 * size_), exponents_(3 * size_), cell_total_(size_),
          side_total_(types.size() - types.n_regular()),
          relative_(std::max(sums_.size(), side_total_.size())),
          zero_q_(cells_.widths.size(), 0.0F), masses_(n_widths_ * (lanes_ / kLaneBlock)),
          group_start_(lanes_ / kLaneBlock + 1, 0), group_width_(masses_.size()) {
        for (std::size_t i = 0; i < kVotes; ++i)
            rooms_[i] = {&terms_[i * kTerms * lanes_], {}, &growths_[i * size_]};
        // This number of votes can be multiplied before a product leaves the range of float32.
        const std::vector<double>& widths = types.shape().widths;
        const double steep = widths[0] > 0.0 ? 4.0 - std::log(widths[0]) : 0.0;
        const double far = std::max({2.0 * widths.back() + 0.75, steep, 1.0});
        most_load_ = std::min(std::max(std::floor(80.0 / far), 1.0), 8.0);
    }

    TypeKernel(const TypeKernel&) = delete;
    TypeKernel& operator=(const TypeKernel&) = delete;

    static std::size_t block_votes() { return kVotes; }

    void begin(const float* level, std::vector<double>& total) {
        level_ = level;
        total_ = &total;
        load_ = 0.0;
        side_counts_[0] = side_counts_[1] = side_counts_[2] = 0.0;
        std::fill(sums_.begin(), sums_.end(), 0.0);
        empty_ = true;
        gapped_ = flushed_ = logged_ = many_ = summed_ = false;
    }

    void evaluate(const VoteBlock& block, bool messages) {
        const SplitVotes& votes = block.votes;
        std::fill(costs_.begin(), costs_.end(), 0.0F);
        double of_zero = 0.0;
        for (std::size_t i = 0; i < block.count; ++i) {
            const std::size_t at = block.begin + i;
            const float side = votes.side(at);
            SidedVote vote{block.cavity.m[i], block.cavity.v[i], 0.0F, 0.0F,
                           votes.n[at],       votes.tied(at)};
            if (block.side != nullptr) {
                vote.shift = side * block.side->m[i];
                vote.side_v = block.side->v[i];
            }
            vote_terms(cells_, level_, vote, rooms_[i], costs_.data());
            if (!messages) continue;
            of_zero += static_cast<double>(vote.n * rooms_[i].zero.cost);
            side_counts_[vote.tied ? 2 : side > 0.0F ? 0 : 1] += static_cast<double>(vote.n);
            multiply(vote, rooms_[i]);
        }
        if (!messages) return;
        for (std::size_t j = 0; j < costs_.size(); ++j) sums_[j] += static_cast<double>(costs_[j]);
        for (std::size_t j = costs_.size(); j < sums_.size(); ++j) sums_[j] += of_zero;
        if (logged_) take_logs();
    }

    // For a worker with few votes since begin(): computes likelihoods, q = prior times likelihood
    // and its sums without a logarithm; regular types gain this evidence. The posterior is set as
    // by set_posterior(), and with `sided` also that among regular types. Returns false, with
    // nothing set, if there are many votes or types are too far apart.
    bool few(double evidence, bool sided, const float* prior, float* likelihood, float* q,
             PriorSums& out) {
        if (many_ || empty_) return false;
        const std::size_t n_side_only = side_total_.size(), n_regular = n_widths_ * slice_;
        const double regular = least(sums_.size(), sums_.data()) - evidence;
        double top = regular;
        if (n_side_only > 0) {
            types_.side_only_costs(side_counts_, side_total_.data());
            top = std::min(top, least(n_side_only, side_total_.data()));
        }
        if (!(regular - top <= kApart)) return false;
        relative_costs(sums_.size(), sums_.data(), top + evidence, relative_.data());
        likelihoods(sums_.size(), relative_.data(), start_.data());
        const float *const up = products_.data(), *const down = up + size_;
        LikelihoodSums found;
        few_likelihoods(cells_, start_.data(), up, down, gapped_ ? down + size_ : nullptr, prior,
                        likelihood, q, masses_.data(), found);
        if (!(found.best >= kLeastBest)) return false;
        out = {top, found.sum, found.sum};
        if (n_side_only > 0) {
            float* const to = likelihood + n_regular;
            relative_costs(n_side_only, side_total_.data(), top, relative_.data());
            likelihoods(n_side_only, relative_.data(), to);
            products(n_side_only, 1.0F, prior + n_regular, to, q + n_regular);
            out.sum += weighted_sum(n_side_only, prior + n_regular, to);
        }
        q_ = q;
        q_scale_ = 1.0F / out.sum;
        given_ = sided ? q : nullptr;
        given_scale_ = 1.0F / out.regular;
        choose_groups(kNegligible * (sided ? out.regular : out.sum));
        return true;
    }

    // Adds the -log-likelihoods of the votes since begin(); regular types gain this evidence.
    void finish(double evidence) {
        double* const total = totals();
        if (empty_) std::fill(products_.begin(), products_.begin() + of_gap(), 1.0F);
        if (!gapped_) std::fill(products_.begin() + of_gap(), products_.end(), 1.0F);
        if (!flushed_) std::fill(exponents_.begin(), exponents_.end(), 0);
        const float* const gap = products_.data() + of_gap();
        for (std::size_t sign = 0; sign < 2; ++sign) {
            std::fill(cell_total_.begin(), cell_total_.end(), 0.0);
            add_products(size_, products_.data() + sign * size_, gap,
                         exponents_.data() + sign * size_, exponents_.data() + of_gap(),
                         cell_total_.data());
            each_cell([&](std::size_t cell, std::size_t w, std::size_t j) {
                total[w * slice_ + sign * lanes_ + j] +=
                    cell_total_[cell] + sums_[sign * lanes_ + j] - evidence;
            });
            if (sign > 0) continue;
            for (std::size_t w = 0; w < n_widths_; ++w) {
                double* const zero = total + w * slice_ + 2 * lanes_;
                *zero += cell_total_[cells_.zeros() + w] + sums_[2 * lanes_] - evidence;
                std::fill(zero + 1, total + (w + 1) * slice_, *zero);
            }
        }
        types_.side_only_costs(side_counts_, total + n_widths_ * slice_);
    }

    // Sets q over all types, and over the regular ones given that the worker is regular: `given`
    // times `scale`, or null. Groups of types with a negligible share are left out of the moments.
    void set_posterior(const float* q, const float* given, float scale) {
        q_ = q;
        q_scale_ = 1.0F;
        given_ = given;
        given_scale_ = scale;
        group_masses(cells_, q, given == nullptr ? q : given, masses_.data());
        choose_groups(kNegligible / std::max(scale, 1.0F));
    }

    void moments(const VoteBlock& block, BlockMoments& out) const {
        const TypeGroups groups{group_start_.data(), group_width_.data()};
        for (std::size_t i = 0; i < block.count; ++i) {
            const bool tied = block.votes.tied(block.begin + i);
            const auto find = [&](const float* q, const float* zero_q) {
                VoteMoments found;
                vote_moments(cells_, groups, level_, tied, rooms_[i], q, zero_q, found);
                return found;
            };
            VoteMoments found = find(q_, given_ == q_ ? zero_q_.data() : nullptr);
            out.alpha[i] = q_scale_ * found.alpha;
            out.f[i] = q_scale_ * found.f;
            if (given_ == nullptr) continue;
            if (given_ != q_) found = find(given_, zero_q_.data());
            out.side_alpha[i] = given_scale_ * found.side_alpha;
            out.side_f[i] = given_scale_ * found.side_f;
        }
    }

private:
    static constexpr std::size_t kVotes = 64, kTerms = 5;
    static constexpr float kNegligible = 1e-6F;
    // The largest distance in nats of regular types below the others, and the smallest of their
    // likelihoods, for which float32 can represent both.
    static constexpr double kApart = 20.0;
    static constexpr float kLeastBest = 1e-15F;

    std::ptrdiff_t of_gap() const { return static_cast<std::ptrdiff_t>(2 * size_); }

    void multiply(const SidedVote& vote, const VoteRoom& room) {
        const double n = static_cast<double>(vote.n);
        const bool whole = n <= most_load_ && n == std::floor(n);
        if (!whole) {
            if (!logged_) std::fill(logs_.begin(), logs_.end(), 0.0F);
            logged_ = many_ = true;
            float* const up = logs_.data();
            multiply_products(cells_, Entry::logarithm, vote.n, vote.tied, room, up, up + size_,
                              up + 2 * size_);
            return;
        }
        if (load_ + n > most_load_) {
            if (!flushed_) std::fill(exponents_.begin(), exponents_.end(), 0);
            take_exponents(gapped_ ? 3 * size_ : 2 * size_, products_.data(), exponents_.data());
            flushed_ = many_ = true;
            load_ = 0.0;
        }
        load_ += n;
        const bool first = empty_ && n == 1.0;
        if (empty_ && !first) std::fill(products_.begin(), products_.begin() + of_gap(), 1.0F);
        if (vote.tied && !gapped_ && !first)
            std::fill(products_.begin() + of_gap(), products_.end(), 1.0F);
        empty_ = false;
        gapped_ = gapped_ || vote.tied;
        float* const up = products_.data();
        multiply_products(cells_,
                          first     ? Entry::first
                          : n > 1.0 ? Entry::power
                                    : Entry::once,
                          vote.n, vote.tied, room, up, up + size_, up + 2 * size_);
    }

    // The totals, all 0 if nothing was added since begin().
    double* totals() {
        if (!summed_) std::fill(total_->begin(), total_->end(), 0.0);
        summed_ = true;
        return total_->data();
    }

    // Adds the logarithms of a block to the totals, in double precision.
    void take_logs() {
        double* const total = totals();
        const float *up = logs_.data(), *down = up + size_, *gap = down + size_;
        each_cell([&](std::size_t cell, std::size_t w, std::size_t j) {
            total[w * slice_ + j] += static_cast<double>(up[cell] - gap[cell]);
            total[w * slice_ + lanes_ + j] += static_cast<double>(down[cell] - gap[cell]);
        });
        for (std::size_t w = 0; w < n_widths_; ++w) {
            const std::size_t zero = cells_.zeros() + w;
            total[w * slice_ + 2 * lanes_] += static_cast<double>(up[zero] - gap[zero]);
        }
        logged_ = false;
    }

    // Every cell of a positive reliability with its width and lane.
    template <class Visit>
    void each_cell(const Visit& visit) const {
        std::size_t cell = 0;
        for (std::size_t from = 0; from < lanes_; from += kLaneBlock)
            for (std::size_t w = 0; w < n_widths_; ++w)
                for (std::size_t l = 0; l < kLaneBlock; ++l) visit(cell++, w, from + l);
    }

    // Chooses the groups of eight lanes of a width with at least this mass.
    void choose_groups(float least_mass) {
        std::uint16_t chosen = 0;
        const float* mass = masses_.data();
        for (std::size_t g = 0; g < lanes_ / kLaneBlock; ++g) {
            for (std::size_t w = 0; w < n_widths_; ++w) {
                group_width_[chosen] = static_cast<std::uint16_t>(w);
                chosen = static_cast<std::uint16_t>(chosen + (*mass++ < least_mass ? 0 : 1));
            }
            group_start_[g + 1] = chosen;
        }
        if (given_ == nullptr) return;
        for (std::size_t w = 0; w < n_widths_; ++w) zero_q_[w] = given_[w * slice_ + 2 * lanes_];
    }

    const WorkerTypes& types_;
    const TypeCells cells_;
    const std::size_t lanes_, slice_, n_widths_, size_;
    std::vector<float> terms_, growths_;
    std::vector<VoteRoom> rooms_;
    std::vector<float> costs_;            // of a block, by lane at b and at -b
    std::vector<double> sums_;            // of all blocks, then of reliability 0
    std::vector<float> start_;            // exp of these
    std::vector<float> products_, logs_;  // of b, of -b, of the gap
    std::vector<std::int32_t> exponents_;
    std::vector<double> cell_total_, side_total_;
    std::vector<float> relative_, zero_q_, masses_;
    std::vector<std::uint16_t> group_start_, group_width_;
    float q_scale_ = 1.0F, given_scale_ = 1.0F;
    double most_load_ = 1.0, load_ = 0.0;
    double side_counts_[3] = {0.0, 0.0, 0.0};  // weights of wins by side, and of ties
    bool empty_ = true, gapped_ = false, flushed_ = false, logged_ = false, many_ = false,
         summed_ = false;
    const float *level_ = nullptr, *q_ = nullptr, *given_ = nullptr;
    std::vector<double>* total_ = nullptr;
};

}  // namespace crowdsift
