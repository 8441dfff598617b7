// Elementary functions written so that the compiler vectorises a loop over them.
//
// They use no branches, no tables and no library calls. Kernels marked CROWDSIFT_CLONES are
// compiled once per instruction set and chosen when the module is loaded, so one build runs
// everywhere and uses AVX-512 where it is there. This needs GCC 12, which knows these levels of
// x86-64, and the loader of glibc; elsewhere (Clang, musl, older GCC) kernels are compiled once.
#pragma once

#include <cmath>
#include <cstddef>  // defines __GLIBC__, where there is one
#include <cstdint>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__) && \
    defined(__ELF__) && defined(__GLIBC__) && !defined(CROWDSIFT_NO_MULTIVERSION)
#define CROWDSIFT_CLONES \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CROWDSIFT_CLONES
#endif

// Extensions of GCC and Clang. -DCROWDSIFT_PORTABLE disables them, as for other compilers; `make
// lint` and a test of the core check that this works.
#if defined(__GNUC__) && !defined(CROWDSIFT_PORTABLE)
#define CROWDSIFT_GNU
#endif

#if defined(CROWDSIFT_GNU)
#define CROWDSIFT_INLINE inline __attribute__((always_inline))
#define CROWDSIFT_RESTRICT __restrict__
#else
#define CROWDSIFT_INLINE inline
#define CROWDSIFT_RESTRICT
#endif

namespace crowdsift {

// E[sigma(x)] of x ~ N(m, v) is close to sigma(m / sqrt(1 + c v)); as `LOGISTIC_SMOOTHING` in
// Python.
constexpr double kLogisticSmoothing = 3.14159 / 8.0;

// The prefetch distance, in rows, of what passes read or add to at random places: among a
// million items or pairs this halves the time of a pass.
constexpr std::size_t kPrefetch = 32;

CROWDSIFT_INLINE void prefetch_read(const void* place) {
#if defined(CROWDSIFT_GNU)
    __builtin_prefetch(place, 0);
#else
    (void)place;
#endif
}

CROWDSIFT_INLINE void prefetch_write(const void* place) {
#if defined(CROWDSIFT_GNU)
    __builtin_prefetch(place, 1);
#else
    (void)place;
#endif
}

// One instruction, even where the compiler would call the library to set errno.
CROWDSIFT_INLINE float square_root(float x) {
#if defined(CROWDSIFT_GNU)
    return __builtin_sqrtf(x);
#else
    return std::sqrt(x);
#endif
}

CROWDSIFT_INLINE double from_bits(std::int64_t bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

CROWDSIFT_INLINE std::int64_t to_bits(double value) {
    std::int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The sum of eight chains.
CROWDSIFT_INLINE double sum_lanes(const double* lane) {
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

// The sum of a b, in eight chains so that additions do not wait for each other.
template <class Value>
CROWDSIFT_INLINE double product_sum(std::size_t count, const Value* CROWDSIFT_RESTRICT a,
                                    const double* CROWDSIFT_RESTRICT b) {
    double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    std::size_t j = 0;
    for (; j + 8 <= count; j += 8)
        for (std::size_t l = 0; l < 8; ++l) lane[l] += static_cast<double>(a[j + l]) * b[j + l];
    for (std::size_t l = 0; j < count; ++j, ++l) lane[l] += static_cast<double>(a[j]) * b[j];
    return sum_lanes(lane);
}

// Sum of a few numbers in four chains, so that additions do not wait for each other.
CROWDSIFT_INLINE double sum_short(const float* values, std::size_t count) {
    double lane[4] = {0, 0, 0, 0};
    std::size_t j = 0;
    for (; j + 4 <= count; j += 4)
        for (std::size_t l = 0; l < 4; ++l) lane[l] += static_cast<double>(values[j + l]);
    for (; j < count; ++j) lane[0] += static_cast<double>(values[j]);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

// exp(-x) for x >= 0, to 2 units in the last place. The argument is at most 700, so the result is
// at least exp(-700) ~ 1e-304, and no denormal number appears.
CROWDSIFT_INLINE double exp_minus(double x) {
    const double held = x < 700.0 ? x : 700.0;
    // n = round(-x / log 2) by adding 1.5 * 2^52, whose low bits then hold n.
    const double shifter = 6755399441055744.0;
    const double biased = held * -1.4426950408889634 + shifter;
    const double n = biased - shifter;
    // Cody-Waite: log 2 in two parts, the first with trailing zeros, so r is exact.
    const double r = (-held - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    // Taylor series of exp on |r| <= log(2)/2; the first neglected term is r^14/14! < 5e-18.
    double p = 1.6059043836821613e-10;
    p = p * r + 2.08767569878681e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.755731922398589e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.48015873015873e-05;
    p = p * r + 1.984126984126984e-04;
    p = p * r + 1.388888888888889e-03;
    p = p * r + 8.333333333333333e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const std::int64_t exponent = to_bits(biased) - to_bits(shifter);
    return from_bits(to_bits(p) +
                     static_cast<std::int64_t>(static_cast<std::uint64_t>(exponent) << 52));
}

// log((1 + f)/(1 - f)) = 2 atanh(f) for |f| <= 0.1716; the next term is f^23/23 < 1e-18.
CROWDSIFT_INLINE double log_ratio(double f) {
    const double g = f * f;
    double p = 1.0 / 21.0;
    p = p * g + 1.0 / 19.0;
    p = p * g + 1.0 / 17.0;
    p = p * g + 1.0 / 15.0;
    p = p * g + 1.0 / 13.0;
    p = p * g + 1.0 / 11.0;
    p = p * g + 1.0 / 9.0;
    p = p * g + 1.0 / 7.0;
    p = p * g + 1.0 / 5.0;
    p = p * g + 1.0 / 3.0;
    return 2.0 * f + 2.0 * f * (g * p);
}

// log(1 + e) for 0 <= e <= 1.
CROWDSIFT_INLINE double log1p_unit(double e) {
    const double u = 1.0 + e;
    const double lost = (e - (u - 1.0)) / u;  // rounding error of 1 + e
    const bool upper = u > 1.4142135623730951;
    const double m = upper ? 0.5 * u : u;
    return log_ratio((m - 1.0) / (m + 1.0)) + (upper ? 0.6931471805599453 : 0.0) + lost;
}

// log(1 - q) for 0 <= q <= 1/2, however small q is.
CROWDSIFT_INLINE double log1m_half(double q) {
    const bool lower = q > 0.2928932188134524;  // 1 - q is doubled, to be close to 1
    const double above = lower ? 1.0 - 2.0 * q : -q;
    return log_ratio(above / (2.0 + above)) - (lower ? 0.6931471805599453 : 0.0);
}

// log x for a normal x > 0, with an error below 1e-15 (1 + |log x|); finite, but arbitrary, for
// other x.
CROWDSIFT_INLINE double log_normal(double x) {
    // The exponent e + 1023 of the power of two 2^e with x / 2^e in [sqrt(1/2), sqrt(2)).
    const std::uint64_t bits = static_cast<std::uint64_t>(to_bits(x));
    const std::uint64_t exponent = (bits + 0x00095f619980c433U) >> 52;
    const double m = from_bits(static_cast<std::int64_t>(bits + ((1023U - exponent) << 52)));
    const double e = from_bits(static_cast<std::int64_t>(0x4330000000000000U | exponent)) -
                     (4503599627370496.0 + 1023.0);
    return e * 0.6931471805599453 + log_ratio((m - 1.0) / (m + 1.0));
}

// Phi(-x)/phi(x) for x >= 0, to 1e-15: a polynomial in (x - 5)/(x + 5), over x + 5.
CROWDSIFT_INLINE double mills_ratio(double x) {
    const double r = 1.0 / (x + 5.0), s = 1.0 - 10.0 * r;
    double p = -1.968820796668673e-09;
    p = p * s + 1.2681778133106914e-09;
    p = p * s + 2.324918339616538e-08;
    p = p * s - 1.2601401701289641e-08;
    p = p * s - 1.6898908396071304e-07;
    p = p * s + 8.984895390080813e-08;
    p = p * s + 1.0865648093633823e-06;
    p = p * s - 8.29951776733244e-07;
    p = p * s - 6.9405498481783575e-06;
    p = p * s + 9.971212523126543e-06;
    p = p * s + 4.181269707272043e-05;
    p = p * s - 0.00012473429411922815;
    p = p * s - 0.00014883252854029768;
    p = p * s + 0.0013658588260150296;
    p = p * s - 0.0019999620670556138;
    p = p * s - 0.007503282770439648;
    p = p * s + 0.05212550242182693;
    p = p * s - 0.17325473409133701;
    p = p * s + 0.41364471573217226;
    p = p * s - 0.7859110755463842;
    p = p * s + 1.241547061573877;
    p = p * s - 1.667866595188962;
    p = p * s + 1.9280810471531575;
    return p * r;
}

// tanh(x/2)/(2x), 1/4 at 0, the mean of a Polya-Gamma(1, x) variable; e = exp(-|x|).
CROWDSIFT_INLINE double polya_gamma_mean(double x, double e) {
    const double size = x < 0.0 ? -x : x;
    const double far = size > 0.25 ? size : 0.25;
    const double direct = (1.0 - e) / ((1.0 + e) * 2.0 * far);
    // Series of tanh(h)/h at h = x/2 for |x| <= 1/4; the next term is below 1e-16.
    const double g = 0.25 * x * x;
    double p = 929569.0 / 638512875.0;
    p = p * g - 21844.0 / 6081075.0;
    p = p * g + 1382.0 / 155925.0;
    p = p * g - 62.0 / 2835.0;
    p = p * g + 17.0 / 315.0;
    p = p * g - 2.0 / 15.0;
    p = p * g + 1.0 / 3.0;
    const double series = 0.25 - 0.25 * g * p;
    return size > 0.25 ? direct : series;
}

}  // namespace crowdsift
