// Types of reliability and tie width, and side-only types, in the layout of the kernels: one
// TypeGrid slice for every width, then the side-only types, padded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/type_grid.hpp"

namespace crowdsift {

struct TypeShape {
    std::vector<double> widths, side_only, side_only_widths;
    bool sides = false;
};

class WorkerTypes {
public:
    explicit WorkerTypes(TypeShape shape)
        : shape_(std::move(shape)), slices_(shape_.widths.size()) {}

    // Levels of reliability and a prior in the order of Python: widths, then side-only types.
    void set(std::size_t half, const double* levels, const double* prior) {
        half_ = half;
        for (std::size_t w = 0; w < slices_.size(); ++w)
            slices_[w].set(half, levels, prior + w * n_points());
        set_side_only();
        set_prior(prior);
    }

    void set_prior(const double* prior) {
        given_.assign(prior, prior + n_types());
        prior_.assign(size(), 0.0F);
        for (std::size_t w = 0; w < slices_.size(); ++w) {
            slices_[w].set_prior(prior + w * n_points());
            std::copy(slices_[w].lane_prior(), slices_[w].lane_prior() + slice(),
                      prior_.begin() + static_cast<std::ptrdiff_t>(w * slice()));
        }
        for (std::size_t p = 0; p < shape_.side_only.size(); ++p)
            prior_[n_regular() + p] = static_cast<float>(prior[slices_.size() * n_points() + p]);
    }

    bool sides() const { return shape_.sides; }
    const TypeShape& shape() const { return shape_; }
    std::size_t half() const { return half_; }
    std::size_t n_points() const { return 2 * half_ + 1; }
    std::size_t n_types() const { return n_types(half_); }
    std::size_t n_types(std::size_t half) const {
        return slices_.size() * (2 * half + 1) + shape_.side_only.size();
    }
    std::size_t slice() const { return slices_[0].types(); }
    std::size_t n_regular() const { return slices_.size() * slice(); }
    std::size_t size() const {
        return n_regular() + (shape_.side_only.size() + kLaneBlock - 1) / kLaneBlock * kLaneBlock;
    }
    const TypeGrid& grid() const { return slices_[0]; }
    const float* prior() const { return prior_.data(); }

    // The levels as lanes, of an adaptive grid or the common one.
    const float* levels() const { return slices_[0].lane_levels(); }
    void spread(const double* levels, float* lanes) const {
        slices_[0].spread_levels(levels, lanes);
    }

    // -log-likelihoods of side-only types, from the weights of wins by side (first, second) and of
    // ties: these types do not depend on the items.
    void side_only_costs(const double* weights, double* costs) const {
        const std::size_t padded = size() - n_regular();
        for (std::size_t p = 0; p < padded; ++p)
            costs[p] = weights[0] * side_costs_[p] + weights[1] * side_costs_[padded + p] +
                       weights[2] * side_costs_[2 * padded + p];
    }

    // The prior, or another one, on an adaptive grid if one is given.
    void own_prior(const double* own, float* out) const { spread_prior(given_.data(), own, out); }
    void spread_prior(const double* prior, const double* own, float* out) const {
        TypeGrid::Placement at;
        if (own != nullptr) slices_[0].place(own, at);
        for (std::size_t w = 0; w < slices_.size(); ++w)
            slices_[w].spread_prior(prior + w * n_points(), own == nullptr ? nullptr : &at,
                                    out + w * slice());
        std::fill(out + n_regular(), out + size(), 0.0F);
        for (std::size_t p = 0; p < shape_.side_only.size(); ++p)
            out[n_regular() + p] = static_cast<float>(prior[slices_.size() * n_points() + p]);
    }

    // The type of gold: the largest reliability, the least width; and its reverse.
    std::size_t gold() const { return half_ - 1; }
    std::size_t reversed_gold() const { return slices_[0].lanes() + half_ - 1; }

    void gold_prior(float* prior) const {
        std::fill(prior, prior + size(), 0.0F);
        prior[gold()] = 1.0F;
    }

    // Adds scale * prior * likelihood, or scale * prior without one, to the counts; masses on
    // adaptive levels are divided between the neighbouring common levels.
    void count(const double* own, const float* prior, const float* likelihood, float scale,
               double* counts) const {
        if (own == nullptr) {
            add_masses(prior, likelihood, scale, counts);
            return;
        }
        TypeGrid::Placement at;
        slices_[0].place(own, at);
        for (std::size_t w = 0; w < slices_.size(); ++w)
            slices_[w].deposit(at, prior + w * slice(),
                               likelihood == nullptr ? nullptr : likelihood + w * slice(),
                               static_cast<double>(scale), counts + w * n_points());
        add_side_only(prior, likelihood, scale, counts);
    }

    // Adds scale * prior * likelihood of every type, or without a likelihood, in the order of
    // Python.
    void add_masses(const float* prior, const float* likelihood, float scale,
                    double* masses) const {
        in_order(
            [&](std::size_t t) {
                return static_cast<double>(scale * prior[t] *
                                           (likelihood == nullptr ? 1.0F : likelihood[t]));
            },
            masses);
    }

    // The same for the common prior times sums.
    void add_products(const double* sums, double* masses) const {
        in_order([&](std::size_t t) { return static_cast<double>(prior_[t]) * sums[t]; }, masses);
    }

    // Sums over workers of a number per type.
    void add_sums(const double* sums, double* masses) const {
        in_order([&](std::size_t t) { return sums[t]; }, masses);
    }

    // Likelihoods of one slice's layout, added up over the widths.
    void over_widths(const float* likelihood, float* summed) const {
        sum_rows(slice(), slices_.size(), likelihood, summed);
    }

    // Reliabilities in ascending order, of an adaptive grid if one is given.
    void mirror(const double* own, double* points) const {
        const double* const levels = own == nullptr ? slices_[0].levels().data() : own;
        points[half_] = 0.0;
        for (std::size_t j = 0; j < half_; ++j) {
            points[half_ + 1 + j] = levels[j];
            points[half_ - 1 - j] = -levels[j];
        }
    }

private:
    // Costs of one vote of each kind, log(1 + exp(delta - x gamma)) of a win; padding repeats the
    // last.
    void set_side_only() {
        const std::size_t count = shape_.side_only.size(), padded = size() - n_regular();
        side_costs_.assign(3 * padded, 0.0);
        const auto softplus = [](double x) {
            return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
        };
        for (std::size_t p = 0; p < padded; ++p) {
            const double g = shape_.side_only[std::min(p, count - 1)];
            const double d = shape_.side_only_widths[std::min(p, count - 1)];
            side_costs_[p] = softplus(d - g);
            side_costs_[padded + p] = softplus(d + g);
            if (d > 0.0)
                side_costs_[2 * padded + p] =
                    softplus(d - g) + softplus(d + g) - 2.0 * d - std::log(-std::expm1(-2.0 * d));
        }
    }

    // Adds mass(t) of every type.
    template <class Mass>
    void in_order(const Mass& mass, double* masses) const {
        const std::size_t lanes = slices_[0].lanes();
        for (std::size_t w = 0; w < slices_.size(); ++w) {
            const std::size_t at = w * slice();
            double* const to = masses + w * n_points();
            for (std::size_t j = 0; j < half_; ++j) {
                to[half_ + 1 + j] += mass(at + j);
                to[half_ - 1 - j] += mass(at + lanes + j);
            }
            to[half_] += mass(at + slices_[w].zero());
        }
        for (std::size_t p = 0; p < shape_.side_only.size(); ++p)
            masses[slices_.size() * n_points() + p] += mass(n_regular() + p);
    }

    void add_side_only(const float* prior, const float* likelihood, float scale,
                       double* counts) const {
        for (std::size_t p = 0; p < shape_.side_only.size(); ++p) {
            const std::size_t t = n_regular() + p;
            counts[slices_.size() * n_points() + p] += static_cast<double>(
                scale * prior[t] * (likelihood == nullptr ? 1.0F : likelihood[t]));
        }
    }

    TypeShape shape_;
    std::vector<TypeGrid> slices_;
    std::size_t half_ = 0;
    std::vector<double> given_;  // the prior in the order of Python
    std::vector<float> prior_;
    std::vector<double> side_costs_;  // of a win by the first item, by the second, of a tie
};

}  // namespace crowdsift
