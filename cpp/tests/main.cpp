// The kernels without Python, for the sanitizers: every kernel runs on inputs with the shapes
// that go wrong, and what it returns is checked against a plain loop. One file a family.
#include <cstdlib>

#include "check.hpp"

int main() {
    test_functions();
    test_parallel();
    test_spill();
    test_rows();
    test_em();
    test_slopes();
    test_likelihoods();
    test_grids();
    test_types();
    std::printf("%d passed, %d failed\n", checks - failures, failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
