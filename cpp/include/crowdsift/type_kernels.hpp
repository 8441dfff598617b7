// Arithmetic of expectation propagation over types of reliability, tie width and side, in float32.
// Loops run over the types of one vote. Plain pointers only: cloned per instruction set.
#pragma once

#include <cstddef>

#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

// Types as parallel arrays: b and g are reliability and the side of a side-only type, d the tie
// width, r is 1 for a regular type and 0 for a side-only one.
struct TypeArrays {
    const float *b, *d, *g, *r;
    std::size_t count;  // a multiple of kLaneBlock
};

// One vote as types evaluate it: cavities of the difference and of the side bias, side, weight.
struct SidedVote {
    float m, v, side_m, side_v, x, n;
};

// log(1 - e^-y) for y > 0: a series where the difference would cancel.
CROWDSIFT_INLINE float log_gap(float y) {
    const float held = y > 1e-30F ? y : 1e-30F;
    const float series =
        held *
        (1.0F -
         held * 0.5F * (1.0F - held * 0.333333333F * (1.0F - held * 0.25F * (1.0F - held * 0.2F))));
    return log_positive(held < 0.3F ? series : 1.0F - exp_minus(held));
}

// Keeps k, and e and f, the first derivative of log Z in its argument and e^2 plus the second one;
// adds -n log Z to the cost of every type.
template <bool tied>
CROWDSIFT_INLINE void type_vote(const TypeArrays& types, const SidedVote& vote,
                                float* CROWDSIFT_RESTRICT k_out, float* CROWDSIFT_RESTRICT e_out,
                                float* CROWDSIFT_RESTRICT f_out, float* CROWDSIFT_RESTRICT cost) {
    const float* CROWDSIFT_RESTRICT b = types.b;
    const float* CROWDSIFT_RESTRICT d = types.d;
    const float* CROWDSIFT_RESTRICT g = types.g;
    const float* CROWDSIFT_RESTRICT r = types.r;
    const float spread = kSmoothing * vote.v, side_spread = kSmoothing * vote.side_v;
    const float m = vote.m, shift = vote.x * vote.side_m, x = vote.x, n = vote.n;
    for (std::size_t t = 0; t < types.count; ++t) {
        const float k = 1.0F / __builtin_sqrtf(1.0F + spread * b[t] * b[t] + side_spread * r[t]);
        const float z = b[t] * m + shift * r[t] + x * g[t];
        const float one = k * (z - d[t]);
        const float size1 = one < 0.0F ? -one : one;
        const float e1 = exp_minus(size1);
        const float r1 = 1.0F / (1.0F + e1);
        const float p1 = one > 0.0F ? r1 : e1 * r1;
        const float q1 = one > 0.0F ? e1 * r1 : r1;
        k_out[t] = k;
        if (!tied) {
            e_out[t] = q1;
            f_out[t] = q1 * (q1 - p1);
            cost[t] += n * (log_positive(1.0F + e1) + (one < 0.0F ? size1 : 0.0F));
        } else {
            const float two = k * (-z - d[t]);
            const float size2 = two < 0.0F ? -two : two;
            const float e2 = exp_minus(size2);
            const float r2 = 1.0F / (1.0F + e2);
            const float p2 = two > 0.0F ? r2 : e2 * r2;
            const float q2 = two > 0.0F ? e2 * r2 : r2;
            // -log p1 - log p2 - 2kd without the difference of large numbers: of the arguments
            // one at most is above 0, and they add up to -2kd.
            const float above = one > two ? one : two;
            const float least = above > 0.0F ? above : 0.0F;
            const float e = p2 - p1;
            e_out[t] = e;
            f_out[t] = e * e - p1 * q1 - p2 * q2;
            cost[t] +=
                n * (log_positive((1.0F + e1) * (1.0F + e2)) + least - log_gap(2.0F * k * d[t]));
        }
    }
}

CROWDSIFT_CLONES
inline void type_win(const TypeArrays& types, const SidedVote& vote, float* CROWDSIFT_RESTRICT k,
                     float* CROWDSIFT_RESTRICT e, float* CROWDSIFT_RESTRICT f,
                     float* CROWDSIFT_RESTRICT cost) {
    type_vote<false>(types, vote, k, e, f, cost);
}

CROWDSIFT_CLONES
inline void type_tie(const TypeArrays& types, const SidedVote& vote, float* CROWDSIFT_RESTRICT k,
                     float* CROWDSIFT_RESTRICT e, float* CROWDSIFT_RESTRICT f,
                     float* CROWDSIFT_RESTRICT cost) {
    type_vote<true>(types, vote, k, e, f, cost);
}

// alpha = sum of q e s and f = sum of q f s^2 over types, s = b k, or k itself where b is null.
CROWDSIFT_CLONES
inline void sided_moments(std::size_t types, const float* CROWDSIFT_RESTRICT b,
                          const float* CROWDSIFT_RESTRICT q, const float* CROWDSIFT_RESTRICT k,
                          const float* CROWDSIFT_RESTRICT e, const float* CROWDSIFT_RESTRICT f,
                          float* CROWDSIFT_RESTRICT alpha_out, float* CROWDSIFT_RESTRICT f_out) {
#if defined(__GNUC__)
    Lanes alpha = {}, second = {};
    for (std::size_t t = 0; t < types; t += kLaneBlock) {
        Lanes s = *reinterpret_cast<const Lanes*>(k + t);
        if (b != nullptr) s *= *reinterpret_cast<const Lanes*>(b + t);
        const Lanes qs = s * *reinterpret_cast<const Lanes*>(q + t);
        alpha += qs * *reinterpret_cast<const Lanes*>(e + t);
        second += qs * s * *reinterpret_cast<const Lanes*>(f + t);
    }
    *alpha_out = sum_lanes(alpha);
    *f_out = sum_lanes(second);
#else
    float alpha = 0.0F, second = 0.0F;
    for (std::size_t t = 0; t < types; ++t) {
        const float s = b == nullptr ? k[t] : b[t] * k[t];
        alpha += q[t] * e[t] * s;
        second += q[t] * f[t] * s * s;
    }
    *alpha_out = alpha;
    *f_out = second;
#endif
}

}  // namespace crowdsift
