// How the votes of a worker are evaluated on its types: two policies of GridSites.
//
// A policy takes votes in blocks, keeps what it found of the last block, and turns a posterior over
// types into the moments of that block's votes.
#pragma once

#include <algorithm>
#include <cstddef>
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

// Where a type is a reliability alone: one exponential serves the types b and -b.
class ReliabilityKernel {
public:
    explicit ReliabilityKernel(const WorkerTypes& types)
        : lanes_(types.grid().lanes()), zero_(types.grid().zero()), size_(types.size()),
          slope_(kBufferVotes * lanes_), win_(kBufferVotes * lanes_), up_(lanes_), down_(lanes_),
          shared_(lanes_), product_(lanes_), q_(lanes_), both_(lanes_) {}

    static std::size_t block_votes(const WorkerTypes&) { return kBufferVotes; }

    // Every vote of a block on every type; adds the -log-likelihoods to `total`, unless it is null.
    void evaluate(const VoteBlock& block, const float* b, double* total) {
        for (std::size_t from = 0; from < block.count; from += kVoteBlock) {
            const std::size_t some = std::min(kVoteBlock, block.count - from);
            std::fill(up_.begin(), up_.end(), 0.0F);
            std::fill(down_.begin(), down_.end(), 0.0F);
            std::fill(shared_.begin(), shared_.end(), 0.0F);
            type_messages(some, lanes_, b, block.cavity.m.data() + from,
                          block.cavity.v.data() + from, block.votes.n + block.begin + from,
                          slope_.data() + from * lanes_, win_.data() + from * lanes_, up_.data(),
                          down_.data(), shared_.data(), product_.data());
            if (total == nullptr) continue;
            for (std::size_t j = 0; j < lanes_; ++j) {
                const double shared = static_cast<double>(shared_[j]);
                total[j] += shared + static_cast<double>(up_[j]);
                total[lanes_ + j] += shared + static_cast<double>(down_[j]);
            }
        }
        if (total == nullptr) return;
        for (std::size_t t = zero_; t < size_; ++t) total[t] += block.weight * kLogTwo;
    }

    void set_posterior(const float* q, const float*) {
        for (std::size_t j = 0; j < lanes_; ++j) {
            q_[j] = q[j];
            both_[j] = q[j] + q[lanes_ + j];
        }
    }

    // alpha = sum of q e s and f = sum of q f s^2 over types, s = kb.
    void moments(std::size_t count, const float*, float* alpha, float* f) const {
        type_moments(count, lanes_, slope_.data(), win_.data(), q_.data(), both_.data(), alpha, f);
    }

    void side_moments(std::size_t, float*, float*) const {}

private:
    static constexpr double kLogTwo = 0.6931471805599453;
    const std::size_t lanes_, zero_, size_;
    std::vector<float> slope_, win_, up_, down_, shared_, product_, q_, both_;
};

// Types of reliability, tie width and side.
class TypeKernel {
public:
    explicit TypeKernel(const WorkerTypes& types)
        : types_(types), size_(types.size()), k_(block_votes(types) * size_), e_(k_.size()),
          f_(k_.size()), cost_(size_) {}

    // So many that what is kept of them stays in the cache.
    static std::size_t block_votes(const WorkerTypes& types) {
        return std::min<std::size_t>(std::max<std::size_t>(32768 / types.size(), 8), 256);
    }

    void evaluate(const VoteBlock& block, const float* b, double* total) {
        const TypeArrays types = types_.arrays(b);
        std::fill(cost_.begin(), cost_.end(), 0.0F);
        const CavityBlock* const side = block.side;
        for (std::size_t i = 0; i < block.count; ++i) {
            const std::size_t vote = block.begin + i, to = i * size_;
            const SidedVote given{block.cavity.m[i],
                                  block.cavity.v[i],
                                  side == nullptr ? 0.0F : side->m[i],
                                  side == nullptr ? 0.0F : side->v[i],
                                  side == nullptr ? 0.0F : block.votes.side(vote),
                                  block.votes.n[vote]};
            (block.votes.tied(vote) ? type_tie : type_win)(types, given, &k_[to], &e_[to], &f_[to],
                                                           cost_.data());
        }
        if (total == nullptr) return;
        for (std::size_t t = 0; t < size_; ++t) total[t] += static_cast<double>(cost_[t]);
    }

    // q over all types, and over the regular ones given that the worker is regular.
    void set_posterior(const float* q, const float* given) {
        q_ = q;
        given_ = given;
    }

    void moments(std::size_t count, const float* b, float* alpha, float* f) const {
        over_votes(count, b, q_, alpha, f);
    }

    // The same of the side bias: s = k.
    void side_moments(std::size_t count, float* alpha, float* f) const {
        over_votes(count, nullptr, given_, alpha, f);
    }

private:
    void over_votes(std::size_t count, const float* b, const float* q, float* alpha,
                    float* f) const {
        for (std::size_t i = 0; i < count; ++i)
            sided_moments(size_, b, q, &k_[i * size_], &e_[i * size_], &f_[i * size_], alpha + i,
                          f + i);
    }

    const WorkerTypes& types_;
    const std::size_t size_;
    std::vector<float> k_, e_, f_, cost_;
    const float *q_ = nullptr, *given_ = nullptr;
};

}  // namespace crowdsift
