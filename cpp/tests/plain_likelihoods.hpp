// The likelihoods of the core once more, one comparison at a time with the library's functions, to
// be compared with: functions of the difference of scores d and of the worker's parameters t, with
// first and second derivatives.
//
// Each is a struct with
//   static void evaluate(d, t, x, features, y, Local&)
// where y in [0, 1] is the outcome and x are nuisance features in favour of the first item.
#pragma once

#include <cmath>
#include <cstddef>

#include "crowdsift/likelihoods.hpp"

namespace plain {

using crowdsift::kMostParameters;

// Value, derivatives in d, in t, mixed, and in t twice (row by row, p x p).
struct Local {
    double value, d, dd;
    double t[kMostParameters], dt[kMostParameters], tt[kMostParameters * kMostParameters];
};

// exp(-x) for x >= 0, never denormal.
inline double decay(double x) {
    return std::exp(-(x < 700.0 ? x : 700.0));
}

struct Sigmoid {
    double p, q;  // sigma(x) and sigma(-x)
    explicit Sigmoid(double x) {
        const double e = decay(x < 0.0 ? -x : x), scale = 1.0 / (1.0 + e);
        p = x < 0.0 ? e * scale : scale;
        q = x < 0.0 ? scale : e * scale;
    }
};

inline double dot(const double* t, const float* x, std::size_t n) {
    double sum = 0.0;
    for (std::size_t k = 0; k < n; ++k) sum += t[k] * static_cast<double>(x[k]);
    return sum;
}

// y log sigma(eta) + (1 - y) log sigma(-eta): value, first and second derivative in eta.
struct Logit {
    double value, first, second;
    Logit(double eta, double y) {
        const double size = eta < 0.0 ? -eta : eta, e = decay(size), scale = 1.0 / (1.0 + e);
        const double p = eta < 0.0 ? e * scale : scale;
        value = y * eta - (eta > 0.0 ? eta : 0.0) - std::log1p(e);
        first = y - p;
        second = -e * scale * scale;
    }
};

// y log Phi(z) + (1 - y) log Phi(-z).
struct Probit {
    double value, first, second;
    Probit(double z, double y) {
        double log_up, ratio_up, log_down, ratio_down;
        tail(z, log_up, ratio_up);
        tail(-z, log_down, ratio_down);
        value = y * log_up + (1.0 - y) * log_down;
        first = y * ratio_up - (1.0 - y) * ratio_down;
        second = -y * ratio_up * (z + ratio_up) - (1.0 - y) * ratio_down * (ratio_down - z);
    }

    // log Phi(z) and phi(z)/Phi(z).
    static void tail(double z, double& log_phi, double& ratio) {
        constexpr double half_log_two_pi = 0.91893853320467274178;
        if (z > -36.0) {
            const double phi = 0.5 * std::erfc(-z * 0.70710678118654752440);
            log_phi = z > 8.0 ? -0.5 * std::erfc(z * 0.70710678118654752440) : std::log(phi);
            ratio = std::exp(-0.5 * z * z - half_log_two_pi) / phi;
        } else {  // erfc underflows; asymptotic series, next term 10395/z^12 < 1e-14
            const double g = 1.0 / (z * z);
            const double series =
                1.0 - g * (1.0 - g * (3.0 - g * (15.0 - g * (105.0 - 945.0 * g))));
            log_phi = -0.5 * z * z - half_log_two_pi - std::log(-z) + std::log(series);
            ratio = -z / series;
        }
    }
};

// P = sigma(t d), or Phi(t d / sqrt 2).
template <class Link>
void evaluate_scaled(double d, double t, double scale, double y, Local& out) {
    const Link link(scale * t * d, y);
    const double first = scale * link.first, second = scale * scale * link.second;
    out.value = link.value;
    out.d = first * t;
    out.dd = second * t * t;
    out.t[0] = first * d;
    out.dt[0] = first + second * t * d;
    out.tt[0] = second * d * d;
}

struct ScaledLogit {
    static void evaluate(double d, const double* t, const float*, std::size_t, double y,
                         Local& out) {
        evaluate_scaled<Logit>(d, t[0], 1.0, y, out);
    }
};

struct ScaledProbit {
    static void evaluate(double d, const double* t, const float*, std::size_t, double y,
                         Local& out) {
        evaluate_scaled<Probit>(d, t[0], 0.70710678118654752440, y, out);
    }
};

// P = sigma(d + t.x)
struct ShiftedLogit {
    static void evaluate(double d, const double* t, const float* x, std::size_t n, double y,
                         Local& out) {
        const Logit link(d + dot(t, x, n), y);
        out.value = link.value;
        out.d = link.first;
        out.dd = link.second;
        for (std::size_t j = 0; j < n; ++j) {
            const double xj = static_cast<double>(x[j]);
            out.t[j] = link.first * xj;
            out.dt[j] = link.second * xj;
            for (std::size_t k = 0; k < n; ++k)
                out.tt[j * n + k] = link.second * xj * static_cast<double>(x[k]);
        }
    }
};

// Derivatives of y log P + (1 - y) log(1 - P) in P, for mixtures.
struct InProbability {
    double value, first, second;
    InProbability(double p, double q, double y) {
        const double a = y / p, b = (1.0 - y) / q;
        value = (y > 0.0 ? y * std::log(p) : 0.0) + (y < 1.0 ? (1.0 - y) * std::log(q) : 0.0);
        first = a - b;
        second = -(a / p + b / q);
    }
};

// P = t sigma(d) + (1 - t) sigma(-d)
struct FlippedLogit {
    static void evaluate(double d, const double* t, const float*, std::size_t, double y,
                         Local& out) {
        const Sigmoid s(d);
        const double b = t[0], lean = 2.0 * b - 1.0, s1 = s.p * s.q, s2 = s1 * (s.q - s.p);
        const InProbability in(b * s.p + (1.0 - b) * s.q, b * s.q + (1.0 - b) * s.p, y);
        const double p_d = lean * s1, p_t = s.p - s.q;
        out.value = in.value;
        out.d = in.first * p_d;
        out.dd = in.first * lean * s2 + in.second * p_d * p_d;
        out.t[0] = in.first * p_t;
        out.dt[0] = in.first * 2.0 * s1 + in.second * p_d * p_t;
        out.tt[0] = in.second * p_t * p_t;
    }
};

// P = sigma(t_0) sigma(d) + sigma(-t_0) sigma(t_1.x): a careful vote or one led by the features.
struct LedLogit {
    static void evaluate(double d, const double* t, const float* x, std::size_t n, double y,
                         Local& out) {
        const Sigmoid s(d), skill(t[0]), lead(dot(t + 1, x, n));
        const double s1 = s.p * s.q, s2 = s1 * (s.q - s.p);
        const double k1 = skill.p * skill.q, k2 = k1 * (skill.q - skill.p);
        const double l1 = lead.p * lead.q, l2 = l1 * (lead.q - lead.p);
        const InProbability in(skill.p * s.p + skill.q * lead.p, skill.p * s.q + skill.q * lead.q,
                               y);
        const double gap = s.p - lead.p, p_d = skill.p * s1, p_skill = k1 * gap;
        const std::size_t p = 1 + n;
        out.value = in.value;
        out.d = in.first * p_d;
        out.dd = in.first * skill.p * s2 + in.second * p_d * p_d;
        out.t[0] = in.first * p_skill;
        out.dt[0] = in.first * k1 * s1 + in.second * p_d * p_skill;
        out.tt[0] = in.first * k2 * gap + in.second * p_skill * p_skill;
        for (std::size_t j = 0; j < n; ++j) {
            const double xj = static_cast<double>(x[j]), p_j = skill.q * l1 * xj;
            out.t[1 + j] = in.first * p_j;
            out.dt[1 + j] = in.second * p_d * p_j;
            const double mixed = -in.first * k1 * l1 * xj + in.second * p_skill * p_j;
            out.tt[1 + j] = out.tt[(1 + j) * p] = mixed;
            for (std::size_t k = 0; k < n; ++k) {
                const double xk = static_cast<double>(x[k]);
                out.tt[(1 + j) * p + 1 + k] =
                    in.first * skill.q * l2 * xj * xk + in.second * p_j * skill.q * l1 * xk;
            }
        }
    }
};

}  // namespace plain
