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

constexpr std::size_t kLaneBlock = 8;     // lanes come in blocks of this
constexpr std::size_t kVoteBlock = 64;    // votes whose product of factors <= 2 fits a float
constexpr std::size_t kBufferVotes = 256;  // votes of a worker whose buffers stay in cache
constexpr float kSmoothing = static_cast<float>(3.14159 / 8.0);
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

// exp(-x) for x >= 0 in single precision, held at 2^-80: a product of two such numbers is still
// normal, and denormal numbers cost a factor of 2.
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
    const std::int32_t exponent = float_to_bits(biased) - float_to_bits(shifter);
    return float_from_bits(float_to_bits(p) + static_cast<std::int32_t>(
                                                  static_cast<std::uint32_t>(exponent) << 23));
}

// log(x) of a positive normal number: exponent and 2 atanh of the mantissa in [sqrt(1/2), sqrt 2].
CROWDSIFT_INLINE float log_positive(float x) {
    const std::int32_t bits = float_to_bits(x);
    const std::int32_t offset = bits - 0x3f3504f3;  // sqrt(1/2)
    const std::int32_t exponent = offset >> 23;
    const float m = float_from_bits(bits - static_cast<std::int32_t>(
                                               static_cast<std::uint32_t>(exponent) << 23));
    const float f = (m - 1.0F) / (m + 1.0F);
    const float g = f * f;
    float p = 2.0F / 9.0F;
    p = p * g + 2.0F / 7.0F;
    p = p * g + 2.0F / 5.0F;
    p = p * g + 2.0F / 3.0F;
    p = p * g + 2.0F;
    return static_cast<float>(exponent) * 0.693147181F + f * p;
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

// For every vote and lane the slope kb and p = sigma(kb m), k = 1/sqrt(1 + c b^2 v); adds to the
// worker's message -log of the likelihood, which is `shared` + `up` at b and `shared` + `down`
// at -b. Of equal votes only the logarithm is multiplied, of single ones factors 1 + e^-|x| are
// gathered in a product. At most kVoteBlock votes.
CROWDSIFT_CLONES
inline void type_messages(std::size_t count, std::size_t lanes,
                          const float* CROWDSIFT_RESTRICT level, const float* CROWDSIFT_RESTRICT m,
                          const float* CROWDSIFT_RESTRICT v, const float* CROWDSIFT_RESTRICT weight,
                          float* CROWDSIFT_RESTRICT slope, float* CROWDSIFT_RESTRICT win,
                          float* CROWDSIFT_RESTRICT up, float* CROWDSIFT_RESTRICT down,
                          float* CROWDSIFT_RESTRICT shared, float* CROWDSIFT_RESTRICT product) {
    for (std::size_t j = 0; j < lanes; ++j) product[j] = 1.0F;
    for (std::size_t i = 0; i < count; ++i) {
        const float size = m[i] < 0.0F ? -m[i] : m[i];
        const float spread = kSmoothing * v[i], n = weight[i];
        const bool ahead = m[i] > 0.0F;
        float* CROWDSIFT_RESTRICT const loses = ahead ? down : up;
        float* CROWDSIFT_RESTRICT const g = slope + i * lanes;
        float* CROWDSIFT_RESTRICT const p = win + i * lanes;
        if (n == 1.0F) {
            for (std::size_t j = 0; j < lanes; ++j) {
                g[j] = level[j] / __builtin_sqrtf(1.0F + spread * level[j] * level[j]);
                const float x = g[j] * size;
                const float e = exp_minus(x);
                const float factor = 1.0F + e;
                const float r = 1.0F / factor;
                p[j] = ahead ? r : e * r;
                loses[j] += x;
                product[j] *= factor;
            }
        } else {
            for (std::size_t j = 0; j < lanes; ++j) {
                g[j] = level[j] / __builtin_sqrtf(1.0F + spread * level[j] * level[j]);
                const float x = g[j] * size;
                const float e = exp_minus(x);
                const float factor = 1.0F + e;
                const float r = 1.0F / factor;
                p[j] = ahead ? r : e * r;
                loses[j] += n * x;
                shared[j] += n * log_positive(factor);
            }
        }
    }
    for (std::size_t j = 0; j < lanes; ++j) shared[j] += log_positive(product[j]);
}

// With u = q+(1 - p) - q- p: alpha = sum of kb u, and f = sum of (kb)^2 (1 - 2p) u, which is
// the sum over both types of q (1 - Z)(1 - 2Z)(kb)^2. both = q+ + q-.
CROWDSIFT_CLONES
inline void type_moments(std::size_t count, std::size_t lanes,
                         const float* CROWDSIFT_RESTRICT slope, const float* CROWDSIFT_RESTRICT win,
                         const float* CROWDSIFT_RESTRICT q, const float* CROWDSIFT_RESTRICT both,
                         float* CROWDSIFT_RESTRICT alpha, float* CROWDSIFT_RESTRICT f) {
    for (std::size_t i = 0; i < count; ++i) {
        const float* CROWDSIFT_RESTRICT const g = slope + i * lanes;
        const float* CROWDSIFT_RESTRICT const p = win + i * lanes;
        float first[kLaneBlock] = {0, 0, 0, 0, 0, 0, 0, 0};
        float second[kLaneBlock] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (std::size_t j = 0; j < lanes; j += kLaneBlock)
            for (std::size_t l = 0; l < kLaneBlock; ++l) {
                const float gu = g[j + l] * (q[j + l] - both[j + l] * p[j + l]);
                first[l] += gu;
                second[l] += gu * g[j + l] * (1.0F - 2.0F * p[j + l]);
            }
        alpha[i] = ((first[0] + first[4]) + (first[1] + first[5])) +
                   ((first[2] + first[6]) + (first[3] + first[7]));
        f[i] = ((second[0] + second[4]) + (second[1] + second[5])) +
               ((second[2] + second[6]) + (second[3] + second[7]));
    }
}

// Sites A = nu/(1 - nu v), h = (alpha + nu m)/(1 - nu v), nu = alpha^2 - f, of which `damping` is
// taken; nu is at least `least`.
CROWDSIFT_CLONES
inline void move_sites(std::size_t count, const float* CROWDSIFT_RESTRICT alpha,
                       const float* CROWDSIFT_RESTRICT f, const float* CROWDSIFT_RESTRICT m,
                       const float* CROWDSIFT_RESTRICT v, float damping, float least,
                       float* CROWDSIFT_RESTRICT a, float* CROWDSIFT_RESTRICT h) {
    for (std::size_t i = 0; i < count; ++i) {
        const float open = alpha[i] * alpha[i] - f[i];
        const float nu = open > least ? open : least;
        const float rest = 1.0F - nu * v[i];
        const float inverse = 1.0F / (rest > kLeastDenominator ? rest : kLeastDenominator);
        a[i] += damping * (nu * inverse - a[i]);
        h[i] += damping * ((alpha[i] + nu * m[i]) * inverse - h[i]);
    }
}

// Likelihoods of the types from their -log, relative to the likeliest: exp(top - cost).
CROWDSIFT_CLONES
inline void likelihoods(std::size_t count, const float* CROWDSIFT_RESTRICT cost,
                        float* CROWDSIFT_RESTRICT likelihood) {
    for (std::size_t t = 0; t < count; ++t) likelihood[t] = exp_minus(cost[t]);
}

// Sum over types of prior times likelihood.
CROWDSIFT_CLONES
inline float weighted_sum(std::size_t count, const float* CROWDSIFT_RESTRICT prior,
                          const float* CROWDSIFT_RESTRICT likelihood) {
    float sum[kLaneBlock] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (std::size_t t = 0; t < count; t += kLaneBlock)
        for (std::size_t l = 0; l < kLaneBlock; ++l) sum[l] += prior[t + l] * likelihood[t + l];
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

// sums += scale * x
CROWDSIFT_CLONES
inline void add_scaled(std::size_t count, float scale, const float* CROWDSIFT_RESTRICT x,
                       float* CROWDSIFT_RESTRICT sums) {
    for (std::size_t t = 0; t < count; ++t) sums[t] += scale * x[t];
}

}  // namespace crowdsift
