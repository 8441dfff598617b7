"""Search over starting points, families of worker types and terms by evidence."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SitePass, WorkerTypes
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Vector
from crowdsift.solvers.convergence import Progress
from crowdsift.solvers.ep.items import Factorisation, loopy_bp
from crowdsift.solvers.ep.state import Propagation, Settings
from crowdsift.solvers.ep.terms import TERMS, compatible
from crowdsift.solvers.ep.terms.base import alike, far_behind, simpler_unless_worse
from crowdsift.solvers.ep.workers import PopulationSide, WorkerPrior, population_to

_TRIAL = 8  # iterations of a start before it may be dropped
_EQUAL = 0.01  # nats: of runs that differ by less, the one with the first start is taken
_NEARER = 3.0  # factor between the last changes of two runs that makes one of them clearly closer to its end
_ALIKE = 2  # iterations before two runs may be found to agree
_PASSES = 20  # iterations that settle tie widths, side biases and the items of gold votes


def propagate(engine: Engine, levels: Vector, settings: Settings, progress: Progress | None = None) -> Propagation:
    """Run expectation propagation from every start and return the run with the largest evidence."""
    # The richest family of worker types is run from every start for a few iterations. A run is dropped when its
    # evidence is so far behind another's that it can no longer catch up, or when another run has the same scores. A
    # simpler family continues from the result of the richer one, unless its scores are almost 0, and is kept unless it
    # has clearly less evidence. Then the terms are tried one by one.
    exact, settings = Factorisation(engine), replace(compatible(settings), levels=levels)
    best = _from_families(engine, levels, settings, progress, exact)
    if settings.refine and best.faint and not best.rule.converged:
        # Scores near 0 have no scale to hold: a run that holds it may circle without end.
        plain = _from_families(engine, levels, replace(settings, refine=False), progress, exact)
        if plain.rule.converged:
            best = plain
    return with_terms(best)


def _from_families(
    engine: Engine, levels: Vector, settings: Settings, progress: Progress | None, exact: Factorisation
) -> Propagation:
    """Return the run of the simplest family of worker types that is not clearly worse."""

    def from_starts(types: WorkerTypes) -> Propagation:
        return _from_starts(engine, levels, settings, types, progress, exact)

    best = from_starts(settings.families[-1])
    for types in reversed(settings.families[:-1]):
        if best.faint:
            simpler = from_starts(types)
            if best.evidence[-1] <= simpler.evidence[-1] + MIN_LOG_BAYES_FACTOR:
                best = simpler
        else:
            best = simpler_unless_worse(best, best.simplified(types))
    return best


def with_terms(run: Propagation) -> Propagation:
    """Try the terms in their order, each on the run that the previous ones left."""
    for term in TERMS:
        run = term.attempt(run)
    return run


def _from_starts(
    engine: Engine,
    levels: Vector,
    settings: Settings,
    types: WorkerTypes,
    progress: Progress | None,
    exact: Factorisation,
) -> Propagation:
    runs: list[Propagation] = []
    for name in settings.starts:
        if runs:
            runs[-1].suspend()
        run = Propagation.begin(name, engine, levels, settings, types, progress, exact)
        if run is not None:
            run.rule.iterate = partial(_iterate_of, ref(run), alone=False)
            _try(run, runs)
            runs.append(run)
    if not runs:  # no start is possible but zero scores
        flat = replace(settings, starts=("flat",))
        return _from_starts(engine, levels, flat, types, progress, exact)
    runs[-1].suspend()
    runs = _without_losers(runs)
    if len(runs) == len(settings.families) == 1:  # otherwise several runs could be continued
        runs[0].rule.iterate = partial(_iterate_of, ref(runs[0]), alone=True)
    for run in runs:
        run.resume()
        run.complete()
    best = max(runs, key=_standing)
    if best is not runs[-1]:
        best.resume()
    return best


def _iterate_of(run: ReferenceType[Propagation], *, alone: bool) -> Mapping[str, Any]:
    """Return what a later run needs to continue from the present state of this one, except the sites."""
    # While another start or family may still win, the run is not `alone`, and a later run starts over. The reference is
    # weak because the run holds the stopping rule that calls this function.
    there = run()
    if there is None:
        return {}
    if not alone:
        return {"scores": there.means}
    found = population_to(there.prior, there.sides.prior, there.pair_effect, 1.0)
    return {"scores": there.means, "variances": there.variances, "population": {**found, "unfinished": True}}


def _try(run: Propagation, others: list[Propagation]) -> None:
    """Run a few iterations; stop when the scores equal those of another run."""
    for number in range(_TRIAL):
        if run.done or (number >= _ALIKE and any(alike(run, other) for other in others)):
            return
        run.iterate()


def _without_losers(runs: list[Propagation]) -> list[Propagation]:
    """Return the runs that may still win, and only one of those that agree."""
    kept: list[Propagation] = []
    for run in sorted(runs, key=_standing, reverse=True):
        same = next((other for other in kept if alike(run, other)), None)
        if same is not None and _nearer(run, same):
            kept[kept.index(same)] = run
        elif same is None and not any(far_behind(run, other) for other in kept):
            kept.append(run)
    return kept


def _nearer(run: Propagation, better: Propagation) -> bool:
    """Return whether to complete this run although another one that agrees with it has more evidence."""
    # The evidence of a run that still moves is unreliable: it may be far above that of its limit. So a run that is much
    # closer to its end is preferred, unless the other one has more evidence than their remaining steps can explain.
    now, other = run.rule.history[-1], better.rule.history[-1]
    moved = max(abs(each.evidence[-1] - each.evidence[-2]) for each in (run, better))
    ahead = better.evidence[-1] - run.evidence[-1]
    return not better.settled and _NEARER * now < other and ahead <= 5.0 + 10.0 * moved


def _standing(run: Propagation) -> float:
    """Return the evidence, slightly reduced for later starts, so that the first start wins if two are equal."""
    return run.evidence[-1] - _EQUAL * run.settings.starts.index(run.name)


def null_evidence(engine: Engine, prior: WorkerPrior, side: SidePrior) -> float:
    """Return the evidence with all reliabilities 0: votes depend only on tie widths and side biases."""
    # Without ties and side biases every vote is a fair coin. Gold votes still depend on the items, and tie widths and
    # side biases are learned as the prior learns them.
    if prior.types is RELIABILITY_ONLY and not engine.facts.n_gold:
        return float(engine.facts.total_weight * np.log(0.5))
    sites = required(engine.grid).sites(prior.types, 2.0)
    exact = Factorisation(engine)
    masses, means = _without_reliability(prior, prior.masses), np.zeros(engine.facts.n_items)
    system = sites.system(sites.pair_sums())
    evidence = determinant = 0.0
    messages = None
    for step in range(_PASSES):
        linear = float(system.rhs @ means)
        update = sites.update(SitePass(prior.levels, masses, means, side, 0.5 if step else 1.0, True))
        evidence = update.log_messages - update.log_sites - 0.5 * determinant + 0.5 * linear
        prior, side = prior.updated(update.counts), PopulationSide(side).learned(update).prior
        masses, system = _without_reliability(prior, prior.masses), sites.system(sites.pair_sums())
        if engine.facts.n_gold:
            solution = system.laplacian.solve(system.rhs, means, shift=1.0, tolerance=1e-6, most=2_000)
            means = solution.x
            found = exact.variances(sites, system.laplacian, exact=True)
            if found is None:
                found, messages = loopy_bp(sites, system.laplacian, messages)
            determinant = found.log_determinant
    return evidence


def _without_reliability(prior: WorkerPrior, masses: Vector) -> Vector:
    """Return the masses with all mass of a tie width moved to reliability 0."""
    table = prior.by_width(masses)
    moved = np.zeros_like(table)
    moved[:, table.shape[1] // 2] = table.sum(axis=1)
    result = np.concatenate([moved.ravel(), masses[table.size :]])
    return np.asarray(result / result.sum())
