// Large arrays in files instead of memory, for votes that do not fit.
//
// While a thread has a folder set, the large arrays that it makes are mapped from files there that
// have no name; other threads, and so other fits, are not concerned. Between passes `evict` takes
// their pages out of this process: what was written stays in the files, and comes back where it is
// read. Room in the file is taken before it is written to, so that a full disk is an error here and
// not a signal in the middle of a pass.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <string>

namespace crowdsift {

class Spill {
public:
    static Spill& instance() {
        static Spill* const only = new Spill;  // arrays may outlive the end of the program
        return *only;
    }

    // Sets the folder of this thread. An empty name: new arrays are in memory again.
    void set_folder(const std::string& folder) { folder_of_thread() = folder; }

    // Returns nullptr if no folder is set.
    void* allocate(std::size_t bytes) {
        if (folder_of_thread().empty()) return nullptr;
        std::string name = folder_of_thread() + "/array-XXXXXX";
        const int file = ::mkostemp(name.data(), O_CLOEXEC);
        if (file < 0) throw std::bad_alloc();
        ::unlink(name.c_str());
        void* place = MAP_FAILED;
        if (::posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0)
            place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ::close(file);
        if (place == MAP_FAILED) throw std::bad_alloc();
        const std::lock_guard<std::mutex> lock(mutex_);
        try {
            mapped_.emplace(place, bytes);
        } catch (...) {
            ::munmap(place, bytes);
            throw;
        }
        return place;
    }

    // Returns whether the array was allocated here.
    bool release(void* place) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = mapped_.find(place);
        if (found == mapped_.end()) return false;
        ::munmap(place, found->second);
        mapped_.erase(found);
        return true;
    }

    // Releases the memory of all pages; returns the bytes of the arrays.
    std::size_t evict() {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::size_t total = 0;
        for (const auto& [place, bytes] : mapped_) {
            ::madvise(place, bytes, MADV_DONTNEED);
            total += bytes;
        }
        return total;
    }

private:
    static std::string& folder_of_thread() {
        thread_local std::string folder;
        return folder;
    }

    std::mutex mutex_;
    std::map<void*, std::size_t> mapped_;
};

}  // namespace crowdsift
