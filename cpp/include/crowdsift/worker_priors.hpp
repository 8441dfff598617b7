// Priors that workers have of their own, in place of the common one.
#pragma once

#include <cstddef>
#include <vector>

namespace crowdsift {

struct SidePrior {
    double mean, variance;
};

struct WorkerPriors {
    std::size_t types = 0;        // 0: all workers have the common prior
    std::vector<double> masses;   // a row of types a worker, in the order of Python
    std::vector<SidePrior> sides;  // of side habits; none: the common one

    bool given() const { return types > 0; }
    const double* of(std::size_t s) const { return masses.data() + s * types; }
    const SidePrior& side(std::size_t s, const SidePrior& common) const {
        return sides.empty() ? common : sides[s];
    }
};

}  // namespace crowdsift
