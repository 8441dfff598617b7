// Sweeps of Gaussian belief propagation over compared pairs, for variances under L + I.
//
// Weights W of pairs, D_j = 1 + sum of W. A pair sends M = W^2/l to each end, l the precision of
// the other end without it: `precision` + M, `precision` being D less all messages to the item. On
// trees exact; on graphs without many short cycles close. Whoever drives the sweeps adds up
// messages by item and decides when they have settled.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/laplacian.hpp"

namespace crowdsift {

struct SweepReport {
    std::size_t unsettled = 0, improper = 0;
    double log_determinant = 0.0;
};

// Messages of every pair; copies share them until one of them sweeps.
class PairMessages {
public:
    void forget() { values_.reset(); }

    // New messages and their sums by item; those of a pair without proper Gaussian are 0. Pairs for
    // which skip(p) holds send none.
    template <class Skip>
    SweepReport sweep(PairWorld& world, const Array<double>& weight, const double* precision,
                      const double* settled, const Skip& skip, double* sums_out) {
        Values& at = own(world.pairs.size());
        std::vector<SweepReport> parts(world.ranges.size() - 1);
        world.sums.add(
            parts.size(), world.pool,
            [&](std::size_t range, double* sums) {
                SweepReport& report = parts[range];
                over(world, range, [&](std::size_t p, std::uint32_t a, std::uint32_t b) {
                    if (skip(p)) return;
                    const double w = weight[p];
                    const double old_a = static_cast<double>(at.to_low[p]);
                    const double old_b = static_cast<double>(at.to_high[p]);
                    const double la = precision[a] + old_a, lb = precision[b] + old_b;
                    double new_a = 0.0, new_b = 0.0;
                    if (la > 0.0 && lb > 0.0) {
                        const double inverse = w * w / (la * lb);
                        new_a = inverse * la;  // W^2/lb
                        new_b = inverse * lb;
                    } else {
                        ++report.improper;
                    }
                    report.unsettled += (std::fabs(new_a - old_a) > settled[a]) +
                                        (std::fabs(new_b - old_b) > settled[b]);
                    at.to_low[p] = static_cast<float>(new_a);
                    at.to_high[p] = static_cast<float>(new_b);
                    sums[a] += static_cast<double>(at.to_low[p]);
                    sums[b] += static_cast<double>(at.to_high[p]);
                });
            },
            sums_out);
        return total(parts);
    }

    // The last sweep leaves messages as they are and calls found(p, variance); the pairs' part of
    // Bethe's form of log|L + I| is the sum of log(la lb - W^2).
    template <class Skip, class Found>
    SweepReport finish(PairWorld& world, const Array<double>& weight, const double* precision,
                       const Skip& skip, const Found& found, double* sums_out) {
        const Values& at = own(world.pairs.size());
        std::vector<SweepReport> parts(world.ranges.size() - 1);
        world.sums.add(
            parts.size(), world.pool,
            [&](std::size_t range, double* sums) {
                double product = 1.0, sum = 0.0;
                over(world, range, [&](std::size_t p, std::uint32_t a, std::uint32_t b) {
                    if (skip(p)) return;
                    const double w = weight[p];
                    const double to_a = static_cast<double>(at.to_low[p]);
                    const double to_b = static_cast<double>(at.to_high[p]);
                    sums[a] += to_a;
                    sums[b] += to_b;
                    const double la = precision[a] + to_a, lb = precision[b] + to_b;
                    const double determinant = la * lb - w * w, top = la + lb - 2.0 * w;
                    if (!(determinant > 0.0 && top > 0.0)) {
                        ++parts[range].improper;
                        return;
                    }
                    found(p, top / determinant);
                    product *= determinant;
                    if (product > 1e100 || product < 1e-100) {
                        sum += std::log(product);
                        product = 1.0;
                    }
                });
                parts[range].log_determinant = sum + std::log(product);
            },
            sums_out);
        return total(parts);
    }

private:
    struct Values {
        explicit Values(std::size_t pairs) : to_low(pairs, 0.0F), to_high(pairs, 0.0F) {}
        Array<float> to_low, to_high;
    };

    Values& own(std::size_t pairs) {
        if (!values_)
            values_ = std::make_shared<Values>(pairs);
        else if (values_.use_count() > 1)
            values_ = std::make_shared<Values>(*values_);
        return *values_;
    }

    template <class Visit>
    static void over(const PairWorld& world, std::size_t range, const Visit& visit) {
        world.pairs.each(world.ranges[range], world.ranges[range + 1], visit);
    }

    static SweepReport total(const std::vector<SweepReport>& parts) {
        SweepReport all;
        for (const SweepReport& part : parts) {
            all.unsettled += part.unsettled;
            all.improper += part.improper;
            all.log_determinant += part.log_determinant;
        }
        return all;
    }

    std::shared_ptr<Values> values_;
};

}  // namespace crowdsift
