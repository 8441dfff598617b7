// Passes for likelihoods with parameters of workers. A worker's parameters are met by its own
// comparisons only, so the Hessian of -log-likelihood is
//     [ A   B ]   A: Laplacian over items, B: items x workers, D: one small block per worker,
//     [ B'  D ]
// and workers are eliminated from a Newton step: S = A - B D^-1 B'. A product with S is one pass
// over what derivatives() kept: A's and B's entries, 4 (1 + p) bytes per comparison.
//
// Rows are taken in blocks of whole workers, which are gathered once and evaluated in lanes;
// workers with more rows than a block in pieces, gathered anew where they are needed again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "crowdsift/array.hpp"
#include "crowdsift/conjugate_gradient.hpp"
#include "crowdsift/item_sums.hpp"
#include "crowdsift/likelihoods.hpp"
#include "crowdsift/parallel.hpp"
#include "crowdsift/vote_points.hpp"
#include "crowdsift/votes.hpp"
#include "crowdsift/worker_problem.hpp"
#include "crowdsift/worker_slope.hpp"

namespace crowdsift {

// Entries of A and B, p per comparison of the latter; for every worker whether any of A's is not 0.
struct SchurEntries {
    std::size_t p = 0;
    Array<float> a, b;
    std::vector<std::uint8_t> curved;
};

class LikelihoodPasses {
public:
    LikelihoodPasses(const Votes& votes, ThreadPool& pool, ItemSums& sums, const float* features,
                     std::size_t n_features)
        : votes_(votes), pool_(pool), sums_(sums), x_(features), n_x_(n_features),
          ranges_(votes.worker_ranges(pool.size())) {}

    std::size_t features() const { return n_x_; }

    // Log-likelihood; its gradients in items and workers; the blocks D; the entries of A and B.
    template <class Likelihood>
    double derivatives(const double* scores, const double* theta, double* item_gradient,
                       double* worker_gradient, double* blocks, SchurEntries& kept) const {
        const std::size_t p = Likelihood::parameters(n_x_);
        kept.p = p;
        kept.a.resize(votes_.n);
        kept.b.resize(votes_.n * p);
        kept.curved.assign(votes_.n_workers, 0);
        std::vector<double> part(ranges_.size() - 1, 0.0);
        const auto pass = [&](std::size_t range, double* gradient) {
            const auto room = std::make_unique<Room>();
            std::fill(worker_gradient + ranges_[range] * p,
                      worker_gradient + ranges_[range + 1] * p, 0.0);
            std::fill(blocks + ranges_[range] * p * p, blocks + ranges_[range + 1] * p * p, 0.0);
            votes_.over_blocks(ranges_, range, [&](std::size_t from, std::size_t to) {
                votes_.over_pieces(from, to, [&](std::size_t at, std::size_t count) {
                    gather(at, count, scores, room->in);
                    over_workers(from, to, at, count, [&](std::size_t s, Rows rows) {
                        set_worker<Likelihood>(theta + s * p, at, rows, room->in);
                    });
                    points(Likelihood{}, room->in.fill_lanes(count), room->in, room->out);
                    part[range] += sum_block(room->out.value, count);
                    over_workers(from, to, at, count, [&](std::size_t s, Rows rows) {
                        add_gradient<Likelihood>(at, rows, room->out, 1.0, worker_gradient + s * p);
                        add_hessian<Likelihood>(at, rows, room->out, blocks + s * p * p);
                        for (std::size_t j = rows.begin; j < rows.end && kept.curved[s] == 0; ++j)
                            kept.curved[s] = room->out.dd[j] != 0.0 ? 1 : 0;
                    });
                    keep<Likelihood>(at, count, room->out, kept);
                    push(at, count, room->out.d, gradient);
                });
            });
        };
        sums_.add(ranges_.size() - 1, pool_, pass, item_gradient);
        double total = 0.0;
        for (const double value : part) total += value;
        return total;
    }

    // Sums of the magnitudes of A's entries per item, a preconditioner.
    void diagonal(const SchurEntries& kept, double* out) const {
        const auto pass = [&](std::size_t range, double* sums) {
            const std::size_t end = votes_.begin_of(ranges_[range + 1]);
            for (std::size_t i = votes_.begin_of(ranges_[range]); i < end; ++i) {
                const double size = std::fabs(static_cast<double>(kept.a[i]));
                sums[votes_.first[i]] += size;
                sums[votes_.second[i]] += size;
            }
        };
        sums_.add(ranges_.size() - 1, pool_, pass, out);
    }

    // Every worker's own parameters at their penalised maximum for these scores, each within
    // [low, high]: minimises -log-likelihood + penalty/2 |t - centre|^2 by Newton steps from the
    // parameters given. A worker's sums depend on its own rows alone.
    template <class Likelihood>
    void fit_workers(const double* scores, double* theta, const WorkerPrior& prior) const {
        pool_.run(ranges_.size() - 1, [&](std::size_t range) {
            const auto room = std::make_unique<Room>();
            votes_.over_blocks(ranges_, range, [&](std::size_t from, std::size_t to) {
                if constexpr (Likelihood::kConcave) {
                    if (votes_.is_long(from, to))
                        fit_long<Likelihood>(from, scores, theta, prior, *room);
                    else
                        fit_block<Likelihood>(from, to, scores, theta, prior, *room);
                } else {
                    if (room->searches == nullptr) room->searches.reset(new Search[kTogether]);
                    if (votes_.is_long(from, to))
                        search_long<Likelihood>(from, scores, theta, prior, *room);
                    for (std::size_t s = from; s < to && !votes_.is_long(from, to); s += kTogether)
                        search_block<Likelihood>(s, std::min(s + kTogether, to), scores, theta,
                                                 prior, *room);
                }
            });
        });
    }

    // (A - B inverse B') v, where inverse holds a p x p block per worker; zeros hold a worker
    // fixed.
    void reduced(const SchurEntries& kept, const double* v, const double* inverse,
                 double* out) const {
        const auto pass = [&](std::size_t range, double* sums) {
            if (kept.p == 1)
                reduce<1>(kept, range, v, inverse, sums);
            else if (kept.p == 2)
                reduce<2>(kept, range, v, inverse, sums);
            else
                reduce<0>(kept, range, v, inverse, sums);
        };
        sums_.add(ranges_.size() - 1, pool_, pass, out);
    }

    SolveReport solve(const SchurEntries& kept, const double* inverse, double shift,
                      const double* rhs, double* x, double tolerance, std::size_t most) const {
        const std::size_t n = votes_.n_items;
        std::vector<double> at(n);
        diagonal(kept, at.data());
        const auto multiply = [&](const double* v, double* out) {
            reduced(kept, v, inverse, out);
            for (std::size_t j = 0; j < n; ++j) out[j] += shift * v[j];
        };
        return conjugate_gradient(n, multiply, at.data(), shift, rhs, x, tolerance, most);
    }

private:
    // Temporaries of a block, and its workers that have not converged.
    struct Unsettled;
    struct Search;
    struct Room {
        PointRows in;
        PointBlock out;
        std::vector<Unsettled> workers;
        std::unique_ptr<Search[]> searches;
    };

    // Rows [begin, end) of a block.
    struct Rows {
        std::size_t begin, end;
        std::size_t count() const { return end - begin; }
    };

    struct Unsettled {
        std::size_t worker;
        Rows rows;
        ConvexSearch search;
    };

    // The same with several parameters. At most this number of workers are solved together, since
    // their problems are large.
    static constexpr std::size_t kTogether = 64;
    struct Search {
        std::size_t worker;
        Rows rows;
        DampedSearch way;
    };

    // Calls each(worker, its rows in the block) for the workers of a block, or of a piece of one.
    template <class Each>
    void over_workers(std::size_t from, std::size_t to, std::size_t at, std::size_t count,
                      const Each& each) const {
        for (std::size_t s = from; s < to; ++s) {
            const std::size_t begin = std::max(votes_.begin_of(s), at);
            each(s, Rows{begin - at, std::min(votes_.begin_of(s + 1), at + count) - at});
        }
    }

    void differences(std::size_t at, std::size_t count, const double* x, double* d) const {
        for (std::size_t j = 0; j < count; ++j)
            d[j] = x[votes_.first[at + j]] - x[votes_.second[at + j]];
    }

    void gather(std::size_t at, std::size_t count, const double* scores, PointRows& in) const {
        differences(at, count, scores, in.d);
        for (std::size_t j = 0; j < count; ++j) {
            in.outcome[j] = static_cast<double>(votes_.outcome[at + j]);
            in.weight[j] = static_cast<double>(votes_.weight[at + j]);
        }
    }

    // The head and the leads of a worker's rows in a block that starts at `at`.
    template <class Likelihood>
    void set_worker(const double* t, std::size_t at, Rows rows, PointRows& in) const {
        if constexpr (Likelihood::kHead) std::fill(in.head + rows.begin, in.head + rows.end, t[0]);
        if constexpr (Likelihood::kLead) {
            const double* const b = t + (Likelihood::kHead ? 1 : 0);
            for (std::size_t j = rows.begin; j < rows.end; ++j) {
                const float* const x = x_ + (at + j) * n_x_;
                double lead = 0.0;
                for (std::size_t k = 0; k < n_x_; ++k) lead += b[k] * static_cast<double>(x[k]);
                in.lead[j] = lead;
            }
        }
    }

    // Adds sign times the derivatives in a worker's parameters.
    template <class Likelihood>
    void add_gradient(std::size_t at, Rows rows, const PointBlock& points, double sign,
                      double* out) const {
        if constexpr (Likelihood::kHead)
            *out++ += sign * sum_rows(points.h + rows.begin, rows.count());
        if constexpr (Likelihood::kLead)
            for (std::size_t k = 0; k < n_x_; ++k) {
                double sum = 0.0;
                for (std::size_t j = rows.begin; j < rows.end; ++j)
                    sum += points.z[j] * feature(at + j, k);
                out[k] += sign * sum;
            }
    }

    // Subtracts the second ones, a p x p block.
    template <class Likelihood>
    void add_hessian(std::size_t at, Rows rows, const PointBlock& points, double* out) const {
        constexpr std::size_t head = Likelihood::kHead ? 1 : 0;
        const std::size_t p = Likelihood::parameters(n_x_);
        if constexpr (Likelihood::kHead) out[0] -= sum_rows(points.hh + rows.begin, rows.count());
        if constexpr (Likelihood::kLead)
            for (std::size_t k = 0; k < n_x_; ++k) {
                double mixed = 0.0;
                double* const row = out + (head + k) * p;
                for (std::size_t j = rows.begin; j < rows.end; ++j) {
                    const double x = feature(at + j, k), zz = points.zz[j] * x;
                    if constexpr (Likelihood::kHead) mixed += points.hz[j] * x;
                    for (std::size_t m = 0; m < n_x_; ++m) row[head + m] -= zz * feature(at + j, m);
                }
                if constexpr (Likelihood::kHead) {
                    row[0] -= mixed;
                    out[1 + k] -= mixed;
                }
            }
    }

    double feature(std::size_t row, std::size_t k) const {
        return static_cast<double>(x_[row * n_x_ + k]);
    }

    // The entries of A and B of a block.
    template <class Likelihood>
    void keep(std::size_t at, std::size_t count, const PointBlock& points,
              SchurEntries& kept) const {
        const std::size_t p = kept.p;
        float* const a = kept.a.data() + at;
        float* const b = kept.b.data() + at * p;
        for (std::size_t j = 0; j < count; ++j) a[j] = static_cast<float>(-points.dd[j]);
        if constexpr (Likelihood::kHead)
            for (std::size_t j = 0; j < count; ++j) b[j * p] = static_cast<float>(-points.dh[j]);
        if constexpr (Likelihood::kLead)
            for (std::size_t j = 0; j < count; ++j)
                for (std::size_t k = 0; k < n_x_; ++k)
                    b[j * p + (Likelihood::kHead ? 1 : 0) + k] =
                        static_cast<float>(-points.dz[j] * feature(at + j, k));
    }

    // Adds the force of every row to its first item and subtracts it from its second.
    void push(std::size_t at, std::size_t count, const double* force, double* sums) const {
        for (std::size_t j = 0; j < count; ++j) {
            sums[votes_.first[at + j]] += force[j];
            sums[votes_.second[at + j]] -= force[j];
        }
    }

    // Fits the workers of a block, each with one parameter: all take a step, then the rows of those
    // who have not converged move together for the next.
    template <class Likelihood>
    void fit_block(std::size_t from, std::size_t to, const double* scores, double* theta,
                   const WorkerPrior& prior, Room& room) const {
        PointRows& in = room.in;
        const std::size_t at = votes_.begin_of(from);
        std::size_t count = votes_.begin_of(to) - at;
        gather(at, count, scores, in);
        room.workers.clear();
        over_workers(from, to, at, count,
                     [&](std::size_t s, Rows rows) { room.workers.push_back({s, rows, {}}); });
        for (std::size_t step = 0; step < prior.most && !room.workers.empty(); ++step) {
            for (const Unsettled& each : room.workers)
                std::fill(in.head + each.rows.begin, in.head + each.rows.end, theta[each.worker]);
            worker_points(Likelihood{}, in.fill_lanes(count), in, room.out);
            std::size_t left = 0;
            count = 0;
            for (Unsettled each : room.workers) {
                double gradient, curvature, &t = theta[each.worker];
                one_parameter(t, prior, gradient, curvature);
                gradient -= sum_rows(room.out.h + each.rows.begin, each.rows.count());
                curvature -= sum_rows(room.out.hh + each.rows.begin, each.rows.count());
                if (!each.search.go(t, gradient, curvature, prior)) continue;
                each.rows = move_rows(each.rows, count, in);
                count = each.rows.end;
                room.workers[left++] = each;
            }
            room.workers.resize(left);
        }
    }

    // Fits one worker whose rows do not fit into a block.
    template <class Likelihood>
    void fit_long(std::size_t s, const double* scores, double* theta, const WorkerPrior& prior,
                  Room& room) const {
        ConvexSearch search;
        for (std::size_t step = 0; step < prior.most; ++step) {
            double gradient, curvature;
            one_parameter(theta[s], prior, gradient, curvature);
            votes_.over_pieces(s, s + 1, [&](std::size_t at, std::size_t count) {
                gather(at, count, scores, room.in);
                std::fill(room.in.head, room.in.head + count, theta[s]);
                worker_points(Likelihood{}, room.in.fill_lanes(count), room.in, room.out);
                gradient -= sum_rows(room.out.h, count);
                curvature -= sum_rows(room.out.hh, count);
            });
            if (!search.go(theta[s], gradient, curvature, prior)) return;
        }
    }

    static void one_parameter(double t, const WorkerPrior& prior, double& gradient,
                              double& curvature) {
        gradient = prior.penalty * (t - prior.centre[0]);
        curvature = prior.penalty;
    }

    // Fits workers with any number of parameters whose rows fit into a block, as fit_block. `start`
    // is the row among all votes, where the features are, minus that in the block.
    template <class Likelihood>
    void search_block(std::size_t from, std::size_t to, const double* scores, double* theta,
                      const WorkerPrior& prior, Room& room) const {
        const std::size_t p = Likelihood::parameters(n_x_), at = votes_.begin_of(from);
        PointRows& in = room.in;
        std::size_t count = votes_.begin_of(to) - at, left = 0;
        Search* unsettled[kTogether];
        gather(at, count, scores, in);
        over_workers(from, to, at, count, [&](std::size_t s, Rows rows) {
            Search* const each = unsettled[left] = &room.searches[left];
            ++left;
            each->worker = s;
            each->rows = rows;
            each->way.begin(theta + s * p, p);
        });
        const auto start = [&](const Search* each) {
            return votes_.begin_of(each->worker) - each->rows.begin;
        };
        while (left > 0) {
            for (std::size_t c = 0; c < left; ++c)
                set_worker<Likelihood>(unsettled[c]->way.trial, start(unsettled[c]),
                                       unsettled[c]->rows, in);
            worker_points(Likelihood{}, in.fill_lanes(count), in, room.out);
            const std::size_t all = left;
            left = count = 0;
            for (std::size_t c = 0; c < all; ++c) {
                Search* const each = unsettled[c];
                add_rows<Likelihood>(start(each), each->rows, room.out,
                                     each->way.problem(prior, p));
                if (!each->way.go(theta + each->worker * p, prior, p)) continue;
                each->rows = move_rows(each->rows, count, in);
                count = each->rows.end;
                unsettled[left++] = each;
            }
        }
    }

    // Fits one such worker whose rows do not fit into a block.
    template <class Likelihood>
    void search_long(std::size_t s, const double* scores, double* theta, const WorkerPrior& prior,
                     Room& room) const {
        const std::size_t p = Likelihood::parameters(n_x_);
        DampedSearch& way = room.searches[0].way;
        way.begin(theta + s * p, p);
        do {
            WorkerProblem& problem = way.problem(prior, p);
            votes_.over_pieces(s, s + 1, [&](std::size_t at, std::size_t count) {
                gather(at, count, scores, room.in);
                set_worker<Likelihood>(way.trial, at, {0, count}, room.in);
                worker_points(Likelihood{}, room.in.fill_lanes(count), room.in, room.out);
                add_rows<Likelihood>(at, {0, count}, room.out, problem);
            });
        } while (way.go(theta + s * p, prior, p));
    }

    template <class Likelihood>
    void add_rows(std::size_t at, Rows rows, const PointBlock& points, WorkerProblem& out) const {
        out.value -= sum_rows(points.value + rows.begin, rows.count());
        add_gradient<Likelihood>(at, rows, points, -1.0, out.gradient);
        add_hessian<Likelihood>(at, rows, points, out.hessian);
    }

    // Moves a worker's rows forward in a block; returns their new place.
    static Rows move_rows(Rows rows, std::size_t to, PointRows& in) {
        for (double* const array : {in.d, in.outcome, in.weight})
            std::copy(array + rows.begin, array + rows.end, array + to);
        return {to, to + rows.count()};
    }

    std::size_t rows_of(std::size_t s) const { return votes_.begin_of(s + 1) - votes_.begin_of(s); }

    // Calls run(from, to) for runs of workers within blocks, without those whose rows have no
    // force, as for workers at the bound of reliability 0.
    template <class Run>
    void over_active(const SchurEntries& kept, const double* inverse, std::size_t range,
                     const Run& run) const {
        const std::size_t size = kept.p * kept.p;
        const auto active = [&](std::size_t s) {
            const double* const block = inverse + s * size;
            return kept.curved[s] != 0 ||
                   std::any_of(block, block + size, [](double entry) { return entry != 0.0; });
        };
        votes_.over_blocks(ranges_, range, [&](std::size_t from, std::size_t to) {
            while (from < to) {
                std::size_t end = from;
                while (end < to && active(end)) ++end;
                if (from < end) run(from, end);
                from = end + 1;
            }
        });
    }

    // Adds (A - B inverse B') v of the workers of a range, who have `fixed` parameters, or any
    // number of them if it is 0.
    template <std::size_t fixed>
    void reduce(const SchurEntries& kept, std::size_t range, const double* v, const double* inverse,
                double* sums) const {
        const std::size_t p = fixed == 0 ? kept.p : fixed;
        double d[kBlockRows], coupled[fixed == 0 ? kMostParameters : fixed];
        const auto couple = [&](std::size_t at, std::size_t count, const double* of_rows) {
            const float* const b = kept.b.data() + at * p;
            for (std::size_t j = 0; j < count; ++j)
                for (std::size_t k = 0; k < p; ++k)
                    coupled[k] += static_cast<double>(b[j * p + k]) * of_rows[j];
        };
        // Differences become the force of each row.
        const auto uncouple = [&](std::size_t at, std::size_t count, const double* block,
                                  double* of_rows) {
            double u[fixed == 0 ? kMostParameters : fixed];
            for (std::size_t j = 0; j < p; ++j) {
                u[j] = 0.0;
                for (std::size_t k = 0; k < p; ++k) u[j] += block[j * p + k] * coupled[k];
            }
            const float* const a = kept.a.data() + at;
            const float* const b = kept.b.data() + at * p;
            for (std::size_t j = 0; j < count; ++j) {
                double force = static_cast<double>(a[j]) * of_rows[j];
                for (std::size_t k = 0; k < p; ++k)
                    force -= static_cast<double>(b[j * p + k]) * u[k];
                of_rows[j] = force;
            }
        };
        over_active(kept, inverse, range, [&](std::size_t from, std::size_t to) {
            if (!votes_.is_long(from, to)) {
                const std::size_t at = votes_.begin_of(from), rows = votes_.begin_of(to) - at;
                differences(at, rows, v, d);
                for (std::size_t s = from; s < to; ++s) {
                    const std::size_t begin = votes_.begin_of(s);
                    std::fill(coupled, coupled + p, 0.0);
                    couple(begin, rows_of(s), d + (begin - at));
                    uncouple(begin, rows_of(s), inverse + s * p * p, d + (begin - at));
                }
                push(at, rows, d, sums);
                return;
            }
            std::fill(coupled, coupled + p, 0.0);
            votes_.over_pieces(from, to, [&](std::size_t at, std::size_t count) {
                differences(at, count, v, d);
                couple(at, count, d);
            });
            votes_.over_pieces(from, to, [&](std::size_t at, std::size_t count) {
                differences(at, count, v, d);
                uncouple(at, count, inverse + from * p * p, d);
                push(at, count, d, sums);
            });
        });
    }

    const Votes& votes_;
    ThreadPool& pool_;
    ItemSums& sums_;
    const float* x_;
    const std::size_t n_x_;
    const std::vector<std::size_t> ranges_;
};

// Product with the antisymmetric matrix of smoothed margins: for a comparison of first over
// second, c = (n y + prior)/(n + 2 prior) - 1/2, out_first += c x_second, out_second -= c x_first.
inline void margin_flow(const Votes& votes, ThreadPool& pool, ItemSums& sums, double prior,
                        const double* x, double* out) {
    const std::vector<std::size_t> ranges = shared_ranges(votes.n, kManyRows, pool);
    const auto pass = [&](std::size_t range, double* flow) {
        for (std::size_t i = ranges[range]; i < ranges[range + 1]; ++i) {
            const double n = static_cast<double>(votes.weight[i]);
            const double y = static_cast<double>(votes.outcome[i]);
            const double c = (n * y + prior) / (n + 2.0 * prior) - 0.5;
            flow[votes.first[i]] += c * x[votes.second[i]];
            flow[votes.second[i]] -= c * x[votes.first[i]];
        }
    };
    sums.add(ranges.size() - 1, pool, pass, out);
}

}  // namespace crowdsift
