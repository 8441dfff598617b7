"""Posterior modes with a prior of scores by features of items, with shares chosen by evidence.

The prior is that of `solvers.ep.terms.features`, r ~ N(0, C) with C = sI + Σρ_b X_bX_bᵀ of mean diagonal 1. The
evidence is Laplace's at the mode of scores and slopes, workers' slopes apart from scores, as in the intervals: with the
Laplacian L of the votes' curvature in the scores -V - ½log|L + C⁻¹| - ½log|C| - ½Σ log h, V the objective and h the
curvature of every slope.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from crowdsift.engines.base import Engine, Profile, required
from crowdsift.engines.grid import SiteSystem
from crowdsift.numeric import Vector
from crowdsift.numeric.roots import Bracket, find_root
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.ep.terms.features import DensePrior, Matrix
from crowdsift.solvers.slopes import minimise_with_slopes

_MOST_ALTERNATIONS = 60  # most alternations between a mode and a step of the shares
_REST = 1e-3  # change of the shares below which they count as converged
_SECTIONS = 10  # steps of the search for the sum of the shares
_LEAST, _LEAST_OWN = 1e-6, 0.02  # smallest ρ and s


@dataclass
class FeatureMode:
    """The mode of scores and slopes, with the quantities that a prior by features needs."""

    means: Vector
    at: Profile
    trace: list[float]
    rule: StoppingRule
    system: SiteSystem
    variances: Vector
    evidence: float
    item_prior: DensePrior
    feature_gain: float = 0.0


class _Precision:
    """The prior precision C⁻¹ of few items, as the penalty of a likelihood."""

    def __init__(self, inverse: Vector, own: float) -> None:
        self._inverse, self.level = inverse, 1.0 / own

    def times(self, v: Vector) -> Vector:
        return np.asarray(self._inverse @ v)

    def diagonal(self) -> Vector:
        return np.diag(self._inverse)


def mode_with_features(
    engine: Engine,
    blocks: Sequence[Matrix],
    *,
    mean: float,
    sd: float,
    rule: StoppingRule,
    start: tuple[Vector, Vector],
) -> FeatureMode:
    """Find the mode and the features' shares in turn, then the best sum of the shares; return both."""
    # `blocks` are the X_b: one row per item, centred columns, rows of mean square norm 1.
    prior: DensePrior = _FixedScale(blocks)
    at = start
    for _ in range(_MOST_ALTERNATIONS):
        found = _settled(engine, prior, mean, sd, rule, at)
        at, before = (found.means, found.at.slopes), prior.shares
        prior = copy(found.item_prior)
        prior.learn(cast("Any", found))
        if float(np.abs(prior.shares - before).max()) <= _REST:
            break
    return _best_sum(lambda shares: _settled(engine, prior, mean, sd, rule, at, shares), found)


def _best_sum(settled: Callable[[Vector], FeatureMode], found: FeatureMode) -> FeatureMode:
    """Return the mode with the sum of the shares at the maximum of the evidence, by golden section."""
    # A step of `learn` holds the Laplacian, which depends on the mode, and the slopes. So it slightly underestimates
    # the sum of all features' shares.
    shares = found.item_prior.shares
    total = min(float(shares.sum()), 1.0 - _LEAST_OWN)
    middle, golden = float(np.log(total / (1.0 - total))), (np.sqrt(5.0) - 1.0) / 2.0
    known: dict[float, FeatureMode] = {}

    def evidence(log_odds: float) -> float:
        share = min(1.0 / (1.0 + float(np.exp(-log_odds))), 1.0 - _LEAST_OWN)
        known[log_odds] = settled(shares / total * share)
        return known[log_odds].evidence

    low, high = middle - 3.0, middle + 1.0
    one, two = high - golden * (high - low), low + golden * (high - low)
    at_one, at_two = evidence(one), evidence(two)
    for _ in range(_SECTIONS):
        if at_one > at_two:
            high, two, at_two = two, one, at_one
            one = high - golden * (high - low)
            at_one = evidence(one)
        else:
            low, one, at_one = one, two, at_two
            two = low + golden * (high - low)
            at_two = evidence(two)
    return max(known.values(), key=lambda mode: mode.evidence)


def _settled(
    engine: Engine,
    prior: DensePrior,
    mean: float,
    sd: float,
    rule: StoppingRule,
    start: tuple[Vector, Vector],
    shares: Vector | None = None,
) -> FeatureMode:
    """Return the mode for these shares, by default the shares that the prior has."""
    prior = copy(prior)
    prior.shares = prior.shares if shares is None else shares
    penalty = _Precision(prior.precision, prior.own)
    again = StoppingRule(rule.measure, rule.tolerance, rule.most, rule.progress)
    scores, at, trace = minimise_with_slopes(engine, penalty=penalty, mean=mean, sd=sd, rule=again, start=start)
    laplacian = required(engine.slopes).curvature(scores, at.slopes).laplacian
    system = SiteSystem(laplacian, laplacian.multiply(scores) + penalty.times(scores), 0.0)
    evidence = _evidence(prior, system, at, trace[-1])
    return FeatureMode(scores, at, trace, again, system, np.diag(prior.covariance).copy(), evidence, prior)


def plain_evidence(engine: Engine, scores: Vector, at: Profile, value: float) -> float:
    """Return the evidence of a mode without features, C = I."""
    laplacian = required(engine.slopes).curvature(scores, at.slopes).laplacian
    system = SiteSystem(laplacian, np.zeros(len(scores)), 0.0)
    return _evidence(DensePrior([np.zeros((len(scores), 0))], np.zeros(1)), system, at, value)


def _evidence(prior: DensePrior, system: SiteSystem, at: Profile, value: float) -> float:
    prior.solve(system, system.rhs, 0.0)
    return -value - 0.5 * prior.log_determinant - 0.5 * float(np.log(at.curvature).sum())


class _FixedScale(DensePrior):
    """Shares whose sum with s is held at 1, since nothing else fixes the scale of the scores."""

    def learn(self, run: Any) -> None:
        """Set the shares to ρ_b|w_b|²/(γ_b + λρ_b), and s likewise, with λ such that they add up to 1."""
        # At convergence the derivatives of the evidence in all variances are equal, ½λ, as a maximum under a fixed sum
        # requires. A block of constant features gets the least share.
        squares, determined = self._squares(run)
        variances = np.append(self.shares, self.own)
        top = variances * squares
        least = float(determined[top > 0.0].min())

        def excess(log: float) -> float:
            multiplier = float(np.exp(log)) - least
            return float((top / (determined + multiplier)).sum()) - 1.0

        log = find_root(excess, Bracket(-30.0, 40.0, excess(-30.0), excess(40.0)), 1e-9)
        found = np.maximum(top / (determined + float(np.exp(log)) - least), _LEAST)
        found[-1] = max(found[-1], _LEAST_OWN)
        self.shares = found[:-1] / found.sum()
