// Arrays in files: what was written comes back after its pages have left, only large arrays of the
// thread that has a folder go there, and no room is an error.
#include "check.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <new>
#include <string>
#include <thread>
#include <utility>

#include "crowdsift/array.hpp"
#include "crowdsift/spill.hpp"

namespace {

constexpr std::size_t kMany = std::size_t{3} << 20, kFew = 1000;  // 24 MiB of doubles, and 8 kB

double in_files() {
    return static_cast<double>(Spill::instance().evict());
}

bool holds(const Array<double>& array) {
    bool right = true;
    for (std::size_t i = 0; i < array.size(); ++i)
        right = right && array[i] == static_cast<double>(i);
    return right;
}

Array<double> counted(std::size_t count) {
    Array<double> array(count);
    for (std::size_t i = 0; i < count; ++i) array[i] = static_cast<double>(i);
    return array;
}

void test_comes_back(const std::string& folder) {
    Spill& spill = Spill::instance();
    spill.set_folder(folder);
    Array<double> large = counted(kMany);
    const Array<double> small = counted(kFew);
    NEAR(in_files(), 8.0 * kMany, 0.0);
    NEAR(holds(large) && holds(small) ? 1.0 : 0.0, 1.0, 0.0);
    const Array<double> copy = large;
    NEAR(in_files(), 16.0 * kMany, 0.0);
    const Array<double> moved = std::move(large);  // the same file
    NEAR(in_files(), 16.0 * kMany, 0.0);
    spill.set_folder("");
    const Array<double> after = counted(kMany);  // in memory again
    NEAR(in_files(), 16.0 * kMany, 0.0);
    NEAR(holds(copy) && holds(moved) && holds(after) ? 1.0 : 0.0, 1.0, 0.0);
    bool empty = true;  // files have no name: nobody has to remove them
    empty = ::rmdir(folder.c_str()) == 0;
    NEAR(empty ? 1.0 : 0.0, 1.0, 0.0);
}

void test_of_one_thread(const std::string& folder) {
    Spill& spill = Spill::instance();
    spill.set_folder(folder);
    std::thread other([] {
        const Array<double> array = counted(kMany);  // this thread has no folder
        NEAR(in_files(), 0.0, 0.0);
    });
    other.join();
    {
        Array<double> array = counted(kMany);
        std::thread reader([&] {
            NEAR(holds(array) ? 1.0 : 0.0, 1.0, 0.0);
            array = Array<double>();  // let go by another thread than made it
        });
        reader.join();
    }
    NEAR(in_files(), 0.0, 0.0);
    spill.set_folder("");
    ::rmdir(folder.c_str());
}

void test_no_room() {
    Spill& spill = Spill::instance();
    spill.set_folder("/no/such/folder");
    bool refused = false;
    try {
        counted(kMany);
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    NEAR(refused ? 1.0 : 0.0, 1.0, 0.0);
    NEAR(holds(counted(kFew)) ? 1.0 : 0.0, 1.0, 0.0);  // small arrays need none
    spill.set_folder("");
    NEAR(in_files(), 0.0, 0.0);
}

std::string new_folder() {
    const char* const base = std::getenv("TMPDIR");
    std::string name = std::string(base == nullptr ? "/tmp" : base) + "/crowdsift-spill-XXXXXX";
    NEAR(::mkdtemp(name.data()) != nullptr ? 1.0 : 0.0, 1.0, 0.0);
    return name;
}

}  // namespace

void test_spill() {
    NEAR(Spill::instance().allocate(100) == nullptr ? 1.0 : 0.0, 1.0, 0.0);
    test_comes_back(new_folder());
    test_of_one_thread(new_folder());
    test_no_room();
}
