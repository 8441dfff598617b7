// Large arrays of operators: one of each kind is kept for the next operator, so that successive
// passes use the same pages. An array in use is never given out twice.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>

#include "crowdsift/array.hpp"

namespace crowdsift {

template <class T>
class Buffers {
public:
    Array<T> take(std::size_t size) {
        Array<T> found;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            found.swap(free_);
        }
        found.resize(size);
        return found;
    }

    void give(Array<T>&& array) {
        Array<T> given(std::move(array));  // arrays that are not kept are freed after the lock
        std::lock_guard<std::mutex> lock(mutex_);
        if (given.size() >= free_.size()) free_.swap(given);
    }

private:
    std::mutex mutex_;
    Array<T> free_;
};

}  // namespace crowdsift
