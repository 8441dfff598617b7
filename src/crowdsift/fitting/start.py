"""The start of a fit: an earlier fit, or the checkpoint of an interrupted one.

A solver offers its iterate (`StoppingRule.iterate`): scores and workers' parameters, for sift means, variances and the
learned population of workers. It is copied once per second, and written to a folder if one is given; an error of the
cluster names that folder.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crowdsift._version import __version__
from crowdsift.errors import InputError, RequestError, ResourceError
from crowdsift.io.files import replace_file
from crowdsift.io.items import Gold, GoldLabels
from crowdsift.io.saved import read_safetensors, safetensors_bytes
from crowdsift.models import Model, Start
from crowdsift.models.dimensions import DimensionEstimate
from crowdsift.numeric import Indices
from crowdsift.numeric.distributions import half_width
from crowdsift.results.fit import Fit
from crowdsift.results.store import check_population, load
from crowdsift.solvers.convergence import Progress
from crowdsift.solvers.ep.state import SavedSites
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.labels import context_names, match_labels

_SAME = 0.5  # least share of the earlier items that must be among the votes; with fewer, the data are others


def opened_start(start: Any, gold: Any) -> tuple[Any, GoldLabels | None]:
    """Return the earlier fit, loaded if `start` is its folder, or the checkpoint; and its gold."""
    if not isinstance(start, Fit) and not is_checkpoint(start):
        if not isinstance(start, str | Path):
            raise RequestError(f"start must be a fit or the folder of one, not {start!r}")
        start = load(start)
    return start, kept_gold(start, gold) if isinstance(start, Fit) else None


def kept_gold(earlier: Fit, gold: Any) -> GoldLabels | None:
    """Return the gold of an earlier fit."""
    # A fit that had gold but does not store it is refused unless `gold` is given again.
    if earlier.gold is None and earlier.summary.get("gold_pairs") is not None and gold is None:
        raise RequestError(
            f"{earlier.folder or 'the earlier fit'}: it was fitted with gold, which is not kept "
            "with it; give the gold again with --gold (gold=)"
        )
    return earlier.gold


def starting_point(start: Any, votes: Comparisons, model: Model, gold: Gold | None = None) -> Start:
    """Return where a fit of these votes starts: at a fit, a checkpoint or a given `Start`."""
    if isinstance(start, Start):
        return start
    at_checkpoint = is_checkpoint(start)
    found = start_of(start, votes, model, gold) if at_checkpoint else _end_of(start, votes, model)
    return replace(found, boards=model.boards(votes))


def _end_of(earlier: Fit, votes: Comparisons, model: Model) -> Start:
    """Return scores, variances and the learned population of workers for the items of these votes."""
    name = earlier.folder or "the fit to start from"
    version = earlier.summary.get("version")
    if version != __version__:
        raise RequestError(f"{name}: made by version {version}, this is {__version__}; fit without --start")
    if earlier.method != model.name:
        raise RequestError(
            f"{name}: a fit of {earlier.method}, from which {model.name} cannot start; fit without "
            f"--start, or give a fit of {model.name}"
        )
    if earlier.population is None:
        raise RequestError(f"{name}: {model.name} keeps nothing to start from, only sift does; fit without --start")
    if earlier.context_columns != context_names(votes.by):
        raise RequestError(f"{name}: fitted by {earlier.summary.get('by')!r}, not {votes.by!r}")
    if earlier.summary.get("sides_known") and not votes.sides_known:
        raise RequestError(
            f"{name}: it knows on which side every item was shown, and these votes do not; say so with --sides "
            "(sides=True) if the first item was on the left, or fit without --start"
        )
    before = float(earlier.summary["votes"])
    if votes.total_weight < _SAME * before:
        raise RequestError(
            f"{name}: made of {before:,g} votes, of which most are missing: here are {votes.total_weight:,g}. The "
            "votes must be all votes, the old ones and the new; to go on with new votes alone use crowdsift update, or "
            "Fit.update"
        )
    table = earlier.item_table
    labels = earlier.labels
    place = match_labels(votes.items.tolist(), labels)
    if (place >= 0).sum() < _SAME * len(labels):
        raise RequestError(
            f"{name}: only {(place >= 0).sum()} of its {len(labels)} items are among those of the "
            "votes; these are other data. Fit without --start"
        )
    sizes = np.bincount(table["component"])[table["component"]]
    sd = 0.5 * (table["upper"] - table["lower"]) / half_width(earlier.level)
    variance = np.nan_to_num(sd**2 + 1.0 / sizes, nan=1.0)
    known = place >= 0
    return Start(
        scores=np.where(known, np.asarray(table["score"], np.float64)[place], 0.0),
        variances=np.where(known, variance[place], 1.0),
        population=earlier.population,
        sites=_sites(earlier, place, votes),
        dimensions=_dimensions(earlier, votes),
    )


def _dimensions(earlier: Fit, votes: Comparisons) -> DimensionEstimate | None:
    """Return earlier positions and weights in the codes of these votes; gold has weights of a new worker."""
    if earlier.posterior is None or earlier.posterior.dimensions is None:
        return None
    what = match_labels(votes.items.tolist(), earlier.posterior.items.tolist())
    who = match_labels(votes.workers.tolist(), earlier.worker_table["worker"].tolist())
    return earlier.posterior.dimensions.recoded(what, np.append(who, np.full(votes.n_gold, -1)))


def _sites(earlier: Fit, place: Indices, votes: Comparisons) -> SavedSites | None:
    """Return earlier sites in the codes of these votes; gold is the worker after the last."""
    if earlier.sites is None:
        return None
    known = earlier.worker_table["worker"].tolist()
    who = np.append(match_labels(votes.workers.tolist(), known), len(known))
    item = _inverse(place, len(earlier.item_table["item"]))
    return earlier.sites.recoded(item, _inverse(who, len(known) + 1), votes.n_workers + 1)


def _inverse(place: Indices, count: int) -> Indices:
    """Return the inverse of an index: the position of each place in it, -1 for places that do not occur."""
    found = np.full(count, -1)
    found[place[place >= 0]] = np.flatnonzero(place >= 0)
    return found


NAME = "checkpoint.safetensors"
_EVERY, _WRITTEN = 1.0, 10.0  # seconds between copies, and between files


class Checkpoints:
    """Store the iterate of a fit, and write it to `folder` every ten seconds, or only by `save`."""

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
        """Pass the number and the measure of an iteration to the progress function."""
        if self._progress is not None:
            self._progress(number, measure)

    def keep(self, number: int, iterate: Callable[[], Mapping[str, Any]]) -> None:
        """Copy the iterate if the last copy is old enough."""
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
        """Write the last iterate, to a new folder if none was given; return None if there is no iterate."""
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
    model: Model,
    votes: Comparisons,
    gold: Gold | None,
    progress: Progress | None,
) -> Iterator[Progress | None]:
    """Yield a progress function that stores the iterate; an error of the engine names its folder."""
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
    """Return whether a folder holds an iterate."""
    return isinstance(source, str | Path) and (Path(source) / NAME).is_file()


def start_of(source: str | Path, votes: Comparisons, model: Model, gold: Gold | None = None) -> Start:
    """Read the iterate in a folder, for the same votes, gold and method."""
    path = Path(source) / NAME
    try:
        tensors, about = read_safetensors(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None
    ours = _about(model, votes, gold)
    kinds = {
        "version": "version of crowdsift",
        "method": "method",
        "parameters": "setting of the method",
        "votes": "set of votes",
        "gold": "set of gold pairs",
    }
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
    return InputError(f"the checkpoint cannot be read ({error}); fit without --start (start=)", source=str(path))


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
