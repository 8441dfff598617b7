// The grid of worker types: the common levels, the adaptive grids of workers whose posterior is
// narrower than a cell, and the prior on either.
//
// Types are laid out as [up: +b of every lane][down: -b of every lane][0, then padding]; lanes
// beyond the levels repeat the last one with prior 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/grid_kernels.hpp"

namespace crowdsift {

class TypeGrid {
public:
    static constexpr std::size_t kMostLevels = 1024;
    static constexpr double kNarrow = 1.0;  // cells; see refined_levels in engines/dense.py
    static constexpr double kSpan = 7.0;    // standard deviations to each side
    static constexpr double kSlack = 0.15;  // share of the span by which an end may be off

    void set(std::size_t half, const double* levels, const double* prior) {
        half_ = half;
        lanes_ = (half + kLaneBlock - 1) / kLaneBlock * kLaneBlock;
        levels_.assign(levels, levels + half);
        lane_level_.resize(lanes_);
        spread_levels(levels_.data(), lane_level_.data());
        set_prior(prior);
    }

    // The prior over the common grid, in the order of rising reliability.
    void set_prior(const double* prior) {
        prior_.assign(prior, prior + 2 * half_ + 1);
        lane_prior_.assign(types(), 0.0F);
        to_lanes(prior_.data(), lane_prior_.data());
        width_.resize(half_);
        inverse_width_.resize(half_);
        for (std::size_t j = 0; j < half_; ++j) {
            const double before = j == 0 ? 0.0 : levels_[j - 1];
            width_[j] = j + 1 < half_ ? 0.5 * (levels_[j + 1] - before) : levels_[j] - before;
            inverse_width_[j] = 1.0 / width_[j];
        }
    }

    std::size_t half() const { return half_; }
    std::size_t lanes() const { return lanes_; }
    std::size_t types() const { return 2 * lanes_ + kLaneBlock; }
    std::size_t zero() const { return 2 * lanes_; }
    const std::vector<double>& levels() const { return levels_; }
    const float* lane_levels() const { return lane_level_.data(); }
    const float* lane_prior() const { return lane_prior_.data(); }
    const std::vector<double>& prior() const { return prior_; }

    void spread_levels(const double* levels, float* lanes) const {
        for (std::size_t j = 0; j < lanes_; ++j)
            lanes[j] = static_cast<float>(levels[std::min(j, half_ - 1)]);
    }

    // Rising order to lanes.
    template <class T>
    void to_lanes(const double* rising, T* types) const {
        for (std::size_t j = 0; j < half_; ++j) {
            types[j] = static_cast<T>(rising[half_ + 1 + j]);
            types[lanes_ + j] = static_cast<T>(rising[half_ - 1 - j]);
        }
        types[zero()] = static_cast<T>(rising[half_]);
    }

    // The position of the levels of an adaptive grid among the common ones: the same for every tie
    // width.
    struct Placement {
        std::uint16_t cell[kMostLevels], below[kMostLevels];
        double width[kMostLevels], share[kMostLevels], part[kMostLevels];
    };

    void place(const double* own, Placement& at) const {
        std::size_t k = 0, below = 0;  // below: the common level below, 0 for the point 0
        for (std::size_t j = 0; j < half_; ++j) {
            while (k + 2 < half_ && levels_[k + 1] < own[j]) ++k;
            while (below + 1 < half_ && levels_[below] <= own[j]) ++below;
            const double low = below == 0 ? 0.0 : levels_[below - 1];
            at.cell[j] = static_cast<std::uint16_t>(k);
            at.below[j] = static_cast<std::uint16_t>(below);
            at.width[j] = width_of(own, j);
            at.share[j] = unit((own[j] - levels_[k]) / (levels_[k + 1] - levels_[k]));
            at.part[j] = unit((own[j] - low) / (levels_[below] - low));
        }
    }

    // Converts a prior in ascending order to the types, on an adaptive grid if there is one: the
    // density is linear between common levels and constant outside; the mass at 0 stays.
    void spread_prior(const double* prior, const Placement* at, float* types) const {
        std::fill(types, types + this->types(), 0.0F);
        if (at == nullptr) {
            to_lanes(prior, types);
            return;
        }
        const double *const up = prior + half_ + 1, *const down = prior + half_ - 1;
        for (std::size_t j = 0; j < half_; ++j) {
            const std::size_t k = at->cell[j];
            const double here = (1.0 - at->share[j]) * inverse_width_[k] * at->width[j];
            const double next = at->share[j] * inverse_width_[k + 1] * at->width[j];
            types[j] = static_cast<float>(here * up[k] + next * up[k + 1]);
            types[lanes_ + j] =
                static_cast<float>(here * *(down - static_cast<std::ptrdiff_t>(k)) +
                                   next * *(down - static_cast<std::ptrdiff_t>(k) - 1));
        }
        types[zero()] = static_cast<float>(prior[half_]);
    }

    // Moves masses prior * likelihood (or the prior alone) from an adaptive grid to the common one;
    // each is divided linearly between its two neighbours.
    void deposit(const Placement& at, const float* prior, const float* likelihood, double scale,
                 double* rising) const {
        for (std::size_t j = 0; j < half_; ++j) {
            const std::size_t k = at.below[j];
            const double up = scale * mass(prior, likelihood, j);
            const double down = scale * mass(prior, likelihood, lanes_ + j);
            rising[half_ + k] += up * (1.0 - at.part[j]);
            rising[half_ + k + 1] += up * at.part[j];
            rising[half_ - k] += down * (1.0 - at.part[j]);
            rising[half_ - k - 1] += down * at.part[j];
        }
        rising[half_] += scale * mass(prior, likelihood, zero());
    }

    enum class Choice { stay, own, common };

    // Chooses the levels for a worker's likelihood over lanes on its present levels; new adaptive
    // ones are written to `out`. See refined_levels in engines/dense.py.
    Choice refine(const double* levels, bool has_own, const float* likelihood,
                  std::vector<double>& out) const {
        double total = 0.0, first = 0.0, second = 0.0;
        for (std::size_t j = 0; j < half_; ++j) {
            const double size = width_of(levels, j) * (static_cast<double>(likelihood[j]) +
                                                       static_cast<double>(likelihood[lanes_ + j]));
            total += size;
            first += levels[j] * size;
            second += levels[j] * levels[j] * size;
        }
        const double mean = first / total;
        const double sd = std::sqrt(std::max(second / total - mean * mean, 0.0));
        const double common_cell = cell_at(levels_.data(), mean);
        if (!has_own && sd >= kNarrow * common_cell) return Choice::stay;
        const double reach = std::max(kSpan * sd, 1.5 * cell_at(levels, mean));
        const double low = std::max(mean - reach, 0.0);
        const double high = std::min(mean + reach, levels_.back());
        if (high - low > 2.0 * static_cast<double>(half_) * common_cell)
            return has_own ? Choice::common : Choice::stay;
        out.resize(half_);
        for (std::size_t j = 0; j < half_; ++j)
            out[j] = low == 0.0 ? high * static_cast<double>(j + 1) / static_cast<double>(half_)
                                : low + (high - low) * static_cast<double>(j) /
                                            static_cast<double>(half_ - 1);
        const double slack = kSlack * (high - low);
        if (has_own && std::fabs(out[0] - levels[0]) <= slack &&
            std::fabs(high - levels[half_ - 1]) <= slack)
            return Choice::stay;
        return Choice::own;
    }

private:
    static double unit(double share) { return std::min(std::max(share, 0.0), 1.0); }

    static double mass(const float* prior, const float* likelihood, std::size_t t) {
        return static_cast<double>(likelihood == nullptr ? prior[t] : prior[t] * likelihood[t]);
    }

    // Central differences, one-sided at the ends.
    double width_of(const double* levels, std::size_t j) const {
        if (j == 0) return levels[1] - levels[0];
        if (j + 1 == half_) return levels[j] - levels[j - 1];
        return 0.5 * (levels[j + 1] - levels[j - 1]);
    }

    double cell_at(const double* levels, double place) const {
        const std::size_t found =
            static_cast<std::size_t>(std::lower_bound(levels, levels + half_, place) - levels);
        const std::size_t at = std::min(std::max<std::size_t>(found, 1), half_ - 1);
        return levels[at] - levels[at - 1];
    }

    std::size_t half_ = 0, lanes_ = 0;
    std::vector<double> levels_, prior_;
    std::vector<double> width_, inverse_width_;  // of cells, one-sided at the last
    std::vector<float> lane_level_, lane_prior_;
};

}  // namespace crowdsift
