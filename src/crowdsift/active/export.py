"""Votes on the way to training: how far each can be believed, and by how much it was won."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.fitting import fit
from crowdsift.io.files import replace_file
from crowdsift.io.ingest import coded_votes
from crowdsift.io.item_values import match_labels, read_item_values
from crowdsift.models import DEFAULT
from crowdsift.numeric.likelihoods import PROBIT_SMOOTHING, normal_cdf, sigmoid
from crowdsift.numeric.threads import thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.fitting import Fit
    from crowdsift.io.ingest import CodedVotes
    from crowdsift.solvers.convergence import Progress

__all__ = ["Exported", "export_votes", "soft_labels"]

_KINDS = {".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
_METHODS = ("sift", "bora-em", "hbtl", "bt")  # P(vote) = σ(β d)
_PREFIX = "crowdsift_"
_BLOCK = 1 << 20  # rows at a time


@dataclass(frozen=True)
class Exported:
    """What was written: how many rows, which columns were added, and the fit behind them."""

    rows: int
    columns: tuple[str, ...]
    fit: Fit


def export_votes(
    votes: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    method: str = DEFAULT,
    trl: bool = False,
    texts: str | None = None,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    by: str = "",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write every vote with the probability that it is right, for a reward model or DPO.

    All columns of the source are kept, one row a row, in its order. Added are, for the item that
    the vote prefers (for a tie the first one) over the other:

    - ``probability``: that the preferred item is truly better, given all votes;
    - ``margin``: the expected difference of their scores, negative where the vote is doubted;
    - ``soft_label``: the probability that a typical reliable worker prefers it, the target for a
      Bradley-Terry loss;
    - ``weight``: what a vote of this worker tells, in votes of a typical reliable worker, times
      the vote's own weight.

    A name that the source has already is written with ``crowdsift_`` before it.

    Parameters
    ----------
    votes
        A file (or pattern, or ``-``) as `crowdsift.read` takes.
    out
        FILE.jsonl or FILE.parquet; it appears whole or not at all.
    method
        sift, or one of bora-em, hbtl and bt.
    trl
        Add ``chosen`` and ``rejected``, the item that is more probably better and the other one,
        and tell the four columns for chosen over rejected: no margin is then negative.
    texts
        "ITEMS.csv:COLUMN": what ``chosen`` and ``rejected`` hold instead of labels.
    columns, workers, sides, by, threads, progress
        As in `crowdsift.fit`.

    Examples
    --------
    >>> import crowdsift, json, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crowdsift.simulate(items=5, workers=4, comparisons=200, seed=1).write(folder)
    ...     done = crowdsift.export_votes(f"{folder}/votes.csv", f"{folder}/votes.jsonl")
    ...     first = pathlib.Path(folder, "votes.jsonl").read_text().splitlines()[0]
    >>> done.rows, done.columns
    (200, ('probability', 'margin', 'soft_label', 'weight'))
    >>> sorted(json.loads(first))
    ['left', 'margin', 'probability', 'right', 'soft_label', 'weight', 'winner', 'worker']
    """
    if not isinstance(votes, str | os.PathLike):
        raise RequestError(
            "export_votes reads a file; for votes in memory use soft_labels, whose columns can be "
            "put beside them"
        )
    target = Path(out)
    kind = _kind(target)
    if texts and not trl:
        raise RequestError("texts are for the columns chosen and rejected; ask for them with trl")
    with (
        coded_votes(
            votes, columns=columns, workers=workers, sides=sides, by=by, threads=threads,
            every_column=True,
        ) as coded,
        replace_file(target) as temporary,
    ):  # fmt: skip
        names = _names(coded, trl)
        found = _fitted(coded, method, threads, progress)
        told = _told(coded, found)
        labels: dict[str, tuple[NDArray[np.uint32], NDArray[np.object_]]] = {}
        if trl:
            turned = told.pop("turned")
            one, two = _oriented(coded, turned)
            entries = _entries(coded, texts)
            labels = {names["chosen"]: (one, entries), names["rejected"]: (two, entries)}
        else:
            _by_vote(told)
        numbers = {names[name]: values for name, values in told.items()}
        coded.table.write(str(temporary), kind, numbers, labels)  # type: ignore[attr-defined]
        return Exported(len(coded.first), (*labels, *numbers), found)


def soft_labels(
    votes: Any,
    method: str = DEFAULT,
    *,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    by: str = "",
    threads: int | None = None,
) -> dict[str, NDArray[np.float64]]:
    """The columns that `export_votes` adds, for votes in memory: one entry a row, in their order.

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"winner": ["a", "a", "b"], "loser": ["b", "b", "a"], "worker": [1, 2, 3]}
    >>> told = crowdsift.soft_labels(votes)
    >>> list(told)
    ['probability', 'margin', 'soft_label', 'weight']
    >>> bool(told["probability"][0] > 0.5 > told["probability"][2])
    True
    """
    with coded_votes(
        votes, columns=columns, workers=workers, sides=sides, by=by, threads=threads
    ) as coded:
        told = _told(coded, _fitted(coded, method, threads, None))
    _by_vote(told)
    return told


def _fitted(coded: CodedVotes, method: str, threads: int | None, progress: Progress | None) -> Fit:
    if method not in _METHODS:
        raise RequestError(f"export needs one of the methods {', '.join(_METHODS)}, not {method!r}")
    return fit(coded.comparisons(thread_count(threads)), method, threads=threads, progress=progress)


def _told(coded: CodedVotes, found: Fit) -> dict[str, NDArray[Any]]:
    """The added columns for the item that is more probably better; and where the vote differs."""
    score = found.scores_of(coded.items)
    typical, worth = _worths(coded, found)
    rows = len(coded.first)
    names = ("probability", "margin", "soft_label", "weight")
    told: dict[str, NDArray[Any]] = {name: np.empty(rows) for name in names}
    told["turned"] = np.empty(rows, bool)
    for begin in range(0, rows, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        one, two = (codes[part].astype(np.int64) for codes in (coded.first, coded.second))
        against = np.zeros(len(one), bool) if coded.outcome is None else coded.outcome[part] < 0.5
        one, two = np.where(against, two, one), np.where(against, one, two)
        sd = None if found.posterior is None else found.posterior.difference_sd(one, two)
        if sd is None:
            raise RequestError(f"{found.method} knows no uncertainty of these scores; use sift")
        margin = score[one] - score[two]
        flat = 1.0 / np.sqrt(1.0 + PROBIT_SMOOTHING * (typical * sd) ** 2)
        told["turned"][part] = margin < 0.0
        margin = np.abs(margin)
        told["margin"][part] = margin
        told["probability"][part] = normal_cdf(margin / np.maximum(sd, 1e-12))
        told["soft_label"][part] = sigmoid(flat * typical * margin)
        weight = np.ones(len(one)) if coded.worker is None else worth[coded.worker[part]]
        told["weight"][part] = weight if coded.weight is None else weight * coded.weight[part]
    return told


def _by_vote(told: dict[str, NDArray[Any]]) -> None:
    """Tell the columns for the item that the vote prefers."""
    turned = told.pop("turned")
    told["margin"] = np.where(turned, -told["margin"], told["margin"])
    for name in ("probability", "soft_label"):
        told[name] = np.where(turned, 1.0 - told[name], told[name])


def _oriented(
    coded: CodedVotes, turned: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Codes of the item that is more probably better, and of the other."""
    against = np.zeros(len(turned), bool) if coded.outcome is None else coded.outcome < 0.5
    swap = against ^ turned
    return np.where(swap, coded.second, coded.first), np.where(swap, coded.first, coded.second)


def _worths(coded: CodedVotes, found: Fit) -> tuple[float, NDArray[np.float64]]:
    """The reliability of a typical reliable worker, and what a vote of every worker is worth.

    Typical is the median of those who are above 0 with 95 %, as in the verdicts. A vote of a
    worker of whom β is known as a distribution tells (E β)²/4 about a close pair: near 0 for
    one who clicks at random, and as much for one who reliably says the opposite.
    """
    table = found.worker_table
    reliability = table["reliability"].astype(np.float64)
    if coded.worker is None or not np.isfinite(reliability).any():
        return 1.0, np.ones(len(coded.workers))
    trusted = reliability[table["lower"].astype(np.float64) > 0.0]
    if not len(trusted):
        trusted = reliability[reliability > 0.0]
    typical = float(np.median(trusted)) if len(trusted) else 0.0
    worth = (reliability / typical) ** 2 if typical > 0.0 else np.zeros(len(reliability))
    place = match_labels(list(coded.workers), table["worker"].tolist())
    return typical, np.where(place >= 0, worth[place], 0.0)


def _names(coded: CodedVotes, trl: bool) -> dict[str, str]:
    """The names of the added columns; the source's own stay as they are."""
    taken = [name.casefold() for name in coded.table.names]
    for name in taken:
        if not name or taken.count(name) > 1:
            what = "without a name" if not name else f"{name!r} twice, but for upper case"
            raise InputError(
                f"the header has a column {what}, which cannot be written; rename it",
                source=coded.table.source,
            )
    wanted = (*(("chosen", "rejected") if trl else ()),
              "probability", "margin", "soft_label", "weight")  # fmt: skip
    return {name: _PREFIX + name if name in taken else name for name in wanted}


def _entries(coded: CodedVotes, texts: str | None) -> NDArray[np.object_]:
    """What stands for every item: its label as text, or its text from another file."""
    if texts is None:
        entries = np.empty(len(coded.items), dtype=object)
        entries[:] = [str(label) for label in coded.items]
        return entries
    source, colon, column = texts.rpartition(":")
    if not colon or not source or not column:
        raise RequestError(f"texts are given as ITEMS.csv:COLUMN, not {texts!r}")
    labels, values = read_item_values(source, column, numeric=False)
    place = match_labels(list(coded.items), labels.tolist())
    if (place < 0).any():
        missing = coded.items[place < 0]
        raise InputError(
            f"{len(missing)} of the {len(coded.items)} items of the votes have no text here, for "
            f"example {missing[0]!r}; every item needs one",
            source=source,
        )
    entries = np.empty(len(place), dtype=object)
    entries[:] = [str(values[row]) for row in place]
    return entries


def _kind(target: Path) -> str:
    kind = _KINDS.get(target.suffix.lower())
    if kind is None:
        raise RequestError(f"{target}: give a file that ends in .jsonl or .parquet")
    if target.is_dir():
        raise RequestError(f"{target} is a folder; give a file")
    if not target.parent.is_dir():
        raise RequestError(f"{target}: there is no folder {target.parent}; make it first")
    return kind
