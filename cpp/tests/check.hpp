// What the tests of all kernels share: checks that are counted, and votes of the shapes that go
// wrong (empty workers, one comparison, blocks that end in the middle of a worker).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "crowdsift/collapse.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

using namespace crowdsift;

inline int failures = 0, checks = 0;

inline void expect_near(double got, double want, double tolerance, const char* what,
                        const char* file, int line) {
    ++checks;
    if (std::fabs(got - want) <= tolerance * (1.0 + std::fabs(want))) return;
    ++failures;
    std::printf("%s, line %d: %s is %.17g, expected %.17g\n", file, line, what, got, want);
}
#define NEAR(got, want, tolerance) expect_near(got, want, tolerance, #got, __FILE__, __LINE__)

struct Crowd {
    std::size_t n_items, n_workers;
    std::vector<std::uint32_t> first, second, worker;
    std::vector<float> outcome, weight;

    Crowd(std::size_t n, std::size_t items, std::size_t workers, unsigned seed)
        : n_items(items), n_workers(workers) {
        std::mt19937 random(seed);
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t a = static_cast<std::uint32_t>(random() % items);
            const std::uint32_t b =
                static_cast<std::uint32_t>((a + 1 + random() % (items - 1)) % items);
            first.push_back(a);
            second.push_back(b);
            // Squared, so that some workers are busy and some have no vote.
            const std::size_t u = random() % workers;
            worker.push_back(static_cast<std::uint32_t>(u * u / workers));
            outcome.push_back(static_cast<float>(random() % 3) / 2.0F);
            weight.push_back(1.0F + static_cast<float>(random() % 2));
        }
    }

    RowInput input(bool oriented) const {
        return {first.size(),  n_items,        n_workers,     first.data(), second.data(),
                worker.data(), outcome.data(), weight.data(), nullptr,      oriented};
    }
};

// Collapsed votes that own their arrays.
struct Sample {
    std::vector<std::uint32_t> first, second;
    std::vector<float> outcome, weight;
    std::vector<std::int64_t> offsets;
    Votes votes{};

    Sample(std::size_t n, std::size_t items, std::size_t workers, ThreadPool& pool) {
        const Crowd crowd(n, items, workers, static_cast<unsigned>(n));
        const Collapsed rows = collapse(crowd.input(true), pool);
        for (const VoteRow& row : rows.rows) {
            first.push_back(row.first);
            second.push_back(row.second);
            outcome.push_back(row.outcome);
            weight.push_back(row.weight);
        }
        offsets = rows.offsets;
        votes = {first.size(),  items,          workers,       first.data(),
                 second.data(), outcome.data(), weight.data(), offsets.data()};
        votes.validate(pool);
    }
    Sample(const Sample&) = delete;
    Sample& operator=(const Sample&) = delete;
};

inline std::vector<double> normals(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> values(count);
    for (double& value : values) value = normal(random);
    return values;
}

// One for every family of kernels.
void test_functions();
void test_spill();
void test_parallel();
void test_rows();
void test_em();
void test_slopes();
void test_likelihoods();
void test_grids();
void test_types();
