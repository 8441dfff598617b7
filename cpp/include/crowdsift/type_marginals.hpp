// Summaries of posteriors over types, worker by worker, so that no array of workers by types is
// needed: their marginals, types at evenly spaced quantiles, and quantiles of reliability.
// Specified in src/crowdsift/solvers/ep/summaries.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace crowdsift {

// Where the marginals of workers go, a row each: reliabilities, their masses, those of widths and
// of side-only types, and `chosen` types.
struct MarginalRows {
    std::size_t n_points, n_widths, n_side_only, n_chosen;
    double *points, *reliability, *width, *side_only;
    std::int64_t* chosen;
};

// Of one worker, from its masses in the order of Python: widths by points, then side-only types.
// `masses` are cumulated in place.
inline void take_marginals(const MarginalRows& rows, std::size_t row, std::vector<double>& masses) {
    double* const reliability = rows.reliability + row * rows.n_points;
    std::fill(reliability, reliability + rows.n_points, 0.0);
    const double* from = masses.data();
    for (std::size_t w = 0; w < rows.n_widths; ++w) {
        double lane[4] = {0.0, 0.0, 0.0, 0.0};  // so that additions do not wait
        for (std::size_t p = 0; p < rows.n_points; ++p) {
            reliability[p] += from[p];
            lane[p % 4] += from[p];
        }
        rows.width[row * rows.n_widths + w] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
        from += rows.n_points;
    }
    std::copy_n(from, rows.n_side_only, rows.side_only + row * rows.n_side_only);
    if (rows.n_chosen == 0) return;
    for (std::size_t t = 1; t < masses.size(); ++t) masses[t] += masses[t - 1];
    std::size_t t = 0;
    for (std::size_t c = 0; c < rows.n_chosen; ++c) {
        const double wanted =
            (static_cast<double>(c) + 0.5) / static_cast<double>(rows.n_chosen) * masses.back();
        while (t + 1 < masses.size() && masses[t] < wanted) ++t;
        rows.chosen[row * rows.n_chosen + c] = static_cast<std::int64_t>(t);
    }
}

// Quantiles of masses at rising points, by linear interpolation over cell edges; `atom` is
// probability at exactly 0, beside the masses. `room` is for edges and cumulated masses.
inline void quantiles_of(std::size_t n_points, const double* points, const double* masses,
                         double atom, std::size_t n_levels, const double* levels,
                         std::vector<double>& room, double* out) {
    room.resize(2 * n_points + 1);
    double *const reached = room.data(), *const edge = reached + n_points;
    double total = 0.0;
    for (std::size_t p = 0; p < n_points; ++p) reached[p] = total += masses[p];
    for (std::size_t p = 1; p < n_points; ++p) edge[p] = 0.5 * (points[p] + points[p - 1]);
    edge[0] = 2.0 * points[0] - edge[1];
    edge[n_points] = 2.0 * points[n_points - 1] - edge[n_points - 1];
    const std::size_t zero = n_points / 2;
    const double whole = std::max(total + atom, 1e-300);
    const double below = reached[zero] - 0.5 * masses[zero];  // of the masses, under 0
    for (std::size_t l = 0; l < n_levels; ++l) {
        double target = levels[l] * whole;
        if (target > below && target < below + atom) {
            out[l] = 0.0;
            continue;
        }
        if (target >= below + atom) target -= atom;
        const double* const found =
            std::lower_bound(reached, reached + n_points - 1, target - 1e-12 * whole);
        const std::size_t cell = static_cast<std::size_t>(found - reached);
        const double before = cell > 0 ? reached[cell - 1] : 0.0;
        const double share = (target - before) / std::max(masses[cell], 1e-300);
        out[l] = edge[cell] + std::min(std::max(share, 0.0), 1.0) * (edge[cell + 1] - edge[cell]);
    }
}

}  // namespace crowdsift
