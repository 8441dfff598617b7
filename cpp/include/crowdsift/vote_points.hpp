// Blocks of votes with what a likelihood is a function of, and its values and derivatives there.
#pragma once

#include <cstddef>

#include "crowdsift/likelihoods.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

constexpr std::size_t kLanes = 8;

// Rows of votes: differences of scores, heads and leads of their workers, outcomes and weights.
struct PointRows {
    double d[kBlockRows], head[kBlockRows], lead[kBlockRows], outcome[kBlockRows],
        weight[kBlockRows];

    // Fills up the last lanes behind so many rows with votes that weigh nothing; how many rows that
    // makes. So no row is left over for a loop of single ones, and a row's numbers do not depend
    // on its place.
    std::size_t fill_lanes(std::size_t count) {
        for (; count % kLanes != 0; ++count)
            d[count] = head[count] = lead[count] = outcome[count] = weight[count] = 0.0;
        return count;
    }
};

// The members of Point for every row, times its weight.
struct PointBlock {
    double value[kBlockRows], d[kBlockRows], dd[kBlockRows], h[kBlockRows], dh[kBlockRows],
        hh[kBlockRows], z[kBlockRows], dz[kBlockRows], hz[kBlockRows], zz[kBlockRows];
};

// What a worker's own problem needs, and what concerns items too.
template <class Likelihood>
CROWDSIFT_INLINE void worker_points_of(std::size_t count, const PointRows* CROWDSIFT_RESTRICT in,
                                       PointBlock* CROWDSIFT_RESTRICT out) {
    for (std::size_t j = 0; j < count; ++j) {
        const double n = in->weight[j];
        const Point at = Likelihood::at(in->d[j], in->head[j], in->lead[j], in->outcome[j]);
        if constexpr (!Likelihood::kConcave) out->value[j] = n * at.value;
        if constexpr (Likelihood::kHead) {
            out->h[j] = n * at.h;
            out->hh[j] = n * at.hh;
        }
        if constexpr (Likelihood::kLead) {
            out->z[j] = n * at.z;
            out->zz[j] = n * at.zz;
        }
        if constexpr (Likelihood::kHead && Likelihood::kLead) out->hz[j] = n * at.hz;
    }
}

template <class Likelihood>
CROWDSIFT_INLINE void points_of(std::size_t count, const PointRows* CROWDSIFT_RESTRICT in,
                                PointBlock* CROWDSIFT_RESTRICT out) {
    for (std::size_t j = 0; j < count; ++j) {
        const double n = in->weight[j];
        const Point at = Likelihood::at(in->d[j], in->head[j], in->lead[j], in->outcome[j]);
        out->value[j] = n * at.value;
        out->d[j] = n * at.d;
        out->dd[j] = n * at.dd;
        if constexpr (Likelihood::kHead) {
            out->h[j] = n * at.h;
            out->dh[j] = n * at.dh;
            out->hh[j] = n * at.hh;
        }
        if constexpr (Likelihood::kLead) {
            out->z[j] = n * at.z;
            out->dz[j] = n * at.dz;
            out->zz[j] = n * at.zz;
        }
        if constexpr (Likelihood::kHead && Likelihood::kLead) out->hz[j] = n * at.hz;
    }
}

// Both for each likelihood, in functions of their own: compilers make no clones of templates.
#define CROWDSIFT_POINTS(Likelihood)                                                          \
    CROWDSIFT_CLONES                                                                          \
    inline void worker_points(Likelihood, std::size_t count, const PointRows& in,             \
                              PointBlock& out) {                                              \
        worker_points_of<Likelihood>(count, &in, &out);                                       \
    }                                                                                         \
    CROWDSIFT_CLONES                                                                          \
    inline void points(Likelihood, std::size_t count, const PointRows& in, PointBlock& out) { \
        points_of<Likelihood>(count, &in, &out);                                              \
    }
CROWDSIFT_POINTS(ScaledLogit)
CROWDSIFT_POINTS(ScaledProbit)
CROWDSIFT_POINTS(ShiftedLogit)
CROWDSIFT_POINTS(FlippedLogit)
CROWDSIFT_POINTS(LedLogit)
#undef CROWDSIFT_POINTS

// Sum of a worker's few numbers in four chains, so that additions do not wait for each other.
CROWDSIFT_INLINE double sum_rows(const double* values, std::size_t count) {
    double lane[4] = {0, 0, 0, 0};
    std::size_t j = 0;
    for (; j + 4 <= count; j += 4)
        for (std::size_t l = 0; l < 4; ++l) lane[l] += values[j + l];
    for (std::size_t l = 0; j < count; ++j, ++l) lane[l] += values[j];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

}  // namespace crowdsift
