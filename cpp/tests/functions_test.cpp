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
    test_float_functions();
}
