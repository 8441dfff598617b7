"""Real data sets as experiments use them: each is read once a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError
from crowdsift.lab import datasets
from crowdsift.paper.base import Options, Record, Setting, judged

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from crowdsift.models import Model
    from crowdsift.votes.comparisons import Comparisons

TITLES = {"passage": "Passage", "faceage_subset": "FaceAge, subset", "faceage": "FaceAge"}


@dataclass(frozen=True)
class _Read:
    votes: Comparisons
    truth: dict[Any, float]
    classes: str | None


class RealVotes:
    """Votes about items whose truth is known, by the name of the data set."""

    def __init__(self, options: Options, wanted: tuple[str, ...], more: tuple[str, ...] = ()):
        found = {name: datasets.find(name, options.data) for name in wanted}
        for name in more:  # only where they are, unless they are to be downloaded
            try:
                found[name] = datasets.find(name, options.data, fetch=options.fetch)
            except InputError:
                if options.fetch:
                    raise
        self._found = found
        self._read: dict[str, _Read] = {}

    @property
    def names(self) -> list[str]:
        """The data sets that are there."""
        return list(self._found)

    @property
    def files(self) -> list[Path]:
        """The files they are made of."""
        return list(dict.fromkeys(path for known in self._found.values() for path in known.files))

    def votes(self, name: str) -> Comparisons:
        """Return the votes."""
        return self._get(name).votes

    def record(self, setting: Setting, votes: Comparisons, chosen: str | Model, tune: bool = False) -> Record:
        """One method on votes about the items of the data set that the setting names."""
        from crowdsift.lab.evaluation import evaluate

        known = self._get(setting["data"])
        (row,) = evaluate(votes, known.truth, [chosen], classes=known.classes, threads=1, tune=tune)
        method, seconds, note = (row.pop(name) for name in ("method", "seconds", "note"))
        return {"setting": dict(setting), "method": method, "figures": row, "seconds": seconds, "note": note}

    def judged(self, setting: Setting, method: str, scores: NDArray[np.float64], seconds: float, note: str) -> Record:
        """Return the record of scores, one for every item of the votes."""
        known = self._get(setting["data"])
        truth = np.array([known.truth[item] for item in known.votes.items])
        return judged(setting, method, scores, truth, seconds, note)

    def _get(self, name: str) -> _Read:
        if name not in self._read:
            found = self._found[name]
            self._read[name] = _Read(found.read(), found.truth(), found.classes)
        return self._read[name]
