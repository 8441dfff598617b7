"""Votes left out, to choose by what has not been seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.engines import choose_engine
from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.models import Model
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Tuning", "folds", "left_out_log_likelihood", "tune"]

# Neighbouring values of a tuned hyper-parameter differ by this factor.
_FACTOR = 10**0.5
_WIDEST = 1e4  # times or through the default value


def folds(
    votes: Comparisons, count: int = 5, seed: int = 0
) -> Iterator[tuple[Comparisons, Comparisons]]:
    """Split votes at random: each part is left out once, the rest is to be fitted.

    Equal votes of a worker that were collapsed into one comparison are dealt out one by one
    (those of fractional weight as a whole). Items and workers keep their codes.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.models.holdout import folds
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=100, seed=1).comparisons()
    >>> sum(left_out.total_weight for kept, left_out in folds(votes, 5))
    100.0
    """
    if not 2 <= count <= votes.total_weight:
        raise RequestError(f"{count} parts of {votes.total_weight:g} votes cannot be left out")
    rng = np.random.Generator(np.random.PCG64(seed))
    weight = votes.weight.astype(np.float64)
    whole = weight == np.floor(weight)
    dealt = rng.multinomial(np.where(whole, weight, 1).astype(np.int64), [1.0 / count] * count)
    shares = np.where(whole[:, None], dealt, dealt * weight[:, None])
    for part in range(count):
        yield _with_weight(votes, weight - shares[:, part]), _with_weight(votes, shares[:, part])


def _with_weight(votes: Comparisons, weight: Any) -> Comparisons:
    changed = replace(votes, weight=weight.astype(np.float32))
    return changed.select(weight > 0)


def left_out_log_likelihood(
    votes: Comparisons,
    model: Model,
    *,
    count: int = 5,
    seed: int = 0,
    engine: str = "auto",
    threads: int | None = None,
) -> float:
    """Mean log-likelihood of votes that the model was not fitted to.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.models.holdout import left_out_log_likelihood
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=500, seed=1).comparisons()
    >>> -0.7 < left_out_log_likelihood(votes, crowdsift.BradleyTerry()) < -0.3
    True
    """
    total = 0.0
    for kept, left_out in folds(votes, count, seed):
        estimate = model.estimate(choose_engine(engine, model.prepare(kept), threads))
        total += model.left_out(choose_engine(engine, model.prepare(left_out), threads), estimate)
    return total / votes.total_weight


@dataclass(frozen=True)
class Tuning:
    """A hyper-parameter chosen by left-out votes.

    Attributes
    ----------
    model
        The model with the chosen value.
    parameter, value
        What was chosen.
    tried
        Every value with its mean left-out log-likelihood, in the order of values.
    """

    model: Model
    parameter: str
    value: float
    tried: tuple[tuple[float, float], ...]


def tune(
    votes: Comparisons,
    model: Model,
    *,
    count: int = 5,
    seed: int = 0,
    engine: str = "auto",
    threads: int | None = None,
) -> Tuning:
    """Choose the model's penalty by left-out votes.

    Goes up or down from the value given, by factors of √10, as long as the mean log-likelihood
    of left-out votes rises; the same votes are left out every time.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
    >>> chosen = crowdsift.tune(votes, crowdsift.BradleyTerry())
    >>> chosen.parameter, max(chosen.tried, key=lambda pair: pair[1])[0] == chosen.value
    ('penalty', True)
    """
    if not model.tuned:
        raise RequestError(f"{model.name} has no penalty to choose: the evidence decides")
    start = float(getattr(model, model.tuned))
    tried: dict[int, float] = {}

    def quality(step: int) -> float:
        if step not in tried:
            tried[step] = left_out_log_likelihood(
                votes,
                replace(model, **{model.tuned: start * _FACTOR**step}),
                count=count,
                seed=seed,
                engine=engine,
                threads=threads,
            )
        return tried[step]

    best = 0
    for direction in (1, -1):
        while quality(best + direction) > quality(best) and _FACTOR ** abs(best) < _WIDEST:
            best += direction
        if best:
            break
    value = start * _FACTOR**best
    return Tuning(
        replace(model, **{model.tuned: value}),
        model.tuned,
        value,
        tuple((start * _FACTOR**step, tried[step]) for step in sorted(tried)),
    )
