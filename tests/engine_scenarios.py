"""What a solver asks of an engine, pass by pass: every engine must answer as the reference does.

A scenario takes an engine and a seed and yields named results. Codes of items and workers are the same in all engines;
pairs and votes may come in any order, and are put in one here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from grid_scenarios import (
    belief_propagation,
    correlations,
    factorisations,
    pair_effects,
    predictions,
    site_updates,
    some_workers,
    suspended,
    transforms,
    vote_sites,
    worker_priors,
)
from reference_engine.links import LIKELIHOODS
from scenario_results import DOUBLE, EXACT, SETTLED, SINGLE, Named, Results, Slack, operator, point, records

from crowdsift.engines.base import Engine, SlopePrior, required
from crowdsift.engines.dimensions import Crowd, Part
from crowdsift.solvers.em import EMState, alternate

Scenario = Callable[[Engine, int], Results]

# --- counts --------------------------------------------------------------------------------------


def facts(engine: Engine, seed: int) -> Results:
    """What is known without a pass."""
    known = engine.facts
    for name in ("n_items", "n_workers", "n_features", "sides_known", "ties", "n_gold"):
        yield Named(name, getattr(known, name), EXACT)
    yield Named("total_weight", known.total_weight, DOUBLE)
    yield Named("component", known.component, EXACT)


def tallies(engine: Engine, seed: int) -> Results:
    """Votes counted, for ranks of which some are equal."""
    rank = np.random.default_rng(seed).integers(1, 5, engine.facts.n_items).astype(np.float64)
    yield from records("tally", engine.counts.tally(rank), DOUBLE)


def margins(engine: Engine, seed: int) -> Results:
    x = np.random.default_rng(seed).normal(size=engine.facts.n_items)
    for prior in (0.5, 1.0):
        yield Named(f"margins({prior})", engine.counts.margins(prior).multiply(x), DOUBLE)


# --- slopes and EM -------------------------------------------------------------------------------


def slope_likelihood(engine: Engine, seed: int) -> Results:
    yield Named("log_likelihood", engine.slopes.log_likelihood(*point(engine, seed)), DOUBLE)


def slope_curvature(engine: Engine, seed: int) -> Results:
    """Also: an operator stays what it was when a later pass has another."""
    n = engine.facts.n_items
    before = engine.slopes.curvature(*point(engine, seed))
    after = engine.slopes.curvature(*point(engine, seed + 1))
    for name, found in (("before", before), ("after", after)):
        for field in ("value", "gradient", "information"):
            yield Named(f"{name}.{field}", getattr(found, field), DOUBLE)
        yield from operator(f"{name}.laplacian", found.laplacian, n)


def common_slope(engine: Engine, seed: int) -> Results:
    """The profile without a prior: one slope, given."""
    scores, _ = point(engine, seed)
    slopes = np.full(engine.facts.n_workers, [-0.7, 0.0, 1.3][seed % 3])
    found = engine.slopes.profile(scores, slopes)
    for field in ("value", "gradient", "slopes", "curvature"):
        yield Named(field, getattr(found, field), DOUBLE)
    yield from operator("hessian", found.hessian, engine.facts.n_items, pairs=False)


def own_slopes(engine: Engine, seed: int) -> Results:
    """The profile with a prior: every slope at its optimum."""
    scores, slopes = point(engine, seed)
    found = engine.slopes.profile(scores, slopes, SlopePrior(0.8, 2.0, 1e-9))
    for field in ("value", "gradient", "slopes", "curvature"):
        yield Named(field, getattr(found, field), SETTLED)
    # A Schur complement that need not be positive: no solves
    yield from operator("hessian", found.hessian, len(scores), pairs=False, definite=False)


def coarse_profile(engine: Engine, seed: int) -> Results:
    """A gradient that need not resolve steps below 1e-3 is exact to a tenth of such a step."""
    scores, slopes = point(engine, seed)
    for prior in (None, SlopePrior(0.8, 2.0, 1e-9)):
        start = slopes if prior else np.ones(len(slopes))
        found = engine.slopes.profile(scores, start, prior, resolution=1e-3)
        size = 1.0 + found.hessian.diagonal()
        yield Named("step", found.gradient / size, Slack(0.0, 1e-4))
        yield Named("value", found.value, Slack(1e-5, 1e-5))


def expectation_maximisation(engine: Engine, seed: int) -> Results:
    """An E-step, its item system, and regressions of workers with theirs."""
    scores, slopes = point(engine, seed)
    n = len(scores)
    step = engine.em.e_step(scores, slopes)
    yield Named("log_likelihood", step.log_likelihood, DOUBLE)
    yield Named("precision", step.precision, SINGLE)
    before = step.system
    for ridge in (1.0, 0.1):
        found, system = step.regress(scores[::-1].copy(), ridge)
        yield Named(f"slopes({ridge})", found, SINGLE)
        yield Named(f"rhs({ridge})", system.rhs, SINGLE)
        yield from operator(f"laplacian({ridge})", system.laplacian, n)
    yield Named("system.rhs", before.rhs, SINGLE)
    yield from operator("system.laplacian", before.laplacian, n)
    state = EMState(scores, slopes, step)
    *moved, solved = alternate(state, 2, shift=0.3, ridge=1.0, tolerance=1e-12)  # fused or not
    yield Named("M-step", np.concatenate(moved), Slack(30 * SINGLE.relative, 30 * SINGLE.absolute))
    assert solved


# --- likelihoods ---------------------------------------------------------------------------------


def _parameters(engine: Engine, name: str) -> int:
    """How many a worker has; 0 where the votes do not have what the likelihood needs."""
    features = engine.facts.n_features
    return {"led-logit": (1 + features) * (features > 0), "shifted-logit": features}.get(name, 1)


def likelihood_derivatives(engine: Engine, seed: int) -> Results:
    """Value and derivatives of every likelihood, and the matrices that they leave."""
    rng = np.random.default_rng(seed)
    n, m = engine.facts.n_items, engine.facts.n_workers
    for name in sorted(LIKELIHOODS):
        p = _parameters(engine, name)
        if not p:
            continue
        scores, most = rng.uniform(-3, 3, n), 1.0 if name == "flipped-logit" else 2.0
        theta = rng.uniform(0.05, 0.95, (m, p)) * most
        found = engine.likelihood.derivatives(name, scores, theta)
        for field in ("value", "items", "workers", "blocks"):
            yield Named(f"{name}.{field}", getattr(found, field), DOUBLE)
        inverse = rng.normal(size=(m, p, p))
        inverse = inverse @ inverse.transpose(0, 2, 1)
        reduced = found.hessian.reduced(inverse)
        yield from operator(f"{name}.reduced", reduced, n, pairs=False, definite=False)
        yield from operator(f"{name}.laplacian", found.hessian.reduced(None), n, definite=False)


def likelihood_workers(engine: Engine, seed: int) -> Results:
    """Workers' parameters at the maximum of their penalised likelihood, within bounds.

    A likelihood may have several maxima; with a strong prior it has one.
    """
    rng = np.random.default_rng(seed)
    n, m = engine.facts.n_items, engine.facts.n_workers
    for name in sorted(LIKELIHOODS):
        p = _parameters(engine, name)
        if not p:
            continue
        bounds = (0.05, 0.95) if name == "flipped-logit" else (-np.inf, np.inf)
        found = engine.likelihood.fit_workers(
            name,
            rng.uniform(-1, 1, n),
            np.full((m, p), 0.6),
            centre=np.full(p, 0.5),
            penalty=40.0,
            bounds=bounds,
            tolerance=1e-9,
        )
        yield Named(name, found, SETTLED)


# --- contexts -----------------------------------------------------------------------------------


def contexts(engine: Engine, seed: int) -> Results:
    """Workers in contexts as workers, gold the same in all."""
    found = engine.by_context()
    yield Named("worker", found.worker, EXACT)
    yield Named("context", found.context, EXACT)
    for scenario in (facts, tallies, site_updates, slope_curvature):
        for name, value, slack in scenario(found.engine, seed):
            yield Named(f"{scenario.__name__}.{name}", value, slack)


# Scenarios for any votes, by the capability that they need.
def dimensions(engine: Engine, seed: int) -> Results:
    """All passes in one to four dimensions, with sides and without, over all parts of the votes."""
    rng, facts = np.random.default_rng(seed), engine.facts
    K, S = facts.n_items, facts.n_workers
    for D, sides, part in ((1, 1, Part.ALL), (2, 0, Part.KEPT), (4, 1, Part.LEFT_OUT)):
        E, x = D + sides, rng.normal(size=(K, D))
        root = rng.normal(size=(K * D, K * D)) / K
        whole = root @ root.T + 0.1 * np.eye(K * D)
        at = np.arange(K)
        blocks = whole.reshape(K, D, K, D)[at, :, at]
        precision = np.zeros((E, E))
        precision[:D, :D] = np.eye(D) + 0.2
        precision[D:, D:] = 4.0 * np.eye(sides)
        crowd = Crowd(rng.normal(size=E), precision, np.log([0.7, 0.1, 0.1, 0.1]), 0.1, 0.2)
        a = rng.normal(size=(S, E))
        second = a[:, :, None] * a[:, None, :] + 0.3 * np.eye(E)
        width, passes = rng.uniform(0.1, 0.6, S), required(engine.dimensions)
        for C in (whole, blocks):
            found = passes.update(x, C, crowd, a, second, width, facts.ties, int(part), 0.5 * sides)
            *parts, system = found
            for name, value in zip(found._fields, parts, strict=False):
                yield Named(f"dimensions.{name}", value, SINGLE)
            yield Named("blocks.multiply", system.multiply(x), SINGLE)
            yield Named("blocks.diagonal", system.diagonal(), SINGLE)
            low, high, weight = system.pairs()
            matrix = np.zeros((K, K, D, D))
            np.add.at(matrix, (np.minimum(low, high), np.maximum(low, high)), weight)
            yield Named("blocks.pairs", matrix, SINGLE)
            total = passes.log_probability(x, C, a, second, width, facts.ties, int(part))
            yield Named("log_probability", np.array(total), DOUBLE)
            classes = passes.class_evidence(x, C, crowd, a, width, facts.ties)
            yield Named("class_evidence", classes, Slack(1e-5, 1e-5))
        shares = rng.dirichlet(np.ones(4), S)
        for whole in (True, False):
            response = passes.response(x, crowd, a, shares, width, facts.ties, whole)
            yield Named("response", response, SETTLED)
        residuals = passes.residuals(x, a, width, rng.integers(2, size=S) * 1.0, facts.ties, int(part))
        yield Named("residuals.diagonal", residuals.diagonal(), SINGLE)
        v = rng.normal(size=(K, 3))
        yield Named("residuals.multiply", residuals.multiply(v), SINGLE)


SCENARIOS: dict[str, tuple[Scenario, ...]] = {
    "counts": (facts, tallies, margins),
    "slopes": (slope_likelihood, slope_curvature, common_slope, own_slopes, coarse_profile),
    "em": (expectation_maximisation,),
    "likelihood": (likelihood_derivatives, likelihood_workers),
    "grid": (
        site_updates,
        pair_effects,
        transforms,
        worker_priors,
        some_workers,
        vote_sites,
        suspended,
        belief_propagation,
        correlations,
        predictions,
        factorisations,
    ),
    "dimensions": (dimensions,),
}
