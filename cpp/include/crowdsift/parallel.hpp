// A small pool of threads that runs a function over numbered chunks.
//
// The pool belongs to the object that owns the data, so nothing is shared between fits and
// nothing survives in a global across a fork. Which chunk runs on which thread does not matter:
// every chunk writes to buffers of its own, and the caller reduces them in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace crowdsift {

class ThreadPool {
public:
    explicit ThreadPool(std::size_t threads) : threads_(threads == 0 ? 1 : threads) {}

    ~ThreadPool() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }

    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    std::size_t size() const { return threads_; }

    // Runs task(0) ... task(chunks - 1), the caller taking part, and returns when all are done.
    // Tasks must not throw.
    void run(std::size_t chunks, const std::function<void(std::size_t)>& task) {
        if (chunks <= 1 || threads_ == 1) {
            for (std::size_t chunk = 0; chunk < chunks; ++chunk) task(chunk);
            return;
        }
        start_threads();
        {
            std::lock_guard<std::mutex> lock(mutex_);
            task_ = &task;
            next_ = 0;
            chunks_ = chunks;
            unfinished_ = chunks;
            ++generation_;
        }
        wake_.notify_all();
        work();
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return unfinished_ == 0; });
        task_ = nullptr;
    }

private:
    void start_threads() {
        while (workers_.size() + 1 < threads_) workers_.emplace_back([this] { loop(); });
    }

    void loop() {
        std::size_t seen = 0;
        for (;;) {
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
                if (stop_) return;
                seen = generation_;
            }
            work();
        }
    }

    void work() {
        for (;;) {
            const std::function<void(std::size_t)>* task = nullptr;
            std::size_t chunk = 0;
            {
                std::lock_guard<std::mutex> lock(mutex_);
                if (task_ == nullptr || next_ >= chunks_) return;
                task = task_;
                chunk = next_++;
            }
            (*task)(chunk);
            std::lock_guard<std::mutex> lock(mutex_);
            if (--unfinished_ == 0) done_.notify_all();
        }
    }

    const std::size_t threads_;
    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(std::size_t)>* task_ = nullptr;
    std::size_t next_ = 0, chunks_ = 0, unfinished_ = 0, generation_ = 0;
    bool stop_ = false;
};

// Boundaries of at most `parts` contiguous ranges of [0, n) of nearly equal length.
inline std::vector<std::size_t> even_ranges(std::size_t n, std::size_t parts) {
    if (parts == 0) parts = 1;
    std::vector<std::size_t> bounds(parts + 1);
    for (std::size_t p = 0; p <= parts; ++p) bounds[p] = n / parts * p + n % parts * p / parts;
    return bounds;
}

}  // namespace crowdsift
