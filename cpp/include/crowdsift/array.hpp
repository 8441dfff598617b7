// Arrays over votes and pairs, in large pages if the system supports them.
//
// Passes read them in the order of workers and gather in the order of pairs, at random. With pages
// of 4 KiB every second such read misses the translation cache, which takes longer than the read.
// Array(n) and resize(n) leave new elements uninitialised; Array(n, value) fills them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>

#include "crowdsift/spill.hpp"
#endif

namespace crowdsift {

template <class T>
struct PageAllocator {
    using value_type = T;

    PageAllocator() = default;
    template <class U>
    PageAllocator(const PageAllocator<U>&) noexcept {}

    T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T) - kPage)
            throw std::bad_alloc();
        const std::size_t bytes = count * sizeof(T);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (bytes >= kLarge) {
            if (void* const spilled = Spill::instance().allocate(bytes))
                return static_cast<T*>(spilled);
            const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
            void* const place = std::aligned_alloc(kPage, whole);
            if (place == nullptr) throw std::bad_alloc();
            madvise(place, whole, MADV_HUGEPAGE);  // a hint: small pages work, too
            return static_cast<T*>(place);
        }
#endif
        void* const place = std::malloc(bytes == 0 ? 1 : bytes);
        if (place == nullptr) throw std::bad_alloc();
        return static_cast<T*>(place);
    }

    void deallocate(T* place, [[maybe_unused]] std::size_t count) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (count * sizeof(T) >= kLarge && Spill::instance().release(place)) return;
#endif
        std::free(place);
    }

    // Elements without a given value stay uninitialised: the threads that fill an array touch its
    // pages first, each its own.
    template <class U>
    void construct(U* place) {
        ::new (static_cast<void*>(place)) U;
    }
    template <class U, class... Given>
    void construct(U* place, Given&&... given) {
        ::new (static_cast<void*>(place)) U(std::forward<Given>(given)...);
    }

    friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }
    friend bool operator!=(const PageAllocator&, const PageAllocator&) { return false; }

private:
    static constexpr std::size_t kPage = std::size_t{2} << 20, kLarge = 2 * kPage;
};

template <class T>
using Array = std::vector<T, PageAllocator<T>>;

}  // namespace crowdsift
