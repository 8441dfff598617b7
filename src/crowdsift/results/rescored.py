"""Scores of votes that are nearly those of a fit: what a search needs, without tables.

The first of a series goes on from the fit and decides anew what evidence decides, as whether pairs
have an effect; the next ones go on from there and hold it. What a search ends with is verified by
`Nearby.whole`, which decides all of it for these votes.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.engines import opened_engine
from crowdsift.errors import RequestError
from crowdsift.io.items import read_gold
from crowdsift.numeric.threads import blas_threads, thread_count
from crowdsift.results.data import model_of
from crowdsift.results.estimated import prepared_votes
from crowdsift.results.start import starting_point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from crowdsift.engines.base import Engine
    from crowdsift.models import Start
    from crowdsift.numeric import Vector
    from crowdsift.results.data import FitData
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Nearby", "Rescored"]

_CLEAR_SIGN, _KEPT = 0.5, 0.75  # of the workers' signs; of the votes, and of the workers


class Rescored(NamedTuple):
    """Scores by the codes of the votes, and the components of items that can be compared."""

    scores: Vector
    component: NDArray[Any]


class Nearby:
    """Fits of a series of votes that differ little, those of a fit less a few.

    Parameters
    ----------
    earlier
        The fit from which the first goes on.
    gold, threads
        The pairs that the fit was given, if any, and how many threads to use.
    """

    def __init__(self, earlier: FitData, gold: Any, threads: int | None) -> None:
        self._earlier, self._gold, self._threads = earlier, gold, threads
        self._model = model_of(earlier)
        self._near: Start | None = None

    def series(self) -> Nearby:
        """Another series from the same fit."""
        return Nearby(self._earlier, self._gold, self._threads)

    @property
    def possible(self) -> bool:
        """Whether the method, and this fit, can be resumed; else a fit from scratch is needed."""
        earlier, votes = self._earlier, self._earlier.votes
        if earlier.population is None or earlier.population.get("by_context") or votes is None:
            return False
        plain = votes.features is None and votes.item_features is None
        return plain and not earlier.summary.get("group_effect")

    def quick(self, votes: Comparisons) -> Rescored | None:
        """The scores; None where they were not found, and a whole fit is needed."""
        with self._opened(votes) as engine:
            start = self._start(votes)
            if start is None:
                return None
            found = self._model.rescore(engine, start, decide=self._near is None)
            if found is None:
                return None
            self._near = self._near or found[1]
            return Rescored(found[0], engine.facts.component)

    def whole(self, votes: Comparisons) -> Rescored | None:
        """The scores of a fit that decides everything for these votes, from the nearest start."""
        with self._opened(votes) as engine:
            start = self._start(votes)
            if start is None:
                return None
            if self._sign_stays(votes):  # else the workers must be counted, which takes as long
                found = self._model.rescore(engine, start, decide=True)
                if found is not None:
                    return Rescored(found[0], engine.facts.component)
            return Rescored(self._model.resume(engine, start).scores, engine.facts.component)

    def _sign_stays(self, votes: Comparisons) -> bool:
        """Whether no removal of so little can turn which end is up.

        With a margin of ½ three of four workers are on one side, and without the quarter that is
        most against the rest would still be.
        """
        summary = self._earlier.summary
        workers = len(np.unique(votes.worker_codes())) if votes.has_workers else 0
        most = workers >= _KEPT * float(summary["workers"])
        most = most and votes.total_weight >= _KEPT * float(summary["votes"])
        return most and float(summary.get("sign_margin") or 0.0) > _CLEAR_SIGN

    def _start(self, votes: Comparisons) -> Start | None:
        try:
            return self._near or starting_point(self._earlier, votes, self._model)
        except RequestError:  # too little is left to go on from
            return None

    @contextmanager
    def _opened(self, votes: Comparisons) -> Iterator[Engine]:
        known = read_gold(self._gold, votes)
        prepared, threads = prepared_votes(self._model, votes, known), self._threads
        with (
            blas_threads(1, dense=thread_count(threads)),
            opened_engine("auto", prepared, threads, self._model.needs) as engine,
        ):
            yield engine
