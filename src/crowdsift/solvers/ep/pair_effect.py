"""Whether votes on the same pair share an effect: one more variance, chosen by evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.roots import expand_bracket, find_root
from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR

if TYPE_CHECKING:
    from crowdsift.solvers.ep.state import Propagation

__all__ = ["with_pair_effect"]

_REPEATS = 0.1  # of votes that repeat a pair: with fewer there is nothing to learn from
_LEAST, _MOST = 1e-3, 4.0  # variances worth a trial
_PATIENCE = 30  # iterations after which the slope of a trial is read, settled or not
_STRIDE, _CLOSE = float(np.log(4.0)), 0.1  # in log s: steps to a bracket, width of the last


def with_pair_effect(run: Propagation) -> Propagation:
    """The run with the effect u ~ N(0, s) of a pair where that has clearly more evidence.

    At a fixed point of EP the derivative of the evidence in s is that at fixed sites, so the
    maximum is looked for as the zero of `slope`, in log s. The slope falls with s, as a rule: the
    gain is then less than the slope at 0 times s, which tells where to start and when not to.
    """
    votes = run.engine.facts.total_weight
    if not run.settled or votes - run.sites.n_pairs <= _REPEATS * votes:
        return run
    slope = run.sites.pair_posteriors(run.means).slope
    if slope * _MOST <= MIN_LOG_BAYES_FACTOR:
        return run
    trial = _branch(run)
    best = _zero_of_slope(trial, min(max(0.5 * MIN_LOG_BAYES_FACTOR / slope, _LEAST), _MOST))
    if best > 0.0:
        _at(trial, best)
        while not trial.done:
            trial.iterate()
        trial.finish()
        if trial.settled and trial.evidence[-1] > run.evidence[-1] + MIN_LOG_BAYES_FACTOR:
            return trial
    return run


def _branch(run: Propagation) -> Propagation:
    """The same state with sites of its own, and as many iterations to come as the run had."""
    rule = replace(run.rule, history=list(run.rule.history), converged=False,
                   most=run.rule.iterations + run.rule.most)  # fmt: skip
    return replace(
        run, sites=run.sites.copy(), messages=None, rule=rule, evidence=run.evidence[:-1]
    )


def _zero_of_slope(trial: Propagation, start: float) -> float:
    """The variance of largest evidence; 0 where it is below the start."""

    def fall(log: float) -> float:
        return -_slope(trial, float(np.exp(log)))

    low, high = float(np.log(start)), float(np.log(_MOST))
    at_low = fall(low)
    if at_low >= 0.0:
        return 0.0
    bracket = expand_bracket(fall, low, _STRIDE, low, high, at_low)
    return _MOST if bracket is None else float(np.exp(find_root(fall, bracket, _CLOSE)))


def _slope(trial: Propagation, variance: float) -> float:
    """Derivative of the evidence in log s, EP being settled there."""
    _at(trial, variance)
    for _ in range(_PATIENCE):
        trial.iterate()
        if trial.settled:
            break
    return variance * trial.sites.pair_posteriors(trial.means).slope


def _at(trial: Propagation, variance: float) -> None:
    trial.pair_effect = variance
    trial.restart()
