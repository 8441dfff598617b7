// Arithmetic of expectation propagation over a symmetric grid of worker types, in float32.
//
// A lane is a positive level b of the grid; the types b and -b share its exponential, since
// sigma(-x) = 1 - sigma(x), and b = 0 needs none. Loops run over the lanes of one vote, so a
// worker with few votes costs no padding. Plain pointers only: these functions are cloned per
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "crowdsift/simd.hpp"

namespace crowdsift {

constexpr std::size_t kLaneBlock = 8;      // lanes come in blocks of this
constexpr std::size_t kVoteBlock = 64;     // votes whose product of factors <= 2 fits a float
constexpr std::size_t kBufferVotes = 256;  // votes of a worker whose buffers stay in cache
constexpr float kSmoothing = static_cast<float>(kLogisticSmoothing);
constexpr float kLeastDenominator = 0.05F;

CROWDSIFT_INLINE float float_from_bits(std::int32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

CROWDSIFT_INLINE std::int32_t float_to_bits(float value) {
    std::int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

CROWDSIFT_INLINE std::uint32_t unsigned_bits(float value) {
    return static_cast<std::uint32_t>(float_to_bits(value));
}

// exp(-x) for x >= 0 in single precision, at least 2^-80: a product of two such numbers is still
// normal, and denormal numbers are slower by a factor of 2.
CROWDSIFT_INLINE float exp_minus(float x) {
    const float held = x < 55.0F ? x : 55.0F;
    const float shifter = 12582912.0F;  // 1.5 * 2^23
    const float biased = held * -1.44269504F + shifter;
    const float n = biased - shifter;
    const float r = (-held - n * 0.693145752F) - n * 1.42860677e-6F;
    float p = 1.3888889e-3F;
    p = p * r + 8.3333333e-3F;
    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    // Unsigned: NaN wraps around, and stays NaN.
    const std::uint32_t exponent = unsigned_bits(biased) - unsigned_bits(shifter);
    return float_from_bits(static_cast<std::int32_t>(unsigned_bits(p) + (exponent << 23)));
}

// log(x) of a positive normal number: its exponent, and of the mantissa 1 + r in [sqrt(1/2), sqrt
// 2] r - r^2/2 + r^3 p(r), p by least squares to a relative 1e-8; no division.
CROWDSIFT_INLINE float log_positive(float x) {
    const std::uint32_t bits = unsigned_bits(x);
    const std::int32_t offset = static_cast<std::int32_t>(bits - 0x3f3504f3U);  // sqrt(1/2)
    const std::int32_t exponent = offset >> 23;
    const float r = float_from_bits(static_cast<std::int32_t>(
                        bits - (static_cast<std::uint32_t>(exponent) << 23))) -
                    1.0F;
    float p = -0.07335189F;
    p = p * r + 0.1269794F;
    p = p * r - 0.13257159F;
    p = p * r + 0.14220442F;
    p = p * r - 0.16613944F;
    p = p * r + 0.19999745F;
    p = p * r - 0.25001106F;
    p = p * r + 0.33333364F;
    return static_cast<float>(exponent) * 0.693147181F + (r + r * r * (r * p - 0.5F));
}

// Cavities of votes from the posterior mean E and variance V of their pairs and their sites:
// v = V/(1 - AV), m = (E - Vh)/(1 - AV); and the site's log-normaliser
// log Z~ = 1/2 log(1 - AV) + 1/2 (2Eh - AE^2 - Vh^2)/(1 - AV), times the weight.
CROWDSIFT_CLONES
inline void cavities(std::size_t count, const float* CROWDSIFT_RESTRICT mean,
                     const float* CROWDSIFT_RESTRICT variance, const float* CROWDSIFT_RESTRICT a,
                     const float* CROWDSIFT_RESTRICT h, const float* CROWDSIFT_RESTRICT weight,
                     float* CROWDSIFT_RESTRICT m, float* CROWDSIFT_RESTRICT v,
                     float* CROWDSIFT_RESTRICT log_site) {
    for (std::size_t i = 0; i < count; ++i) {
        const float open = 1.0F - a[i] * variance[i];
        const float rest = open > kLeastDenominator ? open : kLeastDenominator;
        const float inverse = 1.0F / rest;
        v[i] = variance[i] * inverse;
        m[i] = (mean[i] - variance[i] * h[i]) * inverse;
        const float square =
            2.0F * mean[i] * h[i] - a[i] * mean[i] * mean[i] - variance[i] * h[i] * h[i];
        log_site[i] = 0.5F * weight[i] * (log_positive(rest) + square * inverse);
    }
}

// Eight lanes at once; the compiler lowers them to the target's instructions.
#if defined(CROWDSIFT_GNU)
typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef std::uint32_t IntLanes __attribute__((vector_size(32), aligned(4), may_alias));

CROWDSIFT_INLINE const Lanes& load(const float* from) {
    return *reinterpret_cast<const Lanes*>(from);
}

CROWDSIFT_INLINE void store(const Lanes& x, float* to) {
    *reinterpret_cast<Lanes*>(to) = x;
}

// exp(x) of eight, |x| at most 80.
CROWDSIFT_INLINE void exp_of(const Lanes& x, Lanes& out) {
    const float shifter = 12582912.0F;
    const Lanes biased = x * 1.44269504F + shifter;
    const Lanes n = biased - shifter;
    const Lanes r = (x - n * 0.693145752F) - n * 1.42860677e-6F;
    Lanes p = r * 1.3888889e-3F + 8.3333333e-3F;
    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const IntLanes exponent = reinterpret_cast<const IntLanes&>(biased) - 0x4b400000;
    const IntLanes bits = reinterpret_cast<const IntLanes&>(p) + (exponent << 23);
    out = reinterpret_cast<const Lanes&>(bits);
}

// `a` where x < y, else `b`.
CROWDSIFT_INLINE void where_less(const Lanes& x, const Lanes& y, const Lanes& a, const Lanes& b,
                                 Lanes& out) {
    out = x < y ? a : b;
}
#else
struct Lanes {
    float x[kLaneBlock];
    float operator[](std::size_t l) const { return x[l]; }
    Lanes& operator+=(const Lanes& y) { return *this = *this + y; }
    Lanes& operator+=(float y) { return *this = *this + y; }
    Lanes& operator*=(const Lanes& y) { return *this = *this * y; }
    friend Lanes operator-(const Lanes& a) { return a * -1.0F; }
#define CROWDSIFT_LANES(op)                                                       \
    friend Lanes operator op(const Lanes& a, const Lanes& b) {                    \
        Lanes out{};                                                              \
        for (std::size_t l = 0; l < kLaneBlock; ++l) out.x[l] = a.x[l] op b.x[l]; \
        return out;                                                               \
    }                                                                             \
    friend Lanes operator op(const Lanes& a, float b) {                           \
        return a op all(b);                                                       \
    }                                                                             \
    friend Lanes operator op(float a, const Lanes& b) {                           \
        return all(a) op b;                                                       \
    }
    CROWDSIFT_LANES(+)
    CROWDSIFT_LANES(-)
    CROWDSIFT_LANES(*)
    CROWDSIFT_LANES(/)
#undef CROWDSIFT_LANES

private:
    static Lanes all(float value) {
        Lanes out{};
        for (float& each : out.x) each = value;
        return out;
    }
};

inline Lanes load(const float* from) {
    Lanes out{};
    std::memcpy(out.x, from, sizeof out.x);
    return out;
}

inline void store(const Lanes& x, float* to) {
    std::memcpy(to, x.x, sizeof x.x);
}

inline void exp_of(const Lanes& x, Lanes& out) {
    for (std::size_t l = 0; l < kLaneBlock; ++l)
        out.x[l] = x[l] < 0.0F ? exp_minus(-x[l]) : 1.0F / exp_minus(x[l]);
}

inline void where_less(const Lanes& x, const Lanes& y, const Lanes& a, const Lanes& b, Lanes& out) {
    for (std::size_t l = 0; l < kLaneBlock; ++l) out.x[l] = x[l] < y[l] ? a[l] : b[l];
}
#endif

CROWDSIFT_INLINE float sum_lanes(const Lanes& x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

// One vote on all lanes: slopes kb with k = 1/sqrt(1 + c b^2 v), p = sigma(kb m), and its share of
// the message. For equal votes the logarithm is multiplied, for single ones factors are collected.
template <bool single>
CROWDSIFT_INLINE void smooth_vote(std::size_t lanes, const float* CROWDSIFT_RESTRICT level, float m,
                                  float v, float n, float* CROWDSIFT_RESTRICT g,
                                  float* CROWDSIFT_RESTRICT p, float* CROWDSIFT_RESTRICT loses,
                                  float* CROWDSIFT_RESTRICT gathered) {
    const float size = m < 0.0F ? -m : m, spread = kSmoothing * v;
    const float small = m > 0.0F ? 0.0F : 1.0F;
    for (std::size_t j = 0; j < lanes; ++j) {
        const float slope = level[j] / square_root(1.0F + spread * level[j] * level[j]);
        const float x = slope * size;
        const float e = exp_minus(x);
        const float factor = 1.0F + e;
        const float r = 1.0F / factor;
        g[j] = slope;
        p[j] = small == 0.0F ? r : e * r;
        if (single) {
            loses[j] += x;
            gathered[j] *= factor;
        } else {
            loses[j] += n * x;
            gathered[j] += n * log_positive(factor);
        }
    }
}

CROWDSIFT_INLINE void smooth_votes(
    std::size_t count, std::size_t lanes, const float* CROWDSIFT_RESTRICT level,
    const float* CROWDSIFT_RESTRICT m, const float* CROWDSIFT_RESTRICT v,
    const float* CROWDSIFT_RESTRICT weight, float* CROWDSIFT_RESTRICT slope,
    float* CROWDSIFT_RESTRICT win, float* CROWDSIFT_RESTRICT up, float* CROWDSIFT_RESTRICT down,
    float* CROWDSIFT_RESTRICT shared, float* CROWDSIFT_RESTRICT product) {
    for (std::size_t j = 0; j < lanes; ++j) product[j] = 1.0F;
    for (std::size_t i = 0; i < count; ++i) {
        float* const loses = m[i] > 0.0F ? down : up;
        if (weight[i] == 1.0F)
            smooth_vote<true>(lanes, level, m[i], v[i], 1.0F, slope + i * lanes, win + i * lanes,
                              loses, product);
        else
            smooth_vote<false>(lanes, level, m[i], v[i], weight[i], slope + i * lanes,
                               win + i * lanes, loses, shared);
    }
    for (std::size_t j = 0; j < lanes; ++j) shared[j] += log_positive(product[j]);
}

// Computes for every vote and lane the slope kb and p; adds to the worker's -log-likelihood, which
// is `shared` + `up` at b and `shared` + `down` at -b. At most kVoteBlock votes. The usual number
// of lanes is a constant for the compiler.
CROWDSIFT_CLONES
inline void type_messages(std::size_t count, std::size_t lanes,
                          const float* CROWDSIFT_RESTRICT level, const float* CROWDSIFT_RESTRICT m,
                          const float* CROWDSIFT_RESTRICT v, const float* CROWDSIFT_RESTRICT weight,
                          float* CROWDSIFT_RESTRICT slope, float* CROWDSIFT_RESTRICT win,
                          float* CROWDSIFT_RESTRICT up, float* CROWDSIFT_RESTRICT down,
                          float* CROWDSIFT_RESTRICT shared, float* CROWDSIFT_RESTRICT product) {
    if (lanes == 24)
        smooth_votes(count, 24, level, m, v, weight, slope, win, up, down, shared, product);
    else
        smooth_votes(count, lanes, level, m, v, weight, slope, win, up, down, shared, product);
}

// With u = q+(1 - p) - q- p: alpha = sum of kb u, and f = sum of (kb)^2 (1 - 2p) u, which is
// the sum over both types of q (1 - Z)(1 - 2Z)(kb)^2. both = q+ + q-.
CROWDSIFT_CLONES
inline void type_moments(std::size_t count, std::size_t lanes,
                         const float* CROWDSIFT_RESTRICT slope, const float* CROWDSIFT_RESTRICT win,
                         const float* CROWDSIFT_RESTRICT q, const float* CROWDSIFT_RESTRICT both,
                         float* CROWDSIFT_RESTRICT alpha, float* CROWDSIFT_RESTRICT f) {
    for (std::size_t i = 0; i < count; ++i) {
        Lanes first = {}, second = {};
        for (std::size_t j = 0; j < lanes; j += kLaneBlock) {
            const Lanes g = load(slope + i * lanes + j), p = load(win + i * lanes + j);
            const Lanes gu = g * (load(q + j) - load(both + j) * p);
            first += gu;
            second += gu * g * (1.0F - 2.0F * p);
        }
        alpha[i] = sum_lanes(first);
        f[i] = sum_lanes(second);
    }
}

// Sites tau = c/(1 - c v), nu = (alpha + c m)/(1 - c v), c = alpha^2 - f, moved by the share
// `damping`; c is at least `least`.
CROWDSIFT_CLONES
inline void move_sites(std::size_t count, const float* CROWDSIFT_RESTRICT alpha,
                       const float* CROWDSIFT_RESTRICT f, const float* CROWDSIFT_RESTRICT m,
                       const float* CROWDSIFT_RESTRICT v, float damping, float least,
                       float* CROWDSIFT_RESTRICT tau, float* CROWDSIFT_RESTRICT nu) {
    for (std::size_t i = 0; i < count; ++i) {
        const float open = alpha[i] * alpha[i] - f[i];
        const float c = open > least ? open : least;
        const float rest = 1.0F - c * v[i];
        const float inverse = 1.0F / (rest > kLeastDenominator ? rest : kLeastDenominator);
        tau[i] += damping * (c * inverse - tau[i]);
        nu[i] += damping * ((alpha[i] + c * m[i]) * inverse - nu[i]);
    }
}

// Likelihoods of the types from their -log, relative to the likeliest: exp(top - cost).
CROWDSIFT_CLONES
inline void likelihoods(std::size_t count, const float* CROWDSIFT_RESTRICT cost,
                        float* CROWDSIFT_RESTRICT likelihood) {
    for (std::size_t t = 0; t < count; ++t) likelihood[t] = exp_minus(cost[t]);
}

// The costs of types above the lowest one.
CROWDSIFT_CLONES
inline void relative_costs(std::size_t count, const double* CROWDSIFT_RESTRICT total, double top,
                           float* CROWDSIFT_RESTRICT cost) {
    for (std::size_t t = 0; t < count; ++t) {
        const double above = total[t] - top;
        cost[t] = static_cast<float>(above > 0.0 ? above : 0.0);
    }
}

// The minimum of values whose number is a multiple of kLaneBlock.
CROWDSIFT_CLONES
inline double least(std::size_t count, const double* CROWDSIFT_RESTRICT values) {
    double lane[kLaneBlock];
    for (std::size_t l = 0; l < kLaneBlock; ++l) lane[l] = values[l];
    for (std::size_t t = kLaneBlock; t < count; t += kLaneBlock)
        for (std::size_t l = 0; l < kLaneBlock; ++l)
            lane[l] = values[t + l] < lane[l] ? values[t + l] : lane[l];
    double found = lane[0];
    for (std::size_t l = 1; l < kLaneBlock; ++l) found = lane[l] < found ? lane[l] : found;
    return found;
}

// Sum over types of prior times likelihood, in four chains, so that additions do not wait for each
// other.
CROWDSIFT_CLONES
inline float weighted_sum(std::size_t count, const float* CROWDSIFT_RESTRICT prior,
                          const float* CROWDSIFT_RESTRICT likelihood) {
    Lanes one = {}, two = {}, three = {}, four = {};
    std::size_t t = 0;
    for (; t + 4 * kLaneBlock <= count; t += 4 * kLaneBlock) {
        one += load(prior + t) * load(likelihood + t);
        two += load(prior + t + kLaneBlock) * load(likelihood + t + kLaneBlock);
        three += load(prior + t + 2 * kLaneBlock) * load(likelihood + t + 2 * kLaneBlock);
        four += load(prior + t + 3 * kLaneBlock) * load(likelihood + t + 3 * kLaneBlock);
    }
    for (; t < count; t += kLaneBlock) one += load(prior + t) * load(likelihood + t);
    return sum_lanes((one + two) + (three + four));
}

// out = scale * x * y; out may be y.
CROWDSIFT_CLONES
inline void products(std::size_t count, float scale, const float* x, const float* y, float* out) {
    for (std::size_t t = 0; t < count; ++t) out[t] = scale * x[t] * y[t];
}

// sums += scale * x
CROWDSIFT_CLONES
inline void add_scaled(std::size_t count, float scale, const float* CROWDSIFT_RESTRICT x,
                       float* CROWDSIFT_RESTRICT sums) {
    for (std::size_t t = 0; t < count; ++t) sums[t] += scale * x[t];
}

// The sum of contiguous rows.
CROWDSIFT_CLONES
inline void sum_rows(std::size_t count, std::size_t n_rows, const float* rows, float* sum) {
    for (std::size_t t = 0; t < count; t += kLaneBlock) {
        Lanes added = load(rows + t);
        for (std::size_t r = 1; r < n_rows; ++r) added += load(rows + r * count + t);
        store(added, sum + t);
    }
}

constexpr std::size_t kRowBlock = 4;  // rows of likelihoods that are counted together

// For this number of rows: their sums of prior times likelihood.
CROWDSIFT_CLONES
inline void weighted_sums(std::size_t count, const float* prior, const float* const* rows,
                          float* sums) {
    static_assert(kRowBlock == 4, "");
    const float *const a = rows[0], *const b = rows[1], *const c = rows[2], *const d = rows[3];
    Lanes one = {}, two = {}, three = {}, four = {};
    for (std::size_t t = 0; t < count; t += kLaneBlock) {
        const Lanes p = load(prior + t);
        one += p * load(a + t);
        two += p * load(b + t);
        three += p * load(c + t);
        four += p * load(d + t);
    }
    sums[0] = sum_lanes(one);
    sums[1] = sum_lanes(two);
    sums[2] = sum_lanes(three);
    sums[3] = sum_lanes(four);
}

// sums += the rows, each times its scale
CROWDSIFT_CLONES
inline void add_rows(std::size_t count, const float* scale, const float* const* rows, float* sums) {
    const float *const a = rows[0], *const b = rows[1], *const c = rows[2], *const d = rows[3];
    const float one = scale[0], two = scale[1], three = scale[2], four = scale[3];
    for (std::size_t t = 0; t < count; t += kLaneBlock) {
        const Lanes first = one * load(a + t) + two * load(b + t);
        const Lanes second = three * load(c + t) + four * load(d + t);
        store(load(sums + t) + (first + second), sums + t);
    }
}

}  // namespace crowdsift
