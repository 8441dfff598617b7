"""Whether what items are says something of their scores: a prior by features, kept by evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.item_features import DENSE_ITEMS, DensePrior
from crowdsift.solvers.ep.low_rank_features import LowRankPrior
from crowdsift.solvers.ep.pair_effect import branch
from crowdsift.solvers.ep.state import Propagation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crowdsift.numeric import Vector

__all__ = ["with_item_features"]

_TRIAL = 8  # iterations of a start before it may be dropped
_SAME = 0.995  # correlation of scores that makes two runs one
_CLEAR = 0.5  # mean square of scores, 1 before any vote, from which on votes determine them
_EQUAL = 1.0  # nats by which two that have the same scores may differ
_BEHIND = 5.0  # nats, and ten times what it gained last, by which a start is hopeless


def with_item_features(
    base: Propagation, levels: Vector, complete: Callable[[Propagation], None]
) -> Propagation:
    """The run with a prior by features where that has clearly more evidence, else the base.

    It goes on from the base, and starts afresh from no scores for every family of types: without
    features votes that share no items determine nothing, and their scores are no place to start.
    After a few iterations only those go on that may still win. Where a start is expensive and the
    votes alone determine most of the scores, it goes on from the base alone.
    """
    runs = list(_starts(base, levels))
    for run in runs:
        for _ in range(_TRIAL):
            if not run.done:
                run.iterate()
    best, completed = base, list[Propagation]()
    for run in _without_losers(runs):
        if _comes_to_one_of(completed, run):
            continue
        complete(run)
        completed.append(run)
        if _better(run, best):
            best = run
    best.feature_gain = best.evidence[-1] - base.evidence[-1]
    return best


def _starts(base: Propagation, levels: Vector) -> Iterator[Propagation]:
    settings, groups = base.settings, base.settings.item_features
    few = len(groups[0]) <= DENSE_ITEMS
    made = DensePrior(groups) if few else LowRankPrior(groups)
    clear = base.settled and float(np.mean(base.means**2)) >= _CLEAR
    expensive = isinstance(made, LowRankPrior) and made.is_expensive(int(base.sites.n_pairs))
    for types in () if clear and expensive else settings.families:
        run = Propagation.begin("flat", base.engine, levels, settings, types, base.rule.progress,
                                base.factorisation)  # fmt: skip
        if run is not None:
            run.item_prior = made.fresh()
            yield run
    if base.settled:
        run = branch(base)
        run.item_prior = made.fresh()
        run.restart()
        yield run


def _better(run: Propagation, best: Propagation) -> bool:
    """Whether it has more evidence; what has more parameters must have clearly more."""
    wider = run.prior.types.sides and not best.prior.types.sides
    margin = MIN_LOG_BAYES_FACTOR if wider or best.item_prior is None else 0.0
    return run.evidence[-1] > best.evidence[-1] + margin


def _without_losers(runs: list[Propagation]) -> list[Propagation]:
    """Runs that may still win; of two of a family with the same scores, that of more evidence."""
    kept: list[Propagation] = []
    for run in sorted(runs, key=lambda run: -run.evidence[-1]):
        gain = max(run.evidence[-1] - run.evidence[-2], 0.0) if len(run.evidence) > 1 else 0.0
        if not any(
            other.evidence[-1] - run.evidence[-1] > _BEHIND + 10.0 * gain
            or (other.prior.types is run.prior.types and _alike(run.means, other.means))
            for other in kept
        ):
            kept.append(run)
    return kept


def _comes_to_one_of(others: list[Propagation], run: Propagation) -> bool:
    """Iterates until it is where another one has ended, if that is before its own end."""
    while others and not run.done:
        run.iterate()
        if run.settled and any(
            _alike(run.means, other.means)
            and other.prior.types is run.prior.types
            and abs(other.evidence[-1] - run.evidence[-1]) < _EQUAL
            for other in others
        ):
            return True
    return False


def _alike(one: Vector, two: Vector) -> bool:
    sizes = float(np.linalg.norm(one) * np.linalg.norm(two))
    return sizes > 0.0 and abs(float(one @ two)) > _SAME * sizes
