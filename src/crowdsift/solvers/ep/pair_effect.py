"""Whether votes on the same pair share an effect: one more variance, learned by evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.effect_step import MAX_EFFECT, MIN_EFFECT

if TYPE_CHECKING:
    from crowdsift.solvers.ep.state import Propagation

__all__ = ["branch", "with_pair_effect"]

_REPEATS = 0.1  # of votes that repeat a pair: with fewer there is nothing to learn from
# From so many passes on a trial ends where so many times its last rise would not lift it enough.
_PATIENCE, _LOOKAHEAD = 2, 10.0


def with_pair_effect(run: Propagation) -> Propagation:
    """The run with the effect u ~ N(0, s) of a pair where that has clearly more evidence.

    The slope falls with s, as a rule: the gain is then less than the slope at 0 times s, which says
    when not to try. Given up where s falls to nothing, and where the evidence no longer rises by
    enough.
    """
    votes = run.engine.facts.total_weight
    if not run.settled or votes - run.sites.n_pairs <= _REPEATS * votes:
        return run
    found = run.sites.pair_posteriors(run.means)
    if found.slope * MAX_EFFECT <= MIN_LOG_BAYES_FACTOR:
        return run
    trial = branch(run)
    trial.pair_effect = float(np.clip(found.slope / found.information, MIN_EFFECT, 1.0))
    trial.restart()
    wanted, begun = run.evidence[-1] + MIN_LOG_BAYES_FACTOR, len(trial.evidence)
    while not trial.done:
        trial.iterate()
        passes = len(trial.evidence) - begun
        rise = trial.evidence[-1] - trial.evidence[-2] if passes > 1 else np.inf
        hopeless = trial.evidence[-1] + _LOOKAHEAD * max(rise, 0.0) < wanted
        if trial.pair_effect <= MIN_EFFECT or (passes >= _PATIENCE and hopeless):
            return run
    trial.finish()
    return trial if trial.settled and trial.evidence[-1] > wanted else run


def branch(run: Propagation) -> Propagation:
    """The same state with sites of its own, and as many iterations to come as the run had."""
    rule = replace(run.rule, history=list(run.rule.history), converged=False,
                   most=run.rule.iterations + run.rule.most)  # fmt: skip
    return replace(
        run, sites=run.sites.copy(), messages=None, rule=rule, evidence=run.evidence[:-1]
    )
