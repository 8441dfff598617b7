// Passes of the logistic models and of the likelihoods with parameters of workers, at any scores
// and parameters: no read outside an array, no loop without an end.
#include "crowdsift/em.hpp"
#include "crowdsift/likelihood_passes.hpp"
#include "crowdsift/slopes.hpp"
#include "crowdsift/vote_correlations.hpp"
#include "input.hpp"

using namespace fuzz;

namespace {

void slopes(Input& in, Sample& at) {
    const std::size_t items = at.votes.n_items, workers = at.votes.n_workers;
    SlopePasses passes(at.votes, at.pool, at.sums);
    SlopeHessian hessian;
    const std::vector<double> scores = in.numbers(items), v = in.numbers(items);
    std::vector<double> gradient(items), fitted = in.numbers(workers), curvature(workers);
    if (in.flag()) {
        passes.common(scores.data(), in.number(), in.positive(), gradient.data(), hessian);
    } else {
        const double mean = in.number(), precision = in.positive();
        passes.own(scores.data(), {mean, precision, in.number()}, in.number(), fitted.data(),
                   gradient.data(), curvature.data(), hessian);
    }
    std::vector<double> out(items), x = in.numbers(items);
    passes.multiply(hessian, in.number(), v.data(), out.data());
    passes.diagonal(hessian, out.data());
    passes.solve(hessian, in.number(), v.data(), x.data(), in.number(), 30);
}

void em(Input& in, Sample& at) {
    const std::size_t items = at.votes.n_items;
    LaplacianPasses passes(at.votes, *at.graph);
    const std::vector<double> scores = in.numbers(items);
    std::vector<double> slopes = in.numbers(at.votes.n_workers), x = in.numbers(items),
                        information(slopes.size()), gradient(items);
    Precisions<float> precision;
    double value = 0.0, total = 0.0;
    const ItemSystem first = passes.e_step(scores.data(), slopes.data(), precision, value, total);
    const ItemSystem second = passes.regress(precision, scores.data(), in.number(), slopes.data());
    first.laplacian->solve(in.number(), second.rhs.data(), x.data(), in.number(), 30);
    passes.curvature(scores.data(), slopes.data(), value, gradient.data(), information.data());
    VoteCorrelations correlations(at.votes, in.flag());
    correlations.multiply(at.pool, at.sums, scores.data(), gradient.data());
    correlations.degrees(gradient.data());
}

template <class Likelihood>
void likelihood(Input& in, Sample& at) {
    const std::size_t n_features = in.below(4), items = at.votes.n_items;
    const std::size_t p = Likelihood::parameters(n_features), workers = at.votes.n_workers;
    std::vector<float> features;
    for (std::size_t k = 0; k < n_features * at.votes.n; ++k)
        features.push_back(static_cast<float>(in.number()));
    LikelihoodPasses passes(at.votes, at.pool, at.sums, features.data(), n_features);
    const std::vector<double> scores = in.numbers(items), centre = in.numbers(p);
    std::vector<double> theta = in.numbers(workers * p), of_items(items), of_workers(workers * p),
                        blocks(workers * p * p), x = in.numbers(items);
    SchurEntries entries;
    passes.derivatives<Likelihood>(scores.data(), theta.data(), of_items.data(), of_workers.data(),
                                   blocks.data(), entries);
    const std::vector<double> inverse = in.numbers(workers * p * p);
    passes.solve(entries, inverse.data(), in.number(), of_items.data(), x.data(), in.number(), 30);
    const double penalty = in.positive(), low = -in.positive(), high = in.positive();
    passes.fit_workers<Likelihood>(scores.data(), theta.data(),
                                   {centre.data(), penalty, low, high, in.number(), 100});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input in(data, size);
    const std::size_t kind = in.below(7);
    Sample at(in);
    if (kind == 0) slopes(in, at);
    if (kind == 1) em(in, at);
    if (kind == 2) likelihood<ScaledLogit>(in, at);
    if (kind == 3) likelihood<ScaledProbit>(in, at);
    if (kind == 4) likelihood<ShiftedLogit>(in, at);
    if (kind == 5) likelihood<FlippedLogit>(in, at);
    if (kind == 6) likelihood<LedLogit>(in, at);
    return 0;
}
