// Threads: every chunk runs once, however small the job, and whoever slept wakes up.
#include "check.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "crowdsift/array.hpp"
#include "crowdsift/parallel.hpp"

namespace {

void test_every_chunk_once() {
    for (const std::size_t threads : {1U, 2U, 5U}) {
        ThreadPool pool(threads);
        bool once = true;
        for (std::size_t job = 0; job < 3000; ++job) {
            const std::size_t chunks = job % 7;
            std::vector<std::atomic<int>> ran(chunks);
            pool.run(chunks, [&](std::size_t chunk) { ++ran[chunk]; });
            for (const std::atomic<int>& count : ran) once = once && count == 1;
        }
        NEAR(once ? 1.0 : 0.0, 1.0, 0.0);
    }
}

void test_wakes_up() {
    ThreadPool pool(3);
    double sum = 0.0;
    for (int job = 0; job < 5; ++job) {
        std::atomic<int> part{0};
        pool.run(3, [&](std::size_t) { ++part; });
        sum += part;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    NEAR(sum, 15.0, 0.0);
}

void test_slow_chunk_is_awaited() {
    ThreadPool pool(2);
    std::atomic<int> done{0};
    pool.run(2, [&](std::size_t chunk) {
        if (chunk == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ++done;
    });
    NEAR(static_cast<double>(done), 2.0, 0.0);
}

void test_large_arrays() {
    Array<float> values(3U << 20, 1.0F);
    values.resize(4U << 20, 2.0F);
    NEAR(static_cast<double>(values.front() + values.back()), 3.0, 0.0);
    NEAR(Array<double>().empty() ? 1.0 : 0.0, 1.0, 0.0);
}

}  // namespace

void test_parallel() {
    test_every_chunk_once();
    test_wakes_up();
    test_slow_chunk_is_awaited();
    test_large_arrays();
}
