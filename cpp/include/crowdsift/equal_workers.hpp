// Workers with the same votes: their sites stay equal from pass to pass, so only one of them is
// computed. On leaderboards most users vote once or twice on a few pairs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "crowdsift/split_votes.hpp"

namespace crowdsift {

class EqualWorkers {
public:
    // Finds them among the workers of one range, that of a thread, before `end`.
    EqualWorkers(const SplitVotes& votes, const std::vector<std::size_t>& ranges, std::size_t end)
        : first_(votes.start.size() - 1), row_(first_.size()), count_(first_.size(), 1) {
        for (std::size_t range = 0; range + 1 < ranges.size(); ++range) {
            std::unordered_map<std::uint64_t, std::uint32_t> found;
            for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s) {
                first_[s] = static_cast<std::uint32_t>(s);
                if (s >= end || votes.start[s + 1] - votes.start[s] > kMostVotes) continue;
                const std::uint32_t one = found.try_emplace(key(votes, s), first_[s]).first->second;
                if (one == s || !equal(votes, one, s)) continue;
                first_[s] = one;
                ++count_[one];
                count_[s] = 0;
                ++saved_;
            }
        }
        for (std::size_t s = 0; s < first_.size(); ++s)
            row_[s] = first_[s] == s ? rows_++ : row_[first_[s]];
    }

    // The worker that represents s, and how many it represents.
    std::size_t first(std::size_t s) const { return first_[s]; }
    float count(std::size_t s) const { return static_cast<float>(count_[s]); }

    // For arrays with one row for equal workers: the row of s, and the number of rows.
    std::size_t row(std::size_t s) const { return row_[s]; }
    std::size_t rows() const { return rows_; }

    bool is_worthwhile() const { return 10 * saved_ > first_.size(); }

private:
    static constexpr std::size_t kMostVotes = 4;

    static std::uint64_t key(const SplitVotes& votes, std::size_t s) {
        std::uint64_t hash = 1469598103934665603U;
        const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211U; };
        for (std::size_t i = votes.start[s]; i < votes.start[s + 1]; ++i) {
            add(votes.first[i]);
            add(votes.second[i]);
            add(static_cast<std::uint64_t>(votes.kind(i) + 4));
        }
        return hash;
    }

    static bool equal(const SplitVotes& votes, std::size_t a, std::size_t b) {
        const std::size_t count = votes.start[a + 1] - votes.start[a];
        if (count != votes.start[b + 1] - votes.start[b]) return false;
        for (std::size_t k = 0; k < count; ++k) {
            const std::size_t i = votes.start[a] + k, j = votes.start[b] + k;
            if (votes.first[i] != votes.first[j] || votes.second[i] != votes.second[j] ||
                votes.kind(i) != votes.kind(j) || votes.n[i] != votes.n[j])
                return false;
        }
        return true;
    }

    std::vector<std::uint32_t> first_, row_, count_;
    std::size_t saved_ = 0;
    std::uint32_t rows_ = 0;
};

}  // namespace crowdsift
