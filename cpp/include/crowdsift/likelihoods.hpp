// Log-likelihoods of one comparison with first and second derivatives, in lanes: a loop over votes
// vectorises. tests/reference_engine/links.py states the same in NumPy and is the specification.
//
// Each is a function of the difference of scores d, of the head h, the worker's first parameter
// (where kHead), and of the lead z = <b, x> of its further parameters b with the nuisance features
// x in favour of the first item (where kLead):
//   static Point at(d, h, z, y)
// where y in [0, 1] is the outcome.
#pragma once

#include <cstddef>

#include "crowdsift/simd.hpp"

namespace crowdsift {

constexpr std::size_t kMostParameters = 32;

// A value and its derivatives in d, h and z.
struct Point {
    double value = 0.0, d = 0.0, dd = 0.0;
    double h = 0.0, dh = 0.0, hh = 0.0;
    double z = 0.0, dz = 0.0, hz = 0.0, zz = 0.0;
};

struct Sigmoid {
    double p, q;  // sigma(x) and sigma(-x)
    CROWDSIFT_INLINE explicit Sigmoid(double x) {
        const double e = exp_minus(x < 0.0 ? -x : x), scale = 1.0 / (1.0 + e), far = e * scale;
        p = x < 0.0 ? far : scale;
        q = x < 0.0 ? scale : far;
    }
};

// y log sigma(eta) + (1 - y) log sigma(-eta): value, first and second derivative in eta.
struct Logit {
    double value, first, second;
    CROWDSIFT_INLINE Logit(double eta, double y) {
        const double e = exp_minus(eta < 0.0 ? -eta : eta), scale = 1.0 / (1.0 + e);
        value = y * eta - (eta > 0.0 ? eta : 0.0) - log1p_unit(e);
        first = y - (eta < 0.0 ? e * scale : scale);
        second = -e * scale * scale;
    }
};

// y log Phi(eta) + (1 - y) log Phi(-eta). With x = |eta| and m the Mills ratio the far tail is
// Phi(-x) = m phi(x), whose logarithm and ratio phi/Phi = 1/m need no small number.
struct Probit {
    double value, first, second;
    CROWDSIFT_INLINE Probit(double eta, double y) {
        const double x = eta < 0.0 ? -eta : eta, half = 0.5 * x * x;
        const double m = mills_ratio(x), phi = 0.3989422804014327 * exp_minus(half);
        const double far = m * phi, near = 1.0 - far, both = 1.0 / (m * near);
        // The parts of the vote for the side that eta favours, and for the other.
        const double on_near = eta < 0.0 ? 1.0 - y : y, on_far = 1.0 - on_near;
        const double ratio_near = phi * (m * both), ratio_far = near * both;
        // ratio_far (ratio_far - x), which loses digits for large x: there a series is used.
        const double g = m * m;
        const double bend = x < 200.0 ? ratio_far * (ratio_far - x) : 1.0 - g + 4.0 * g * g;
        const double log_far = log_normal(m) - half - 0.9189385332046727;
        const double up = on_near * ratio_near - on_far * ratio_far;
        value = on_near * log1m_half(far) + on_far * log_far;
        first = eta < 0.0 ? -up : up;
        second = -on_near * ratio_near * (ratio_near + x) - on_far * bend;
    }
};

// P = sigma(h d), or Phi(h d / sqrt 2).
template <class Link>
CROWDSIFT_INLINE Point scaled_point(double d, double h, double scale, double y) {
    const Link link(scale * h * d, y);
    const double first = scale * link.first, second = scale * scale * link.second;
    Point out;
    out.value = link.value;
    out.d = first * h;
    out.dd = second * h * h;
    out.h = first * d;
    out.dh = first + second * h * d;
    out.hh = second * d * d;
    return out;
}

// kConcave: in the worker's one parameter, so that its gradient alone leads to the maximum.
struct ScaledLogit {
    static constexpr bool kHead = true, kLead = false, kConcave = true;
    static std::size_t parameters(std::size_t) { return 1; }
    static CROWDSIFT_INLINE Point at(double d, double h, double, double y) {
        return scaled_point<Logit>(d, h, 1.0, y);
    }
};

struct ScaledProbit {
    static constexpr bool kHead = true, kLead = false, kConcave = true;
    static std::size_t parameters(std::size_t) { return 1; }
    static CROWDSIFT_INLINE Point at(double d, double h, double, double y) {
        return scaled_point<Probit>(d, h, 0.7071067811865476, y);
    }
};

// P = sigma(d + z)
struct ShiftedLogit {
    static constexpr bool kHead = false, kLead = true, kConcave = false;
    static std::size_t parameters(std::size_t features) { return features; }
    static CROWDSIFT_INLINE Point at(double d, double, double z, double y) {
        const Logit link(d + z, y);
        Point out;
        out.value = link.value;
        out.d = out.z = link.first;
        out.dd = out.dz = out.zz = link.second;
        return out;
    }
};

// Derivatives of y log P + (1 - y) log Q, Q = 1 - P, in P, for mixtures.
struct InProbability {
    double value, first, second;
    CROWDSIFT_INLINE InProbability(double p, double q, double y) {
        const double of_p = 1.0 / p, of_q = 1.0 / q, a = y * of_p, b = (1.0 - y) * of_q;
        value = y * log_normal(p) + (1.0 - y) * log_normal(q);
        first = a - b;
        second = -(a * of_p + b * of_q);
    }
};

// P = h sigma(d) + (1 - h) sigma(-d)
struct FlippedLogit {
    static constexpr bool kHead = true, kLead = false, kConcave = true;
    static std::size_t parameters(std::size_t) { return 1; }
    static CROWDSIFT_INLINE Point at(double d, double h, double, double y) {
        const Sigmoid s(d);
        const double lean = 2.0 * h - 1.0, s1 = s.p * s.q, s2 = s1 * (s.q - s.p);
        const InProbability in(h * s.p + (1.0 - h) * s.q, h * s.q + (1.0 - h) * s.p, y);
        const double p_d = lean * s1, p_h = s.p - s.q;
        Point out;
        out.value = in.value + (d - d);  // NaN if d is NaN
        out.d = in.first * p_d;
        out.dd = in.first * lean * s2 + in.second * p_d * p_d;
        out.h = in.first * p_h;
        out.dh = in.first * 2.0 * s1 + in.second * p_d * p_h;
        out.hh = in.second * p_h * p_h;
        return out;
    }
};

// P = sigma(h) sigma(d) + sigma(-h) sigma(z): a careful vote or one led by the features.
struct LedLogit {
    static constexpr bool kHead = true, kLead = true, kConcave = false;
    static std::size_t parameters(std::size_t features) { return 1 + features; }
    static CROWDSIFT_INLINE Point at(double d, double h, double z, double y) {
        const Sigmoid s(d), skill(h), lead(z);
        const double s1 = s.p * s.q, s2 = s1 * (s.q - s.p);
        const double k1 = skill.p * skill.q, k2 = k1 * (skill.q - skill.p);
        const double l1 = lead.p * lead.q, l2 = l1 * (lead.q - lead.p);
        const InProbability in(skill.p * s.p + skill.q * lead.p, skill.p * s.q + skill.q * lead.q,
                               y);
        const double gap = s.p - lead.p;
        const double p_d = skill.p * s1, p_h = k1 * gap, p_z = skill.q * l1;
        Point out;
        out.value = in.value + (d - d);
        out.d = in.first * p_d;
        out.dd = in.first * skill.p * s2 + in.second * p_d * p_d;
        out.h = in.first * p_h;
        out.dh = in.first * k1 * s1 + in.second * p_d * p_h;
        out.hh = in.first * k2 * gap + in.second * p_h * p_h;
        out.z = in.first * p_z;
        out.dz = in.second * p_d * p_z;
        out.hz = in.second * p_h * p_z - in.first * k1 * l1;
        out.zz = in.first * skill.q * l2 + in.second * p_z * p_z;
        return out;
    }
};

}  // namespace crowdsift
