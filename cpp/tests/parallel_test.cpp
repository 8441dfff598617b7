// Threads: every chunk runs once, however small the job, and whoever slept wakes up.
#include "check.hpp"

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "crowdsift/array.hpp"
#include "crowdsift/buffers.hpp"
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

// What a chunk throws comes out of run(), whichever thread it was, and the pool goes on.
void test_exceptions() {
    for (const std::size_t threads : {1U, 3U}) {
        ThreadPool pool(threads);
        for (int job = 0; job < 50; ++job) {
            bool caught = false;
            try {
                pool.run(4, [&](std::size_t chunk) {
                    if (chunk == 2) throw std::bad_alloc();
                });
            } catch (const std::bad_alloc&) {
                caught = true;
            }
            NEAR(caught, 1.0, 0.0);
            std::atomic<int> ran{0};
            pool.run(4, [&](std::size_t) { ++ran; });
            NEAR(static_cast<double>(ran), 4.0, 0.0);
        }
    }
}

// One array of a kind is kept for the next who asks; one in use is never given twice.
void test_buffers() {
    Buffers<float> buffers;
    Array<float> one = buffers.take(100), two = buffers.take(100);
    NEAR(one.data() != two.data(), 1.0, 0.0);
    const float* const place = one.data();
    buffers.give(std::move(one));
    Array<float> again = buffers.take(60);
    NEAR(again.data() == place && again.size() == 60, 1.0, 0.0);
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
    test_exceptions();
    test_buffers();
    test_large_arrays();
}
