// Votes as wins alone, by worker and by pair, and what can be said of them without sites.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// A row of outcome y and weight n is a win of weight n y and a loss of weight n (1 - y); where
// ties are an outcome, y = 1/2 is a tie, with the first item for the winner.
struct SplitVotes {
    std::vector<std::uint32_t> winner, loser, pair;
    std::vector<float> n;
    std::vector<std::int8_t> kind;                     // won by the first, the second, or tied
    std::vector<std::size_t> start;                    // of worker s: [start[s], start[s + 1])
    std::vector<std::uint32_t> by_pair, by_pair_start;  // in order within a pair

    static constexpr std::int8_t kFirst = 1, kSecond = -1, kTie = 2;

    SplitVotes(const Votes& votes, const Pairs& pairs, bool ties) {
        std::vector<std::uint32_t> pair_of(votes.n);
        for (std::size_t p = 0; p < pairs.size(); ++p)
            for (std::uint32_t k = pairs.start[p]; k < pairs.start[p + 1]; ++k)
                pair_of[pairs.comparison[k]] = static_cast<std::uint32_t>(p);
        start.assign(votes.n_workers + 1, 0);
        for (std::size_t s = 0; s < votes.n_workers; ++s) {
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const std::uint32_t a = votes.first[i], b = votes.second[i];
                const float y = votes.outcome[i], weight = votes.weight[i];
                if (ties && y == 0.5F) {
                    add(a, b, weight, pair_of[i], kTie);
                    continue;
                }
                if (y > 0.0F) add(a, b, weight * y, pair_of[i], kFirst);
                if (y < 1.0F) add(b, a, weight * (1.0F - y), pair_of[i], kSecond);
            }
            start[s + 1] = size();
        }
        by_pair_start.assign(pairs.size() + 1, 0);
        for (const std::uint32_t p : pair) ++by_pair_start[p + 1];
        for (std::size_t p = 0; p < pairs.size(); ++p) by_pair_start[p + 1] += by_pair_start[p];
        by_pair.resize(size());
        std::vector<std::uint32_t> next(by_pair_start.begin(), by_pair_start.end() - 1);
        for (std::size_t i = 0; i < size(); ++i)
            by_pair[next[pair[i]]++] = static_cast<std::uint32_t>(i);
    }

    std::size_t size() const { return winner.size(); }

    // Whether the winner is the lower item of the pair.
    bool straight(std::size_t i) const { return winner[i] < loser[i]; }

    bool tied(std::size_t i) const { return kind[i] == kTie; }
    // +1 where the winner stood first, else -1.
    float side(std::size_t i) const { return kind[i] == kSecond ? -1.0F : 1.0F; }

private:
    void add(std::uint32_t a, std::uint32_t b, float weight, std::uint32_t p,
             std::int8_t what) {
        winner.push_back(a);
        loser.push_back(b);
        n.push_back(weight);
        pair.push_back(p);
        kind.push_back(what);
    }
};

}  // namespace crowdsift
