// How the votes of a worker are evaluated on its types: two policies of GridSites.
//
// A policy takes the votes of a worker in blocks, adds up -log-likelihoods of the types, keeps what
// it found of the last block, and turns a posterior over types into the moments of that block's
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

// Where a type is a reliability alone: one exponential serves the types b and -b.
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

    // Every vote of a block on every type; -log-likelihoods are added up where `messages` are.
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

    // Regular types, all of them here, gain this evidence.
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
        : types_(types), lanes_(types.grid().lanes()), slice_(types.slice()),
          n_widths_(types.shape().widths.size()), cells_(n_widths_ * lanes_ + padded(n_widths_)),
          widths_(padded(n_widths_), 0.0F), terms_(kVotes * kTerms * lanes_), zero_(kVotes),
          sums_(3 * lanes_), products_(3 * cells_), logs_(3 * cells_), exponents_(3 * cells_),
          zero_q_(padded(n_widths_), 0.0F), zero_total_(padded(n_widths_)),
          masses_(n_widths_ * (lanes_ / kLaneBlock)),
          groups_(2 * n_widths_ * (lanes_ / kLaneBlock)) {
        const std::vector<double>& widths = types.shape().widths;
        std::copy(widths.begin(), widths.end(), widths_.begin());
        // So many votes can be multiplied before a product leaves the range of float32.
        const double steep = types.shape().widths[0] > 0.0 ? 4.0 - std::log(widths[0]) : 0.0;
        const double far = std::max({widths.back(), steep, 1.0});
        most_load_ = std::min(std::max(std::floor(80.0 / far), 1.0), 8.0);
    }

    static std::size_t block_votes() { return kVotes; }

    void begin(const float* level, std::vector<double>& total) {
        level_ = level;
        total_ = total.data();
        load_ = smooth_zero_ = cost_zero_ = 0.0;
        side_counts_[0] = side_counts_[1] = side_counts_[2] = 0.0;
        std::fill(total.begin(), total.end(), 0.0);
        std::fill(sums_.begin(), sums_.end(), 0.0);
        std::fill(products_.begin(), products_.end(), 1.0F);
        flushed_ = logged_ = false;
    }

    void evaluate(const VoteBlock& block, bool messages) {
        const SplitVotes& votes = block.votes;
        for (std::size_t i = 0; i < block.count; ++i) {
            const std::size_t at = block.begin + i;
            const float side = votes.side(at);
            SidedVote vote{block.cavity.m[i], block.cavity.v[i], 0.0F, 0.0F,
                           votes.n[at],       votes.tied(at)};
            if (block.side != nullptr) {
                vote.shift = side * block.side->m[i];
                vote.side_v = block.side->v[i];
            }
            if (!messages) vote.n = 0.0F;
            float* const terms = &terms_[i * kTerms * lanes_];
            lane_terms(lanes_, level_, vote, terms, sums_.data());
            zero_[i] = vote_term(0.0F, vote);
            if (!messages) continue;
            side_counts_[vote.tied ? 2 : side > 0.0F ? 0 : 1] += static_cast<double>(vote.n);
            multiply(vote, terms, zero_[i]);
        }
        if (logged_) take_logs();
    }

    // Adds the -log-likelihoods of the votes since begin(); regular types gain this evidence.
    void finish(double evidence) {
        const float *up = products_.data(), *down = up + cells_, *gap = down + cells_;
        const std::int32_t *two_up = exponents_.data(), *two_down = two_up + cells_,
                           *two_gap = two_down + cells_;
        const std::size_t zeros = n_widths_ * lanes_;
        zero_costs(widths_.size(), widths_.data(), smooth_zero_, cost_zero_, up + zeros,
                   gap + zeros, -evidence, zero_total_.data());
        if (flushed_)
            add_exponents(widths_.size(), two_up + zeros, two_gap + zeros, zero_total_.data());
        for (std::size_t w = 0; w < n_widths_; ++w) {
            const std::size_t c = w * lanes_;
            const double width = static_cast<double>(widths_[w]);
            double *const to = total_ + w * slice_, *const zero = to + 2 * lanes_;
            lane_costs(lanes_, width, sums_.data(), sums_.data() + lanes_, up + c, gap + c,
                       -evidence, to);
            lane_costs(lanes_, width, sums_.data(), sums_.data() + 2 * lanes_, down + c, gap + c,
                       -evidence, to + lanes_);
            if (flushed_) {
                add_exponents(lanes_, two_up + c, two_gap + c, to);
                add_exponents(lanes_, two_down + c, two_gap + c, to + lanes_);
            }
            *zero += zero_total_[w];  // logarithms may be there already
            std::fill(zero + 1, to + slice_, *zero);
        }
        types_.side_only_costs(side_counts_, total_ + n_widths_ * slice_);
    }

    // q over all types, and over the regular ones given that the worker is regular: `given` times
    // `scale`, or null. Groups of types whose share is negligible are left out of the moments.
    void set_posterior(const float* q, const float* given, float scale) {
        q_ = q;
        given_ = given;
        given_scale_ = scale;
        n_groups_ = 0;
        group_masses(n_widths_, lanes_, slice_, q, given == nullptr ? q : given, masses_.data());
        const float least_mass = kNegligible / std::max(scale, 1.0F);
        const float* mass = masses_.data();
        for (std::size_t w = 0; w < n_widths_; ++w) {
            for (std::size_t j = 0; j < lanes_; j += kLaneBlock) {
                if (*mass++ < least_mass) continue;
                groups_[2 * n_groups_] = static_cast<std::uint16_t>(w);
                groups_[2 * n_groups_ + 1] = static_cast<std::uint16_t>(j);
                ++n_groups_;
            }
            if (given != nullptr) zero_q_[w] = given[w * slice_ + 2 * lanes_];
        }
    }

    void moments(const VoteBlock& block, BlockMoments& out) const {
        for (std::size_t i = 0; i < block.count; ++i) {
            const bool tied = block.votes.tied(block.begin + i);
            VoteMoments found;
            vote_moments(lanes_, slice_, level_, widths_.data(), n_groups_, groups_.data(), tied,
                         &terms_[i * kTerms * lanes_], q_, given_, found);
            out.alpha[i] = found.alpha;
            out.f[i] = found.f;
            if (given_ == nullptr) continue;
            zero_moments(widths_.size(), widths_.data(), zero_q_.data(), tied, zero_[i], found);
            out.side_alpha[i] = given_scale_ * found.side_alpha;
            out.side_f[i] = given_scale_ * found.side_f;
        }
    }

private:
    static constexpr std::size_t kVotes = 64, kTerms = 7;
    static constexpr float kNegligible = 1e-6F;

    static std::size_t padded(std::size_t count) {
        return (count + kLaneBlock - 1) / kLaneBlock * kLaneBlock;
    }

    void multiply(const SidedVote& vote, const float* terms, const VoteTerm& zero) {
        const double n = static_cast<double>(vote.n);
        smooth_zero_ += vote.tied ? 0.0 : n * static_cast<double>(zero.k);
        cost_zero_ += n * static_cast<double>(zero.cost);
        const int power = n <= most_load_ && n == std::floor(n) ? static_cast<int>(n) : 0;
        if (power > 0 && load_ + n > most_load_) {
            if (!flushed_) std::fill(exponents_.begin(), exponents_.end(), 0);
            take_exponents(products_.size(), products_.data(), exponents_.data());
            flushed_ = true;
            load_ = 0.0;
        }
        if (power == 0 && !logged_) {
            std::fill(logs_.begin(), logs_.end(), 0.0F);
            logged_ = true;
        }
        if (power > 0) load_ += n;
        float* const up = power > 0 ? products_.data() : logs_.data();
        float *const down = up + cells_, *const gap = down + cells_;
        multiply_products(n_widths_, lanes_, widths_.data(), power, vote.n, vote.tied, terms, up,
                          down, gap);
        const std::size_t z = n_widths_ * lanes_;
        zero_products(widths_.size(), widths_.data(), power, vote.n, vote.tied, zero, up + z,
                      gap + z);
    }

    // Adds the logarithms of a block to the totals, in double precision.
    void take_logs() {
        const float *up = logs_.data(), *down = up + cells_, *gap = down + cells_;
        for (std::size_t w = 0; w < n_widths_; ++w) {
            double* const to = total_ + w * slice_;
            for (std::size_t j = 0; j < lanes_; ++j) {
                const std::size_t c = w * lanes_ + j;
                to[j] += static_cast<double>(up[c] - gap[c]);
                to[lanes_ + j] += static_cast<double>(down[c] - gap[c]);
            }
            const std::size_t z = n_widths_ * lanes_ + w;
            to[2 * lanes_] += static_cast<double>(up[z] - gap[z]);
        }
        logged_ = false;
    }

    const WorkerTypes& types_;
    const std::size_t lanes_, slice_, n_widths_;
    const std::size_t cells_;  // widths x lanes, then reliability 0 of every width
    std::vector<float> widths_, terms_;
    std::vector<VoteTerm> zero_;
    std::vector<double> sums_;            // by lane: of n k of wins, and of costs at b and at -b
    std::vector<float> products_, logs_;  // of b, of -b, of 1 - w^2
    std::vector<std::int32_t> exponents_;
    std::vector<float> zero_q_;
    std::vector<double> zero_total_;
    std::vector<float> masses_;
    float given_scale_ = 1.0F;
    std::vector<std::uint16_t> groups_;
    std::size_t n_groups_ = 0;
    double most_load_ = 1.0, load_ = 0.0, smooth_zero_ = 0.0, cost_zero_ = 0.0;
    double side_counts_[3] = {0.0, 0.0, 0.0};  // weights of wins by side, and of ties
    bool flushed_ = false, logged_ = false;
    const float *level_ = nullptr, *q_ = nullptr, *given_ = nullptr;
    double* total_ = nullptr;
};

}  // namespace crowdsift
