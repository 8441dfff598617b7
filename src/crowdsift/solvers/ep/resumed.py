"""A run that goes on from an earlier one decides anew what evidence decides.

Whether workers have sides, and pairs an effect, was decided for the earlier votes. Near the limit
new votes may decide otherwise, and the answer must be that of a run from nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.pair_effect import branch, with_pair_effect
from crowdsift.solvers.ep.run import complete, far_behind, simplified, with_more_effects
from crowdsift.solvers.ep.side_prior import PopulationSide
from crowdsift.solvers.ep.warm import WarmStart, resume
from crowdsift.solvers.ep.worker_prior import WorkerPrior

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.solvers.convergence import Progress
    from crowdsift.solvers.ep.state import Propagation, Settings

__all__ = ["resumed"]


def resumed(
    start: WarmStart, engine: Engine, settings: Settings, progress: Progress | None = None
) -> Propagation:
    """The run that goes on, with the worker types and the effect of pairs that the votes show.

    What clearly has the evidence for it is found to have it within a pass or two.
    """
    run = resume(start, engine, settings, progress)
    if run.prior.types.sides:
        run = _unless_simpler(run, settings)
    elif settings.families[-1].sides:
        run = _unless_richer(run, settings, progress)
    if run.pair_effect:
        return _unless_without_effect(run)
    if start.unfinished:
        return with_more_effects(run)
    return with_pair_effect(run) if settings.pair_effect else run


def _unless_simpler(run: Propagation, settings: Settings) -> Propagation:
    """The run, or one without sides where it has hardly less evidence, or nothing hints at them."""
    types = settings.families[0]
    if not settings.families[-1].sides:
        simpler = run.simplified(types)
        complete(simpler)
        return simpler
    found = simplified(run, types)
    if found is None or run.evidence[-1] > found.evidence[-1] + MIN_LOG_BAYES_FACTOR:
        return run
    return found


def _unless_richer(run: Propagation, settings: Settings, progress: Progress | None) -> Propagation:
    """The run, or one with sides where it has clearly more evidence."""
    prior = run.prior
    centre = 1.0 if prior.centre is None else prior.centre
    spread = 0.5 if prior.spread is None else prior.spread
    richer = WorkerPrior.start(prior.levels, centre, spread, settings.families[-1])
    side = PopulationSide().prior
    start = WarmStart(run.means, run.variances, richer, side, run.pair_effect)
    found = resume(start, run.engine, settings, progress)
    clear = found.settled and found.evidence[-1] > run.evidence[-1] + MIN_LOG_BAYES_FACTOR
    return found if clear else run


def _unless_without_effect(run: Propagation) -> Propagation:
    """The run, or one without an effect of pairs where it has hardly less evidence."""
    trial = branch(run)
    trial.pair_effect = 0.0
    trial.restart()
    while not trial.done:
        trial.iterate()
        if far_behind(trial, run):
            return run
    trial.finish()
    clear = run.evidence[-1] > trial.evidence[-1] + MIN_LOG_BAYES_FACTOR
    return run if clear or not trial.settled else trial
