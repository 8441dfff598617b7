// Arithmetic of expectation propagation over types of reliability, tie width and side, in float32.
//
// With s = k|z|, a = exp(-s) and u = exp(k delta), a vote for the winner has the probability
// 1/(1 + a u) where z >= 0 and a/(a + u) where z < 0, a tie a (u^2 - 1)/(a (u^2 + 1) + (1 + a^2)
// u). k depends on |beta| alone and a on beta alone, so that one exponential serves a width for
// +beta and -beta, and one a reliability for all widths; where a width is the sum of two others,
// its u is their product. Probabilities of many votes are a product of the denominators, which are
// at least 1, and sums of s by reliability.
//
// A lane is a positive level. Numbers by type lie in blocks of eight lanes, of all widths one after
// the other, then those of the next eight lanes; at the end types of reliability 0, one a width,
// padded. Plain pointers only: cloned per instruction set.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/simd.hpp"

namespace crowdsift {

// One vote: cavity of the difference, x times the mean and the variance of the side bias, weight.
struct SidedVote {
    float m, v, shift, side_v, n;
    bool tied;
};

// Of one vote and one reliability: k, and the two coefficients of the denominator. For a win it is
// c2 + c1 u, with c1 = a, c2 = 1 where z >= 0 and c1 = 1, c2 = a where z < 0; 1 - Z is c1 u over
// it. For a tie it is c1 (u^2 + 1) + |c2| u with c1 = a, c2 = 1 + a^2 of the sign of z.
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

// The widths of types and the places of their numbers.
struct TypeCells {
    // How u of a width is computed: from those of two others whose sum it is, or (both itself) from
    // e^(k part), squared this number of times.
    struct Recipe {
        std::uint16_t first, second, squares;
        float part;
    };

    std::size_t lanes, slice;   // slice: of one width, where types lie as in WorkerTypes
    std::vector<float> widths;  // padded by 0
    std::vector<Recipe> recipes;

    TypeCells(const std::vector<double>& given, std::size_t n_lanes, std::size_t n_slice)
        : lanes(n_lanes), slice(n_slice),
          widths((given.size() + kLaneBlock - 1) / kLaneBlock * kLaneBlock, 0.0F) {
        std::vector<int> factors;  // exponentials whose product it is: errors add up
        for (std::size_t w = 0; w < given.size(); ++w) {
            widths[w] = static_cast<float>(given[w]);
            const std::uint16_t self = static_cast<std::uint16_t>(w);
            double part = given[w];
            std::uint16_t squares = 0;
            for (; part > kSmall && squares < kMostSquares; ++squares) part *= 0.5;
            if (part > kSmall) {  // too many squares: computed directly
                part = given[w];
                squares = 0;
            }
            recipes.push_back({self, self, squares, static_cast<float>(part)});
            factors.push_back(1 << squares);
            for (std::size_t a = 0; a < w; ++a)
                for (std::size_t b = a; b < w; ++b)
                    if (std::fabs(given[a] + given[b] - given[w]) <= 1e-9 * given[w] &&
                        factors[a] + factors[b] <= kMostFactors) {
                        recipes[w].first = static_cast<std::uint16_t>(a);
                        recipes[w].second = static_cast<std::uint16_t>(b);
                        factors[w] = factors[a] + factors[b];
                    }
        }
    }

    std::size_t n_widths() const { return recipes.size(); }
    std::size_t zeros() const { return recipes.size() * lanes; }
    std::size_t size() const { return zeros() + widths.size(); }

    static constexpr double kSmall = 0.35;  // for the series of exp_small

private:
    static constexpr std::uint16_t kMostSquares = 2;
    static constexpr int kMostFactors = 8;
};

// exp(r) of eight, 0 <= r <= kSmall: the series alone.
CROWDSIFT_INLINE void exp_small(const Lanes& r, Lanes& out) {
    out = r * 1.3888889e-3F + 8.3333333e-3F;
    out = out * r + 4.1666667e-2F;
    out = out * r + 1.6666667e-1F;
    out = out * r + 0.5F;
    out = out * r + 1.0F;
    out = out * r + 1.0F;
}

// Of one sign of the reliability.
template <bool tied>
CROWDSIFT_INLINE void signed_terms(std::size_t lanes, float sign, const SidedVote& vote,
                                   const float* CROWDSIFT_RESTRICT level,
                                   const float* CROWDSIFT_RESTRICT k, float* CROWDSIFT_RESTRICT c1,
                                   float* CROWDSIFT_RESTRICT c2, float* CROWDSIFT_RESTRICT costs) {
    const float m = sign * vote.m, shift = vote.shift, n = vote.n;
    for (std::size_t j = 0; j < lanes; ++j) {
        const float z = level[j] * m + shift;
        const float size = k[j] * (z < 0.0F ? -z : z);
        const float a = exp_minus(size);
        if (tied) {
            const float both = 1.0F + a * a;
            c1[j] = a;
            c2[j] = z < 0.0F ? -both : both;
            costs[j] += n * size;
        } else {
            c1[j] = z < 0.0F ? 1.0F : a;
            c2[j] = z < 0.0F ? a : 1.0F;
            costs[j] += n * (z < 0.0F ? size : 0.0F);
        }
    }
}

template <bool tied>
CROWDSIFT_INLINE void terms_of(std::size_t lanes, const float* CROWDSIFT_RESTRICT level,
                               const SidedVote& vote, float* CROWDSIFT_RESTRICT terms,
                               float* CROWDSIFT_RESTRICT costs) {
    float* const k = terms;
    const float spread = kSmoothing * vote.v, open = 1.0F + kSmoothing * vote.side_v;
    for (std::size_t j = 0; j < lanes; ++j)
        k[j] = 1.0F / square_root(open + spread * level[j] * level[j]);
    signed_terms<tied>(lanes, 1.0F, vote, level, k, terms + lanes, terms + 2 * lanes, costs);
    signed_terms<tied>(lanes, -1.0F, vote, level, k, terms + 3 * lanes, terms + 4 * lanes,
                       costs + lanes);
}

// u of all widths and lanes: lane by lane within a width, so that no lane waits for another.
CROWDSIFT_INLINE void growths(const TypeCells& cells, std::size_t lanes, const float* k,
                              float zero_k, float* u) {
    const std::size_t n_widths = cells.n_widths();
    const float* const widths = cells.widths.data();
    const TypeCells::Recipe* const recipes = cells.recipes.data();
    for (std::size_t w = 0; w < n_widths; ++w) {
        const TypeCells::Recipe recipe = recipes[w];
        const auto each = [&](const auto& find) {
            for (std::size_t j = 0; j < lanes; j += kLaneBlock) {
                Lanes found;
                find(j, u + j * n_widths, found);
                store(found, u + j * n_widths + w * kLaneBlock);
            }
        };
        if (recipe.first != w)
            each([&](std::size_t, const float* at, Lanes& out) {
                out = load(at + recipe.first * kLaneBlock) * load(at + recipe.second * kLaneBlock);
            });
        else if (!(recipe.part <= static_cast<float>(TypeCells::kSmall)))
            each([&](std::size_t j, const float*, Lanes& out) {
                exp_of(load(k + j) * recipe.part, out);
            });
        else if (recipe.squares == 0)
            each([&](std::size_t j, const float*, Lanes& out) {
                exp_small(load(k + j) * recipe.part, out);
            });
        else
            each([&](std::size_t j, const float*, Lanes& out) {
                exp_small(load(k + j) * recipe.part, out);
                out *= out;
                if (recipe.squares > 1) out *= out;
            });
    }
    float* const at = u + cells.zeros();
    for (std::size_t t = 0; t < cells.widths.size(); t += kLaneBlock) {
        Lanes found;
        exp_of(zero_k * load(widths + t), found);
        store(found, at + t);
    }
}

// The values of one vote: k, then c1 and c2 of b, c1 and c2 of -b by lane; the term of reliability
// 0; u.
struct VoteRoom {
    float* terms;
    VoteTerm zero;
    float* u;
};

// The terms of one vote; adds n times their costs, at b and at -b.
CROWDSIFT_CLONES
inline void vote_terms(const TypeCells& cells, const float* level, const SidedVote& vote,
                       VoteRoom& room, float* costs) {
    room.zero = vote_term(0.0F, vote);
    // The usual number of lanes is a constant for the compiler.
    const bool usual = cells.lanes == 24;
    if (vote.tied && usual)
        terms_of<true>(24, level, vote, room.terms, costs);
    else if (vote.tied)
        terms_of<true>(cells.lanes, level, vote, room.terms, costs);
    else if (usual)
        terms_of<false>(24, level, vote, room.terms, costs);
    else
        terms_of<false>(cells.lanes, level, vote, room.terms, costs);
    if (usual)
        growths(cells, 24, room.terms, room.zero.k, room.u);
    else
        growths(cells, cells.lanes, room.terms, room.zero.k, room.u);
}

// e^y - 1 for y > 0: a series where the difference would cancel.
CROWDSIFT_INLINE void exp_minus_one(const Lanes& y, const Lanes& e, Lanes& out) {
    Lanes series = 1.0F + y * 0.166666667F;
    series = 1.0F + y * 0.2F * series;
    series = 1.0F + y * 0.25F * series;
    series = 1.0F + y * 0.333333333F * series;
    series = y * (1.0F + y * 0.5F * series);
    Lanes near = {};
    near += 0.3F;
    where_less(y, near, series, e - 1.0F, out);
}

// How a vote enters: as the first factor, as another one, as a power of its weight, or by n times
// its logarithm.
enum class Entry { first, once, power, logarithm };

template <Entry entry>
CROWDSIFT_INLINE void enter(const Lanes& factor, float n, float* to) {
    if (entry == Entry::logarithm) {
        for (std::size_t l = 0; l < kLaneBlock; ++l) to[l] += n * log_positive(factor[l]);
        return;
    }
    if (entry == Entry::first) {
        store(factor, to);
        return;
    }
    Lanes product = load(to) * factor;
    if (entry == Entry::power)
        for (float left = n; left > 1.5F; left -= 1.0F) product *= factor;
    store(product, to);
}

CROWDSIFT_INLINE void size_of(const Lanes& x, Lanes& out) {
    const Lanes zero = {};
    where_less(x, zero, -x, x, out);
}

// The denominator from its coefficients; c2 is that of a tie without its sign.
template <bool tied>
CROWDSIFT_INLINE void denominator(const Lanes& c1, const Lanes& c2, const Lanes& u, Lanes& out) {
    if (tied)
        out = c1 * (u * u + 1.0F) + c2 * u;
    else
        out = c2 + c1 * u;
}

template <bool tied, Entry entry>
CROWDSIFT_INLINE void enter_vote(const TypeCells& cells, float n, const VoteRoom& room, float* up,
                                 float* down, float* gap) {
    const std::size_t n_widths = cells.n_widths(), lanes = cells.lanes;
    const float* const widths = cells.widths.data();
    std::size_t at = 0;
    for (std::size_t j = 0; j < lanes; j += kLaneBlock) {
        const float* const terms = room.terms + j;
        const Lanes k = load(terms), c1u = load(terms + lanes), c1d = load(terms + 3 * lanes);
        Lanes c2u = load(terms + 2 * lanes), c2d = load(terms + 4 * lanes);
        if (tied) {
            size_of(c2u, c2u);
            size_of(c2d, c2d);
        }
        for (std::size_t w = 0; w < n_widths; ++w, at += kLaneBlock) {
            const Lanes u = load(room.u + at);
            Lanes factor;
            denominator<tied>(c1u, c2u, u, factor);
            enter<entry>(factor, n, up + at);
            denominator<tied>(c1d, c2d, u, factor);
            enter<entry>(factor, n, down + at);
            if (!tied) continue;
            exp_minus_one(2.0F * widths[w] * k, u * u, factor);
            enter<entry>(factor, n, gap + at);
        }
    }
    Lanes c1 = {}, c2 = {}, k = {};
    c1 += room.zero.c1;
    c2 += room.zero.c2 < 0.0F ? -room.zero.c2 : room.zero.c2;
    k += room.zero.k;
    for (std::size_t t = 0; t < cells.widths.size(); t += kLaneBlock, at += kLaneBlock) {
        const Lanes u = load(room.u + at);
        Lanes factor;
        denominator<tied>(c1, c2, u, factor);
        enter<entry>(factor, n, up + at);
        if (!tied) continue;
        exp_minus_one(2.0F * k * load(widths + t), u * u, factor);
        if (entry == Entry::logarithm)  // padding has the width 0
            for (std::size_t l = 0; l < kLaneBlock; ++l)
                gap[at + l] += widths[t + l] > 0.0F ? n * log_positive(factor[l]) : 0.0F;
        else
            enter<entry>(factor, n, gap + at);
    }
}

// Multiplies products by the denominators of one vote to the power n, or adds n log of them; of a
// tie also u^2 - 1, to the gap.
template <bool tied>
CROWDSIFT_INLINE void enter_as(const TypeCells& cells, Entry entry, float n, const VoteRoom& room,
                               float* up, float* down, float* gap) {
    if (entry == Entry::first)
        enter_vote<tied, Entry::first>(cells, n, room, up, down, gap);
    else if (entry == Entry::once)
        enter_vote<tied, Entry::once>(cells, n, room, up, down, gap);
    else if (entry == Entry::power)
        enter_vote<tied, Entry::power>(cells, n, room, up, down, gap);
    else
        enter_vote<tied, Entry::logarithm>(cells, n, room, up, down, gap);
}

CROWDSIFT_CLONES
inline void multiply_products(const TypeCells& cells, Entry entry, float n, bool tied,
                              const VoteRoom& room, float* up, float* down, float* gap) {
    if (tied)
        enter_as<true>(cells, entry, n, room, up, down, gap);
    else
        enter_as<false>(cells, entry, n, room, up, down, gap);
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

// Adds to -log-likelihoods those of products (that of the gap divides) with the exponents that were
// taken of them, by cell.
CROWDSIFT_CLONES
inline void add_products(std::size_t count, const float* CROWDSIFT_RESTRICT product,
                         const float* CROWDSIFT_RESTRICT gap,
                         const std::int32_t* CROWDSIFT_RESTRICT exponent,
                         const std::int32_t* CROWDSIFT_RESTRICT gap_exponent,
                         double* CROWDSIFT_RESTRICT total) {
    for (std::size_t t = 0; t < count; ++t)
        total[t] += static_cast<double>(log_positive(product[t] / gap[t])) +
                    0.6931471805599453 * static_cast<double>(exponent[t] - gap_exponent[t]);
}

// Sums of the likelihoods and posteriors of a worker's regular types.
struct LikelihoodSums {
    float best, sum;
};

constexpr float kLeastLikelihood = 1e-30F;

CROWDSIFT_INLINE void at_least(float least, Lanes& x) {
    Lanes held = {};
    held += least;
    where_less(x, held, held, x, x);
}

template <bool gapped>
CROWDSIFT_INLINE LikelihoodSums regular_likelihoods(const TypeCells& cells, const float* start,
                                                    const float* up, const float* down,
                                                    const float* gap, const float* prior,
                                                    float* likelihood, float* q, float* mass) {
    const std::size_t n_widths = cells.n_widths(), lanes = cells.lanes, slice = cells.slice;
    Lanes best = {}, sum = {};
    std::size_t at = 0;
    for (std::size_t j = 0; j < lanes; j += kLaneBlock) {
        const Lanes su = load(start + j), sd = load(start + lanes + j);
        std::size_t t = j;
        for (std::size_t w = 0; w < n_widths; ++w, at += kLaneBlock, t += slice) {
            Lanes lu, ld;
            if (gapped) {
                const Lanes g = load(gap + at);
                lu = su * (g / load(up + at));
                ld = sd * (g / load(down + at));
            } else {  // one division for both
                const Lanes pu = load(up + at), pd = load(down + at), inverse = 1.0F / (pu * pd);
                lu = su * (pd * inverse);
                ld = sd * (pu * inverse);
            }
            at_least(kLeastLikelihood, lu);
            at_least(kLeastLikelihood, ld);
            store(lu, likelihood + t);
            store(ld, likelihood + t + lanes);
            where_less(best, lu, lu, best, best);
            where_less(best, ld, ld, best, best);
            const Lanes qu = load(prior + t) * lu, qd = load(prior + t + lanes) * ld;
            store(qu, q + t);
            store(qd, q + t + lanes);
            sum += qu + qd;
            *mass++ = sum_lanes(qu + qd);
        }
    }
    LikelihoodSums found{0.0F, sum_lanes(sum)};
    for (std::size_t l = 0; l < kLaneBlock; ++l)
        found.best = best[l] > found.best ? best[l] : found.best;
    const float s0 = start[2 * lanes];
    for (std::size_t w = 0; w < n_widths; ++w) {
        const float given = s0 * ((gapped ? gap[at + w] : 1.0F) / up[at + w]);
        const float held = given > kLeastLikelihood ? given : kLeastLikelihood;
        const std::size_t zero = w * slice + 2 * lanes;
        Lanes all = {};
        all += held;
        const Lanes weighted = load(prior + zero) * all;
        store(all, likelihood + zero);
        store(weighted, q + zero);
        found.best = held > found.best ? held : found.best;
        found.sum += weighted[0];
    }
    return found;
}

// Likelihoods of the regular types from products (those of the gap divide, null: all 1) and
// exp(-sums) by lane, at b, at -b and at 0; q = prior times likelihood, not normalised, and its
// sums over eight lanes of a width.
CROWDSIFT_CLONES
inline void few_likelihoods(const TypeCells& cells, const float* start, const float* up,
                            const float* down, const float* gap, const float* prior,
                            float* likelihood, float* q, float* mass, LikelihoodSums& out) {
    out = gap == nullptr
              ? regular_likelihoods<false>(cells, start, up, down, gap, prior, likelihood, q, mass)
              : regular_likelihoods<true>(cells, start, up, down, gap, prior, likelihood, q, mass);
}

// Moments of one vote, added up over types: alpha = sum of q e s and f = sum of q f s^2, for the
// difference (s = b k) and for the side bias (s = k).
struct VoteMoments {
    float alpha, f, side_alpha, side_f;
};

// e and f of eight types, f of a win without its part -e/2 and half of it: e^2.
template <bool tied>
CROWDSIFT_INLINE void type_terms(const Lanes& c1, const Lanes& c2, const Lanes& edge,
                                 const Lanes& u, const Lanes& inverse, Lanes& e, Lanes& f) {
    if (tied) {
        // e = p2 - p1 = -sign(z) u (1 - a^2)/D
        e = edge * u * inverse;
        f = e * e - c1 * u * inverse * ((c2 * (u * u + 1.0F) + 4.0F * c1 * u) * inverse);
    } else {
        e = c1 * u * inverse;
        f = e * e;
    }
}

// -sign(z) (1 - a^2) of a tie; c2 without its sign.
CROWDSIFT_INLINE void split_sign(const Lanes& c1, Lanes& c2, Lanes& edge) {
    const Lanes zero = {}, size = 1.0F - c1 * c1;
    where_less(c2, zero, size, -size, edge);
    size_of(c2, c2);
}

// Which widths of every eight lanes matter: those of the g-th lie in [start[g], start[g + 1]).
struct TypeGroups {
    const std::uint16_t *start, *width;
};

template <bool tied>
CROWDSIFT_INLINE VoteMoments moments_of(const TypeCells& cells, const TypeGroups& groups,
                                        const float* level, const VoteRoom& room, const float* q) {
    const std::size_t lanes = cells.lanes, slice = cells.slice, n_widths = cells.n_widths();
    Lanes alpha = {}, second = {}, side_alpha = {}, side_second = {};
    for (std::size_t g = 0; g < lanes / kLaneBlock; ++g) {
        if (groups.start[g] == groups.start[g + 1]) continue;
        const std::size_t j = g * kLaneBlock;
        const float *const terms = room.terms + j, *const u_of = room.u + j * n_widths;
        const Lanes c1u = load(terms + lanes), c1d = load(terms + 3 * lanes);
        Lanes c2u = load(terms + 2 * lanes), c2d = load(terms + 4 * lanes), edge_u = {},
              edge_d = {};
        if (tied) {
            split_sign(c1u, c2u, edge_u);
            split_sign(c1d, c2d, edge_d);
        }
        Lanes up = {}, down = {}, both = {};
        for (std::size_t i = groups.start[g]; i < groups.start[g + 1]; ++i) {
            const std::size_t w = groups.width[i];
            const Lanes u = load(u_of + w * kLaneBlock);
            const Lanes qu = load(q + w * slice + j), qd = load(q + w * slice + j + lanes);
            Lanes du, dd, eu, fu, ed, fd;
            denominator<tied>(c1u, c2u, u, du);
            denominator<tied>(c1d, c2d, u, dd);
            if (tied) {  // their product, of the order u^4, may leave the range of float32
                type_terms<tied>(c1u, c2u, edge_u, u, 1.0F / du, eu, fu);
                type_terms<tied>(c1d, c2d, edge_d, u, 1.0F / dd, ed, fd);
            } else {  // one division for both
                const Lanes inverse = 1.0F / (du * dd);
                type_terms<tied>(c1u, c2u, edge_u, u, dd * inverse, eu, fu);
                type_terms<tied>(c1d, c2d, edge_d, u, du * inverse, ed, fd);
            }
            up += qu * eu;
            down += qd * ed;
            both += qu * fu + qd * fd;
        }
        if (!tied) both = 2.0F * both - (up + down);
        const Lanes k = load(terms), s = k * load(level + j);
        alpha += s * (up - down);
        second += s * s * both;
        side_alpha += k * (up + down);
        side_second += k * k * both;
    }
    return {sum_lanes(alpha), sum_lanes(second), sum_lanes(side_alpha), sum_lanes(side_second)};
}

// The moments of the side bias of types of reliability 0, q one a width, padded.
template <bool tied>
CROWDSIFT_INLINE void zero_moments(const TypeCells& cells, const VoteRoom& room, const float* q,
                                   VoteMoments& out) {
    Lanes c1 = {}, c2 = {}, edge = {}, alpha = {}, second = {};
    c1 += room.zero.c1;
    c2 += room.zero.c2;
    if (tied) split_sign(c1, c2, edge);
    for (std::size_t t = 0; t < cells.widths.size(); t += kLaneBlock) {
        const Lanes u = load(room.u + cells.zeros() + t);
        Lanes d, e, f;
        denominator<tied>(c1, c2, u, d);
        type_terms<tied>(c1, c2, edge, u, 1.0F / d, e, f);
        alpha += load(q + t) * e;
        second += load(q + t) * (tied ? f : 2.0F * f - e);
    }
    const float k = room.zero.k;
    out.side_alpha += k * sum_lanes(alpha);
    out.side_f += k * k * sum_lanes(second);
}

// Moments over the types of these groups and, where given, those of reliability 0.
CROWDSIFT_CLONES
inline void vote_moments(const TypeCells& cells, const TypeGroups& groups, const float* level,
                         bool tied, const VoteRoom& room, const float* q, const float* zero_q,
                         VoteMoments& out) {
    if (tied) {
        out = moments_of<true>(cells, groups, level, room, q);
        if (zero_q != nullptr) zero_moments<true>(cells, room, zero_q, out);
    } else {
        out = moments_of<false>(cells, groups, level, room, q);
        if (zero_q != nullptr) zero_moments<false>(cells, room, zero_q, out);
    }
}

// The larger of two posteriors over types, added up over eight lanes (b and -b) of a width.
CROWDSIFT_CLONES
inline void group_masses(const TypeCells& cells, const float* q, const float* given, float* mass) {
    for (std::size_t j = 0; j < cells.lanes; j += kLaneBlock)
        for (std::size_t w = 0; w < cells.n_widths(); ++w) {
            const std::size_t up = w * cells.slice + j, down = up + cells.lanes;
            const Lanes one = load(q + up) + load(q + down);
            const Lanes two = load(given + up) + load(given + down);
            Lanes larger;
            where_less(one, two, two, one, larger);
            *mass++ = sum_lanes(larger);
        }
}

}  // namespace crowdsift
