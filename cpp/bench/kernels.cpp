// One pass of a main kernel on fixed votes, for counting its instructions under callgrind: only
// what measured() runs is counted. See benchmarks/instructions.py.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "../tests/check.hpp"
#include "crowdsift/em.hpp"
#include "crowdsift/grid_sites.hpp"
#include "crowdsift/laplacian.hpp"
#include "crowdsift/likelihood_passes.hpp"
#include "crowdsift/pairs.hpp"
#include "crowdsift/slopes.hpp"

namespace {

using Task = std::function<void()>;

struct Setting {
    ThreadPool pool{1};
    const Sample sample{20000, 500, 300, pool};
    const Votes& votes = sample.votes;
    ItemSums sums{votes.n_items};
    PairGraph graph{votes.n_items, group_by_pair(votes.n, votes.n_items, votes.first, votes.second),
                    pool, sums};
    std::vector<double> scores = normals(votes.n_items, 1), out = scores;
    std::vector<double> slopes = normals(votes.n_workers, 2), curvature = slopes;
};

}  // namespace

// Not inlined and of a plain name, so that callgrind finds it.
extern "C" __attribute__((noinline)) void measured(const Task* task) {
    (*task)();
}

int main(int count, char** names) {
    Setting at;
    SlopePasses by_slopes(at.votes, at.pool, at.sums);
    SlopeHessian hessian;
    LikelihoodPasses by_workers(at.votes, at.pool, at.sums, nullptr, 0);
    SchurEntries entries;
    const double middle = 0.8;
    const std::vector<double> alike(at.votes.n_workers, middle);
    std::vector<double> theta(alike), of_workers(alike), blocks(alike);
    LaplacianPasses em(at.votes, at.graph);
    Precisions<float> precision;
    ItemSystem system;
    double value = 0.0, total = 0.0;
    const SharedPairs none;
    const auto sites_of = [&](const TypeShape& shape) {
        return GridSites(at.votes, at.graph, none,
                         std::make_shared<SplitVotes>(at.votes, at.graph.pairs,
                                                      shape.widths[0] > 0.0, at.graph.pool),
                         shape, 0, 2.0);
    };
    GridSites sites = sites_of({{0.0}, {}, {}, false});
    GridSites sided = sites_of({{0.1, 0.3, 0.6, 1.0}, {-2.0, 2.0}, {0.3, 0.3}, true});
    SiteSystem received;
    const std::size_t half = 20, types = 2 * half + 1;
    std::vector<double> levels(half), prior(4 * types + 2, 1.0 / static_cast<double>(types)),
        precisions(at.votes.n_items), settled(at.votes.n_items, 1e-6);
    for (std::size_t j = 0; j < half; ++j) levels[j] = 0.3 * static_cast<double>(j + 1);

    const auto update = [&](GridSites& of) {
        of.update(
            {half, levels.data(), prior.data(), at.scores.data(), 0.5, false, {}, {}, nullptr});
        received.laplacian.reset();
        received = of.system(nullptr, 0.0);
    };
    const std::map<std::string, Task> kernels{
        {"bt pass", [&] { by_slopes.common(at.scores.data(), 1.0, 0.0, at.out.data(), hessian); }},
        {"bt product", [&] { by_slopes.multiply(hessian, 1.0, at.scores.data(), at.out.data()); }},
        {"bora-map pass",
         [&] {
             std::vector<double> slopes(at.slopes);
             by_slopes.own(at.scores.data(), {1.25, 2.0, 1e-3}, 0.0, slopes.data(), at.out.data(),
                           at.curvature.data(), hessian);
         }},
        {"bora-map product",
         [&] { by_slopes.multiply(hessian, 1.0, at.scores.data(), at.out.data()); }},
        {"htcv workers",
         [&] {
             theta = alike;
             by_workers.fit_workers<ScaledProbit>(at.scores.data(), theta.data(),
                                                  {&middle, 0.01, 0.0, HUGE_VAL, 1e-6, 100});
         }},
        {"htcv pass",
         [&] {
             by_workers.derivatives<ScaledProbit>(at.scores.data(), theta.data(), at.out.data(),
                                                  of_workers.data(), blocks.data(), entries);
         }},
        {"htcv product",
         [&] { by_workers.reduced(entries, at.scores.data(), blocks.data(), at.out.data()); }},
        {"bora-em e-step",
         [&] {
             system = {};
             system = em.e_step(at.scores.data(), at.slopes.data(), precision, value, total);
         }},
        {"bora-em alternation",
         [&] {
             system = {};
             system = em.regress(precision, at.scores.data(), 1.0, at.slopes.data());
             system.laplacian->multiply(0.1, at.scores.data(), at.out.data());
         }},
        {"sift grid pass", [&] { update(sites); }},
        {"sift pass with ties and sides", [&] { update(sided); }},
        {"sift messages",
         [&] {
             for (std::size_t j = 0; j < precisions.size(); ++j)
                 precisions[j] = 1.0 + received.laplacian->diagonal()[j];
             sites.sweep(precisions.data(), settled.data(), true, at.out.data());
         }},
    };
    if (count != 2 || kernels.count(names[1]) == 0) {
        for (const auto& [name, task] : kernels) std::printf("%s\n", name.c_str());
        return count == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    // Runs what a kernel needs before it, and the kernel once, so that memory is allocated.
    const std::string name = names[1];
    if (name == "bt product") kernels.at("bt pass")();
    if (name == "bora-map product") kernels.at("bora-map pass")();
    if (name == "htcv product") kernels.at("htcv pass")();
    if (name == "bora-em alternation") kernels.at("bora-em e-step")();
    if (name == "sift messages") kernels.at("sift grid pass")();
    kernels.at(name)();
    measured(&kernels.at(name));
    return EXIT_SUCCESS;
}
