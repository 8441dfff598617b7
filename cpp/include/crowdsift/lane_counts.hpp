// Sums of types over workers.
#pragma once

#include <cstddef>
#include <vector>

#include "crowdsift/grid_kernels.hpp"

namespace crowdsift {

// Sums over workers of a number a type: float32 partial sums of a few hundred workers.
class LaneCounts {
public:
    explicit LaneCounts(std::size_t size) : partial_(size, 0.0F), total_(size, 0.0) {}

    void add(float scale, const float* values) {
        add_scaled(partial_.size(), scale, values, partial_.data());
        if (++workers_ == 256) close();
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

}  // namespace crowdsift
