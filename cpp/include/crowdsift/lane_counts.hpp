// Sums of types over workers.
#pragma once

#include <cstddef>
#include <vector>

#include "crowdsift/grid_kernels.hpp"

namespace crowdsift {

// Sums over workers of a number per type: float32 partial sums of a few hundred workers.
class LaneCounts {
public:
    explicit LaneCounts(std::size_t size) : partial_(size, 0.0F), total_(size, 0.0) {}

    void add(float scale, const float* values) {
        add_scaled(partial_.size(), scale, values, partial_.data());
        if (++workers_ == 256) close();
    }

    // Adds this number of rows, each times its scale.
    void add_block(const float* scale, const float* const* rows) {
        add_rows(partial_.size(), scale, rows, partial_.data());
        if ((workers_ += kRowBlock) >= 256) close();
    }

    const double* close() {
        for (std::size_t t = 0; t < partial_.size(); ++t) {
            total_[t] += static_cast<double>(partial_[t]);
            partial_[t] = 0.0F;
        }
        workers_ = 0;
        return total_.data();
    }

private:
    std::vector<float> partial_;
    std::vector<double> total_;
    std::size_t workers_ = 0;
};

// Sums over workers of likelihood over evidence, by type, under one prior: several workers at once,
// since their rows come from memory and the prior does not.
class EvidenceCounts {
public:
    EvidenceCounts(std::size_t size, const float* prior)
        : size_(size), prior_(prior), nothing_(size, 0.0F), counts_(size) {}

    // Adds a worker that represents `times`; its evidence is larger than that of this row by
    // `rest`.
    void add(const float* row, float rest, float times) {
        rows_[held_] = row;
        rest_[held_] = rest;
        times_[held_] = times;
        if (++held_ == kRowBlock) flush();
    }

    const double* close() {
        for (std::size_t i = held_; i < kRowBlock && held_ > 0; ++i) {
            rows_[i] = nothing_.data();
            rest_[i] = 1.0F;
            times_[i] = 0.0F;
        }
        if (held_ > 0) flush();
        return counts_.close();
    }

private:
    void flush() {
        float scale[kRowBlock];
        weighted_sums(size_, prior_, rows_, scale);
        for (std::size_t i = 0; i < kRowBlock; ++i) scale[i] = times_[i] / (scale[i] + rest_[i]);
        counts_.add_block(scale, rows_);
        held_ = 0;
    }

    const std::size_t size_;
    const float* const prior_;
    const std::vector<float> nothing_;
    LaneCounts counts_;
    const float* rows_[kRowBlock] = {};
    float rest_[kRowBlock] = {}, times_[kRowBlock] = {};
    std::size_t held_ = 0;
};

}  // namespace crowdsift
