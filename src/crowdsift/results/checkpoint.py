"""The iterate of a fit in a file, from which a later fit goes on after a cluster was lost.

A solver says what its iterate is (`StoppingRule.iterate`): scores and workers' parameters, for sift
means, variances and what was learned of the worker population. Once a second that is copied, and
where a folder is given written there; an error of the cluster names the folder.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift._version import __version__
from crowdsift.errors import InputError, RequestError, ResourceError
from crowdsift.io.files import replace_file
from crowdsift.io.saved import read_safetensors, safetensors_bytes
from crowdsift.models import Model, Start
from crowdsift.results.saved_summary import check_population

if TYPE_CHECKING:
    import os

    from crowdsift.io.items import Gold
    from crowdsift.solvers.convergence import Progress
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Checkpoints", "checkpointed", "is_checkpoint", "start_of"]

NAME = "checkpoint.safetensors"
_EVERY, _WRITTEN = 1.0, 10.0  # seconds between copies, and between files


class Checkpoints:
    """Progress of a fit that keeps its iterate.

    Parameters
    ----------
    folder
        Where to write it every ten seconds; None: only when `save` is called.
    model, votes, gold
        What is fitted, to be compared when a fit goes on.
    progress
        Called at every iteration.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        model: Model,
        votes: Comparisons,
        gold: Gold | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._folder, self._progress = None if folder is None else Path(folder), progress
        self._about = _about(model, votes, gold)
        self._tensors: dict[str, Any] = {}
        self._kept = self._written = -np.inf

    def __call__(self, number: int, measure: float) -> None:
        """An iteration is done."""
        if self._progress is not None:
            self._progress(number, measure)

    def keep(self, number: int, iterate: Callable[[], Mapping[str, Any]]) -> None:
        """Copy the iterate, where the last copy is old."""
        now = time.monotonic()
        if now - self._kept < _EVERY:
            return
        found = dict(iterate())
        population = found.pop("population", None)
        self._tensors = {name: np.array(value, np.float64) for name, value in found.items()}
        self._about |= {"iteration": str(number), "population": json.dumps(population)}
        self._kept = now
        if self._folder is not None and now - self._written >= _WRITTEN:
            self.save()
            self._written = now

    def save(self) -> Path | None:
        """Write the last iterate; to a new folder where none was given. None: there is none."""
        if not self._tensors:
            return None
        folder = self._folder or Path(tempfile.mkdtemp(prefix="crowdsift-checkpoint-"))
        folder.mkdir(parents=True, exist_ok=True)
        with replace_file(folder / NAME) as target:
            target.write_bytes(safetensors_bytes(self._tensors, self._about))
        return folder


@contextmanager
def checkpointed(
    folder: str | os.PathLike[str] | None,
    engine: str,
    model: Model,
    votes: Comparisons,
    gold: Gold | None,
    progress: Progress | None,
) -> Iterator[Progress | None]:
    """Progress that keeps the iterate where asked for, and on a cluster, which may be lost."""
    if folder is None and engine != "dask":
        yield progress
        return
    kept = Checkpoints(folder, model, votes, gold, progress)
    try:
        yield kept
    except ResourceError as error:
        there = kept.save()
        if there is None:
            raise
        raise ResourceError(
            f"{error}. The iterate is kept in {there}: go on from it with --start {there} (start=)"
        ) from None


def is_checkpoint(source: Any) -> bool:
    """Whether a folder holds an iterate."""
    return isinstance(source, str | Path) and (Path(source) / NAME).is_file()


def start_of(
    source: str | Path, votes: Comparisons, model: Model, gold: Gold | None = None
) -> Start:
    """Read the iterate in a folder, for the same votes, gold and method."""
    path = Path(source) / NAME
    try:
        tensors, about = read_safetensors(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None
    ours = _about(model, votes, gold)
    kinds = {"version": "version of crowdsift", "method": "method",
             "parameters": "setting of the method", "votes": "set of votes",
             "gold": "set of gold pairs"}  # fmt: skip
    for name, what in kinds.items():
        if about.get(name) != ours[name]:
            raise RequestError(
                f"{path}: a checkpoint of another {what}; go on with the same votes, gold, method "
                "and settings, or fit without --start"
            )
    try:
        population = json.loads(about["population"]) or {}
        if population:
            check_population(population)
        scores, variances = tensors["scores"], tensors.get("variances", np.ones(votes.n_items))
        for name, values in {**tensors, "variances": variances}.items():
            if values.dtype != np.float64 or not np.isfinite(values).all():
                raise ValueError(f"{name} are not all finite numbers")
        if not scores.shape == variances.shape == (votes.n_items,) or variances.min() < 0.0:
            raise ValueError("scores or variances are not those of the items")
    except (KeyError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from None
    return Start(scores, variances, population, workers=tensors.get("workers"))


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"the checkpoint cannot be read ({error}); fit without --start (start=)", source=str(path)
    )


def _about(model: Model, votes: Comparisons, gold: Gold | None) -> dict[str, str]:
    digest = hashlib.sha256()
    for labels in (votes.items, votes.workers):
        digest.update(repr(labels.tolist()).encode("utf-8", "surrogatepass"))
    digest.update(f"{len(votes)} {votes.total_weight!r} {votes.by} {votes.sides_known}".encode())
    pairs = [] if gold is None else [gold.winner.tolist(), gold.loser.tolist()]
    return {
        "version": __version__,
        "method": model.name,
        "parameters": json.dumps(model.parameters(), sort_keys=True),
        "votes": digest.hexdigest(),
        "gold": hashlib.sha256(json.dumps(pairs).encode()).hexdigest(),
    }
