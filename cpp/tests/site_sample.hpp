// Votes with sites, and the passes of expectation propagation on them.
#pragma once

#include <memory>
#include <vector>

#include "check.hpp"
#include "crowdsift/grid_sites.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/sparse_inverse.hpp"

// Votes of `kinds` outcomes from 0 to 1; workers have the votes between the offsets.
struct SiteSample {
    ThreadPool pool;
    std::vector<std::uint32_t> first, second;
    std::vector<float> outcome, weight;
    std::vector<std::int64_t> offsets;
    Votes votes{};
    ItemSums sums;
    std::unique_ptr<PairGraph> graph;
    SharedPairs shared;
    std::vector<double> levels, prior, means;

    SiteSample(std::size_t n, std::size_t items, std::vector<std::int64_t> given, std::size_t kinds,
               std::size_t threads, std::size_t half)
        : pool(threads), first(n), second(n), outcome(n), weight(n), offsets(std::move(given)),
          sums(items), levels(half), means(items) {
        std::mt19937 random(7);
        for (std::size_t i = 0; i < n; ++i) {
            first[i] = static_cast<std::uint32_t>(random() % items);
            second[i] = static_cast<std::uint32_t>((first[i] + 1 + random() % (items - 1)) % items);
            outcome[i] = static_cast<float>(random() % kinds) / static_cast<float>(kinds - 1);
            weight[i] = static_cast<float>(1 + random() % 3);
        }
        votes = {n,
                 items,
                 offsets.size() - 1,
                 first.data(),
                 second.data(),
                 outcome.data(),
                 weight.data(),
                 offsets.data()};
        votes.validate(pool);
        graph = std::make_unique<PairGraph>(
            items, group_by_pair(n, items, first.data(), second.data()), pool, sums);
        for (std::size_t j = 0; j < half; ++j)
            levels[j] = 6.0 * static_cast<double>(j + 1) / static_cast<double>(half);
        for (std::size_t j = 0; j < items; ++j)
            means[j] = static_cast<double>(j) / static_cast<double>(items);
    }

    GridSites sites(const TypeShape& shape, std::size_t n_gold) {
        auto split = std::make_shared<SplitVotes>(votes, graph->pairs, shape.widths[0] > 0.0, pool);
        GridSites made(votes, *graph, shared, split, shape, n_gold, 2.0);
        const std::size_t types = made.types().n_types(levels.size());
        prior.assign(types, 1.0 / static_cast<double>(types));
        return made;
    }

    UpdateRequest request(double damping, bool clip) const {
        return {levels.size(), levels.data(), prior.data(), means.data(), damping,
                clip,          {0.1, 0.3},    {},           nullptr};
    }

    double voting(std::size_t n_gold) const {
        double count = 0.0;
        for (std::size_t s = 0; s + n_gold < votes.n_workers; ++s)
            count += offsets[s] < offsets[s + 1] ? 1.0 : 0.0;
        return count;
    }
};

inline double sum_of(const std::vector<double>& values) {
    double total = 0.0;
    for (const double value : values) total += value;
    return total;
}
