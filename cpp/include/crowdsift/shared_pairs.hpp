// The pairs of these votes that other shards have as well. One of the shards owns a pair: only it
// adds the sums of all shards to its Laplacian, and sends messages along the pair.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "crowdsift/pairs.hpp"

namespace crowdsift {

class SharedPairs {
public:
    SharedPairs() = default;

    SharedPairs(const Pairs& pairs, std::size_t n_items, std::size_t count,
                const std::uint32_t* low, const std::uint32_t* high, const bool* owner)
        : owner_(owner, owner + count) {
        if (count == 0) return;
        mark_.assign(pairs.size(), kNotShared);
        for (std::size_t k = 0; k < count; ++k) {
            if (low[k] >= high[k] || high[k] >= n_items)
                throw std::invalid_argument("a shared pair is two items, the lower one first");
            const auto begin = pairs.high.begin() + pairs.row[low[k]];
            const auto end = pairs.high.begin() + pairs.row[low[k] + std::size_t{1}];
            const auto found = std::lower_bound(begin, end, high[k]);
            if (found == end || *found != high[k])
                throw std::invalid_argument("a shared pair is not compared here");
            const std::size_t p = static_cast<std::size_t>(found - pairs.high.begin());
            pair_.push_back(p);
            mark_[p] = owner[k] ? kOwned : kForeign;
            foreign_ += owner[k] ? 0U : 1U;
        }
    }

    std::size_t size() const { return pair_.size(); }
    std::size_t foreign() const { return foreign_; }  // the number of pairs that others own
    std::size_t pair(std::size_t k) const { return pair_[k]; }
    bool owned(std::size_t k) const { return owner_[k]; }

    bool is(std::size_t p) const { return !mark_.empty() && mark_[p] != kNotShared; }
    bool is_foreign(std::size_t p) const { return !mark_.empty() && mark_[p] == kForeign; }

    // is_foreign as a function of its own, whose data stay in registers within a loop.
    class Foreign {
    public:
        explicit Foreign(const std::vector<std::uint8_t>& mark)
            : mark_(mark.empty() ? nullptr : mark.data()) {}
        bool any() const { return mark_ != nullptr; }
        bool operator()(std::size_t p) const { return any() && mark_[p] == kForeign; }

    private:
        const std::uint8_t* mark_;
    };
    Foreign foreign_pairs() const { return Foreign(mark_); }

private:
    static constexpr std::uint8_t kNotShared = 0, kOwned = 1, kForeign = 2;
    std::vector<std::size_t> pair_;
    std::vector<bool> owner_;
    std::vector<std::uint8_t> mark_;  // one per pair; empty if none is shared
    std::size_t foreign_ = 0;
};

}  // namespace crowdsift
