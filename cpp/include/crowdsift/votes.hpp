// The comparisons that passes go over: validated once, cut into ranges of workers, one range
// a thread. A worker's parameters are local to one range; only vectors over items are reduced.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

// How many of the rows do not name two different items below n_items.
CROWDSIFT_CLONES
inline std::size_t bad_rows(std::size_t count, std::size_t n_items,
                            const std::uint32_t* CROWDSIFT_RESTRICT first,
                            const std::uint32_t* CROWDSIFT_RESTRICT second) {
    const std::uint32_t limit = static_cast<std::uint32_t>(n_items);
    std::uint32_t bad = 0;
    for (std::size_t i = 0; i < count; ++i)
        bad += static_cast<std::uint32_t>((first[i] >= limit) | (second[i] >= limit) |
                                          (first[i] == second[i]));
    return bad;
}

// Rows that passes over workers' parameters take at a time.
constexpr std::size_t kBlockRows = 1024;

struct Votes {
    std::size_t n, n_items, n_workers;
    const std::uint32_t* first;
    const std::uint32_t* second;
    const float* outcome;
    const float* weight;
    const std::int64_t* offsets;

    // Throws where a kernel would read outside its arrays, items apart.
    void validate_offsets() const {
        if (n >= UINT32_MAX || n_items >= UINT32_MAX)
            throw std::invalid_argument("more than 2^32 comparisons or items");
        if (offsets[0] != 0 || offsets[n_workers] != static_cast<std::int64_t>(n))
            throw std::invalid_argument("worker offsets do not span the comparisons");
        for (std::size_t s = 0; s < n_workers; ++s)
            if (offsets[s] > offsets[s + 1])
                throw std::invalid_argument("worker offsets fall at worker " + std::to_string(s));
    }

    // The same, items included.
    void validate(ThreadPool& pool) const {
        validate_offsets();
        const std::vector<std::size_t> ranges = shared_ranges(n, kManyRows, pool);
        std::vector<std::size_t> bad(ranges.size() - 1, 0);
        pool.run(bad.size(), [&](std::size_t range) {
            const std::size_t from = ranges[range];
            bad[range] = bad_rows(ranges[range + 1] - from, n_items, first + from, second + from);
        });
        for (std::size_t range = 0; range < bad.size(); ++range)
            for (std::size_t i = ranges[range]; bad[range] > 0; ++i)
                if (bad_rows(1, n_items, first + i, second + i) > 0)
                    throw std::invalid_argument("bad item code in comparison " + std::to_string(i));
    }

    std::size_t begin_of(std::size_t worker) const {
        return static_cast<std::size_t>(offsets[worker]);
    }

    // Ranges of workers with about equal numbers of comparisons.
    std::vector<std::size_t> worker_ranges(std::size_t threads) const {
        const std::size_t parts = n < kManyRows ? 1 : threads;
        std::vector<std::size_t> bounds{0};
        for (std::size_t s = 0; s < n_workers && bounds.size() < parts; ++s)
            if (begin_of(s + 1) * parts >= n * bounds.size()) bounds.push_back(s + 1);
        bounds.push_back(n_workers);
        return bounds;
    }

    // Calls block(from, to) for runs of workers of a range: at most kBlockRows rows, or one
    // worker.
    template <class Block>
    void over_blocks(const std::vector<std::size_t>& ranges, std::size_t range,
                     const Block& block) const {
        const std::size_t end = ranges[range + 1];
        for (std::size_t from = ranges[range]; from < end;) {
            const std::size_t limit = begin_of(from) + kBlockRows;
            std::size_t to = from + 1;
            while (to < end && begin_of(to + 1) <= limit) ++to;
            block(from, to);
            from = to;
        }
    }

    // Whether these workers have more rows than a block.
    bool is_long(std::size_t from, std::size_t to) const {
        return begin_of(to) - begin_of(from) > kBlockRows;
    }

    // Calls piece(first row, rows) for at most kBlockRows rows of these workers at a time.
    template <class Piece>
    void over_pieces(std::size_t from, std::size_t to, const Piece& piece) const {
        const std::size_t end = begin_of(to);
        for (std::size_t at = begin_of(from); at < end; at += kBlockRows)
            piece(at, std::min(kBlockRows, end - at));
    }
};

}  // namespace crowdsift
