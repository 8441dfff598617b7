"""Votes exported for training: the probability that each is right, and by what margin."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError, RequestError
from crowdsift.fitting import Fit, fit, load
from crowdsift.io.files import is_fit_folder, read_files, replace_file, require_file, require_separate
from crowdsift.io.ingest import CodedVotes, coded_votes
from crowdsift.io.items import read_item_values
from crowdsift.io.options import ReadOptions
from crowdsift.models import DEFAULT, Model, model
from crowdsift.numeric import Indices, Labels, Mask, Vector
from crowdsift.numeric.likelihoods import sigmoid, smoothing
from crowdsift.numeric.threads import thread_count
from crowdsift.results.predict import Pairs, better, item_codes
from crowdsift.results.query import positions
from crowdsift.solvers.convergence import Progress
from crowdsift.votes.labels import context_names, context_parts, match_labels
from crowdsift.votes.pseudonyms import is_pseudonym
from crowdsift.votes.replies import is_cut, messages_of
from crowdsift.votes.source import Added

_KINDS = {".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}
_METHODS = ("sift", "bora-em", "hbtl", "bt")  # P(vote) = σ(β d)
_PREFIX, _ORIGINAL = "crowdsift_", "original_"
_NUMBERS = ("probability", "margin", "soft_label", "weight")
_FLIPS = ("never", "sure", "always")
SURE = 0.95  # probability that the other item is better, for a flip with "sure"


@dataclass(frozen=True)
class Exported:
    """The result of an export: the number of rows, the columns that were added, and the fit behind them.

    In `flipped` rows chosen is not the item that the vote preferred; `dropped` rows were below the wanted probability.
    """

    rows: int
    columns: tuple[str, ...]
    fit: Fit
    flipped: int = 0
    dropped: int = 0


def export_votes(
    votes: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    method: str | Model | None = None,
    to: str = "plain",
    flip: str = "always",
    keep: float = 0.0,
    texts: str | None = None,
    fitted: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Exported:
    """Write every vote with the probability that it is right, for a reward model or DPO.

    All columns of the source are kept, one row per vote, in its order. Added are, for the item that the vote prefers
    (for a tie the first one) over the other:

    - ``probability``: that the preferred item is truly better, given all votes;
    - ``margin``: the expected difference of their scores, negative if the vote is probably wrong;
    - ``soft_label``: the probability that a typical reliable worker prefers it, the target for a
      Bradley-Terry loss;
    - ``weight``: the information of a vote by this worker, in votes of a typical reliable worker, times the vote's own
    weight.

    A name that the source has already is written with ``crowdsift_`` before it.

    Parameters
    ----------
    votes
        A file (or pattern, or ``-``) as `crowdsift.read` takes; or the folder of a saved fit, whose votes are written:
        one row for equal votes of a worker, with their number in ``votes``. A folder does not contain the texts of
        replies; for these the file that it names is read again.
    out
        FILE.jsonl, FILE.csv or FILE.parquet; it appears whole or not at all.
    method
        sift, or one of bora-em, hbtl and bt; by default sift, and bt for votes without workers.
    to
        "plain", or "trl": the columns ``chosen`` and ``rejected``; all other columns then refer to chosen over
        rejected. Columns of these names in the source become ``original_chosen`` and ``original_rejected``.
    flip
        With "trl", when chosen is the item that the vote did not prefer: "always" if that item is more probably better,
        "sure" if it is better with 95 %, or "never".
    keep
        Drop rows whose ``probability`` is below this.
    texts
        "ITEMS.csv:COLUMN": the texts for ``chosen`` and ``rejected`` in place of those in the source.
    fitted
        A `Fit`, or the folder of a saved one, instead of fitting these votes.
    threads, progress
        As in `crowdsift.fit`.
    reading
        How to read the votes, as in `crowdsift.read`: columns, format, by, ...

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
            "export_votes reads a file; for votes in memory use soft_labels, whose columns can be put beside them"
        )
    kind, target = _checked(Path(out), to, flip, keep, texts), Path(out)
    options = ReadOptions(**{**reading, "threads": threads})
    source: Any = votes
    if is_fit_folder(votes):
        fitted = _saved(votes, fitted, method)
        source, options = votes_of(fitted, options, texts=to == "trl" and texts is None)
    read = [("votes", path) for path in read_files(source)]
    require_separate([*read, *(("texts", path) for path in read_files(texts))], [("out", target)])
    with coded_votes(source, options, every_column=True) as coded, replace_file(target) as draft:
        if source is not votes:
            require_same_votes(coded, fitted)
        found = _fit_of(coded, method, fitted, threads, progress)
        result = vote_labels(coded, found)
        turned = np.zeros(len(result.turned), bool)
        if to == "trl" and flip != "never":
            turned = result.turned & (result.surer >= (SURE if flip == "sure" else 0.0))
        values = result.speaking_for(turned)
        kept = np.flatnonzero(values["probability"] >= keep)
        added = _added(coded, result, turned, values, kept, texts, to)
        coded.table.write(str(draft), kind, added)
        names = (*(added.turned[0] if added.turned else ()), *added.labels, *added.numbers)
        return Exported(len(kept), names, found, int(turned[kept].sum()), len(turned) - len(kept))


def _saved(folder: str | os.PathLike[str], fitted: Any, method: Any) -> Fit:
    if fitted is not None or method is not None:
        raise RequestError(
            f"{os.fspath(folder)} is the folder of a fit, which is taken as it is; "
            "a method or another fit goes with a file of votes"
        )
    return load(folder)


def soft_labels(
    votes: Any, method: str | Model | None = None, *, threads: int | None = None, **reading: Any
) -> dict[str, Vector]:
    """Return the columns that `export_votes` adds, for votes in memory, in the order of their rows.

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"winner": ["a", "a", "b"], "loser": ["b", "b", "a"], "worker": [1, 2, 3]}
    >>> result = crowdsift.soft_labels(votes)
    >>> list(result)
    ['probability', 'margin', 'soft_label', 'weight']
    >>> bool(result["probability"][0] > 0.5 > result["probability"][2])
    True
    """
    with coded_votes(votes, ReadOptions(**{**reading, "threads": threads})) as coded:
        found = _fit_of(coded, method, None, threads, None)
        result = vote_labels(coded, found)
    return result.speaking_for(np.zeros(len(result.turned), bool))


def _fit_of(
    coded: CodedVotes, method: str | Model | None, fitted: Any, threads: int | None, progress: Progress | None
) -> Fit:
    if fitted is not None:
        found = fitted if isinstance(fitted, Fit) else load(fitted)
        if found.summary.get("workers_hidden") and not all(map(is_pseudonym, coded.workers)):
            raise RequestError(
                "the workers of this fit are hidden, and these votes have their labels: export the votes of the fit "
                "itself (its folder), or use a fit without --hide-workers"
            )
        _require_method(found.method)
        return found
    if method is None:
        method = DEFAULT if coded.worker is not None else "bt"
    chosen = model(method) if isinstance(method, str) else method
    _require_method(chosen.name)
    return fit(coded.comparisons(thread_count(threads)), chosen, threads=threads, progress=progress, overall=False)


def _require_method(name: str) -> None:
    if name not in _METHODS:
        raise RequestError(f"export needs one of the methods {', '.join(_METHODS)}, not {name!r}")


def _added(
    coded: CodedVotes,
    result: VoteLabels,
    turned: Mask,
    values: dict[str, Vector],
    kept: NDArray[np.intp],
    texts: str | None,
    to: str,
) -> Added:
    taken = _taken(coded)
    renamed = {
        name: _ORIGINAL + name
        for name in coded.table.written_names
        if to == "trl" and name.casefold() in ("chosen", "rejected")
    }
    if to == "trl" and texts is None and (prompt := _prompt_beside_messages(coded)):
        renamed[prompt] = _ORIGINAL + prompt
    free = taken - {name.casefold() for name in renamed}
    numbers = {_PREFIX + name if name in free else name: values[name][kept] for name in _NUMBERS}
    if to != "trl":
        return Added(numbers, rows=kept)
    swap = (result.against ^ turned)[kept]
    if texts is None:
        return Added(numbers, {}, (("chosen", "rejected"), coded.pair, swap), renamed, kept)
    entries = _entries(coded, texts)
    one, two = coded.first[kept], coded.second[kept]
    labels = {"chosen": (np.where(swap, two, one), entries), "rejected": (np.where(swap, one, two), entries)}
    return Added(numbers, labels, None, renamed, kept)


def _prompt_beside_messages(coded: CodedVotes) -> str:
    """Return the column of prompts as text, if conversations contain them as well; "" for none."""
    # TRL joins prompt and reply, so a text cannot precede a list of messages; without a prompt it uses the common
    # beginning of the two conversations.
    if not coded.by or coded.by != "prompt" or coded.by not in coded.table.written_names:
        return ""
    one = messages_of(coded.table.whole(coded.pair[0], 0))
    prompt = coded.table.whole(coded.by, 0)
    several = one is not None and len(one) > 1 and messages_of(prompt) is None
    return coded.by if several else ""


def _taken(coded: CodedVotes) -> set[str]:
    """Return the names of the source's columns in lower case; raise an error for a repeated one."""
    names = [name.casefold() for name in coded.table.written_names]
    for name in names:
        if not name or names.count(name) > 1:
            what = "without a name" if not name else f"{name!r} twice, but for upper case"
            raise InputError(
                f"the header has a column {what}, which cannot be written; rename it", source=coded.table.source
            )
    return set(names)


def _entries(coded: CodedVotes, texts: str) -> Labels:
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


def _checked(target: Path, to: str, flip: str, keep: float, texts: str | None) -> str:
    """Return the kind of file to write; raise an error for a wrong request before any work."""
    if to not in ("plain", "trl"):
        raise RequestError(f"to must be 'plain' or 'trl', not {to!r}")
    if flip not in _FLIPS:
        raise RequestError(f"flip must be one of {', '.join(_FLIPS)}, not {flip!r}")
    if not 0.0 <= keep <= 1.0:
        raise RequestError(f"keep must be a probability from 0 to 1, such as 0.8, not {keep!r}")
    if texts and to != "trl":
        raise RequestError("texts are for the columns chosen and rejected; ask for these with --to trl (to='trl')")
    kind = _KINDS.get(target.suffix.lower())
    if kind is None:
        raise RequestError(f"{target}: give a file that ends in .jsonl, .csv or .parquet")
    require_file(target)
    return kind


def votes_of(fit: Fit, options: ReadOptions, *, texts: bool) -> tuple[Any, ReadOptions]:
    """Return a source from which the votes of a fit can be read, and options for reading it."""
    # `texts` asks for the whole texts of replies, which a folder does not contain.
    votes = fit.votes
    if texts and any(is_cut(label[-1] if votes and votes.by else label) for label in fit.labels):
        source = str(fit.summary.get("source") or ("" if votes is None else votes.source))
        if not source or not Path(source).exists():
            raise RequestError(
                f"the folder holds the beginnings of replies, and the votes that it names ({source or 'none'}) are not "
                "here; export the file itself with --fit (fitted=), or give texts (--texts)"
            )
        if votes is not None:  # read as they were read for the fit
            own = {name: getattr(options, name) for name in options.changed()}
            earlier = {**votes.reading, "by": votes.by, "workers": votes.has_workers}
            options = replace(options, **{**earlier, **own})
        return source, options
    if votes is None:
        raise RequestError(
            "the votes of this fit were not kept (too many, or with "
            "features); export the file itself with --fit (fitted=)"
        )
    if given := [name for name in options.changed() if name != "threads"]:
        raise RequestError(f"{', '.join(given)}: options of reading, and the votes of this folder are read already")
    columns: dict[str, list[Any]] = {}
    for name, codes in (("first", votes.first), ("second", votes.second)):
        labels = votes.items[codes].tolist()
        if votes.by:
            *values, labels = context_parts(labels, votes.by)
            columns |= dict(zip(context_names(votes.by), values, strict=True))
        columns[name] = labels
    columns["outcome"] = votes.outcome.tolist()
    if votes.has_workers:
        columns["worker"] = votes.workers[votes.worker_codes()].tolist()
    columns["votes"] = votes.weight.tolist()
    reading = replace(
        options,
        columns={"weight": "votes"},
        format="plain",
        by=votes.by,
        workers=votes.has_workers,
        sides=votes.sides_known,
    )
    return columns, reading


def require_same_votes(coded: CodedVotes, fit: Fit) -> None:
    """Raise an error if the file no longer has the votes of the fit."""
    weight = len(coded.first) if coded.weight is None else float(np.sum(coded.weight, dtype=float))
    votes = float(fit.summary["votes"])
    if not np.isclose(weight, votes, rtol=1e-4):
        raise RequestError(
            f"{coded.table.source} gives {weight:,g} votes now, and {votes:,g} were fitted; export all files that were "
            "fitted, with the options of reading they had, and --fit (fitted=)"
        )


_BLOCK = 1 << 20  # rows processed at a time


class VoteLabels(NamedTuple):
    """Labels of votes, for the item that is more probably better over the other.

    `against` marks votes for the second item, `turned` votes for the item that is less probably better; `surer` is the
    probability that the other item is better.
    """

    surer: Vector
    margin: Vector
    soft_label: Vector
    weight: Vector
    against: Mask
    turned: Mask

    def speaking_for(self, flipped: Mask) -> dict[str, Vector]:
        """Return the columns for the item that the vote prefers, or for the other if flipped."""
        other = self.turned & ~flipped
        return {
            "probability": np.where(other, 1.0 - self.surer, self.surer),
            "margin": np.where(other, -self.margin, self.margin),
            "soft_label": np.where(other, 1.0 - self.soft_label, self.soft_label),
            "weight": self.weight,
        }


def vote_labels(coded: CodedVotes, found: Fit) -> VoteLabels:
    """Return probability, margin, soft label and weight of votes, row by row."""
    place, code = _rows_of(coded, found), item_codes(found)
    score = np.asarray(found.item_table["score"], np.float64)
    typical, worth = _vote_worth(coded, found)
    rough = _rough_variance(coded, score[place], typical)
    rows = len(coded.first)
    surer, margin, soft, weight = (np.empty(rows) for _ in range(4))
    against = np.zeros(rows, bool) if coded.outcome is None else coded.outcome < 0.5
    turned = np.empty(rows, bool)
    for begin in range(0, rows, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        one, two = (codes[part].astype(np.int64) for codes in (coded.first, coded.second))
        one, two = np.where(against[part], two, one), np.where(against[part], one, two)
        first, second, unsure = place[one], place[two], rough[one] + rough[two]
        gap = score[first] - score[second]
        sd = np.maximum(_difference_sd(found, code[first], code[second], unsure), 1e-12)
        flat = smoothing((typical * sd) ** 2)
        chance = better(found, code, Pairs(first, second, gap, sd))
        turned[part], surer[part] = chance < 0.5, np.maximum(chance, 1.0 - chance)
        ahead = np.where(turned[part], -gap, gap)  # for the more probable item; may be below 0
        margin[part] = np.where(surer[part] > 0.5, np.maximum(ahead, 0.0), 0.0)
        soft[part] = sigmoid(flat * typical * np.maximum(ahead, 0.0))
        own = np.ones(len(one)) if coded.worker is None else worth[coded.worker[part]]
        weight[part] = own if coded.weight is None else own * coded.weight[part]
    return VoteLabels(surer, margin, soft, weight, against, turned)


def _rows_of(coded: CodedVotes, found: Fit) -> Indices:
    place = positions(list(coded.items), found.labels, missing=-1)
    if (place < 0).any():
        missing = coded.items[place < 0]
        raise RequestError(
            f"{len(missing):,} items of the votes are not in the fit, for example {missing[0]!r}; give the votes that "
            "were fitted, or update the fit first"
        )
    return place


def _difference_sd(found: Fit, one: Indices, two: Indices, rough: Vector) -> Vector:
    """Return exact standard deviations of differences if available, otherwise rough ones."""
    sd = np.sqrt(rough)
    exact = None if found.posterior is None else found.posterior.difference_sd(one, two)
    return sd if exact is None else np.where(np.isfinite(exact), exact, sd)


def _rough_variance(coded: CodedVotes, score: Vector, slope: float) -> Vector:
    """Return each score's variance from the item's own votes, with the other scores held fixed."""
    # For methods without intervals in large components.
    first, second = coded.first.astype(np.int64), coded.second.astype(np.int64)
    p = sigmoid(slope * (score[first] - score[second]))
    weight = np.ones(len(first)) if coded.weight is None else coded.weight.astype(np.float64)
    result = weight * slope**2 * p * (1.0 - p)
    count = len(coded.items)
    total = np.bincount(first, result, count) + np.bincount(second, result, count)
    return np.asarray(1.0 / np.maximum(total, 1e-2))


def _vote_worth(coded: CodedVotes, found: Fit) -> tuple[float, Vector]:
    """Return a typical reliable worker's reliability, and the value of every worker's vote."""
    # The typical reliability is the median of those whose interval is above 0. A vote of a worker whose β has a
    # posterior has the information (E β)²/4 about a close pair: almost 0 for random clicks, and the same for a reliable
    # worker as for one who reliably answers the opposite.
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
