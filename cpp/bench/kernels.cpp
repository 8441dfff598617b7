// One pass of a main kernel on fixed votes, for counting its instructions under callgrind: only
// what measured() runs is counted. See benchmarks/instructions.py.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "../tests/check.hpp"
#include "crowdsift/grid.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/logistic.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/slopes.hpp"

namespace {

using Task = std::function<void()>;

struct Setting {
    ThreadPool pool{1};
    const Sample sample{20000, 500, 300, pool};
    const Votes& votes = sample.votes;
    const Pairs pairs = group_by_pair(votes.n, votes.n_items, votes.first, votes.second);
    Laplacian laplacian{votes.n_items, pairs, pool};
    std::vector<double> scores = normals(votes.n_items, 1), out = scores, rhs = scores;
    std::vector<double> slopes = normals(votes.n_workers, 2), curvature = slopes;
};

}  // namespace

// Not inlined and of a plain name, so that callgrind finds it.
extern "C" __attribute__((noinline)) void measured(const Task* task) { (*task)(); }

int main(int count, char** names) {
    Setting at;
    SlopePasses by_slopes(at.votes, at.pool);
    LogisticPasses logistic(at.votes, at.pairs, at.laplacian, at.pool);
    GridSites sites(at.votes, at.pairs, at.laplacian, at.pool);
    const std::size_t half = 20, types = 2 * half + 1;
    std::vector<double> levels(half), prior(types, 1.0 / static_cast<double>(types)),
        counts(types);
    for (std::size_t j = 0; j < half; ++j) levels[j] = 0.3 * static_cast<double>(j + 1);

    const std::map<std::string, Task> kernels{
        {"bt pass",
         [&] { by_slopes.common(at.scores.data(), 1.0, 0.0, at.out.data()); }},
        {"bt product", [&] { by_slopes.multiply(1.0, at.scores.data(), at.out.data()); }},
        {"bora-map pass",
         [&] {
             std::vector<double> slopes(at.slopes);
             by_slopes.own(at.scores.data(), {1.25, 2.0, 1e-3}, 0.0, slopes.data(), at.out.data(),
                           at.curvature.data());
         }},
        {"bora-map product", [&] { by_slopes.multiply(1.0, at.scores.data(), at.out.data()); }},
        {"bora-em expectation", [&] { logistic.expect(at.scores.data(), at.slopes.data()); }},
        {"bora-em alternation",
         [&] {
             logistic.regress_workers(at.scores.data(), 1.0, at.slopes.data(), at.rhs.data());
             at.laplacian.multiply(0.1, at.scores.data(), at.out.data());
         }},
        {"sift grid pass",
         [&] {
             sites.update(half, levels.data(), prior.data(), at.scores.data(), 0.5, false,
                          counts.data(), at.rhs.data());
         }},
    };
    if (count != 2 || kernels.count(names[1]) == 0) {
        for (const auto& [name, task] : kernels) std::printf("%s\n", name.c_str());
        return count == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    // What a kernel needs to have run before, and once itself, so that memory is there.
    const std::string name = names[1];
    if (name == "bt product") kernels.at("bt pass")();
    if (name == "bora-map product") kernels.at("bora-map pass")();
    if (name == "bora-em alternation") kernels.at("bora-em expectation")();
    kernels.at(name)();
    measured(&kernels.at(name));
    return EXIT_SUCCESS;
}
