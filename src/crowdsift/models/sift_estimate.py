"""From a run of expectation propagation to the estimate of sift."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import required
from crowdsift.models.base import Estimate
from crowdsift.models.covariance import ScorePrecision, level_variance
from crowdsift.models.sift_summary import run_diagnostics, worker_estimate
from crowdsift.solvers.ep.summaries import summarise, typical_reliability
from crowdsift.solvers.ep.terms.contexts import ContextSites, in_another
from crowdsift.solvers.ep.terms.features import classes_of
from crowdsift.solvers.ep.warm import kept_sites
from crowdsift.solvers.ep.workers import population_to

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import PairPosteriors
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.state import Propagation
    from crowdsift.solvers.ep.summaries import TypeSummary
    from crowdsift.solvers.ep.terms.contexts import ContextPoints

__all__ = ["run_estimate", "worker_posteriors"]


def worker_posteriors(
    run: Propagation, engine: Engine, sides: tuple[Vector, Vector], size: float
) -> tuple[TypeSummary, ContextPoints | None]:
    """The posterior of every worker, and by context where workers differ by context.

    Parameters
    ----------
    run, engine
        The run, and the votes it is of.
    sides
        Mean and variance of every worker's side bias.
    size
        The scale of the run's scores; reliabilities are multiplied by it.
    """
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
    """The estimate at the end of a run, in units of `size`, of the sign that the run has.

    `workers` and `in_context` are those of `worker_posteriors`; sites are kept only where a later
    run can start from them.
    """
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
        precision=ScorePrecision.of(run.system.laplacian, engine.facts, 1.0, size),
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
        population=population_to(
            run.prior, run.sides.prior, run.pair_effect, size, contexts is not None
        ),
        sites=kept_sites(run.pair_sites) if keep_sites and contexts is None else None,
        diagnostics=tuple(run_diagnostics(run, engine)),
    )


def _pairs(run: Propagation, size: float) -> PairPosteriors | None:
    """Posteriors of pairs where these have an effect of their own."""
    if not run.pair_effect:
        return None
    found = run.pair_sites.pair_posteriors(run.means)
    return found._replace(mean=found.mean / size, variance=found.variance / size**2)


def _about_mean(scores: Vector, engine: Engine) -> Vector:
    """Scores about their mean; zeros stay exactly zero."""
    return np.asarray(scores - scores.mean()) if scores.any() else np.zeros(engine.facts.n_items)
