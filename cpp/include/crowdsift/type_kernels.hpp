// Arithmetic of expectation propagation over types of reliability, tie width and side, in float32.
//
// With s = k|z| and a = exp(-s), w = exp(-k delta), a vote for the winner has the probability
// w/(w + a) where z >= 0 and a w/(1 + a w) where z < 0, a tie (1 - w^2) a/((1 + a w)(a + w)). k
// depends on |beta| alone and a on beta alone, so that one exponential serves a width for +beta and
// -beta, and one a reliability for all widths. -log Z of many votes is the logarithm of a product
// of the denominators, plus sums by reliability.
//
// Loops run over the lanes (positive levels) of one vote, in groups of eight. Plain pointers only:
// cloned per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

// One vote: cavity of the difference, x times the mean and the variance of the side bias, weight.
struct SidedVote {
    float m, v, shift, side_v, n;
    bool tied;
};

// Of one vote and one reliability: k, and the two coefficients of the denominator. For a win it is
// c1 + c2 w, with c1 = a, c2 = 1 where z >= 0 and c1 = 1, c2 = a where z < 0; 1 - Z is c1 over it.
// For a tie it is c1 (1 + w^2) + |c2| w with c1 = a, c2 = 1 + a^2 of the sign of z.
struct VoteTerm {
    float k, c1, c2, cost;  // cost: what -log Z has beside the denominator, n left out
};

CROWDSIFT_INLINE VoteTerm vote_term(float b, const SidedVote& vote) {
    const float k = 1.0F / square_root(1.0F + kSmoothing * (vote.v * b * b + vote.side_v));
    const float z = b * vote.m + vote.shift;
    const float size = k * (z < 0.0F ? -z : z);
    const float s = size < 55.0F ? size : 55.0F, a = exp_minus(s);
    if (vote.tied) return {k, a, z < 0.0F ? -1.0F - a * a : 1.0F + a * a, size};
    return {k, z < 0.0F ? 1.0F : a, z < 0.0F ? a : 1.0F, z < 0.0F ? size : 0.0F};
}

// Of one sign of the reliability.
template <bool tied>
CROWDSIFT_INLINE void signed_terms(std::size_t lanes, float sign, const SidedVote& vote,
                                   const float* CROWDSIFT_RESTRICT level,
                                   const float* CROWDSIFT_RESTRICT k, float* CROWDSIFT_RESTRICT c1,
                                   float* CROWDSIFT_RESTRICT c2, float* CROWDSIFT_RESTRICT cost) {
    const float m = sign * vote.m, shift = vote.shift, n = vote.n;
    for (std::size_t j = 0; j < lanes; ++j) {
        const float z = level[j] * m + shift;
        const float size = k[j] * (z < 0.0F ? -z : z);
        const float a = exp_minus(size);
        if (tied) {
            const float both = 1.0F + a * a;
            c1[j] = a;
            c2[j] = z < 0.0F ? -both : both;
            cost[j] = n * size;
        } else {
            c1[j] = z < 0.0F ? 1.0F : a;
            c2[j] = z < 0.0F ? a : 1.0F;
            cost[j] = n * (z < 0.0F ? size : 0.0F);
        }
    }
}

template <bool tied>
CROWDSIFT_INLINE void terms_of(std::size_t lanes, const float* CROWDSIFT_RESTRICT level,
                               const SidedVote& vote, float* CROWDSIFT_RESTRICT terms,
                               double* CROWDSIFT_RESTRICT sums) {
    float* const k = terms;
    float* const cost = terms + 5 * lanes;
    const float spread = kSmoothing * vote.v, open = 1.0F + kSmoothing * vote.side_v;
    for (std::size_t j = 0; j < lanes; ++j)
        k[j] = 1.0F / square_root(open + spread * level[j] * level[j]);
    signed_terms<tied>(lanes, 1.0F, vote, level, k, terms + lanes, terms + 2 * lanes, cost);
    signed_terms<tied>(lanes, -1.0F, vote, level, k, terms + 3 * lanes, terms + 4 * lanes,
                       cost + lanes);
    if (!tied)
        for (std::size_t j = 0; j < lanes; ++j) sums[j] += static_cast<double>(vote.n * k[j]);
    for (std::size_t j = 0; j < 2 * lanes; ++j) sums[lanes + j] += static_cast<double>(cost[j]);
}

// The terms of one vote on all lanes, k c1 c2 of +b, c1 c2 of -b, costs of both; adds to the sums
// by lane.
CROWDSIFT_CLONES
inline void lane_terms(std::size_t lanes, const float* CROWDSIFT_RESTRICT level,
                       const SidedVote& vote, float* CROWDSIFT_RESTRICT terms,
                       double* CROWDSIFT_RESTRICT sums) {
    if (vote.tied)
        terms_of<true>(lanes, level, vote, terms, sums);
    else
        terms_of<false>(lanes, level, vote, terms, sums);
}

// 1 - e^-y for y > 0: a series where the difference would cancel.
CROWDSIFT_INLINE float one_minus_exp(float y, float e) {
    float series = 1.0F - y * 0.166666667F;
    series = 1.0F - y * 0.2F * series;
    series = 1.0F - y * 0.25F * series;
    series = 1.0F - y * 0.333333333F * series;
    series = y * (1.0F - y * 0.5F * series);
    return y < 0.3F ? series : 1.0F - e;
}

// f^n for n = 1 ... 8, by squares.
template <int power>
CROWDSIFT_INLINE float to_power(float f) {
    if constexpr (power <= 1) {
        return f;
    } else if constexpr (power % 2 == 0) {
        const float half = to_power<power / 2>(f);
        return half * half;
    } else {
        return f * to_power<power - 1>(f);
    }
}

// Multiplies products by the denominators of one vote to a power, or (power 0) adds n log of them
// to sums; of a tie also 1 - w^2. Lanes of one width.
template <int power, bool tied>
CROWDSIFT_INLINE void width_products(std::size_t lanes, float width, float n,
                                     const float* CROWDSIFT_RESTRICT terms,
                                     float* CROWDSIFT_RESTRICT up, float* CROWDSIFT_RESTRICT down,
                                     float* CROWDSIFT_RESTRICT gap) {
    for (std::size_t j = 0; j < lanes; ++j) {
        const float y = terms[j] * width, w = exp_minus(y);
        const float c1u = terms[lanes + j], c2u = terms[2 * lanes + j];
        const float c1d = terms[3 * lanes + j], c2d = terms[4 * lanes + j];
        float fu, fd, g = 1.0F;
        if (tied) {
            const float even = 1.0F + w * w;
            fu = c1u * even + (c2u < 0.0F ? -c2u : c2u) * w;
            fd = c1d * even + (c2d < 0.0F ? -c2d : c2d) * w;
            g = one_minus_exp(2.0F * y, w * w);
        } else {
            fu = c1u + c2u * w;
            fd = c1d + c2d * w;
        }
        if (power == 0) {
            up[j] += n * log_positive(fu);
            down[j] += n * log_positive(fd);
            if (tied) gap[j] += n * log_positive(g);
        } else {
            up[j] *= to_power<power>(fu);
            down[j] *= to_power<power>(fd);
            if (tied) gap[j] *= to_power<power>(g);
        }
    }
}

template <int power, bool tied>
CROWDSIFT_INLINE void all_products(std::size_t n_widths, std::size_t lanes, const float* widths,
                                   float n, const float* terms, float* up, float* down,
                                   float* gap) {
    for (std::size_t w = 0; w < n_widths; ++w)
        width_products<power, tied>(lanes, widths[w], n, terms, up + w * lanes, down + w * lanes,
                                    gap + w * lanes);
}

// The same for all widths; the usual number of lanes is spelled out for the compiler.
template <int power>
CROWDSIFT_INLINE void vote_products(std::size_t n_widths, std::size_t lanes, const float* widths,
                                    float n, bool tied, const float* terms, float* up, float* down,
                                    float* gap) {
    if (tied && lanes == 24)
        all_products<power, true>(n_widths, 24, widths, n, terms, up, down, gap);
    else if (lanes == 24)
        all_products<power, false>(n_widths, 24, widths, n, terms, up, down, gap);
    else if (tied)
        all_products<power, true>(n_widths, lanes, widths, n, terms, up, down, gap);
    else
        all_products<power, false>(n_widths, lanes, widths, n, terms, up, down, gap);
}

CROWDSIFT_CLONES
inline void multiply_products(std::size_t n_widths, std::size_t lanes, const float* widths,
                              int power, float n, bool tied, const float* terms, float* up,
                              float* down, float* gap) {
    switch (power) {
        case 1:
            vote_products<1>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        case 2:
            vote_products<2>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        case 3:
            vote_products<3>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        case 4:
            vote_products<4>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        case 5:
            vote_products<5>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        case 6:
            vote_products<6>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        case 7:
            vote_products<7>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        case 8:
            vote_products<8>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
            break;
        default:
            vote_products<0>(n_widths, lanes, widths, n, tied, terms, up, down, gap);
    }
}

// The same for reliability 0: one term for all widths, whose number is padded.
template <int power, bool tied>
CROWDSIFT_INLINE void zero_width_products(std::size_t n_widths,
                                          const float* CROWDSIFT_RESTRICT widths, float n,
                                          const VoteTerm& term, float* CROWDSIFT_RESTRICT product,
                                          float* CROWDSIFT_RESTRICT gap) {
    const float k = term.k, c1 = term.c1, c2 = term.c2 < 0.0F ? -term.c2 : term.c2;
    for (std::size_t t = 0; t < n_widths; ++t) {
        const float y = k * widths[t], w = exp_minus(y);
        const float f = tied ? c1 * (1.0F + w * w) + c2 * w : c1 + c2 * w;
        if (power == 0) {
            product[t] += n * log_positive(f);
            if (tied) gap[t] += n * log_positive(one_minus_exp(2.0F * y, w * w));
        } else {
            product[t] *= to_power<power>(f);
            if (tied) gap[t] *= to_power<power>(one_minus_exp(2.0F * y, w * w));
        }
    }
}

template <int power>
CROWDSIFT_INLINE void zero_vote_products(std::size_t n_widths, const float* widths, float n,
                                         bool tied, const VoteTerm& term, float* product,
                                         float* gap) {
    if (tied)
        zero_width_products<power, true>(n_widths, widths, n, term, product, gap);
    else
        zero_width_products<power, false>(n_widths, widths, n, term, product, gap);
}

CROWDSIFT_CLONES
inline void zero_products(std::size_t n_widths, const float* widths, int power, float n, bool tied,
                          const VoteTerm& term, float* product, float* gap) {
    switch (power) {
        case 1:
            zero_vote_products<1>(n_widths, widths, n, tied, term, product, gap);
            break;
        case 2:
            zero_vote_products<2>(n_widths, widths, n, tied, term, product, gap);
            break;
        case 3:
            zero_vote_products<3>(n_widths, widths, n, tied, term, product, gap);
            break;
        case 4:
            zero_vote_products<4>(n_widths, widths, n, tied, term, product, gap);
            break;
        case 5:
            zero_vote_products<5>(n_widths, widths, n, tied, term, product, gap);
            break;
        case 6:
            zero_vote_products<6>(n_widths, widths, n, tied, term, product, gap);
            break;
        case 7:
            zero_vote_products<7>(n_widths, widths, n, tied, term, product, gap);
            break;
        case 8:
            zero_vote_products<8>(n_widths, widths, n, tied, term, product, gap);
            break;
        default:
            zero_vote_products<0>(n_widths, widths, n, tied, term, product, gap);
    }
}

// Moves the exponents of products to sums of whole numbers, so that products stay in [1, 2).
CROWDSIFT_CLONES
inline void take_exponents(std::size_t count, float* CROWDSIFT_RESTRICT products,
                           std::int32_t* CROWDSIFT_RESTRICT exponents) {
    for (std::size_t t = 0; t < count; ++t) {
        const std::int32_t bits = float_to_bits(products[t]);
        exponents[t] += (bits >> 23) - 127;
        products[t] = float_from_bits((bits & 0x007fffff) | 0x3f800000);
    }
}

// Of one width: adds -log-likelihoods from products (that of 1 - w^2 divides) and the sums by lane,
// and a shift.
CROWDSIFT_CLONES
inline void lane_costs(std::size_t lanes, double width, const double* CROWDSIFT_RESTRICT smooth,
                       const double* CROWDSIFT_RESTRICT sums,
                       const float* CROWDSIFT_RESTRICT product, const float* CROWDSIFT_RESTRICT gap,
                       double shift, double* CROWDSIFT_RESTRICT total) {
    for (std::size_t j = 0; j < lanes; ++j)
        total[j] += shift + width * smooth[j] + sums[j] +
                    static_cast<double>(log_positive(product[j] / gap[j]));
}

// The same of reliability 0, whose sums are one number for all widths.
CROWDSIFT_CLONES
inline void zero_costs(std::size_t n_widths, const float* CROWDSIFT_RESTRICT widths, double smooth,
                       double sum, const float* CROWDSIFT_RESTRICT product,
                       const float* CROWDSIFT_RESTRICT gap, double shift,
                       double* CROWDSIFT_RESTRICT total) {
    for (std::size_t t = 0; t < n_widths; ++t)
        total[t] = shift + static_cast<double>(widths[t]) * smooth + sum +
                   static_cast<double>(log_positive(product[t] / gap[t]));
}

// What exponents that were taken add to costs.
CROWDSIFT_CLONES
inline void add_exponents(std::size_t count, const std::int32_t* CROWDSIFT_RESTRICT exponent,
                          const std::int32_t* CROWDSIFT_RESTRICT gap_exponent,
                          double* CROWDSIFT_RESTRICT total) {
    for (std::size_t j = 0; j < count; ++j)
        total[j] += 0.6931471805599453 * static_cast<double>(exponent[j] - gap_exponent[j]);
}

// Moments of one vote, added up over types: alpha = sum of q e s and f = sum of q f s^2, for the
// difference (s = b k) and for the side bias (s = k, q given that the worker is regular).
struct VoteMoments {
    float alpha, f, side_alpha, side_f;
};

#if defined(CROWDSIFT_GNU)
// e and f of eight types from their coefficients.
template <bool tied>
CROWDSIFT_INLINE void group_terms(const Lanes& c1, const Lanes& c2, const Lanes& w, Lanes& e,
                                  Lanes& f) {
    if (!tied) {
        e = c1 / (c1 + c2 * w);
        f = e * (2.0F * e - 1.0F);
        return;
    }
    // e = p2 - p1 = -sign(z) w (1 - a^2)/(D1 D2), D1 = w + a, D2 = 1 + a w
    const Lanes d1 = w + c1, d2 = 1.0F + c1 * w, inverse = 1.0F / (d1 * d2);
    const Lanes edge = w * (1.0F - c1 * c1) * inverse;
    e = c2 < 0.0F ? edge : -edge;
    f = edge * edge - c1 * w * (d1 * d1 + d2 * d2) * inverse * inverse;
}

// Over groups of eight lanes of a width, those listed (width and first lane of each).
template <bool tied>
CROWDSIFT_INLINE VoteMoments grouped_moments(std::size_t lanes, std::size_t slice,
                                             const float* level, const float* widths,
                                             std::size_t count, const std::uint16_t* groups,
                                             const float* terms, const float* q,
                                             const float* given) {
    Lanes alpha = {}, second = {}, side_alpha = {}, side_second = {};
    for (std::size_t g = 0; g < count; ++g) {
        const std::size_t width = groups[2 * g], j = groups[2 * g + 1];
        const std::size_t at = width * slice + j;
        const Lanes k = load(terms + j);
        Lanes w;
        exp_minus(k * widths[width], w);
        Lanes eu, fu, ed, fd;
        group_terms<tied>(load(terms + lanes + j), load(terms + 2 * lanes + j), w, eu, fu);
        group_terms<tied>(load(terms + 3 * lanes + j), load(terms + 4 * lanes + j), w, ed, fd);
        const Lanes s = k * load(level + j);
        const Lanes qu = load(q + at), qd = load(q + at + lanes);
        alpha += s * (qu * eu - qd * ed);
        second += s * s * (qu * fu + qd * fd);
        if (given == nullptr) continue;
        const Lanes gu = load(given + at), gd = load(given + at + lanes);
        side_alpha += k * (gu * eu + gd * ed);
        side_second += k * k * (gu * fu + gd * fd);
    }
    return {sum_lanes(alpha), sum_lanes(second), sum_lanes(side_alpha), sum_lanes(side_second)};
}
#else
template <bool tied>
CROWDSIFT_INLINE VoteMoments grouped_moments(std::size_t lanes, std::size_t slice,
                                             const float* level, const float* widths,
                                             std::size_t count, const std::uint16_t* groups,
                                             const float* terms, const float* q,
                                             const float* given) {
    VoteMoments sums{0.0F, 0.0F, 0.0F, 0.0F};
    for (std::size_t g = 0; g < count; ++g)
        for (std::size_t j = groups[2 * g + 1]; j < groups[2 * g + 1] + kLaneBlock; ++j) {
            const std::size_t at = groups[2 * g] * slice + j;
            const float k = terms[j], w = exp_minus(k * widths[groups[2 * g]]);
            for (int down = 0; down < 2; ++down) {
                const float c1 = terms[(down ? 3 : 1) * lanes + j];
                const float c2 = terms[(down ? 4 : 2) * lanes + j];
                float e = c1 / (c1 + c2 * w), f = e * (2.0F * e - 1.0F);
                if (tied) {
                    const float d1 = w + c1, d2 = 1.0F + c1 * w, inverse = 1.0F / (d1 * d2);
                    const float edge = w * (1.0F - c1 * c1) * inverse;
                    e = c2 < 0.0F ? edge : -edge;
                    f = edge * edge - c1 * w * (d1 * d1 + d2 * d2) * inverse * inverse;
                }
                const float s = k * (down ? -level[j] : level[j]);
                const std::size_t t = at + (down ? lanes : 0);
                sums.alpha += s * q[t] * e;
                sums.f += s * s * q[t] * f;
                if (given == nullptr) continue;
                sums.side_alpha += k * given[t] * e;
                sums.side_f += k * k * given[t] * f;
            }
        }
    return sums;
}
#endif

CROWDSIFT_CLONES
inline void vote_moments(std::size_t lanes, std::size_t slice, const float* level,
                         const float* widths, std::size_t count, const std::uint16_t* groups,
                         bool tied, const float* terms, const float* q, const float* given,
                         VoteMoments& out) {
    out = tied
              ? grouped_moments<true>(lanes, slice, level, widths, count, groups, terms, q, given)
              : grouped_moments<false>(lanes, slice, level, widths, count, groups, terms, q, given);
}

// Adds the moments of the side bias of types of reliability 0, q one a width; widths are padded.
CROWDSIFT_CLONES
inline void zero_moments(std::size_t n_widths, const float* CROWDSIFT_RESTRICT widths,
                         const float* CROWDSIFT_RESTRICT q, bool tied, const VoteTerm& term,
                         VoteMoments& out) {
    const float k = term.k;
#if defined(CROWDSIFT_GNU)
    Lanes alpha = {}, second = {}, c1 = {}, c2 = {};
    c1 += term.c1;
    c2 += term.c2;
    for (std::size_t t = 0; t < n_widths; t += kLaneBlock) {
        Lanes w, e, f;
        exp_minus(k * load(widths + t), w);
        if (tied)
            group_terms<true>(c1, c2, w, e, f);
        else
            group_terms<false>(c1, c2, w, e, f);
        alpha += load(q + t) * e;
        second += load(q + t) * f;
    }
    out.side_alpha += k * sum_lanes(alpha);
    out.side_f += k * k * sum_lanes(second);
#else
    for (std::size_t t = 0; t < n_widths; ++t) {
        const float a = term.c1, w = exp_minus(k * widths[t]);
        float e = a / (a + term.c2 * w), f = e * (2.0F * e - 1.0F);
        if (tied) {
            const float d1 = w + a, d2 = 1.0F + a * w, inverse = 1.0F / (d1 * d2);
            const float edge = w * (1.0F - a * a) * inverse;
            e = term.c2 < 0.0F ? edge : -edge;
            f = edge * edge - a * w * (d1 * d1 + d2 * d2) * inverse * inverse;
        }
        out.side_alpha += k * q[t] * e;
        out.side_f += k * k * q[t] * f;
    }
#endif
}

// The larger of two posteriors over types, added up by group of eight lanes (b and -b) of a width.
CROWDSIFT_CLONES
inline void group_masses(std::size_t n_widths, std::size_t lanes, std::size_t slice,
                         const float* CROWDSIFT_RESTRICT q, const float* CROWDSIFT_RESTRICT given,
                         float* CROWDSIFT_RESTRICT mass) {
    for (std::size_t w = 0; w < n_widths; ++w)
        for (std::size_t j = 0; j < lanes; j += kLaneBlock) {
            float held[kLaneBlock];
            for (std::size_t l = 0; l < kLaneBlock; ++l) {
                const std::size_t up = w * slice + j + l, down = up + lanes;
                const float one = q[up] + q[down], two = given[up] + given[down];
                held[l] = one > two ? one : two;
            }
            *mass++ = ((held[0] + held[4]) + (held[1] + held[5])) +
                      ((held[2] + held[6]) + (held[3] + held[7]));
        }
}

}  // namespace crowdsift
