"""Votes in parts: each is left out once, so that what is chosen is judged by votes not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.votes.comparisons import Comparisons

__all__ = ["folds"]


def folds(
    votes: Comparisons, count: int = 5, seed: int = 0
) -> Iterator[tuple[Comparisons, Comparisons]]:
    """Split votes at random: each part is left out once, the rest is to be fitted.

    Equal votes of a worker that were collapsed into one comparison are assigned one by one
    (those of fractional weight as a whole). Items and workers keep their codes.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.votes.folds import folds
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=100, seed=1).comparisons()
    >>> sum(left_out.total_weight for kept, left_out in folds(votes, 5))
    100.0
    """
    if not 2 <= count <= votes.total_weight:
        raise RequestError(f"{count} parts of {votes.total_weight:g} votes cannot be left out")
    rng = np.random.Generator(np.random.PCG64(seed))
    weight = votes.weight.astype(np.float64)
    whole = weight == np.floor(weight)
    drawn = rng.multinomial(np.where(whole, weight, 1).astype(np.int64), [1.0 / count] * count)
    shares = np.where(whole[:, None], drawn, drawn * weight[:, None])
    for part in range(count):
        yield _with_weight(votes, weight - shares[:, part]), _with_weight(votes, shares[:, part])


def _with_weight(votes: Comparisons, weight: Any) -> Comparisons:
    changed = replace(votes, weight=weight.astype(np.float32))
    return changed.select(weight > 0)
