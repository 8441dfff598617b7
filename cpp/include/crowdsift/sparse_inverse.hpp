// Exact variances of items and compared pairs under the precision L + I if its factor stays sparse:
// elimination in the order of minimum degree, P (L + I) P' = F D F', and the entries of the inverse
// on the pattern of F by Takahashi's recursion.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "crowdsift/pairs.hpp"

namespace crowdsift {

class SparseInverse {
public:
    // Finds the order and the pattern; `possible` is false if the factorisation would take more
    // than `most` multiplications.
    SparseInverse(const Pairs& pairs, std::size_t n_items, double most)
        : pairs_(pairs), n_(n_items), most_(most), refused_(most) {
        possible_ = !surely_dense(most) && order(most);
        if (possible_) place_entries();
    }

    bool possible() const { return possible_; }
    double most() const { return most_; }
    double work() const { return work_; }        // multiplications of a factorisation
    double refused() const { return refused_; }  // known to be impossible with this many

    // Writes the diagonal of the inverse and the variances of pairs; returns false if the matrix is
    // not positive definite. `weight` has one number per pair, `diagonal` is that of L.
    bool invert(const double* weight, const double* diagonal, double* item_variance,
                double* pair_variance, double* log_determinant) {
        if (!factor(weight, diagonal)) return false;
        *log_determinant = 0.0;
        for (const double d : pivot_) *log_determinant += std::log(d);
        recur();
        for (std::size_t j = 0; j < n_; ++j) item_variance[order_[j]] = inverse_diagonal_[j];
        bool proper = true;
        pairs_.each([&](std::size_t p, std::uint32_t a, std::uint32_t b) {
            const double variance = item_variance[a] + item_variance[b] - 2.0 * inverse_[entry_[p]];
            proper = proper && variance > 0.0;
            pair_variance[p] = variance;
        });
        return proper;
    }

private:
    // Whether order() would end in vain, found without the lists of neighbours that it needs, by a
    // few sweeps over pairs. No item of a core, where each has more than kManyNeighbours others of
    // the core, goes before the least degree is as large; then the core is still whole. If all of
    // a component is reached from one item in r steps, its distances from any item have at most
    // 2r + 1 levels, so one of these is wide.
    bool surely_dense(double most) {
        const double clique = of_clique(core_size());
        return clique > most && refuse(most, clique, along_levels(least_width()));
    }

    // The size of the core; 0 if it is not found in a few rounds.
    std::size_t core_size() const {
        std::vector<char> inside(n_, 1);
        std::vector<std::uint32_t> degree(n_);
        std::size_t left = n_;
        for (int round = 0; round < kSweeps; ++round) {
            std::fill(degree.begin(), degree.end(), 0U);
            pairs_.each([&](std::size_t, std::uint32_t a, std::uint32_t b) {
                if (inside[a] == 0 || inside[b] == 0) return;
                ++degree[a];
                ++degree[b];
            });
            std::size_t gone = 0;
            for (std::size_t j = 0; j < n_; ++j)
                if (inside[j] != 0 && degree[j] <= kManyNeighbours) {
                    inside[j] = 0;
                    ++gone;
                }
            left -= gone;
            if (gone == 0) return left;
        }
        return 0;
    }

    // A lower bound of the width of the levels of distance; 0 if the component of the last item was
    // not traversed in a few steps.
    std::size_t least_width() const {
        std::vector<std::uint8_t> step(n_, kFar);
        step[n_ - 1] = 0;
        std::size_t reached = 1;
        for (std::uint8_t r = 1; r <= kSweeps; ++r) {
            const std::size_t before = reached;
            const auto meet = [&](std::uint32_t from, std::uint32_t to) {
                if (step[from] != r - 1 || step[to] != kFar) return;
                step[to] = r;
                ++reached;
            };
            pairs_.each([&](std::size_t, std::uint32_t a, std::uint32_t b) {
                meet(a, b);
                meet(b, a);
            });
            if (reached == before) return reached / (2 * std::size_t{r} - 1);
        }
        return 0;
    }

    // Minimum degree with explicit elimination: the neighbours of a pivot become a clique. What is
    // left when the least degree is d costs at least d^3/3.
    bool order(double most) {
        std::vector<std::vector<std::uint32_t>> near(n_);
        pairs_.each([&](std::size_t, std::uint32_t a, std::uint32_t b) {
            near[a].push_back(b);
            near[b].push_back(a);
        });
        for (std::vector<std::uint32_t>& list : near) std::sort(list.begin(), list.end());
        const double slender = along_levels(level_width(near));
        std::vector<std::vector<std::uint32_t>> by_degree(n_);
        for (std::size_t j = n_; j-- > 0;)
            by_degree[near[j].size()].push_back(static_cast<std::uint32_t>(j));
        std::vector<std::size_t> live(n_);  // remaining neighbours; lists may contain others
        for (std::size_t j = 0; j < n_; ++j) live[j] = near[j].size();
        std::vector<std::uint32_t> merged;
        std::vector<char> gone(n_, 0);
        std::vector<std::vector<std::uint32_t>> columns;
        order_.reserve(n_);
        std::size_t degree = 0;
        while (order_.size() < n_) {
            while (by_degree[degree].empty()) ++degree;
            const std::uint32_t pivot = by_degree[degree].back();
            by_degree[degree].pop_back();
            if (gone[pivot] != 0 || live[pivot] != degree) continue;  // an old entry
            const double d = static_cast<double>(degree);
            work_ += d * d;
            if (work_ > most || d * d * d / 3.0 > most) return false;
            if (degree > kManyNeighbours && refuse(most, of_clique(n_ - order_.size()), slender))
                return false;
            gone[pivot] = 1;
            order_.push_back(pivot);
            without_gone(near[pivot], gone);
            for (const std::uint32_t other : near[pivot]) {
                live[other] = join(near[other], near[pivot], other, live[other] - 1, gone, merged);
                by_degree[live[other]].push_back(other);
                degree = std::min(degree, live[other]);
            }
            columns.push_back(std::move(near[pivot]));
            near[pivot].clear();
        }
        lay_out(columns);
        return true;
    }

    static void without_gone(std::vector<std::uint32_t>& list, const std::vector<char>& gone) {
        list.erase(
            std::remove_if(list.begin(), list.end(), [&](std::uint32_t j) { return gone[j] != 0; }),
            list.end());
    }

    // Adds the neighbours of a pivot to those of another item, `left` of which remain; returns how
    // many remain then. A hub's long list is not traversed for every short one, or a star would
    // take the square of its rays: eliminated items leave it by halves.
    static std::size_t join(std::vector<std::uint32_t>& list,
                            const std::vector<std::uint32_t>& added, std::uint32_t other,
                            std::size_t left, const std::vector<char>& gone,
                            std::vector<std::uint32_t>& room) {
        if (16 * added.size() < list.size()) {
            for (const std::uint32_t j : added) {
                const auto at = std::lower_bound(list.begin(), list.end(), j);
                if (j == other || (at != list.end() && *at == j)) continue;
                list.insert(at, j);
                ++left;
            }
            if (list.size() > 2 * left + 16) without_gone(list, gone);
            return left;
        }
        room.clear();
        std::set_union(list.begin(), list.end(), added.begin(), added.end(),
                       std::back_inserter(room));
        room.erase(std::remove_if(room.begin(), room.end(),
                                  [&](std::uint32_t j) { return j == other || gone[j] != 0; }),
                   room.end());
        list.assign(room.begin(), room.end());
        return list.size();
    }

    // The largest number of items at one distance from an item at the rim.
    std::size_t level_width(const std::vector<std::vector<std::uint32_t>>& near) const {
        std::vector<std::uint32_t> seen(n_, 0), level, next;
        std::size_t widest = 0;
        const auto search = [&](std::uint32_t from, std::uint32_t mark) {
            std::size_t width = 1;
            std::uint32_t last = from;
            level.assign(1, from);
            seen[from] = mark;
            while (!level.empty()) {
                next.clear();
                for (const std::uint32_t j : level)
                    for (const std::uint32_t k : near[j])
                        if (seen[k] < mark) {
                            seen[k] = mark;
                            next.push_back(k);
                        }
                width = std::max(width, level.size());
                last = level.front();
                level.swap(next);
            }
            return std::make_pair(last, width);
        };
        for (std::size_t j = 0; j < n_; ++j)
            if (seen[j] == 0) {
                const std::uint32_t rim = search(static_cast<std::uint32_t>(j), 1).first;
                widest = std::max(widest, search(rim, 2).second);
            }
        return widest;
    }

    // Chains, bands and lattices are narrow: elimination along the distance costs about this.
    double along_levels(std::size_t width) const {
        const double both = 2.0 * static_cast<double>(width);
        return static_cast<double>(n_) * both * both;
    }

    // Once the least degree is large, about a third of a graph without structure becomes one
    // clique; lattices and chains have few items left by then.
    static double of_clique(std::size_t left) {
        const double core = 0.3 * static_cast<double>(left);
        return core * core * core / 3.0;
    }

    // Returns whether neither order is cheap enough; stores the limit up to which that holds.
    bool refuse(double most, double clique, double slender) {
        const double least = std::min(clique, slender);
        if (least > most) refused_ = least;
        return least > most;
    }

    // Columns of the factor in elimination order, rows rising.
    void lay_out(const std::vector<std::vector<std::uint32_t>>& columns) {
        place_.resize(n_);
        for (std::size_t j = 0; j < n_; ++j) place_[order_[j]] = static_cast<std::uint32_t>(j);
        start_.assign(n_ + 1, 0);
        for (std::size_t j = 0; j < n_; ++j) start_[j + 1] = start_[j] + columns[j].size();
        row_.resize(start_[n_]);
        for (std::size_t j = 0; j < n_; ++j) {
            std::size_t at = start_[j];
            for (const std::uint32_t item : columns[j]) row_[at++] = place_[item];
            std::sort(row_.begin() + static_cast<std::ptrdiff_t>(start_[j]),
                      row_.begin() + static_cast<std::ptrdiff_t>(start_[j + 1]));
        }
        value_.resize(row_.size());
        inverse_.resize(row_.size());
        pivot_.resize(n_);
        inverse_diagonal_.resize(n_);
    }

    // Finds the place of each compared pair in the pattern.
    void place_entries() {
        entry_.resize(pairs_.size());
        pairs_.each([&](std::size_t p, std::uint32_t low, std::uint32_t high) {
            const std::uint32_t a = place_[low], b = place_[high];
            const std::uint32_t column = std::min(a, b), row = std::max(a, b);
            const auto begin = row_.begin() + static_cast<std::ptrdiff_t>(start_[column]);
            const auto end = row_.begin() + static_cast<std::ptrdiff_t>(start_[column + 1]);
            entry_[p] = static_cast<std::size_t>(std::lower_bound(begin, end, row) - row_.begin());
        });
    }

    // Left-looking: a column waits in the list of its next row until that row's turn.
    bool factor(const double* weight, const double* diagonal) {
        std::fill(value_.begin(), value_.end(), 0.0);
        for (std::size_t p = 0; p < pairs_.size(); ++p) value_[entry_[p]] = -weight[p];
        const std::size_t none = n_;
        std::vector<std::size_t> first(n_, none), next(n_, none), at(start_.begin(), start_.end());
        std::vector<double> work(n_, 0.0);
        for (std::size_t j = 0; j < n_; ++j) {
            double d = 1.0 + diagonal[order_[j]];
            for (std::size_t e = start_[j]; e < start_[j + 1]; ++e) work[row_[e]] = value_[e];
            for (std::size_t k = first[j]; k != none;) {
                const std::size_t following = next[k];
                const double scale = value_[at[k]] * pivot_[k];
                d -= scale * value_[at[k]];
                ++at[k];
                for (std::size_t e = at[k]; e < start_[k + 1]; ++e)
                    work[row_[e]] -= scale * value_[e];
                enqueue(k, at, first, next);
                k = following;
            }
            if (!(d > 0.0)) return false;
            pivot_[j] = d;
            for (std::size_t e = start_[j]; e < start_[j + 1]; ++e) value_[e] = work[row_[e]] / d;
            at[j] = start_[j];
            enqueue(j, at, first, next);
        }
        return true;
    }

    void enqueue(std::size_t k, const std::vector<std::size_t>& at, std::vector<std::size_t>& first,
                 std::vector<std::size_t>& next) const {
        if (at[k] == start_[k + 1]) return;
        const std::size_t row = row_[at[k]];
        next[k] = first[row];
        first[row] = k;
    }

    // Z_ij = -sum over k of F_kj Z_ik, Z_jj = 1/D_j - sum over k of F_kj Z_kj; the rows of a column
    // are a clique, so the pattern contains every Z_ik that is needed.
    void recur() {
        std::vector<double> sum(n_, 0.0), own(n_, 0.0);
        std::vector<char> inside(n_, 0);
        for (std::size_t j = n_; j-- > 0;) {
            for (std::size_t e = start_[j]; e < start_[j + 1]; ++e) {
                inside[row_[e]] = 1;
                own[row_[e]] = value_[e];
                sum[row_[e]] = 0.0;
            }
            for (std::size_t e = start_[j]; e < start_[j + 1]; ++e) {
                const std::size_t k = row_[e];
                const double f = value_[e];
                double back = f * inverse_diagonal_[k];
                for (std::size_t g = start_[k]; g < start_[k + 1]; ++g) {
                    const std::size_t i = row_[g];
                    if (inside[i] == 0) continue;
                    sum[i] += f * inverse_[g];
                    back += own[i] * inverse_[g];
                }
                sum[k] += back;
            }
            double d = 1.0 / pivot_[j];
            for (std::size_t e = start_[j]; e < start_[j + 1]; ++e) {
                inverse_[e] = -sum[row_[e]];
                d -= value_[e] * inverse_[e];
                inside[row_[e]] = 0;
            }
            inverse_diagonal_[j] = d;
        }
    }

    static constexpr std::size_t kManyNeighbours = 30;
    static constexpr int kSweeps = 12;
    static constexpr std::uint8_t kFar = 255;

    const Pairs& pairs_;
    std::size_t n_;
    double most_, refused_, work_ = 0.0;
    bool possible_ = false;
    std::vector<std::uint32_t> order_, place_, row_;  // order_[j]: the item eliminated as j-th
    std::vector<std::size_t> start_, entry_;
    std::vector<double> value_, inverse_, pivot_, inverse_diagonal_;
};

}  // namespace crowdsift
