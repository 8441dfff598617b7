// What can be counted of votes, in one pass: how far each worker agrees with an order of the items,
// how often each item appears, and which ways its votes go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/range_sums.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

struct Tally {
    // Weights of a worker's decided votes that agree with the order of scores, and of all decided
    // ones. Equal scores agree with nobody.
    std::vector<double> agreed, decided;
    // Of every item, the weights of its votes; 1 where a vote is (partly) for it, plus 2 where one
    // is against it.
    std::vector<double> appearances;
    std::vector<std::uint8_t> ways;
};

// Counts one range of workers; Real is that of its sums.
template <class Real>
void tally_range(const Votes& votes, std::size_t from, std::size_t to, const double* scores,
                 RangeSums::Lane<Real>& lane, std::uint8_t* ways, Tally& out) {
    Real* const sums = lane.sums();
    const std::size_t last = votes.begin_of(to);
    for (std::size_t s = from; s < to; ++s) {
        double agreed = 0.0, decided = 0.0;
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const std::uint32_t first = votes.first[i], second = votes.second[i];
            if (sizeof(Real) == sizeof(float)) {
                const std::size_t ahead = std::min(i + kAhead, last - 1);
                for (const std::uint32_t item : {votes.first[ahead], votes.second[ahead]}) {
                    will_read(scores + item);
                    will_write(sums + item);
                }
            }
            const float y = votes.outcome[i], n = votes.weight[i];
            const double d = scores[first] - scores[second];
            const bool with = ((y > 0.5F) & (d > 0.0)) | ((y < 0.5F) & (d < 0.0));
            agreed += with ? static_cast<double>(n) : 0.0;
            decided += y != 0.5F ? static_cast<double>(n) : 0.0;
            sums[first] += static_cast<Real>(n);
            sums[second] += static_cast<Real>(n);
            const unsigned up = y != 0.0F ? 1U : 0U, down = y != 1.0F ? 1U : 0U;
            ways[first] = static_cast<std::uint8_t>(ways[first] | up | down << 1U);
            ways[second] = static_cast<std::uint8_t>(ways[second] | down | up << 1U);
        }
        out.agreed[s] = agreed;
        out.decided[s] = decided;
        lane.added(votes.begin_of(s + 1) - votes.begin_of(s));
    }
    lane.close();
}

inline Tally tally(const Votes& votes, ThreadPool& pool, const double* scores) {
    const std::vector<std::size_t> ranges = votes.worker_ranges(pool.size());
    const std::size_t n_ranges = ranges.size() - 1;
    RangeSums sums(n_ranges, votes.n_items);
    Array<std::uint8_t> ways(n_ranges * votes.n_items, 0);
    Tally out;
    out.agreed.resize(votes.n_workers);
    out.decided.resize(votes.n_workers);
    out.appearances.resize(votes.n_items);
    pool.run(n_ranges, [&](std::size_t range) {
        const auto count = [&](auto real) {
            RangeSums::Lane<decltype(real)> lane(sums, range);
            tally_range(votes, ranges[range], ranges[range + 1], scores, lane,
                        ways.data() + range * votes.n_items, out);
        };
        if (sums.are_short())
            count(0.0F);
        else
            count(0.0);
    });
    sums.reduce(out.appearances.data(), pool);
    out.ways.assign(ways.begin(), ways.begin() + static_cast<std::ptrdiff_t>(votes.n_items));
    for (std::size_t range = 1; range < n_ranges; ++range)
        for (std::size_t j = 0; j < votes.n_items; ++j)
            out.ways[j] = static_cast<std::uint8_t>(out.ways[j] | ways[range * votes.n_items + j]);
    return out;
}

}  // namespace crowdsift
