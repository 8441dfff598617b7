// The arguments and results of a pass of expectation propagation over all votes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crowdsift {

struct SidePrior {
    double mean = 0.0, variance = 0.25;
};

// Separate priors of workers in place of the common one, without gold; null: none.
struct OwnPriors {
    const double *masses = nullptr, *side_mean = nullptr, *side_variance = nullptr;
};

// The arguments of an update.
struct UpdateRequest {
    std::size_t half;
    const double *levels, *prior, *means;
    double damping;
    bool clip;
    SidePrior side;
    OwnPriors own;
    const std::uint8_t* marked;  // the workers whose sites are updated; null: all
};

// The results of an update; the last three have one number per worker.
struct UpdateResult {
    explicit UpdateResult(std::size_t workers)
        : regular(workers, 0.0), side_tau(workers, 0.0), side_nu(workers, 0.0) {}
    std::vector<double> counts;
    double log_messages = 0.0, log_sites = 0.0, gold_margin = 0.0;
    std::vector<double> regular, side_tau, side_nu;
};

}  // namespace crowdsift
