"""Votes row by row, with columns that only some checks need: groups and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines import read_by_engine
from crowdsift.errors import RequestError
from crowdsift.io.columns import resolve_column
from crowdsift.io.ingest import CodedVotes, coded_votes, read_votes
from crowdsift.models.base import Model
from crowdsift.models.sift import Sift
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.contexts import without_contexts

if TYPE_CHECKING:
    from crowdsift.fitting.estimate import Resources
    from crowdsift.io.formats.platforms import Batch
    from crowdsift.io.options import ReadOptions
    from crowdsift.numeric import Vector


class VoteRows(NamedTuple):
    """Votes row by row, in the codes of their comparisons.

    `group` and `time` are None if no such column was named; `batch` holds all rows if requested.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    outcome: Vector
    weight: Vector
    worker: NDArray[np.int64]
    group: NDArray[np.int64] | None = None
    grouped_by: str = ""
    time: Vector | None = None
    batch: Batch | None = None
    group_labels: tuple[str, ...] = ()


def read_rows(
    votes: Any, options: ReadOptions, *, group: str | None = None, time: str | None = None, batch: bool = False
) -> tuple[Comparisons, VoteRows]:
    """Read votes, and from the same rows their groups and times."""
    if isinstance(votes, Comparisons):
        raise RequestError(
            f"{group or time!r} is a column, and these votes are read already; give crowdsift.fit the file or the frame"
        )
    from crowdsift.io.formats.platforms import read_batch

    with coded_votes(votes, options, every_column=True, grouped=group is not None) as coded:
        names, groups = (None, None) if group is None else _labels(coded, group, "group")
        moments = None
        if time is not None:
            labels, codes = _labels(coded, time, "time")
            moments = times_of(labels, time)[codes]
        shown = [] if names is None else names.tolist()
        if options.hide_workers is not None:  # groups may have labels of workers
            known, hidden = set(coded.workers.tolist()), map(options.hide_workers.pseudonym, shown)
            shown = [new if new in known else old for new, old in zip(hidden, shown, strict=True)]
        count = len(coded.first)
        ones = np.ones(count)
        rows = VoteRows(
            coded.first.astype(np.int64),
            coded.second.astype(np.int64),
            ones if coded.outcome is None else coded.outcome.astype(np.float64),
            ones if coded.weight is None else coded.weight.astype(np.float64),
            np.zeros(count, np.int64) if coded.worker is None else coded.worker.astype(np.int64),
            groups,
            group or "",
            moments,
            read_batch(coded.table.all_rows) if batch else None,
            tuple(map(str, shown)),
        )
        return coded.comparisons(thread_count(options.threads)), rows


def votes_and_rows(
    votes: Any, options: ReadOptions, group: str | VoteRows | None, time: str | None
) -> tuple[Comparisons, VoteRows | None]:
    """Return the votes, and the group and time of every row if such columns are named."""
    if isinstance(group, VoteRows):
        return read_votes(votes, options), group
    for name, given in (("dependent_by", group), ("time_column", time)):
        if given is not None and not isinstance(given, str):
            raise RequestError(f"{name} must be the name of a column, not {given!r:.60}")
    if group or time:
        return read_rows(votes, options, group=group or None, time=time or None)
    return read_votes(votes, options), None


def votes_for_fit(
    votes: Any,
    options: ReadOptions,
    group: str | VoteRows | None,
    time: str | None,
    resources: Resources,
    needs_rows: bool,
) -> tuple[Comparisons, VoteRows | None]:
    """Read as `votes_and_rows`, through the engine if it can read votes and no row is needed here."""
    nothing = (None, "")  # votes_and_rows reports values that are no column names
    if not needs_rows and all(isinstance(x, str | None) and x in nothing for x in (group, time)):
        read = read_by_engine(resources.engine, votes, options, resources.options)
        if read is not None:
            return replace(read, reading=options.remembered()), None
    return votes_and_rows(votes, options, group, time)


def gathered(votes: Comparisons, engine: Any, most: int) -> Comparisons:
    """Return votes that other machines have read, copied here if they are few enough."""
    if votes.elsewhere is None or len(votes) > most:
        return votes
    found: Comparisons = engine.gathered(votes)
    return found


def _labels(coded: CodedVotes, column: str, role: str) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    labels, (codes,) = coded.table.labels([resolve_column(coded.table, column, f"the {role} of votes")], role)
    return labels, codes.astype(np.int64)


def times_of(labels: Iterable[Any], column: str) -> Vector:
    """Return times as numbers: numbers are kept, dates and their texts become seconds."""
    return np.array([_time(label, column) for label in labels], np.float64)


def _time(label: Any, column: str) -> float:
    """Return a time as a number: a date becomes seconds, a number is kept."""
    if isinstance(label, datetime):
        return label.timestamp()
    if isinstance(label, date):
        return datetime(label.year, label.month, label.day).timestamp()
    if not isinstance(label, bool):
        try:
            value = float(label)
            if isfinite(value):
                return value
        except (TypeError, ValueError):
            pass
        try:
            return datetime.fromisoformat(str(label).strip()).timestamp()
        except ValueError:
            pass
    raise RequestError(
        f"the column {column!r} is not one of times: {label!r} is neither a number "
        "nor a date such as 2024-05-31 or 2024-05-31T12:00:00"
    )


WITHOUT_WORKERS = "bt"  # the default method for votes without workers

# Which of our methods use columns and classes; methods of other packages decide for themselves.
_TAKES = {"covariates": ("sift", "factor-bt"), "classes": ("barp",), "item-features": ("sift", "bora-map")}


def refuse_unused(
    chosen: Model, known: bool, *, covariates: bool, classes: bool, tune: bool, items: bool = False
) -> None:
    """Raise an error for options that have no effect on this model."""
    requested = {"covariates": covariates, "classes": classes, "item-features": items}
    for option, methods in _TAKES.items():
        if known and requested[option] and chosen.name not in methods:
            raise RequestError(
                f"{chosen.name} does not use {option} (--{option}), which would be ignored; omit the option, or use "
                f"the method {' or '.join(methods)}"
            )
    if tune and not chosen.tuned:
        raise RequestError(f"{chosen.name} has no penalty to tune: the evidence decides; omit --tune")


def trusted_values(trusted: Any) -> tuple[str, tuple[str, ...]]:
    """Return the column and the values of a trusted panel from {"panel": "human"}."""
    if trusted is None:
        return "", ()
    if not isinstance(trusted, Mapping) or len(trusted) != 1:
        raise RequestError(
            "trusted (--trusted) names one column and its trusted values, such as "
            f"{{'panel': 'human'}} (--trusted panel=human), not {trusted!r:.80}"
        )
    ((column, given),) = trusted.items()
    values = given if isinstance(given, list | tuple) else (given,)
    return str(column), tuple(map(str, values))


def with_trusted(votes: Comparisons, rows: VoteRows | None, trusted: Any) -> tuple[Comparisons, VoteRows | None]:
    """Return votes with their panels, and rows without panels."""
    column, values = trusted_values(trusted)
    if not column or rows is None or rows.group is None:
        return votes, rows
    if rows.grouped_by != column:
        raise RequestError(
            "sift takes trusted votes (--trusted) or votes that depend on each other (--dependent-by), not both at "
            "once yet; omit one of the two"
        )
    from crowdsift.votes.panels import with_panels

    found = with_panels(votes, rows.worker, list(rows.group_labels), rows.group, column, values)
    kept = None if rows.time is None else rows._replace(group=None, grouped_by="")
    return found, kept


def refuse_shared(model: Model, pooling: str | None, trusted: Any, by: bool) -> None:
    """Raise an error for pooling, or for trusted votes, without effect; `by` tells whether votes have contexts."""
    if pooling is not None and not by:
        raise RequestError("pooling (--pooling) is for contexts; name their column with --by (by=), or omit --pooling")
    if trusted and by:
        raise RequestError(
            "sift takes trusted votes (--trusted) or contexts (--by), not both at once yet; omit one of the two"
        )
    if isinstance(model, Sift):
        return
    if trusted:
        raise RequestError(
            f"{model.name} has no trusted votes (--trusted, trusted=); use the method sift, or omit the option"
        )
    if pooling not in (None, "none"):
        raise RequestError(
            f"{model.name} fits every context alone, so pooling={pooling!r} (--pooling) would be "
            "ignored; omit it, or use the method sift"
        )


def with_pooling(model: Model, pooling: str | None, votes: Comparisons) -> Model:
    """Return the model with this pooling of contexts; raise an error if it would be ignored."""
    by_features = votes.by and votes.item_features is not None
    if isinstance(model, Sift) and by_features and without_contexts(votes) is None:
        model = replace(model, contexts=False)  # replies to prompts: a worker is the same in all contexts
    if pooling is None:
        return model
    refuse_shared(model, pooling, None, bool(votes.by))
    if isinstance(model, Sift):
        model = replace(model, pooling=pooling)
        if pooling == "complete" and model.boards(votes) is None:
            raise RequestError(
                "these contexts cannot be pooled (--pooling complete): they share no items or too many, or votes have "
                "covariates, features or several dimensions; omit --pooling"
            )
    return model


def refuse_votes(chosen: Model, votes: Comparisons, *, dependent: bool) -> None:
    """Raise an error for a method that needs workers if votes have none, and for terms that it cannot combine."""
    chosen.refuse_votes(votes, dependent=dependent)
    if chosen.uses_workers and not votes.has_workers:
        raise RequestError(
            f"{chosen.name} learns who can be trusted and needs a worker for every vote; "
            f"use method {WITHOUT_WORKERS!r} for votes without workers"
        )
