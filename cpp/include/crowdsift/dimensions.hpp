// Votes in several dimensions: z = a.(x_first - x_second) + g, in double precision.
//
// A vote for the first item has the probability s(z - delta), one for the second s(-z - delta), a
// tie (1 - e^{-2 delta}) s(z + delta) s(delta - z): all are products of logistic terms s(u) with
// u = sign z + offset. With z ~ N(m, v) a vote adds l z - w z^2/2 to the logarithm: l - w m is the
// expected slope, and w the expected curvature, which may be taken larger, up to that of the bound
// of Jaakkola and Jordan, so that steps do not go too far. The side bias g, where there is one, is
// the last entry of a worker's weights, and 1 the last entry of a difference.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/simd.hpp"
#include "crowdsift/votes.hpp"

namespace crowdsift {

constexpr std::size_t kMostDimensions = 8, kMostWeights = kMostDimensions + 1;
using SmallVector = std::array<double, kMostWeights>;
using SmallMatrix = std::array<double, kMostWeights * kMostWeights>;

enum class Part { all, kept, left_out };

// Items, and the constants of votes. `covariance` is one matrix over items and dimensions, or a
// block per item.
struct Space {
    const Votes& votes;
    std::size_t D, E, n_gold;  // dimensions, weights of a worker, gold workers (the last ones)
    const double* x;
    const double* covariance;
    bool dense;
    const double* width;  // delta of workers
    bool ties;
    Part part;

    bool gold(std::size_t s) const { return s + n_gold >= votes.n_workers; }

    // The weight of a row in the part. One of seven votes is left out, by a hash of its items and
    // its place among a worker's rows; a row of n votes is split.
    double weight(std::size_t i, std::size_t s) const {
        const double n = static_cast<double>(votes.weight[i]);
        if (part == Part::all) return n;
        const double rest = std::fmod(n, 7.0);
        const double out =
            gold(s)
                ? 0.0
                : std::floor(n / 7.0) + (static_cast<double>(hash(i, s, 0) % 7) < rest ? 1.0 : 0.0);
        return part == Part::left_out ? std::min(out, n) : std::max(n - out, 0.0);
    }

    std::uint64_t hash(std::size_t i, std::size_t s, std::uint64_t salt) const {
        std::uint64_t h = votes.first[i] * 0x9E3779B97F4A7C15U ^
                          votes.second[i] * 0xC2B2AE3D27D4EB4FU ^
                          (i - votes.begin_of(s)) * 0x165667B19E3779F9U ^ salt;
        h ^= h >> 29U;
        h *= 0xBF58476D1CE4E5B9U;
        return h ^ h >> 32U;
    }

    void difference(std::size_t i, std::size_t s, double* d) const {
        const double* one = x + votes.first[i] * D;
        const double* two = x + votes.second[i] * D;
        for (std::size_t k = 0; k < D; ++k) d[k] = one[k] - two[k];
        if (E > D) d[D] = gold(s) ? 0.0 : 1.0;
    }

    // Covariance of a difference, D x D.
    void spread(std::size_t i, double* S) const {
        const std::size_t a = votes.first[i], b = votes.second[i], row = votes.n_items * D;
        if (!dense) {
            for (std::size_t k = 0; k < D * D; ++k)
                S[k] = covariance[a * D * D + k] + covariance[b * D * D + k];
            return;
        }
        for (std::size_t k = 0; k < D; ++k) {
            const double* of_a = covariance + (a * D + k) * row;
            const double* of_b = covariance + (b * D + k) * row;
            for (std::size_t m = 0; m < D; ++m)
                S[k * D + m] =
                    of_a[a * D + m] + of_b[b * D + m] - of_a[b * D + m] - of_b[a * D + m];
        }
    }
};

// The logistic terms of a vote: weights of sign +1 and -1, and their common offset.
struct VoteTerms {
    double up, down, offset, constant;

    VoteTerms(const Space& space, std::size_t i, std::size_t s, double n) {
        const double y = static_cast<double>(space.votes.outcome[i]);
        const double delta = space.gold(s) ? 0.0 : space.width[s];
        const bool tied = space.ties && y == 0.5 && delta > 0.0;
        up = tied ? n : n * y;
        down = tied ? n : n * (1.0 - y);
        offset = tied ? delta : -delta;
        constant = tied ? n * std::log(-std::expm1(-2.0 * delta)) : 0.0;
    }
};

// Sum of a term's logarithm and its first two derivatives in z, the second with opposite sign.
struct Slope {
    double value, first, bend;

    Slope(const VoteTerms& terms, double z, double k) : value(terms.constant), first(0), bend(0) {
        add(terms.up, k * (z + terms.offset), k);
        add(terms.down, k * (terms.offset - z), -k);
    }

    void add(double m, double u, double k) {
        if (m == 0.0) return;
        const double e = std::exp(-std::fabs(u)), p = (u > 0.0 ? e : 1.0) / (1.0 + e);  // s(-u)
        value += m * (std::min(u, 0.0) - std::log1p(e));
        first += m * k * p;
        bend += m * k * k * p * (1.0 - p);
    }
};

// The terms of a vote at E[z] and E[z^2]: a constant, l and w. The expected slope is that of a
// smoothed logistic function, s(-k u), and its integral is the expected logarithm; `caution` is the
// share of the bound's curvature in w.
struct VoteBound {
    double constant, l, w;

    VoteBound(const VoteTerms& terms, double z, double square, double caution)
        : constant(terms.constant), l(0.0), w(0.0) {
        add(terms.up, 1.0, terms.offset, z, square, caution);
        add(terms.down, -1.0, terms.offset, z, square, caution);
    }

    void add(double m, double sign, double o, double z, double square, double caution) {
        if (m == 0.0) return;
        const double u = sign * z + o, v = std::max(square - z * z, 0.0);
        const double k = 1.0 / std::sqrt(1.0 + kLogisticSmoothing * v);
        const double smaller = std::exp(-k * std::fabs(u));
        const double slope = (u > 0.0 ? smaller : 1.0) / (1.0 + smaller);  // s(-k u)
        const double value = std::min(u, 0.0) - std::log1p(smaller) / k;
        double bend = k * slope * (1.0 - slope);
        if (caution > 0.0) {
            const double q = u * u + v, xi = std::sqrt(q), e = std::exp(-xi);
            const double of_bound =
                xi < 1e-4 ? 0.25 - q / 48.0 : 0.5 * (1.0 - e) / ((1.0 + e) * xi);
            bend += caution * (of_bound - bend);
        }
        const double linear = sign * slope + bend * z;
        constant += m * (value - linear * z + 0.5 * bend * square);
        l += m * linear;
        w += m * bend;
    }
};

// Computes the lower triangle of a Cholesky factor in place; false if the matrix is not positive
// definite.
inline bool factorise(double* A, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < j; ++k)
            for (std::size_t i = j; i < n; ++i) A[i * n + j] -= A[i * n + k] * A[j * n + k];
        if (!(A[j * n + j] > 0.0)) return false;
        const double root = std::sqrt(A[j * n + j]);
        for (std::size_t i = j; i < n; ++i) A[i * n + j] /= root;
    }
    return true;
}

inline void solve_factor(const double* L, std::size_t n, double* b) {
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < i; ++k) b[i] -= L[i * n + k] * b[k];
        b[i] /= L[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
        for (std::size_t k = i + 1; k < n; ++k) b[i] -= L[k * n + i] * b[k];
        b[i] /= L[i * n + i];
    }
}

inline double log_determinant(const double* L, std::size_t n) {
    double sum = 0.0;
    for (std::size_t k = 0; k < n; ++k) sum += 2.0 * std::log(L[k * n + k]);
    return sum;
}

inline void invert_factor(const double* L, std::size_t n, double* V) {
    for (std::size_t k = 0; k < n; ++k) {
        SmallVector column{};
        column[k] = 1.0;
        solve_factor(L, n, column.data());
        for (std::size_t i = 0; i < n; ++i) V[i * n + k] = column[i];
    }
}

inline double quadratic(const double* M, const double* v, std::size_t n) {
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) sum += M[i * n + j] * v[i] * v[j];
    return sum;
}

// The prior of workers: weights of the population N(mean, precision^-1), precision without entries
// between dimensions and side; log shares of population, mirrored, random and one-sided workers;
// precisions of the side of one-sided workers and of the weights of gold.
struct Crowd {
    const double *mean, *precision, *log_shares;
    double one_sided, gold;
};

constexpr std::size_t kClasses = 4;

// The contribution of a worker's votes to the bound, A and b of -a'Aa/2 + b'a, and the resulting
// moments.
struct WorkerMoments {
    double* mean;    // E
    double* second;  // E x E
    double* share;   // of classes; all of gold is population
    double evidence;
    SmallVector population{}, mirrored{};
    SmallMatrix covariance{};  // of weights and side together
};

inline double scalar_evidence(double precision, double mean, double A, double b, double& m,
                              double& v) {
    const double h = precision * mean + b;
    v = 1.0 / (precision + A);
    m = v * h;
    return 0.5 * (std::log(precision * v) + m * h - precision * mean * mean);
}

inline void worker_moments(const Space& space, const Crowd& crowd, bool gold, const SmallMatrix& A,
                           const SmallVector& b, WorkerMoments& out) {
    const std::size_t D = space.D, E = space.E, n = gold ? D : E;
    SmallMatrix L{};
    SmallVector h{}, flipped{};
    double at_mean = 0.0, log_prior = 0.0;
    if (gold) {
        for (std::size_t i = 0; i < D; ++i) {
            for (std::size_t j = 0; j < D; ++j)
                L[i * n + j] = A[i * E + j] + (i == j ? crowd.gold : 0.0);
            h[i] = b[i];
        }
        log_prior = static_cast<double>(D) * std::log(crowd.gold);
    } else {
        SmallMatrix P{};
        std::copy(crowd.precision, crowd.precision + E * E, P.begin());
        for (std::size_t i = 0; i < E; ++i) {
            double up = 0.0, down = 0.0;
            for (std::size_t j = 0; j < E; ++j) {
                L[i * n + j] = A[i * E + j] + P[i * E + j];
                up += P[i * E + j] * crowd.mean[j];
                down += P[i * E + j] * (j < D ? -crowd.mean[j] : crowd.mean[j]);
            }
            h[i] = b[i] + up;
            flipped[i] = b[i] + down;
        }
        at_mean = quadratic(crowd.precision, crowd.mean, E);
        factorise(P.data(), E);
        log_prior = log_determinant(P.data(), E);
    }
    factorise(L.data(), n);
    SmallMatrix V{};
    invert_factor(L.data(), n, V.data());
    const double log_ratio = 0.5 * (log_prior - log_determinant(L.data(), n) - at_mean);
    std::fill(out.covariance.begin(), out.covariance.end(), 0.0);
    out.population.fill(0.0);
    out.mirrored.fill(0.0);
    double one = log_ratio, two = log_ratio;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            out.population[i] += V[i * n + j] * h[j];
            out.mirrored[i] += V[i * n + j] * flipped[j];
            out.covariance[i * E + j] = V[i * n + j];
        }
        one += 0.5 * out.population[i] * h[i];
        two += 0.5 * out.mirrored[i] * flipped[i];
    }
    double logs[kClasses] = {one, two, 0.0, 0.0}, side[2] = {0.0, 0.0}, side_v[2] = {0.0, 0.0};
    std::size_t count = gold ? 1 : 3;
    if (!gold && E > D) {
        const std::size_t at = D * E + D;
        logs[2] =
            scalar_evidence(crowd.precision[at], crowd.mean[D], A[at], b[D], side[0], side_v[0]);
        logs[3] = scalar_evidence(crowd.one_sided, 0.0, A[at], b[D], side[1], side_v[1]);
        count = 4;
    }
    double top = -1e300, total = 0.0;
    for (std::size_t c = 0; c < count; ++c) {
        if (!gold) logs[c] += crowd.log_shares[c];
        top = std::max(top, logs[c]);
    }
    for (std::size_t c = 0; c < kClasses; ++c) {
        out.share[c] = c < count ? std::exp(logs[c] - top) : 0.0;
        total += out.share[c];
    }
    for (std::size_t c = 0; c < kClasses; ++c) out.share[c] /= total;
    out.evidence = top + std::log(total);
    const double p = out.share[0], m = out.share[1];
    for (std::size_t i = 0; i < E; ++i) {
        out.mean[i] = p * out.population[i] + m * out.mirrored[i];
        for (std::size_t j = 0; j < E; ++j)
            out.second[i * E + j] = p * out.population[i] * out.population[j] +
                                    m * out.mirrored[i] * out.mirrored[j] +
                                    (p + m) * out.covariance[i * E + j];
    }
    if (count == 4)
        for (std::size_t c = 0; c < 2; ++c) {
            out.mean[D] += out.share[2 + c] * side[c];
            out.second[D * E + D] += out.share[2 + c] * (side[c] * side[c] + side_v[c]);
        }
}

// Sums of a pass over the population without gold: of shares, of weights, of their squares.
struct DimensionSums {
    double bound = 0.0;
    std::array<double, kClasses> shares{};
    SmallVector weights{};
    SmallMatrix squares{};

    void add(const Space& space, const WorkerMoments& found) {
        const std::size_t D = space.D, E = space.E;
        for (std::size_t c = 0; c < kClasses; ++c) shares[c] += found.share[c];
        const double p = found.share[0], m = found.share[1];
        for (std::size_t i = 0; i < E; ++i) {
            const double si = i < D ? -1.0 : 1.0;
            weights[i] += p * found.population[i] + m * si * found.mirrored[i];
            for (std::size_t j = 0; j < E; ++j) {
                const double sign = si * (j < D ? -1.0 : 1.0);
                squares[i * E + j] += p * found.population[i] * found.population[j] +
                                      m * sign * found.mirrored[i] * found.mirrored[j] +
                                      (p + m * sign) * found.covariance[i * E + j];
            }
        }
    }

    void add(const DimensionSums& other, std::size_t E) {
        bound += other.bound;
        for (std::size_t c = 0; c < kClasses; ++c) shares[c] += other.shares[c];
        for (std::size_t i = 0; i < E; ++i) weights[i] += other.weights[i];
        for (std::size_t i = 0; i < E * E; ++i) squares[i] += other.squares[i];
    }
};

// Runs task(range, from, to) over ranges of workers; `width` numbers per range are added to out.
template <class Task>
void over_worker_ranges(const Votes& votes, ThreadPool& pool, std::size_t width, double* out,
                        const Task& task) {
    const std::vector<std::size_t> ranges = votes.worker_ranges(pool.size());
    std::vector<std::vector<double>> sums(ranges.size() - 1);
    pool.run(sums.size(), [&](std::size_t range) {
        sums[range].assign(width, 0.0);
        task(range, ranges[range], ranges[range + 1], sums[range].data());
    });
    std::fill(out, out + width, 0.0);
    for (const std::vector<double>& each : sums)
        for (std::size_t k = 0; k < width; ++k) out[k] += each[k];
}

constexpr int kInner = 2;  // updates of bound and worker in a pass

// One pass: updates the weights of every worker given the items and the previous weights, and
// computes the items' system: sums of l and w, with w stored per vote, and the right-hand side.
template <std::size_t kD, std::size_t kE>
DimensionSums update_dimensions(const Space& given, const Crowd& crowd, double* mean,
                                double* second, double* share, float* w, double* rhs,
                                double caution, ThreadPool& pool) {
    Space space = given;
    const std::size_t D = space.D = kD ? kD : given.D, E = space.E = kE ? kE : given.E;
    const Votes& votes = space.votes;
    std::vector<DimensionSums> sums(pool.size() + 1);
    over_worker_ranges(
        votes, pool, votes.n_items * D, rhs,
        [&](std::size_t range, std::size_t from, std::size_t to, double* flow) {
            DimensionSums mine;
            std::vector<double> l;
            for (std::size_t s = from; s < to; ++s) {
                const bool gold = space.gold(s);
                WorkerMoments moments{mean + s * E, second + s * E * E, share + s * kClasses, 0.0};
                const std::size_t begin = votes.begin_of(s), end = votes.begin_of(s + 1);
                double constant = 0.0;
                l.resize(end - begin);
                for (int inner = 0; inner < kInner; ++inner) {
                    SmallMatrix A{};
                    SmallVector b{};
                    constant = 0.0;
                    for (std::size_t i = begin; i < end; ++i) {
                        w[i] = 0.0F;
                        l[i - begin] = 0.0;
                        const double n = space.weight(i, s);
                        if (n == 0.0) continue;
                        double d[kE ? kE : kMostWeights],
                            S[kD ? kD * kD : kMostDimensions * kMostDimensions];
                        space.difference(i, s, d);
                        space.spread(i, S);
                        double z = 0.0, square = 0.0;
                        for (std::size_t p = 0; p < E; ++p) {
                            z += moments.mean[p] * d[p];
                            for (std::size_t q = 0; q < E; ++q) {
                                const double T =
                                    d[p] * d[q] + (p < D && q < D ? S[p * D + q] : 0.0);
                                square += moments.second[p * E + q] * T;
                            }
                        }
                        const VoteBound bound(VoteTerms(space, i, s, n), z, square, caution);
                        constant += bound.constant;
                        for (std::size_t p = 0; p < E; ++p) {
                            b[p] += bound.l * d[p];
                            for (std::size_t q = 0; q < E; ++q)
                                A[p * E + q] +=
                                    bound.w * (d[p] * d[q] + (p < D && q < D ? S[p * D + q] : 0.0));
                        }
                        w[i] = static_cast<float>(bound.w);
                        l[i - begin] = bound.l;
                    }
                    worker_moments(space, crowd, gold, A, b, moments);
                }
                mine.bound += constant + moments.evidence;
                if (!gold) mine.add(space, moments);
                for (std::size_t i = begin; i < end; ++i) {
                    const double wi = static_cast<double>(w[i]), li = l[i - begin];
                    if (wi == 0.0 && li == 0.0) continue;
                    double* one = flow + votes.first[i] * D;
                    double* two = flow + votes.second[i] * D;
                    for (std::size_t p = 0; p < D; ++p) {
                        const double side = E > D && !gold ? wi * moments.second[p * E + D] : 0.0;
                        const double add = li * moments.mean[p] - side;
                        one[p] += add;
                        two[p] -= add;
                    }
                }
            }
            sums[range] = mine;
        });
    for (std::size_t range = 1; range < sums.size(); ++range) sums[0].add(sums[range], E);
    return sums[0];
}

// Calls pass<kD, kE>() for the numbers of dimensions and weights for which loops are unrolled.
template <class Call>
auto with_dimensions(std::size_t D, std::size_t E, const Call& call) {
    using std::integral_constant;
    const auto both = [&](auto d) {
        constexpr std::size_t kD = decltype(d)::value;
        return E > D ? call(d, integral_constant<std::size_t, kD + 1>{}) : call(d, d);
    };
    if (D == 1) return both(integral_constant<std::size_t, 1>{});
    if (D == 2) return both(integral_constant<std::size_t, 2>{});
    if (D == 3) return both(integral_constant<std::size_t, 3>{});
    return call(integral_constant<std::size_t, 0>{}, integral_constant<std::size_t, 0>{});
}

// The matrix over items and dimensions from a pass: sum of w M_s (e_i - e_j)(e_i - e_j)', with M_s
// the second moments of a worker's weights (E x E, of which D x D are used).
struct ItemBlocks {
    const Votes& votes;
    std::size_t D, E;
    const double* second;
    const float* w;

    void multiply(const double* v, double* out, ThreadPool& pool) const {
        over_worker_ranges(votes, pool, votes.n_items * D, out,
                           [&](std::size_t, std::size_t from, std::size_t to, double* sums) {
                               for (std::size_t s = from; s < to; ++s) worker(s, v, sums);
                           });
    }

    void worker(std::size_t s, const double* v, double* sums) const {
        const double* M = second + s * E * E;
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            const std::size_t one = votes.first[i] * D, two = votes.second[i] * D;
            double d[kMostDimensions];
            for (std::size_t q = 0; q < D; ++q)
                d[q] = static_cast<double>(w[i]) * (v[one + q] - v[two + q]);
            for (std::size_t p = 0; p < D; ++p) {
                double flow = 0.0;
                for (std::size_t q = 0; q < D; ++q) flow += M[p * E + q] * d[q];
                sums[one + p] += flow;
                sums[two + p] -= flow;
            }
        }
    }

    // A D x D block per item.
    void diagonal(double* out, ThreadPool& pool) const {
        over_worker_ranges(votes, pool, votes.n_items * D * D, out,
                           [&](std::size_t, std::size_t from, std::size_t to, double* sums) {
                               for (std::size_t s = from; s < to; ++s)
                                   for (std::size_t i = votes.begin_of(s);
                                        i < votes.begin_of(s + 1); ++i) {
                                       add(i, s, sums + votes.first[i] * D * D);
                                       add(i, s, sums + votes.second[i] * D * D);
                                   }
                           });
    }

    void add(std::size_t i, std::size_t s, double* block) const {
        const double* M = second + s * E * E;
        for (std::size_t p = 0; p < D; ++p)
            for (std::size_t q = 0; q < D; ++q)
                block[p * D + q] += static_cast<double>(w[i]) * M[p * E + q];
    }
};

// Derivatives of the log-likelihood of votes in z at the means of weights: the residuals of the
// model. In every column except the first, half of the votes are reversed by a hash, so that these
// columns show the effect of chance. Votes of workers who are not `taken` have residual 0.
inline void residuals(const Space& space, const double* mean, const double* taken, float* out,
                      ThreadPool& pool) {
    const Votes& votes = space.votes;
    const std::vector<std::size_t> ranges = votes.worker_ranges(pool.size());
    pool.run(ranges.size() - 1, [&](std::size_t range) {
        for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s)
            for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                out[i] = 0.0F;
                if (taken[s] == 0.0 || space.gold(s)) continue;
                double d[kMostWeights], z = 0.0;
                space.difference(i, s, d);
                for (std::size_t p = 0; p < space.E; ++p) z += mean[s * space.E + p] * d[p];
                const double n = space.weight(i, s);
                out[i] = static_cast<float>(Slope(VoteTerms(space, i, s, n), z, 1.0).first);
            }
    });
}

// A vote of a worker in products of residuals: its residual, the same by the root of the number of
// votes, a bit per column that reverses it, and where the rows of its items begin.
struct ResidualVote {
    double all, own;
    std::uint64_t signs;
    std::size_t one, two;

    // The residual in a column; all n votes of the first column, n votes reversed one by one in
    // the others.
    CROWDSIFT_INLINE double in(std::size_t column) const {
        const auto reversed = static_cast<std::int64_t>(signs << (63U - column) & (1ULL << 63U));
        return column == 0 ? all : from_bits(to_bits(own) ^ reversed);
    }
};

CROWDSIFT_INLINE void residual_flows(const std::vector<ResidualVote>& rows, std::size_t columns,
                                     const double* CROWDSIFT_RESTRICT v,
                                     double* CROWDSIFT_RESTRICT total,
                                     double* CROWDSIFT_RESTRICT sums) {
    for (std::size_t c = 0; c < columns; ++c) total[c] = 0.0;
    for (const ResidualVote& row : rows)
        for (std::size_t c = 0; c < columns; ++c)
            total[c] += row.in(c) * (v[row.one + c] - v[row.two + c]);
    for (const ResidualVote& row : rows)
        for (std::size_t c = 0; c < columns; ++c) {
            const double flow =
                row.in(c) * total[c] - row.own * row.own * (v[row.one + c] - v[row.two + c]);
            sums[row.one + c] += flow;
            sums[row.two + c] -= flow;
        }
}

constexpr std::size_t kTestColumns = 8, kMostColumns = 32;  // loops over the first are unrolled

CROWDSIFT_CLONES
inline void residual_products(const std::vector<ResidualVote>& rows, std::size_t columns,
                              const double* v, double* sums) {
    double total[kMostColumns];
    if (columns == kTestColumns)
        residual_flows(rows, kTestColumns, v, total, sums);
    else
        residual_flows(rows, columns, v, total, sums);
}

// out = sum over workers of (u u' - sum over votes of r^2 e e') v, u the sum of r e over the votes
// of a worker, e = e_first - e_second; the degrees are sums of r^2.
inline void multiply_residuals(const Space& space, const float* r, const double* v,
                               std::size_t columns, double* out, ThreadPool& pool) {
    const Votes& votes = space.votes;
    over_worker_ranges(
        votes, pool, votes.n_items * columns, out,
        [&](std::size_t, std::size_t from, std::size_t to, double* sums) {
            std::vector<ResidualVote> rows;
            for (std::size_t s = from; s < to; ++s) {
                rows.clear();
                for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                    if (r[i] == 0.0F) continue;
                    const double all = static_cast<double>(r[i]);
                    const double n = static_cast<double>(votes.weight[i]);
                    rows.push_back({all, n > 1.0 ? all / std::sqrt(n) : all,
                                    space.hash(i, s, 0x5851F42D4C957F2DU) << 1U,
                                    votes.first[i] * columns, votes.second[i] * columns});
                }
                residual_products(rows, columns, v, sums);
            }
        });
}

inline void residual_degrees(const Space& space, const float* r, double* out, ThreadPool& pool) {
    const Votes& votes = space.votes;
    over_worker_ranges(votes, pool, votes.n_items, out,
                       [&](std::size_t, std::size_t from, std::size_t to, double* sums) {
                           for (std::size_t i = votes.begin_of(from); i < votes.begin_of(to); ++i) {
                               const double ri = static_cast<double>(r[i]);
                               const double square =
                                   ri * ri / std::max(static_cast<double>(votes.weight[i]), 1.0);
                               sums[votes.first[i]] += square;
                               sums[votes.second[i]] += square;
                           }
                       });
}

// Log-probability of the votes of a part, with weights and positions integrated out, and the votes'
// weight.
inline void log_probability(const Space& space, const double* mean, const double* second,
                            double* out, ThreadPool& pool) {
    const Votes& votes = space.votes;
    const std::size_t D = space.D, E = space.E;
    over_worker_ranges(
        votes, pool, 2, out, [&](std::size_t, std::size_t from, std::size_t to, double* sums) {
            for (std::size_t s = from; s < to; ++s)
                for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
                    const double n = space.gold(s) ? 0.0 : space.weight(i, s);
                    if (n == 0.0) continue;
                    double d[kMostWeights], S[kMostDimensions * kMostDimensions], z = 0.0,
                                                                                  square = 0.0;
                    space.difference(i, s, d);
                    space.spread(i, S);
                    for (std::size_t p = 0; p < E; ++p) {
                        z += mean[s * E + p] * d[p];
                        for (std::size_t q = 0; q < E; ++q)
                            square += second[(s * E + p) * E + q] *
                                      (d[p] * d[q] + (p < D && q < D ? S[p * D + q] : 0.0));
                    }
                    const double k =
                        1.0 / std::sqrt(1.0 + kLogisticSmoothing * std::max(square - z * z, 0.0));
                    const VoteTerms terms(space, i, s, n);
                    if (terms.offset > 0.0) {  // a tie has the probability that wins leave
                        const double win = 1.0 / (1.0 + std::exp(-k * (z - terms.offset)));
                        const double loss = 1.0 / (1.0 + std::exp(k * (z + terms.offset)));
                        sums[0] += terms.up * std::log(std::max(1.0 - win - loss, 1e-300));
                    } else {
                        sums[0] += Slope(terms, z, k).value;
                    }
                    sums[1] += n;
                }
        });
}

// The logarithm of the mean likelihood of a worker's votes over weights N(mean, precision^-1), by
// Laplace's approximation about the mode; the search starts from `a`. Weights before `from` are 0.
inline double laplace_evidence(const Space& space, std::size_t s, std::size_t from,
                               const double* prior, const double* precision, SmallVector a) {
    const Votes& votes = space.votes;
    const std::size_t D = space.D, E = space.E, n = E - from;
    for (std::size_t p = 0; p < from; ++p) a[p] = 0.0;
    SmallVector best = a, step{};
    SmallMatrix H{};
    double top = -1e300, log_det = 0.0;
    for (int turn = 0; turn < 30; ++turn) {
        SmallVector gradient{};
        double value = 0.0;
        H.fill(0.0);
        for (std::size_t p = 0; p < n; ++p)
            for (std::size_t q = 0; q < n; ++q) {
                const double P = precision[(from + p) * E + from + q];
                const double off = a[from + q] - prior[from + q];
                H[p * n + q] = P;
                gradient[p] -= P * off;
                value -= 0.5 * P * off * (a[from + p] - prior[from + p]);
            }
        for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
            double d[kMostWeights], S[kMostDimensions * kMostDimensions], z = 0.0, v = 0.0;
            space.difference(i, s, d);
            space.spread(i, S);
            for (std::size_t p = 0; p < E; ++p) z += a[p] * d[p];
            for (std::size_t p = from; p < D; ++p)
                for (std::size_t q = from; q < D; ++q) v += a[p] * a[q] * S[p * D + q];
            const double k = 1.0 / std::sqrt(1.0 + kLogisticSmoothing * std::max(v, 0.0));
            const Slope slope(VoteTerms(space, i, s, space.weight(i, s)), z, k);
            value += slope.value;
            for (std::size_t p = 0; p < n; ++p) {
                gradient[p] += slope.first * d[from + p];
                for (std::size_t q = 0; q < n; ++q)
                    H[p * n + q] += slope.bend * d[from + p] * d[from + q];
            }
        }
        const bool better = value > top;
        const double gain = value - top;
        if (better) {
            top = value;
            best = a;
            factorise(H.data(), n);
            log_det = log_determinant(H.data(), n);
            step = gradient;
            solve_factor(H.data(), n, step.data());
        } else {
            for (std::size_t p = 0; p < n; ++p) step[p] *= 0.5;
        }
        if (turn > 0 && std::fabs(gain) < 1e-7) break;
        for (std::size_t p = 0; p < n; ++p) a[from + p] = best[from + p] + step[p];
    }
    SmallMatrix P{};
    for (std::size_t p = 0; p < n; ++p)
        for (std::size_t q = 0; q < n; ++q) P[p * n + q] = precision[(from + p) * E + from + q];
    factorise(P.data(), n);
    return top + 0.5 * (log_determinant(P.data(), n) - log_det);
}

// Per worker: mirrored, random, population and, where sides are known, one-sided.
inline void class_evidence(const Space& space, const Crowd& crowd, const double* mean, double* out,
                           ThreadPool& pool) {
    const std::size_t D = space.D, E = space.E, columns = E > D ? 4 : 3;
    const std::vector<std::size_t> ranges = space.votes.worker_ranges(pool.size());
    SmallVector turned{}, none{};
    for (std::size_t p = 0; p < E; ++p) turned[p] = p < D ? -crowd.mean[p] : crowd.mean[p];
    SmallMatrix one_sided{};
    one_sided[E * E - 1] = crowd.one_sided;
    pool.run(ranges.size() - 1, [&](std::size_t range) {
        for (std::size_t s = ranges[range]; s < ranges[range + 1]; ++s) {
            SmallVector start{};
            std::copy(mean + s * E, mean + (s + 1) * E, start.begin());
            double* row = out + s * columns;
            row[0] = laplace_evidence(space, s, 0, turned.data(), crowd.precision, start);
            row[1] = laplace_evidence(space, s, D, crowd.mean, crowd.precision, start);
            row[2] = laplace_evidence(space, s, 0, crowd.mean, crowd.precision, start);
            if (columns == 4)
                row[3] = laplace_evidence(space, s, D, none.data(), one_sided.data(), start);
        }
    });
}

// Minus the second derivatives of the log-likelihood and of the prior of weights in positions, mu
// and the weights of gold (K D + E + D rows). The weights of other workers are eliminated, so that
// their uncertainty adds to that of items. `sums` has room for all rows and columns; if not
// `whole`, for the D x D block of every item alone, with the weights of gold as they are.
template <bool whole>
void add_response(const Space& space, const Crowd& crowd, const double* mean, const double* share,
                  std::size_t s, std::vector<double>& B, std::vector<std::size_t>& touched,
                  double* sums) {
    const Votes& votes = space.votes;
    const std::size_t D = space.D, E = space.E, KD = votes.n_items * D, N = KD + E + D;
    const bool gold = space.gold(s);
    // The place of the block of two items, which begin at rows `one` and `two`, and its row length.
    const auto block = [&](std::size_t one, std::size_t two) {
        return sums + (whole ? one * N + two : one * D);
    };
    const std::size_t row_length = whole ? N : D;
    const double* a = mean + s * E;
    const double sure = gold ? 1.0 : share[s * kClasses] + share[s * kClasses + 1];
    SmallMatrix H{};
    touched.clear();
    for (std::size_t i = votes.begin_of(s); i < votes.begin_of(s + 1); ++i) {
        double d[kMostWeights], z = 0.0;
        space.difference(i, s, d);
        for (std::size_t p = 0; p < E; ++p) z += a[p] * d[p];
        const Slope slope(VoteTerms(space, i, s, space.weight(i, s)), z, 1.0);
        const std::size_t ends[2] = {votes.first[i] * D, votes.second[i] * D};
        for (std::size_t side = 0; side < 2; ++side) {
            const double sign = side == 0 ? 1.0 : -1.0;
            touched.push_back(ends[side]);
            for (std::size_t p = 0; p < D; ++p) {
                for (std::size_t q = 0; q < E; ++q)
                    B[(ends[side] + p) * E + q] +=
                        sign * (slope.bend * a[p] * d[q] - (p == q ? slope.first : 0.0));
                for (std::size_t q = 0; q < D; ++q) {
                    const double both = slope.bend * a[p] * a[q];
                    block(ends[side], ends[side])[p * row_length + q] += both;
                    if (whole) block(ends[side], ends[1 - side])[p * N + q] -= both;
                }
            }
        }
        for (std::size_t p = 0; p < E; ++p)
            for (std::size_t q = 0; q < E; ++q) H[p * E + q] += slope.bend * d[p] * d[q];
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    if (gold && whole) {
        for (std::size_t p = 0; p < D; ++p) {
            for (std::size_t q = 0; q < D; ++q)
                sums[(KD + E + p) * N + KD + E + q] += H[p * E + q] + (p == q ? crowd.gold : 0.0);
            for (const std::size_t item : touched)
                for (std::size_t k = 0; k < D; ++k) {
                    sums[(item + k) * N + KD + E + p] += B[(item + k) * E + p];
                    sums[(KD + E + p) * N + item + k] += B[(item + k) * E + p];
                }
        }
    } else if (!gold) {
        SmallMatrix V{}, PV{};
        const bool turned = share[s * kClasses + 1] > share[s * kClasses];
        for (std::size_t p = 0; p < E * E; ++p) H[p] += crowd.precision[p];
        factorise(H.data(), E);
        invert_factor(H.data(), E, V.data());
        const auto sign = [&](std::size_t p) { return turned && p < D ? -1.0 : 1.0; };
        for (std::size_t p = 0; p < E; ++p)
            for (std::size_t q = 0; q < E; ++q)
                for (std::size_t k = 0; k < E; ++k)
                    PV[p * E + q] += sign(p) * crowd.precision[p * E + k] * V[k * E + q];
        for (std::size_t p = 0; whole && p < E; ++p)
            for (std::size_t q = 0; q < E; ++q) {
                double open = sign(p) * sign(q) * crowd.precision[p * E + q];
                for (std::size_t k = 0; k < E; ++k)
                    open -= PV[p * E + k] * sign(q) * crowd.precision[k * E + q];
                sums[(KD + p) * N + KD + q] += sure * open;
            }
        for (const std::size_t one : touched)
            for (std::size_t k = 0; k < D; ++k) {
                const double* row = B.data() + (one + k) * E;
                SmallVector left{};
                for (std::size_t q = 0; q < E; ++q)
                    for (std::size_t m = 0; m < E; ++m) left[q] += sure * row[m] * V[m * E + q];
                for (std::size_t p = 0; whole && p < E; ++p) {
                    double cross = 0.0;
                    for (std::size_t q = 0; q < E; ++q) cross += sure * row[q] * PV[p * E + q];
                    sums[(one + k) * N + KD + p] += cross;
                    sums[(KD + p) * N + one + k] += cross;
                }
                const auto subtract = [&](std::size_t two) {
                    for (std::size_t q = 0; q < D; ++q) {
                        double both = 0.0;
                        for (std::size_t m = 0; m < E; ++m) both += left[m] * B[(two + q) * E + m];
                        block(one, two)[k * row_length + q] -= both;
                    }
                };
                if (!whole) subtract(one);
                for (const std::size_t two : touched)
                    if (whole) subtract(two);
            }
    }
    for (const std::size_t item : touched)
        std::fill_n(B.begin() + static_cast<std::ptrdiff_t>(item * E), D * E, 0.0);
}

template <bool whole>
void response(const Space& space, const Crowd& crowd, const double* mean, const double* share,
              double* out, ThreadPool& pool) {
    const std::size_t KD = space.votes.n_items * space.D, N = KD + space.E + space.D;
    over_worker_ranges(space.votes, pool, whole ? N * N : KD * space.D, out,
                       [&](std::size_t, std::size_t from, std::size_t to, double* sums) {
                           std::vector<double> B(KD * space.E, 0.0);
                           std::vector<std::size_t> touched;
                           for (std::size_t s = from; s < to; ++s)
                               add_response<whole>(space, crowd, mean, share, s, B, touched, sums);
                       });
}

}  // namespace crowdsift
