// Votes as wins, by worker and by pair, with the winner and its side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

// A row of outcome y and weight n is a win of weight n y and a loss of weight n (1 - y); if ties
// are an outcome, y = 1/2 is a tie, with the first item as winner. If no row has to be split, the
// rows themselves are these votes and only the pair of each is stored.
class SplitVotes {
public:
    const std::uint32_t *first, *second;
    const float* n;
    Array<std::uint32_t> pair;
    std::vector<std::size_t> start;                // of worker s: [start[s], start[s + 1])
    const std::uint32_t *by_pair, *by_pair_start;  // in order within a pair

    static constexpr std::int8_t kFirst = 1, kSecond = -1, kTie = 2;

    SplitVotes(const Votes& votes, const Pairs& pairs, bool ties, ThreadPool& pool)
        : first(votes.first), second(votes.second), n(votes.weight), pair(votes.n),
          start(votes.n_workers + 1), by_pair(pairs.comparison.data()),
          by_pair_start(pairs.start.data()), outcome_(votes.outcome) {
        const std::vector<std::size_t> parts = shared_ranges(pairs.size(), kManyPairs, pool);
        pool.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t p = parts[part]; p < parts[part + 1]; ++p)
                for (std::uint32_t k = pairs.start[p]; k < pairs.start[p + 1]; ++k)
                    pair[pairs.comparison[k]] = static_cast<std::uint32_t>(p);
        });
        const auto whole = [&](float y) { return y == 0.0F || y == 1.0F || (ties && y == 0.5F); };
        for (std::size_t s = 0; s <= votes.n_workers; ++s) start[s] = votes.begin_of(s);
        if (!std::all_of(votes.outcome, votes.outcome + votes.n, whole))
            own_ = split(votes, pairs, whole);
        single_ = std::all_of(n, n + size(), [](float weight) { return weight == 1.0F; });
    }

    SplitVotes(const SplitVotes&) = delete;
    SplitVotes& operator=(const SplitVotes&) = delete;

    std::size_t size() const { return pair.size(); }

    // Whether every vote counts once.
    bool single() const { return single_; }

    // The winner of the vote: the first item, the second, or none.
    std::int8_t kind(std::size_t i) const {
        return tied(i) ? kTie : outcome_[i] == 0.0F ? kSecond : kFirst;
    }

    std::uint32_t winner(std::size_t i) const { return side(i) > 0.0F ? first[i] : second[i]; }
    std::uint32_t loser(std::size_t i) const { return side(i) > 0.0F ? second[i] : first[i]; }

    // Whether the winner is the lower item of the pair.
    bool straight(std::size_t i) const { return winner(i) < loser(i); }

    bool tied(std::size_t i) const { return outcome_[i] == 0.5F; }
    // +1 if the winner stood first, otherwise -1.
    float side(std::size_t i) const { return outcome_[i] == 0.0F ? -1.0F : 1.0F; }

private:
    struct Rows {
        Array<std::uint32_t> first, second, by_pair, by_pair_start;
        Array<float> n, outcome;
    };

    template <class Whole>
    std::unique_ptr<const Rows> split(const Votes& votes, const Pairs& pairs, const Whole& whole) {
        auto rows = std::make_unique<Rows>();
        Array<std::uint32_t> pair_of;
        const auto add = [&](std::size_t i, float y, float weight) {
            rows->first.push_back(votes.first[i]);
            rows->second.push_back(votes.second[i]);
            rows->n.push_back(weight);
            rows->outcome.push_back(y);
            pair_of.push_back(pair[i]);
        };
        for (std::size_t s = 0; s < votes.n_workers; ++s) {
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                const float y = votes.outcome[i], weight = votes.weight[i];
                if (whole(y)) {
                    add(i, y, weight);
                } else {
                    add(i, 1.0F, weight * y);
                    add(i, 0.0F, weight * (1.0F - y));
                }
            }
            start[s + 1] = pair_of.size();
        }
        if (pair_of.size() >= UINT32_MAX) throw std::invalid_argument("more than 2^32 votes");
        pair = std::move(pair_of);
        rows->by_pair_start.assign(pairs.size() + 1, 0);
        for (const std::uint32_t p : pair) ++rows->by_pair_start[p + 1];
        std::partial_sum(rows->by_pair_start.begin(), rows->by_pair_start.end(),
                         rows->by_pair_start.begin());
        rows->by_pair.resize(pair.size());
        Array<std::uint32_t> next(rows->by_pair_start.begin(), rows->by_pair_start.end() - 1);
        for (std::size_t i = 0; i < pair.size(); ++i)
            rows->by_pair[next[pair[i]]++] = static_cast<std::uint32_t>(i);
        first = rows->first.data();
        second = rows->second.data();
        n = rows->n.data();
        outcome_ = rows->outcome.data();
        by_pair = rows->by_pair.data();
        by_pair_start = rows->by_pair_start.data();
        return rows;
    }

    const float* outcome_;  // 1, 0, or 1/2 for a tie
    std::unique_ptr<const Rows> own_;
    bool single_ = false;
};

}  // namespace crowdsift
