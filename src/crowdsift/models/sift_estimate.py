"""The estimate of sift, from a run of expectation propagation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.base import Engine, required
from crowdsift.engines.grid import PairPosteriors, TypePosteriors, WorkerPoints, WorkerTypes
from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, Model, PanelEstimate, WorkerEstimate, mirror, sign_support, weighted_median
from crowdsift.models.coefficients import CovariateEstimate
from crowdsift.models.covariance import ScorePrecision, level_variance
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Codes, Indices, Vector
from crowdsift.numeric.distributions import quantile_distribution
from crowdsift.numeric.likelihoods import sigmoid, smoothing
from crowdsift.solvers.ep.search import null_evidence
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.summaries import TypeSummary, chosen_types, summarise, typical_reliability
from crowdsift.solvers.ep.terms.boards import BoardPrior, Boards
from crowdsift.solvers.ep.terms.contexts import MAX_SPREAD, ContextPoints, ContextSites, in_another
from crowdsift.solvers.ep.terms.covariates import CovariateSites
from crowdsift.solvers.ep.terms.dependent import GroupPrior
from crowdsift.solvers.ep.terms.features import classes_of
from crowdsift.solvers.ep.warm import kept_sites
from crowdsift.solvers.ep.workers import population_to
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.covariates import SIDE, Design
from crowdsift.votes.panels import PanelVotes

_COPIED = 3.0  # pair effects above this exceed the difference of two scores, whose variance is 2
MAX_GROUP_NUMBERS = 20_000_000  # most numbers in the covariances of items within groups
MAX_COVARIATE_ITEMS = 1_200  # most items with covariates: their joint Gaussian with the coefficients is a dense matrix
MAX_COVARIATE_NUMBERS = 40_000_000  # most workers x items x covariates
_POINTS = 64  # points of a worker's posterior


def worker_posteriors(
    run: Propagation, engine: Engine, sides: tuple[Vector, Vector], size: float
) -> tuple[TypeSummary, ContextPoints | None]:
    """Return the posterior of every worker, and by context if workers differ by context."""
    # `sides` are mean and variance of side biases; reliabilities are multiplied by `size`.
    summary = summarise(run.sites, run.prior, sides).scaled(size)
    sites = run.sites
    if not isinstance(sites, ContextSites):
        return summary, None
    context_sides = sites.context_sides(engine.facts.n_gold, run.sides.mean_variance)
    apart = summarise(sites.by_context, run.prior, context_sides, sites.context_priors())
    in_context = sites.known(apart.scaled(size).points)
    return summary._replace(points=in_another(summary.points, sites)), in_context


def run_estimate(
    run: Propagation,
    engine: Engine,
    workers: TypeSummary,
    in_context: ContextPoints | None,
    size: float,
    *,
    keep_sites: bool,
) -> Estimate:
    """Return the estimate at the end of a run, in units of `size`, with the sign of the run."""
    # `workers` and `in_context` are those of `worker_posteriors`; sites are kept only if a later run can start from
    # them.
    types, typical = run.prior.types, typical_reliability(run.prior)
    contexts = run.sites if isinstance(run.sites, ContextSites) else None
    classes = classes_of(run, engine, typical)
    voters = engine.facts.n_workers - engine.facts.n_gold
    judged = worker_estimate(workers, types, typical * size, classes)
    scores = _about_mean(run.means / size, engine)
    variance = np.maximum(run.variances - level_variance(engine.facts.component), 0.0)
    crowd_side = run.sides.prior.mean, float(np.sqrt(run.sides.mean_variance))
    return Estimate(
        scores=scores,
        log_likelihood=required(engine.slopes).log_likelihood(scores, workers.mean),
        rule=run.rule,
        trace=run.evidence,
        score_sd=np.asarray(np.sqrt(variance) / size),
        precision=ScorePrecision.of(lambda: run.system.laplacian, engine.facts, 1.0, size),
        theta=workers.spread,
        points=workers.points,
        in_context=in_context,
        workers=judged,
        evidence=run.evidence[-1],
        sign=judged.sign_support(engine.facts.loads[:voters]),
        crowd_side=crowd_side if types.sides else None,
        details={
            "pair_effect": run.pair_effect / size**2,
            "context_spread": 0.0 if contexts is None else contexts.reliability_spread,
            "context_side_sd": 0.0 if contexts is None else float(np.sqrt(contexts.side_spread)),
        },
        pairs=_pairs(run, size),
        population=population_to(run.prior, run.sides.prior, run.pair_effect, size, contexts is not None),
        sites=kept_sites(run.pair_sites) if keep_sites and contexts is None else None,
        diagnostics=tuple(run_diagnostics(run, engine)),
    )


def _pairs(run: Propagation, size: float) -> PairPosteriors | None:
    """Return the posteriors of pairs for which an effect was learned."""
    if not run.pair_effect:
        return None
    found = run.pair_sites.pair_posteriors(run.means)
    return found._replace(mean=found.mean / size, variance=found.variance / size**2)


def _about_mean(scores: Vector, engine: Engine) -> Vector:
    """Return scores about their mean; zeros stay exactly 0."""
    return np.asarray(scores - scores.mean()) if scores.any() else np.zeros(engine.facts.n_items)


def worker_estimate(summary: TypeSummary, types: WorkerTypes, typical: float, classes: Vector) -> WorkerEstimate:
    """Return reliabilities, side biases and tie widths of workers with their uncertainty."""
    return WorkerEstimate(
        reliability=summary.mean,
        reliability_sd=summary.sd,
        reliability_lower=summary.lower,
        reliability_upper=summary.upper,
        quantiles=summary.spread,
        side_bias=summary.side if types.sides else None,
        side_sd=summary.side_sd if types.sides else None,
        one_sided=summary.p_side_only if types.sides else None,
        typical=typical,
        class_evidence=classes,
        extra={"tie_width": summary.width} if types.ties else {},
    )


def run_diagnostics(run: Propagation, engine: Engine) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a run that a user should see."""
    if run.faint:
        gain = run.evidence[-1] - null_evidence(engine, run.prior, run.sides.prior)
        if gain < MIN_LOG_BAYES_FACTOR:
            yield Diagnostic(
                Kind.INFORMATION,
                "the votes hold no information: the evidence for any worker seeing which item is "
                f"better is {gain:z.1f} nats",
            )
    if run.pair_effect > _COPIED:
        yield Diagnostic(
            Kind.COPIED,
            "votes on the same pair agree far beyond what scores of items explain (pair effect "
            f"{run.pair_effect:.1f}): answers may be copied, and scores say little",
        )
    if isinstance(run.sites, ContextSites) and run.sites.reliability_spread > 0.99 * MAX_SPREAD:
        yield Diagnostic(
            Kind.CONTEXTS,
            "reliabilities differ from context to context as much as can be: some workers are of another kind in some "
            "contexts, which makes those of all others uncertain. Fit the contexts one by one to find them",
        )
    if run.indefinite:
        yield Diagnostic(
            Kind.INTERVALS,
            "votes of workers of unknown sign were held at precision 0 to keep the scores' "
            "posterior proper; intervals may be too narrow",
        )


def with_group_estimate(
    estimate: Estimate, run: Propagation, engine: Engine, before: Estimate, size: float
) -> Estimate:
    """Convert the estimate of items within groups to one of the items themselves."""
    # Rows of P - I add up to 0, so it is a Laplacian of weights over pairs of items, the form in which covariances are
    # stored. `design_effect` is the growth of the mean variance over that of the fit without groups (`engine`,
    # `before`), which includes a pair effect of that fit.
    prior = run.item_prior
    if not isinstance(prior, GroupPrior):
        return estimate
    component = engine.facts.component
    level = 1.0 / np.bincount(component)[component]
    sd = np.sqrt(np.maximum(np.diag(prior.covariance) - level, 0.0)) / size
    scores = (prior.item_means - prior.item_means.mean()) / size
    low, high = (each.astype(np.uint32) for each in np.triu_indices(prior.count, 1))
    within = component[low] == component[high]
    low, high = low[within], high[within]
    old = before.score_sd
    design = 1.0 if old is None else float(np.mean(sd**2)) / max(float(np.mean(old**2)), 1e-300)
    return replace(
        estimate,
        scores=scores,
        log_likelihood=_log_likelihood(estimate, engine, scores),
        score_sd=sd,
        precision=ScorePrecision(low, high, -prior.precision[low, high], component, 1.0, size),
        details={**estimate.details, "group_effect": prior.variance / size**2, "design_effect": design},
        sites=None,
    )


def with_board_estimate(estimate: Estimate, run: Propagation, engine: Engine, boards: Boards, size: float) -> Estimate:
    """Return the estimate of a run over boards, with the estimate of the common scores."""
    prior = run.item_prior
    assert isinstance(prior, BoardPrior)
    nodes, items = boards.components(engine.facts.component)
    scores = prior.item_means / size
    parts = [
        (each[own], block[np.ix_(own, own)])
        for each, block in prior.block_covariances()
        for own in _by_component(nodes[each])
    ]
    whole = [(own, prior.covariance[np.ix_(own, own)]) for own in _by_component(items)]
    sd, precision = _centred(parts, nodes, size)
    common_sd, common_precision = _centred(whole, items, size)
    deviation = float(np.sqrt(prior.deviations[prior.group].mean())) / size
    details = {**estimate.details, "context_deviation": deviation}
    common = replace(
        estimate,
        scores=scores - scores.mean(),
        score_sd=common_sd,
        precision=common_precision,
        component=items,
        log_likelihood=_log_likelihood(estimate, engine, scores[boards.item]),
        details=details,
        in_context=None,
        pairs=None,
        population=None,
        sites=None,
    )
    return replace(
        estimate, score_sd=sd, precision=precision, component=nodes, details=details, sites=None, common=common
    )


def with_trusted_estimate(
    model: Model, estimate: Estimate, run: Propagation, panels: PanelVotes, whole: Engine, size: float
) -> Estimate:
    """Convert the estimate of a run by panel and judge to the scores of the trusted panel."""
    # Gold, or else the informative ones of the trusted workers determine the sign; the typical reliability of the
    # trusted workers is the unit of biases.
    from crowdsift.solvers.ep.panels import panel_posterior

    K, boards = whole.facts.n_items, len(panels.panel) + 1
    L, b = np.zeros((boards, K, K)), np.zeros((boards, K))
    low, high, weight = run.system.laplacian.pairs()
    at, i, j = panels.board[low], panels.item[low], panels.item[high]
    for one, two, value in ((i, j, -weight), (j, i, -weight), (i, i, weight), (j, j, weight)):
        np.add.at(L, (at, one, two), value)
    np.add.at(b, (panels.board, panels.item), run.system.rhs)
    found = panel_posterior(L, b, panels.panel)
    trusted = panels.trusted[: len(whole.facts.loads)]
    loads, workers = whole.facts.loads[trusted], estimate.workers
    assert workers.reliability is not None
    assert workers.quantiles is not None
    own = workers.reliability[: len(trusted)][trusted]
    support = sign_support(own, quantile_distribution(workers.quantiles[: len(trusted)][trusted]), loads)
    opposed = support.log_odds < 0.0 and not whole.facts.n_gold
    beta = abs(weighted_median(own, loads)) * (-1.0 if opposed else 1.0)
    component, votes = whole.facts.component, float(loads.sum())
    sd, precision = _centred(
        [(own, found.covariance[np.ix_(own, own)]) for own in _by_component(component)], component, size
    )
    per_vote = float(np.trace(L[0])) / max(votes, 1.0)
    gain = (K - 1) * (1.0 / np.trace(found.covariance) - 1.0 / np.trace(found.alone))
    about = PanelEstimate(
        panels.names, found.bias * beta / size, votes, max(gain * (K - 1) / per_vote, 0.0), 0.5 * per_vote * size**2
    )
    scores = found.mean / size
    done = replace(
        estimate,
        scores=scores,
        score_sd=sd,
        precision=precision,
        component=component,
        log_likelihood=_log_likelihood(estimate, whole, scores),
        population=None,
        sites=None,
        panels=about,
    )
    return mirror(model, done) if opposed else done


def _by_component(component: Codes) -> Iterator[Indices]:
    for number in np.unique(component):
        yield np.flatnonzero(component == number)


def _centred(blocks: list[tuple[Indices, Vector]], component: Codes, size: float) -> tuple[Vector, ScorePrecision]:
    # The pseudo-inverse of a centred covariance, minus the centring matrix, has rows that add up to 0. So it is a
    # Laplacian of weights over pairs, the form in which covariances are stored.
    sd, pairs = np.zeros(len(component)), []
    for own, covariance in blocks:
        n = len(own)
        centring = np.eye(n) - 1.0 / n
        about = centring @ covariance @ centring
        sd[own] = np.sqrt(np.maximum(np.diag(about), 0.0)) / size
        precision = np.linalg.inv(about + 1.0 / n) - 1.0 / n - centring
        low, high = np.triu_indices(n, 1)
        pairs.append((own[low], own[high], -precision[low, high]))
    low, high, weight = (np.concatenate(each) for each in zip(*pairs, strict=True))
    ends = low.astype(np.uint32), high.astype(np.uint32)
    return sd, ScorePrecision(*ends, weight, component, 1.0, size)


def _log_likelihood(estimate: Estimate, engine: Engine, scores: Vector) -> float:
    reliability = estimate.workers.reliability
    if reliability is None:
        return estimate.log_likelihood
    return required(engine.slopes).log_likelihood(scores, reliability)


def refuse_large_covariates(engine: Engine, votes: Comparisons) -> None:
    """Raise an error for votes whose joint Gaussian of scores and coefficients would not fit in memory."""
    if votes.on_disk:
        raise RequestError("covariates need the votes in memory; omit --memory")
    width = 0 if votes.features is None else votes.features.shape[1] + 1
    numbers = votes.n_workers * votes.n_items * width
    if engine.facts.n_items > MAX_COVARIATE_ITEMS or numbers > MAX_COVARIATE_NUMBERS:
        raise RequestError(
            f"sift takes covariates of votes on at most {MAX_COVARIATE_ITEMS:,} items, and {MAX_COVARIATE_NUMBERS:,} "
            f"workers x items x covariates; here are {votes.n_items:,} items and {votes.n_workers:,} workers. "
            "factor-bt takes more"
        )


def covariate_estimate(
    run: Propagation, engine: Engine, nothing: tuple[str, ...]
) -> tuple[CovariateEstimate, WorkerPoints | None]:
    """Return the coefficients of a run and the points of the workers' posteriors."""
    assert run.covariates is not None
    m, (kept, gains, by_items) = engine.facts.n_workers, run.covariates
    typical = typical_reliability(run.prior) * run.scale()
    if kept is None:
        none, rows, items = np.zeros(0), np.zeros((m, 0)), np.zeros((engine.facts.n_items, 0))
        points, covariance = np.zeros((m, 1, 0)), np.zeros((m, 0, 0))
        return CovariateEstimate(
            (), none, none, none, rows, rows, points, covariance, items, typical, gains, by_items, nothing
        ), None
    posterior = run.sites.posteriors(run.prior.masses, slice(0, m))
    chosen = chosen_types(posterior.masses, _POINTS)
    estimate = _coefficients(run, kept, posterior, chosen, engine.facts.n_items, typical)
    estimate = replace(estimate, gains=gains, by_items=by_items, nothing=nothing)
    return estimate, _points(run, posterior, chosen, estimate)


def _n_regular(run: Propagation, posterior: TypePosteriors) -> int:
    """Return the number of types with a reliability; side-only types follow them."""
    return len(run.prior.types.widths) * int(posterior.points.shape[1])


def _coefficients(
    run: Propagation, design: Design, posterior: TypePosteriors, chosen: NDArray[np.intp], n_items: int, typical: float
) -> CovariateEstimate:
    """Return posterior means and covariances of the coefficients, in the units of the covariates."""
    # These are given the scores; the uncertainty of scores and of the mean coefficients g, which all workers share, is
    # added. `chosen` are the types at the points of every worker's posterior.
    sites, scale, n_regular = run.sites, design.scale, _n_regular(run, posterior)
    assert isinstance(sites, CovariateSites)
    assert sites.laplace is not None
    assert sites.joint is not None
    q = posterior.masses[:, :n_regular]
    q = q / np.maximum(q.sum(axis=1, keepdims=True), 1e-300)
    by_type, within = sites.laplace.mean[:, :n_regular], sites.laplace.covariance[:, :n_regular]
    mean = np.einsum("st,stp->sp", q, by_type)
    about = by_type - mean[:, None]
    shared = sites.joint.coefficients - sites.joint.given
    covariance = np.einsum("st,stpq->spq", q, within) + shared
    variance = np.einsum("st,stp->sp", q, about**2) + np.einsum("spp->sp", covariance)
    row = np.arange(len(chosen))[:, None]
    regular = chosen < n_regular
    gamma = np.where(regular[..., None], by_type[row, np.minimum(chosen, n_regular - 1)], 0.0)
    g_sd = np.sqrt(np.diag(sites.joint.covariance)[n_items:])
    return CovariateEstimate(
        names=design.names,
        crowd=sites.effects.mean * ~design.by_items / scale,
        crowd_sd=g_sd / scale,
        spread=np.sqrt(sites.effects.variance) / scale,
        mean=mean / scale,
        sd=np.sqrt(variance) / scale,
        points=gamma / scale,
        covariance=covariance / (scale[:, None] * scale),
        item_values=design.item_values,
        typical=typical,
        gains={},
    )


def _points(
    run: Propagation, posterior: TypePosteriors, chosen: NDArray[np.intp], estimate: CovariateEstimate
) -> WorkerPoints:
    """Return reliability, tie width and side bias of the chosen types of every worker."""
    types, n_regular = run.prior.types, _n_regular(run, posterior)
    regular, levels = chosen < n_regular, posterior.points.shape[1]
    side, side_variance = np.zeros(chosen.shape), np.zeros(chosen.shape)
    if SIDE in estimate.names:
        side_only = np.append(np.zeros(n_regular), types.side_only)[chosen]
        side = np.where(regular, estimate.points[:, :, 0], side_only)
        side_variance = np.where(regular, estimate.covariance[:, :1, 0], 0.0)
    row = np.arange(len(chosen))[:, None]
    return WorkerPoints(
        np.where(regular, posterior.points[row, chosen % levels], 0.0) * run.scale(),
        np.append(np.repeat(types.widths, levels), types.side_only_widths)[chosen],
        side,
        side_variance,
    )


def vote_log_likelihood(votes: Comparisons, estimate: Estimate, ties: bool) -> Vector:
    """Return the log-probability of every vote, averaged over the posteriors of its worker and items."""
    # A soft outcome counts as a share of a win and a share of a loss.
    points, found = estimate.points, estimate.covariates
    assert points is not None
    assert found is not None
    first, second = votes.first.astype(np.int64), votes.second.astype(np.int64)
    variance = estimate.difference_variance(first, second)
    assert variance is not None
    offset, offset_variance = found.offsets(votes)
    worker, x = votes.worker_codes(), float(votes.sides_known)
    beta, width, side, side_variance = (column[worker] for column in points)
    v = beta**2 * variance[:, None] + x * side_variance + offset_variance
    k = smoothing(v)
    z = beta * (estimate.scores[first] - estimate.scores[second])[:, None] + x * side + offset
    won, lost = (sigmoid(k * (sign * z - width)).mean(axis=1) for sign in (1.0, -1.0))
    y = votes.outcome.astype(np.float64)
    logs = [np.log(np.maximum(p, 1e-300)) for p in (won, lost, 1.0 - won - lost)]
    soft = y * logs[0] + (1.0 - y) * logs[1]
    return np.asarray(np.where((y == 0.5) & ties, logs[2], soft), dtype=np.float64)


def with_covariate_estimate(estimate: Estimate, found: CovariateEstimate, points: WorkerPoints | None) -> Estimate:
    """Return the estimate with the covariates' coefficients; no later fit can start from it."""
    if points is None:
        return replace(estimate, covariates=found)
    side = estimate.crowd_side and (float(found.crowd[0]), float(found.crowd_sd[0]))
    return replace(estimate, covariates=found, points=points, population=None, sites=None, crowd_side=side)
