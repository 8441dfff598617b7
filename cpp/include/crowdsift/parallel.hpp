// A small pool of threads that runs a function over numbered chunks.
//
// The pool belongs to the object that owns the data, so nothing is shared between fits and no
// global survives a fork. It does not matter which chunk runs on which thread: every chunk writes
// to separate buffers, and the caller reduces them in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace crowdsift {

// Tells the processor that a loop only waits.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ __volatile__("yield");
#endif
}

// Passes over small data follow each other within microseconds, less than it takes to wake a
// thread. So a waiting thread looks for work for a while before it sleeps.
class ThreadPool {
public:
    explicit ThreadPool(std::size_t threads)
        : threads_(std::min(std::max<std::size_t>(threads, 1), kMostThreads)) {}

    ~ThreadPool() {
        stop_ = true;
        {
            std::lock_guard<std::mutex> lock(mutex_);
        }
        wake_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }

    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    std::size_t size() const { return threads_; }

    // Runs task(0) ... task(chunks - 1), with the caller's help, and returns when all are done. An
    // exception of a task is rethrown here after all have ended; of several only one.
    void run(std::size_t chunks, const std::function<void(std::size_t)>& task) {
        if (chunks <= 1 || threads_ == 1 || chunks > kMostChunks) {
            for (std::size_t chunk = 0; chunk < chunks; ++chunk) task(chunk);
            return;
        }
        start_threads();
        task_ = &task;
        unfinished_ = chunks;
        const Ticket job = (ticket_.load() >> (2 * kBits)) + 1;
        ticket_ = job << (2 * kBits) | static_cast<Ticket>(chunks) << kBits;
        if (sleeping_ > 0) {
            {
                std::lock_guard<std::mutex> lock(mutex_);
            }
            wake_.notify_all();
        }
        work();
        wait();
        if (failed_) {
            failed_ = false;
            std::rethrow_exception(std::exchange(failure_, nullptr));
        }
    }

private:
    // The number of the job, of its chunks, and of the next chunk, in one word: a thread that adds
    // one to it has a chunk of that job, or learns that there is none.
    using Ticket = std::uint64_t;
    static constexpr int kBits = 16;
    static constexpr Ticket kMostChunks = 1 << 15;
    static constexpr std::size_t kMostThreads = 1024;
    static constexpr int kTurns = 4000;  // some 50 to 100 microseconds

    void wait() {
        for (int turn = 0; turn < kTurns && unfinished_ > 0; ++turn) pause_briefly();
        if (unfinished_ == 0) return;
        std::unique_lock<std::mutex> lock(mutex_);
        waiting_ = true;
        done_.wait(lock, [this] { return unfinished_ == 0; });
        waiting_ = false;
    }

    // Runs one chunk; an exception is kept for the caller of run().
    void attempt(std::size_t chunk) {
        try {
            (*task_)(chunk);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            failure_ = std::current_exception();
            failed_ = true;
        }
    }

    void start_threads() {
        while (workers_.size() + 1 < threads_) {
            const Ticket seen = ticket_ >> (2 * kBits);
            workers_.emplace_back([this, seen] { loop(seen); });
        }
    }

    void loop(Ticket seen) {
        const auto idle = [&] { return !stop_ && ticket_ >> (2 * kBits) == seen; };
        while (!stop_) {
            for (int turn = 0; turn < kTurns && idle(); ++turn) pause_briefly();
            if (idle()) {
                std::unique_lock<std::mutex> lock(mutex_);
                ++sleeping_;
                wake_.wait(lock, [&] { return !idle(); });
                --sleeping_;
            }
            seen = ticket_ >> (2 * kBits);
            work();
        }
    }

    void work() {
        for (;;) {
            const Ticket ticket = ticket_.fetch_add(1);
            const Ticket mask = (Ticket{1} << kBits) - 1;
            const Ticket chunk = ticket & mask, chunks = ticket >> kBits & mask;
            if (chunk >= chunks) return;
            attempt(static_cast<std::size_t>(chunk));
            if (--unfinished_ == 0 && waiting_) {
                {
                    std::lock_guard<std::mutex> lock(mutex_);
                }
                done_.notify_all();
            }
        }
    }

    const std::size_t threads_;
    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(std::size_t)>* task_ = nullptr;
    std::atomic<Ticket> ticket_{0};
    std::atomic<std::size_t> unfinished_{0}, sleeping_{0};
    std::atomic<bool> waiting_{false}, stop_{false}, failed_{false};
    std::exception_ptr failure_;
};

// The number of rows, pairs or items from which on a second thread pays.
constexpr std::size_t kManyRows = 4000, kManyPairs = 8000, kManyItems = 20000;

// Boundaries of at most `parts` contiguous ranges of [0, n) of nearly equal length.
inline std::vector<std::size_t> even_ranges(std::size_t n, std::size_t parts) {
    if (parts == 0) parts = 1;
    std::vector<std::size_t> bounds(parts + 1);
    for (std::size_t p = 0; p <= parts; ++p) bounds[p] = n / parts * p + n % parts * p / parts;
    return bounds;
}

// Ranges for the threads of a pool; one range if there are fewer than `many`.
inline std::vector<std::size_t> shared_ranges(std::size_t n, std::size_t many,
                                              const ThreadPool& pool) {
    return even_ranges(n, n < many ? 1 : pool.size());
}

}  // namespace crowdsift
