// The adaptive grids of workers whose likelihood is narrower than the common grid.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/type_grid.hpp"

namespace crowdsift {

class AdaptiveGrids {
public:
    explicit AdaptiveGrids(std::size_t n_workers) : place_(n_workers, -1) {}

    void clear() {
        std::fill(place_.begin(), place_.end(), -1);
        levels_.clear();
        length_ = 0;
    }

    // The number of levels of each adaptive grid; 0 if there is none.
    std::size_t length() const { return length_; }

    bool has(std::size_t s) const { return place_[s] >= 0; }

    const double* of(std::size_t s) const {
        return levels_.data() + static_cast<std::size_t>(place_[s]);
    }

    void set(std::size_t s, const std::vector<double>& levels) {
        length_ = levels.size();
        if (place_[s] == -1) {
            place_[s] = static_cast<std::int64_t>(levels_.size());
            levels_.resize(levels_.size() + levels.size());
        } else if (place_[s] < -1) {
            place_[s] = -2 - place_[s];
        }
        std::copy(levels.begin(), levels.end(), levels_.begin() + place_[s]);
    }

    // Returns a worker to the common levels; its place is kept, encoded as -2 - place.
    void drop(std::size_t s) { place_[s] = -2 - place_[s]; }

    // Chooses the levels for a worker's likelihood over the lanes of the grid; new ones are written
    // to `levels`. take() assigns them to the worker.
    TypeGrid::Choice choice(std::size_t s, const TypeGrid& grid, const float* likelihood,
                            std::vector<double>& levels) const {
        return grid.refine(has(s) ? of(s) : grid.levels().data(), has(s), likelihood, levels);
    }
    void take(std::size_t s, TypeGrid::Choice choice, const std::vector<double>& levels) {
        if (choice == TypeGrid::Choice::own) set(s, levels);
        if (choice == TypeGrid::Choice::common) drop(s);
    }

    void rescale(double factor) {
        for (double& level : levels_) level *= factor;
    }

private:
    std::vector<std::int64_t> place_;  // where a worker's levels start; negative if it has none
    std::vector<double> levels_;
    std::size_t length_ = 0;
};

}  // namespace crowdsift
