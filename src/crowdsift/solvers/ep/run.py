"""Expectation propagation from several starts, and for several families of worker types."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.contexts import with_contexts
from crowdsift.solvers.ep.feature_run import with_item_features
from crowdsift.solvers.ep.pair_effect import with_pair_effect
from crowdsift.solvers.ep.population import iterate_of
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.variances import Factorisation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from weakref import ReferenceType

    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import WorkerTypes
    from crowdsift.numeric import Vector
    from crowdsift.solvers.convergence import Progress
    from crowdsift.solvers.ep.state import Settings

__all__ = ["complete", "far_behind", "propagate", "simplified", "with_more_effects"]

_TRIAL = 8  # iterations of a start before it may be dropped
_EQUAL = 0.01  # nats: where runs differ by less, that of the first start is taken
_FAINT = 0.5  # mean square of scores, 1 before any vote: below, they may be nothing
_NEARER = 3.0  # times a smaller last change, for a run to be nearer to its end than another
_ALIKE = 2  # iterations before one may be found to be the same as another


def propagate(
    engine: Engine,
    levels: Vector,
    settings: Settings,
    progress: Progress | None = None,
) -> Propagation:
    """Expectation propagation from every start; the run of the largest evidence.

    The richest family of worker types is tried from every start, all for a few iterations. A run
    is dropped when it is far behind another for what it still gains, or when another has found the
    same scores. A simpler family goes on from what the richer one found, unless that is next to
    nothing, and is kept unless it has clearly less evidence.
    """
    exact = Factorisation(engine)

    def from_starts(types: WorkerTypes) -> Propagation:
        return _from_starts(engine, levels, settings, types, progress, exact)

    best = from_starts(settings.families[-1])
    for types in reversed(settings.families[:-1]):
        faint = float(np.mean(best.means**2)) < _FAINT
        simpler = from_starts(types) if faint else simplified(best, types)
        if simpler and best.evidence[-1] <= simpler.evidence[-1] + MIN_LOG_BAYES_FACTOR:
            best = simpler
    if settings.item_features:
        return with_item_features(best, levels, complete)
    return with_more_effects(best)


def with_more_effects(run: Propagation) -> Propagation:
    """With contexts and an effect of pairs, each where the evidence asks for it."""
    run = with_contexts(run) if run.settings.contexts else run
    return with_pair_effect(run) if run.settings.pair_effect else run


def _from_starts(
    engine: Engine,
    levels: Vector,
    settings: Settings,
    types: WorkerTypes,
    progress: Progress | None,
    exact: Factorisation,
) -> Propagation:
    """The run of the largest evidence, of those from all starts."""
    runs: list[Propagation] = []
    for name in settings.starts:
        if runs:
            runs[-1].suspend()
        run = Propagation.begin(name, engine, levels, settings, types, progress, exact)
        if run is not None:
            run.rule.iterate = partial(_iterate_of, ref(run), alone=False)
            _try(run, runs)
            runs.append(run)
    if not runs:  # votes that start nowhere but from nothing
        flat = replace(settings, starts=("flat",))
        return _from_starts(engine, levels, flat, types, progress, exact)
    runs[-1].suspend()
    runs = _without_losers(runs)
    if len(runs) == len(settings.families) == 1:  # else no run is the one to go on with
        runs[0].rule.iterate = partial(_iterate_of, ref(runs[0]), alone=True)
    for run in runs:
        run.resume()
        complete(run)
    best = max(runs, key=_standing)
    if best is not runs[-1]:
        best.resume()
    return best


def _iterate_of(run: ReferenceType[Propagation], *, alone: bool) -> Mapping[str, Any]:
    """What a later run needs; the rule does not hold the run, which holds the rule."""
    there = run()
    return {} if there is None else iterate_of(there, alone=alone)


def _try(run: Propagation, others: list[Propagation]) -> None:
    """A few iterations, fewer where the scores are those of another run."""
    for number in range(_TRIAL):
        if run.done or (number >= _ALIKE and any(_alike(run, other) for other in others)):
            return
        run.iterate()


def simplified(run: Propagation, types: WorkerTypes) -> Propagation | None:
    """A run of simpler types from where the run ended; None where it is far behind."""
    simpler = run.simplified(types)
    while not simpler.done:
        simpler.iterate()
        if len(simpler.evidence) > 1 and far_behind(simpler, run):
            return None
    complete(simpler)
    return simpler


def complete(run: Propagation) -> None:
    """To the end; should gold turn out reversed, from there with the other sign."""
    for _ in range(2):
        while not run.done:
            run.iterate()
        run.finish()
        if not run.engine.facts.n_gold or run.gold_margin >= 0.0:
            return
        run.flip()
        run.rule.most += run.rule.iterations
    while not run.done:
        run.iterate()
    run.finish()


def _without_losers(runs: list[Propagation]) -> list[Propagation]:
    """Runs that may still win, one of those that agree."""
    kept: list[Propagation] = []
    for run in sorted(runs, key=_standing, reverse=True):
        same = next((other for other in kept if _alike(run, other)), None)
        if same is not None and _nearer(run, same):
            kept[kept.index(same)] = run
        elif same is None and not any(far_behind(run, other) for other in kept):
            kept.append(run)
    return kept


def _nearer(run: Propagation, better: Propagation) -> bool:
    """Whether a run is the one to complete, though one that agrees has more evidence.

    The evidence of a run that still moves is no measure: it may be far above that of the state
    which it comes to. So a run that is much nearer to its end is taken unless the other one has
    so much more evidence that the last steps of neither account for it.
    """
    now, other = run.rule.history[-1], better.rule.history[-1]
    moved = max(abs(each.evidence[-1] - each.evidence[-2]) for each in (run, better))
    ahead = better.evidence[-1] - run.evidence[-1]
    return not better.settled and _NEARER * now < other and ahead <= 5.0 + 10.0 * moved


def _standing(run: Propagation) -> float:
    """The evidence, next to equal ones of a later start being a little less."""
    return run.evidence[-1] - _EQUAL * run.settings.starts.index(run.name)


def far_behind(run: Propagation, other: Propagation) -> bool:
    """Whether a run has so much less evidence than another that its gains will not make it up."""
    gain = max(run.evidence[-1] - run.evidence[-2], 0.0) if len(run.evidence) > 1 else 0.0
    return other.evidence[-1] - run.evidence[-1] > 5.0 + 10.0 * gain


def _alike(run: Propagation, other: Propagation) -> bool:
    return abs(_correlation(run.means, other.means)) > 0.995


def _correlation(one: Vector, two: Vector) -> float:
    sizes = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / sizes if sizes > 0 else 0.0
