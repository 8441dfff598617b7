// Numbers, votes and choices from the fuzzer's bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "crowdsift/item_sums.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/votes.hpp"

namespace fuzz {

using namespace crowdsift;

#define REQUIRE(holds)                                                                \
    do {                                                                              \
        if (!(holds)) {                                                               \
            std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #holds); \
            std::abort();                                                             \
        }                                                                             \
    } while (false)

class Input {
public:
    Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

    bool empty() const { return at_ == end_; }
    std::uint8_t byte() { return at_ == end_ ? std::uint8_t{0} : *at_++; }
    bool flag() { return (byte() & 1U) != 0; }
    std::size_t below(std::size_t limit) { return byte() % limit; }

    // Mostly small numbers; sometimes eight raw bytes, or a difficult value.
    double number() {
        static constexpr double kHard[] = {0.0,
                                           -0.0,
                                           1e308,
                                           -1e308,
                                           5e-324,
                                           1e-30,
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::quiet_NaN()};
        const std::uint8_t kind = byte();
        if (kind == 255) {
            double value = 0.0;
            std::uint8_t raw[sizeof value];
            for (std::uint8_t& part : raw) part = byte();
            std::memcpy(&value, raw, sizeof value);
            return value;
        }
        if (kind >= 240) return kHard[kind % (sizeof kHard / sizeof *kHard)];
        return (static_cast<double>(kind) - 120.0) / 32.0;
    }

    // Not negative and finite.
    double positive() { return (1.0 + byte()) / 64.0; }

    std::vector<double> numbers(std::size_t count) {
        std::vector<double> values(count);
        for (double& value : values) value = number();
        return values;
    }

    std::vector<double> positives(std::size_t count) {
        std::vector<double> values(count);
        for (double& value : values) value = positive();
        return values;
    }

private:
    const std::uint8_t* at_;
    const std::uint8_t* end_;
};

// Votes that own their arrays; some workers have none.
struct Sample {
    std::vector<std::uint32_t> first, second;
    std::vector<float> outcome, weight;
    std::vector<std::int64_t> offsets{0};
    ThreadPool pool;
    Votes votes{};
    ItemSums sums;
    std::unique_ptr<PairGraph> graph;

    explicit Sample(Input& in) : Sample(in, 2 + in.below(9), 1 + in.below(200)) {}

    Sample(Input& in, std::size_t items, std::size_t rows) : pool(1 + in.below(3)), sums(items) {
        const std::size_t workers = 1 + in.below(6);
        // A few bytes for many rows: each row is derived from the previous one, so that rows
        // differ.
        std::uint32_t state = in.byte();
        for (std::size_t i = 0; i < rows; ++i) {
            state = state * 1664525U + 1013904223U + in.byte();
            first.push_back((state >> 8) % static_cast<std::uint32_t>(items));
            const std::uint32_t step = (state >> 16) % static_cast<std::uint32_t>(items - 1);
            second.push_back((first.back() + 1 + step) % static_cast<std::uint32_t>(items));
            outcome.push_back(static_cast<float>((state >> 24) % 5) / 4.0F);
            weight.push_back(static_cast<float>(1 + (state >> 28)));
        }
        for (std::size_t s = 1; s < workers; ++s)
            offsets.push_back(std::max(offsets.back(), static_cast<std::int64_t>(in.below(rows))));
        offsets.push_back(static_cast<std::int64_t>(rows));
        votes = {rows,          items,          workers,       first.data(),
                 second.data(), outcome.data(), weight.data(), offsets.data()};
        votes.validate(pool);
        graph = std::make_unique<PairGraph>(
            items, group_by_pair(rows, items, first.data(), second.data()), pool, sums);
    }
    Sample(const Sample&) = delete;
    Sample& operator=(const Sample&) = delete;
};

}  // namespace fuzz
