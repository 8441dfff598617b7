"""Expectation propagation from several starts, and for several families of worker types."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.contexts import with_contexts
from crowdsift.solvers.ep.pair_effect import with_pair_effect
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.variances import Factorisation

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import WorkerTypes
    from crowdsift.numeric import Vector
    from crowdsift.solvers.convergence import Progress
    from crowdsift.solvers.ep.state import Settings

__all__ = ["complete", "propagate"]

_TRIAL = 8  # iterations of a start before it may be dropped


def propagate(
    engine: Engine,
    levels: Vector,
    settings: Settings,
    progress: Progress | None = None,
) -> Propagation:
    """Expectation propagation from every start; the run of the largest evidence.

    Every family of worker types is tried from every start, all for a few iterations. A run is
    dropped when it is far behind another for what it still gains, or when another of its family
    has found the same scores.
    """
    runs: list[Propagation] = []
    exact = Factorisation(engine)
    for types, name in product(settings.families, settings.starts):
        if runs:
            runs[-1].suspend()
        run = Propagation.begin(name, engine, levels, settings, types, progress, exact)
        if run is not None:
            for _ in range(_TRIAL):
                if not run.done:
                    run.iterate()
            runs.append(run)
    if not runs:  # votes that start nowhere but from nothing
        return propagate(engine, levels, replace(settings, starts=("flat",)), progress)
    runs[-1].suspend()
    runs = _without_losers(runs)
    for run in runs:
        run.resume()
        complete(run)
    best = _best(runs, settings.families)
    if best is not runs[-1]:
        best.resume()
    best = with_contexts(best) if settings.contexts else best
    return with_pair_effect(best) if settings.pair_effect else best


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


def _best(runs: list[Propagation], families: tuple[WorkerTypes, ...]) -> Propagation:
    """The largest evidence of the first family, unless a later one has clearly more."""
    families_run = [[run for run in runs if run.prior.types is family] for family in families]
    champions = [max(own, key=lambda run: run.evidence[-1]) for own in families_run if own]
    best = champions[0]
    for other in champions[1:]:
        if other.evidence[-1] > best.evidence[-1] + MIN_LOG_BAYES_FACTOR:
            best = other
    return best


def _without_losers(runs: list[Propagation]) -> list[Propagation]:
    """Runs that may still win; where two of a family agree, the one with the larger evidence."""
    kept: list[Propagation] = []
    for run in sorted(runs, key=lambda run: -run.evidence[-1]):
        gain = max(run.evidence[-1] - run.evidence[-2], 0.0) if len(run.evidence) > 1 else 0.0
        beaten = any(
            other.evidence[-1] - run.evidence[-1] > 5.0 + 10.0 * gain
            or (
                other.prior.types is run.prior.types
                and abs(_correlation(other.means, run.means)) > 0.995
            )
            for other in kept
        )
        if not beaten:
            kept.append(run)
    return kept


def _correlation(one: Vector, two: Vector) -> float:
    sizes = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / sizes if sizes > 0 else 0.0
