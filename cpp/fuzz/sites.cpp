// The sites of expectation propagation: their passes in any order that the bindings allow.
#include "crowdsift/grid_sites.hpp"
#include "input.hpp"

using namespace fuzz;

namespace {

// The objects to which sites refer.
struct Life {
    Sample& at;
    SharedPairs shared;
    std::unique_ptr<GridSites> sites;
    std::size_t half = 0;

    Life(Input& in, Sample& sample) : at(sample) {
        std::vector<std::uint32_t> low, high;
        std::vector<std::uint8_t> mine;
        if (in.flag())
            at.graph->pairs.each([&](std::size_t, std::uint32_t a, std::uint32_t b) {
                if (!in.flag()) return;
                low.push_back(a);
                high.push_back(b);
                mine.push_back(in.byte() & 1U);
            });
        const std::unique_ptr<bool[]> owner(new bool[mine.size() + 1]);
        for (std::size_t k = 0; k < mine.size(); ++k) owner[k] = mine[k] != 0;
        shared = SharedPairs(at.graph->pairs, at.votes.n_items, low.size(), low.data(), high.data(),
                             owner.get());
        TypeShape shape;
        shape.widths = {in.flag() ? 0.0 : in.number()};
        if (in.flag()) shape.widths.push_back(in.number());
        for (std::size_t p = in.below(3); p > 0; --p) {
            shape.side_only.push_back(in.number());
            shape.side_only_widths.push_back(in.number());
        }
        shape.sides = in.flag();
        auto split = std::make_shared<const SplitVotes>(at.votes, at.graph->pairs,
                                                        shape.widths[0] > 0.0, at.graph->pool);
        sites = std::make_unique<GridSites>(at.votes, *at.graph, shared, split, shape,
                                            in.below(at.votes.n_workers + 1), in.number());
    }

    std::vector<double> prior(Input& in, std::size_t types) {
        std::vector<double> values(types, 1.0 / static_cast<double>(types));
        if (in.below(4) == 0) values = in.numbers(types);
        return values;
    }

    void update(Input& in) {
        const std::size_t adaptive = sites->grids().length();
        half = adaptive > 0 ? adaptive : 2 + in.below(20);
        std::vector<double> levels = in.flag() ? in.numbers(half) : in.positives(half);
        std::sort(levels.begin(), levels.end(), [](double a, double b) { return a < b; });
        const std::vector<double> p = prior(in, sites->types().n_types(half));
        const std::vector<double> means = in.numbers(at.votes.n_items);
        std::vector<std::uint8_t> marked(at.votes.n_workers);
        for (std::uint8_t& mark : marked) mark = in.byte() & 1U;
        const UpdateRequest request{half,
                                    levels.data(),
                                    p.data(),
                                    means.data(),
                                    in.number(),
                                    in.flag(),
                                    {in.number(), in.positive()},
                                    {},
                                    in.flag() ? nullptr : marked.data()};
        REQUIRE(sites->update(request).counts.size() == p.size());
    }

    void read(Input& in) {
        if (!sites->updated()) return;
        const std::vector<double> p = prior(in, sites->types().n_types());
        std::vector<double> counts(p.size());
        sites->type_counts(p.data(), counts.data());
        const std::size_t workers = at.votes.n_workers, points = sites->types().n_points();
        std::vector<double> levels(workers * points), masses(workers * p.size());
        sites->posteriors(p.data(), {}, 0, workers, levels.data(), masses.data());
        if (in.flag()) sites->refine();
    }

    void pairs(Input& in) {
        const std::size_t items = at.votes.n_items, count = at.graph->pairs.size();
        const std::vector<double> sums = in.numbers(2 * shared.size()), means = in.numbers(items);
        sites->system(sums.data(), in.flag() ? 0.0 : in.positive());
        std::vector<double> mean(count), variance(count), out(items), of_shared(shared.size());
        if (!sites->suspended()) sites->pair_posteriors(means.data(), mean.data(), variance.data());
        const std::vector<double> precision = in.numbers(items), settled = in.numbers(items);
        sites->sweep(precision.data(), settled.data(), in.flag(), out.data());
        sites->finish(precision.data(), in.flag(), out.data(), of_shared.data());
        sites->degrees(out.data());
    }

    void put(Input& in) {
        const std::size_t votes = sites->split().size();
        std::vector<float> tau(votes), nu(votes);
        for (float& value : tau) value = static_cast<float>(in.number());
        for (float& value : nu) value = static_cast<float>(in.number());
        sites->set_sites(tau.data(), nu.data());
        sites->set_side_sites(nu.data(), tau.data());
        sites->clear_grids();
        const std::size_t levels = 2 + in.below(30);
        for (std::size_t s = 0; s < sites->before_gold(); ++s)
            if (in.flag()) sites->set_grid(s, in.positive(), 5.0 + in.positive(), levels);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input in(data, size);
    Sample at(in);
    Life life(in, at);
    for (int step = 0; step < 12 && !in.empty(); ++step) {
        const std::size_t kind = in.below(9);
        if (kind < 3 && !life.sites->suspended()) life.update(in);
        if (kind == 3) life.read(in);
        if (kind == 4) life.pairs(in);
        if (kind == 5) life.put(in);
        if (kind == 6) life.sites->transform({in.positive(), in.flag(), in.flag(), in.flag()});
        if (kind == 7) life.sites = std::make_unique<GridSites>(*life.sites);
        if (kind == 8) {
            const std::vector<double> variances = in.numbers(at.graph->pairs.size());
            life.sites->suspend();
            if (in.flag()) life.sites->set_pair_variances(variances.data());
        }
    }
    return 0;
}
