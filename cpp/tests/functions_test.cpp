// Elementary functions against the library's.
#include "check.hpp"

#include <limits>

#include "crowdsift/grid_kernels.hpp"
#include "crowdsift/simd.hpp"

namespace {

void test_double_functions() {
    for (double x = 0.0; x <= 710.0; x += 0.37) {
        const double held = std::fmin(x, 700.0);
        NEAR(exp_minus(x) / std::exp(-held), 1.0, 1e-14);
        NEAR(log1p_unit(std::exp(-x)), std::log1p(std::exp(-x)), 4e-16);
        const double mean = x == 0.0 ? 0.25 : std::tanh(x / 2.0) / (2.0 * x);
        NEAR(polya_gamma_mean(x, exp_minus(x)), mean, 1e-15);
        NEAR(polya_gamma_mean(-x, exp_minus(x)), mean, 1e-15);
    }
}

// Logarithms and the tail of the normal distribution, from 0 to where erfc underflows and beyond.
void test_logarithms_and_tails() {
    for (double x = 1e-300; x < 1e300; x *= 1.37) NEAR(log_normal(x), std::log(x), 1e-15);
    for (double q = 0.5; q > 1e-300; q *= 0.83) NEAR(log1m_half(q) / std::log1p(-q), 1.0, 1e-15);
    NEAR(log1m_half(0.0), 0.0, 0.0);
    const double root = std::sqrt(0.5), scale = std::sqrt(2.0 * std::acos(-1.0));
    for (double x = 0.0; x < 37.0; x += 0.0137) {
        const double phi = std::exp(-0.5 * x * x) / scale;
        NEAR(mills_ratio(x) / (0.5 * std::erfc(x * root) / phi), 1.0, 2e-13);
    }
    for (double x = 37.0; x < 1e9; x *= 1.37) {  // its continued fraction
        double fraction = x;
        for (int k = 60; k > 0; --k) fraction = x + k / fraction;
        NEAR(mills_ratio(x) * fraction, 1.0, 1e-15);
    }
}

void test_float_functions() {
    for (float x = 0.0F; x < 54.0F; x += 0.37F)
        NEAR(exp_minus(x) / std::exp(-static_cast<double>(x)), 1.0, 3e-7);
    NEAR(exp_minus(1e30F) > 1e-38F, 1.0, 0.0);  // never denormal
    // Outside their range any answer will do, but the behaviour is defined (libFuzzer, `sites`).
    const float none = std::numeric_limits<float>::quiet_NaN();
    double any = 0.0;
    for (const float x : {-1e30F, -3e38F, -90.0F, none})
        any += std::isfinite(exp_minus(x)) + std::isfinite(log_positive(x));
    NEAR(any >= 0.0, 1.0, 0.0);
    for (float x = 1e-30F; x < 1e30F; x *= 3.1F)
        NEAR(log_positive(x), std::log(static_cast<double>(x)), 2e-7);
}

}  // namespace

void test_functions() {
    test_double_functions();
    test_logarithms_and_tails();
    test_float_functions();
}
