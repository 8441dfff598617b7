// Measures this machine: streaming, gathering and scattering, with 1 .. T threads, in the forms
// that the passes use. Prints JSON; see benchmarks/roofline.py.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "crowdsift/parallel.hpp"
#include "crowdsift/range_sums.hpp"

using namespace crowdsift;

namespace {

// The fastest of several runs, in seconds.
double best(const std::function<void()>& task) {
    double least = 1e9;
    for (int run = 0; run < 7; ++run) {
        const auto start = std::chrono::steady_clock::now();
        task();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        least = took.count() < least ? took.count() : least;
    }
    return least;
}

// Bytes per second of a = b + s c, the triad of the stream benchmark; 24 bytes per entry.
double stream(ThreadPool& pool) {
    const std::size_t n = std::size_t{1} << 24;
    std::vector<double> a(n, 0.0), b(n, 1.0), c(n, 2.0);
    const std::vector<std::size_t> parts = even_ranges(n, pool.size());
    const double seconds = best([&] {
        pool.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t i = parts[part]; i < parts[part + 1]; ++i) a[i] = b[i] + 3.0 * c[i];
        });
    });
    return 24.0 * static_cast<double>(n) / seconds;
}

struct Access {
    double gather, scatter;  // seconds each
};

// Real is the type of the sums.
template <class Real>
Access access(ThreadPool& pool, std::size_t items) {
    const std::size_t n = std::size_t{1} << 22;
    std::mt19937 random(1);
    std::vector<std::uint32_t> at(n);
    for (std::uint32_t& place : at) place = static_cast<std::uint32_t>(random() % items);
    const std::vector<float> x(items, 1.0F);
    std::vector<std::vector<Real>> sums(pool.size(), std::vector<Real>(items, Real{0}));
    std::vector<float> out(n);
    const std::vector<std::size_t> parts = even_ranges(n, pool.size());
    const double gather = best([&] {
        pool.run(parts.size() - 1, [&](std::size_t part) {
            for (std::size_t i = parts[part]; i < parts[part + 1]; ++i) out[i] = x[at[i]];
        });
    });
    const double scatter = best([&] {
        pool.run(parts.size() - 1, [&](std::size_t part) {
            Real* const mine = sums[part].data();
            for (std::size_t i = parts[part]; i < parts[part + 1]; ++i)
                mine[at[i]] += static_cast<Real>(out[i]);
        });
    });
    return {gather / static_cast<double>(n), scatter / static_cast<double>(n)};
}

}  // namespace

int main(int count, char** given) {
    const std::size_t most = count > 1 ? static_cast<std::size_t>(std::atoi(given[1])) : 1;
    std::printf("[");
    for (std::size_t threads = 1; threads <= most; ++threads) {
        ThreadPool pool(threads);
        std::printf("%s{\"threads\": %zu, \"stream\": %.4g, \"access\": [", threads > 1 ? ", " : "",
                    threads, stream(pool));
        for (std::size_t items = 1000; items <= 1000000; items *= 10) {
            const Access found =
                items < kShortFrom ? access<double>(pool, items) : access<float>(pool, items);
            std::printf("%s{\"items\": %zu, \"gather\": %.4g, \"scatter\": %.4g}",
                        items > 1000 ? ", " : "", items, found.gather, found.scatter);
        }
        std::printf("]}");
    }
    std::printf("]\n");
    return EXIT_SUCCESS;
}
