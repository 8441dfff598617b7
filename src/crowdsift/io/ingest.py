"""Votes from files, data frames and arrays: name the columns, refuse bad rows with their place."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import listed, lookup, open_source, refuse_empty, resolve_column
from crowdsift.io.item_values import match_labels
from crowdsift.io.options import ReadOptions
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["CodedVotes", "coded_votes", "read", "read_votes", "split_items"]

# The layouts in the order of preference; `winner` of the first names a side, of the last an item.
_SIDES = ("left", "right", "winner")
_OUTCOME = ("first", "second", "outcome")
_WINNER = ("winner", "loser")
_LAYOUTS = (_SIDES, _OUTCOME, _WINNER)
_ROLES = tuple(dict.fromkeys((*_WINNER, *_SIDES, *_OUTCOME, "worker", "weight")))
# The columns of the items of a result, which a context column stands beside.
RESULT_COLUMNS = (
    *("item", "score", "lower", "upper", "rank", "rank_lower", "rank_upper"),
    *("comparisons", "component", "flag"),
)
_KEYWORDS = {"left": 1.0, "right": 0.0, "tie": 0.5}


def read(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    features: Sequence[str] = (),
    by: str = "",
    threads: int | None = None,
) -> Comparisons:
    """Read votes, one row a vote, from a file, a data frame or arrays.

    The columns are ``winner, loser, worker``; or ``left, right, winner, worker``, where the
    winner is ``left``, ``right``, ``tie`` (in any case) or the item's own label; or ``first,
    second, outcome, worker`` with an outcome in [0, 1] for the first over the second; each with
    an optional ``weight``. Where columns of several layouts are present, sides go before
    outcomes and these before winner and loser. Other columns are ignored. Names match exactly,
    else without regard to case; blanks around them do not count.

    Parameters
    ----------
    source
        A path to CSV, TSV, JSON, JSONL or Parquet, perhaps gzipped, or a pattern such as
        ``"votes-*.csv"``; ``"-"`` for standard input; a pandas, polars or pyarrow frame; a DuckDB
        relation; a dict of columns; arrays ``(winner, loser, worker)``; or `Comparisons`, which
        are returned as they are.
    columns
        Other names of the columns, as ``{"winner": "chosen"}``.
    workers
        False pools all votes as of one unknown voter; no worker column is needed.
    sides
        Whether the first item was shown on the left. By default this is so for ``left`` and
        ``right`` only: many files with ``first`` and ``second`` have the winner always first, and
        would look like a crowd that always presses left. True believes them, False never does.
    features
        Names of further columns of numbers, in favour of the first item.
    by
        The name of a column of contexts (topic, prompt, scene): one ranking for each of its
        values, with the same workers. An item is then a pair (value, item).
    threads
        How many threads may read and sort; default: all cores that this process may use.

    Returns
    -------
    Comparisons
        Labels are kept as given: all text in CSV, so "007" and "7" are two items, and in other
        sources the number 7 and the text "7" are two items also. The integer 7 and the float 7.0
        are one, and where items have integers, all whole numbers become integers. Outcomes and
        weights are checked as given, then kept as float32; a weight too small for that (below
        about 1e-45) counts as 0.

    Raises
    ------
    InputError
        Where the votes cannot be used; the message says which row and what to do. This includes a
        winner ``left``, ``right`` or ``tie`` which is also the label of an item in that row and
        would mean another outcome as a label.

    Examples
    --------
    >>> from crowdsift.io.ingest import read
    >>> read({"chosen": ["a", "b"], "loser": ["b", "c"], "worker": ["ann", "bob"]},
    ...      columns={"winner": "chosen"})
    Comparisons(2 votes in 2 distinct rows, 3 items, 2 workers, sides unknown)
    >>> votes = {"left": ["a", "b"], "right": ["b", "c"], "winner": ["right", "tie"]}
    >>> read(votes, workers=False)
    Comparisons(2 votes in 2 distinct rows, 3 items, 1 workers, sides known)
    """
    if isinstance(source, Comparisons):
        return source
    options = ReadOptions(
        columns=columns or {}, workers=workers, sides=sides, features=tuple(features), by=by,
        threads=threads,
    )  # fmt: skip
    return read_votes(source, options)


def read_votes(votes: Any, options: ReadOptions | None = None) -> Comparisons:
    """Read votes as the options say; votes that are read already are returned as they are.

    Raises
    ------
    RequestError
        For options of reading given with votes that are read already.

    Examples
    --------
    >>> from crowdsift.io.ingest import read_votes
    >>> from crowdsift.io.options import ReadOptions
    >>> rows = {"winner": ["a", "b"], "loser": ["b", "c"]}
    >>> read_votes(rows, ReadOptions(workers=False))
    Comparisons(2 votes in 2 distinct rows, 3 items, 1 workers, sides unknown)
    """
    options = options or ReadOptions()
    if isinstance(votes, Comparisons):
        if asked := options.asked():
            raise RequestError(
                f"{', '.join(asked)}: options of reading, and these votes are read already; give "
                "them to crowdsift.read"
            )
        return votes
    with coded_votes(votes, options) as coded:
        coded.table.close()  # what it holds is not needed while the votes are sorted
        return coded.comparisons(thread_count(options.threads))


@dataclass(frozen=True, eq=False)
class CodedVotes:
    """Votes row by row, as codes into sorted labels, while their table is open.

    None stands for outcomes and weights that are all 1, and for a worker who is not known.
    """

    table: Source
    items: NDArray[np.object_]
    first: NDArray[np.uint32]
    second: NDArray[np.uint32]
    outcome: NDArray[np.float32] | None
    workers: NDArray[np.object_]
    worker: NDArray[np.uint32] | None
    weight: NDArray[np.float32] | None
    features: NDArray[np.float32] | None
    feature_names: tuple[str, ...]
    sides_known: bool
    by: str

    def comparisons(self, threads: int) -> Comparisons:
        """The votes as every model sees them."""
        return Comparisons.from_codes(
            self.first,
            self.second,
            worker=self.worker,
            outcome=self.outcome,
            weight=self.weight,
            items=self.items,
            workers=self.workers,
            sides_known=self.sides_known,
            features=self.features,
            feature_names=self.feature_names,
            threads=threads,
            by=self.by,
            source=self.table.source,
            backend=self.table.backend,
        )


@contextmanager
def coded_votes(
    source: Any,
    options: ReadOptions | None = None,
    *,
    every_column: bool = False,
    **given: Any,
) -> Iterator[CodedVotes]:
    """Votes row by row, in the order of the source; see `read`.

    With `every_column` the open table holds all columns of the source, not only those of votes.
    Options are a record, or keywords of which one is made.

    Examples
    --------
    >>> from crowdsift.io.ingest import coded_votes
    >>> with coded_votes({"winner": ["b", "a"], "loser": ["a", "c"], "worker": [1, 1]}) as votes:
    ...     votes.items[votes.first]
    array(['b', 'a'], dtype=object)
    """
    options = options or ReadOptions(**given)
    workers, sides, features, by = options.workers, options.sides, options.features, options.by
    table = open_source(source, thread_count(options.threads))
    try:
        roles = _find_roles(table, options.columns)
        layout = _choose_layout(table, roles, options.columns)
        if sides and layout is _WINNER:
            raise RequestError(
                "sides=True, but columns 'winner' and 'loser' do not say who was on the left; "
                "use left,right,winner or first,second,outcome"
            )
        if workers and "worker" not in roles:
            raise _no_worker(table)
        extra = [resolve_column(table, name, f"the feature {name!r}") for name in features]
        context = _context(table, by, roles) if by else ""
        used = (*layout, *(["worker"] if workers else []), "weight")
        wanted = [roles[role] for role in used if role in roles] + extra + [context][: bool(by)]
        rows = table.load(list(table.names) if every_column else wanted)
        refuse_empty(table, rows, "votes")
        yield _coded(
            table,
            {role: roles[role] for role in used if role in roles},
            layout,
            sides_known=layout is _SIDES if sides is None else sides,
            features=extra,
            feature_names=tuple(features),
            by=context,
        )
    finally:
        table.close()


def _coded(
    table: Source,
    roles: Mapping[str, str],
    layout: tuple[str, ...],
    *,
    sides_known: bool,
    features: Sequence[str],
    feature_names: tuple[str, ...],
    by: str,
) -> CodedVotes:
    """Encode the votes of a loaded table."""
    items, first, second = table.pairs(roles[layout[0]], roles[layout[1]])
    outcome = None
    if layout is _SIDES:
        outcome = _side_outcomes(table, roles["winner"], items, first, second)
    elif layout is _OUTCOME:
        outcome = table.quantities(roles["outcome"], "outcome").astype(np.float32, copy=False)
    crowd: NDArray[np.object_] = np.array([None], dtype=object)
    worker = None
    if "worker" in roles:
        crowd, (worker,) = table.labels([roles["worker"]], "worker label")
    weight = None
    if "weight" in roles:
        weight = table.quantities(roles["weight"], "weight").astype(np.float32, copy=False)
    if by:
        items, first, second = split_items(table.labels([by], "context"), items, first, second)
    vectors = [table.quantities(name, "feature").astype(np.float32) for name in features]
    return CodedVotes(
        table=table,
        items=items,
        first=first,
        second=second,
        outcome=outcome,
        workers=crowd,
        worker=worker,
        weight=weight,
        features=np.column_stack(vectors) if vectors else None,
        feature_names=feature_names,
        sides_known=sides_known,
        by=by,
    )


def split_items(
    context: tuple[NDArray[np.object_], list[NDArray[np.uint32]]],
    items: NDArray[np.object_],
    first: NDArray[np.uint32],
    second: NDArray[np.uint32],
) -> tuple[NDArray[np.object_], NDArray[np.uint32], NDArray[np.uint32]]:
    """Items apart by context: labels (value, item) in sorted order, and codes into them."""
    values, (code,) = context
    start = code.astype(np.int64) * len(items)
    found, places = np.unique(np.concatenate([start + first, start + second]), return_inverse=True)
    labels = np.empty(len(found), dtype=object)
    labels[:] = [(values[each // len(items)], items[each % len(items)]) for each in found.tolist()]
    one, two = places.reshape(2, -1).astype(np.uint32)
    return labels, one, two


def _context(table: Source, by: str, roles: Mapping[str, str]) -> str:
    """The context column, which must not be one of those of the votes or of the results."""
    name = resolve_column(table, by, "the context (--by, by=)")
    taken = [role for role, column in roles.items() if column == name]
    if taken:
        raise RequestError(f"the column {name!r} is the {taken[0]} of the votes, not a context")
    if name in RESULT_COLUMNS:
        raise RequestError(
            f"a context column named {name!r} would be mistaken for that of the results; rename it"
        )
    return name


def _side_outcomes(
    table: Source,
    column: str,
    items: NDArray[np.object_],
    first: NDArray[np.uint32],
    second: NDArray[np.uint32],
) -> NDArray[np.float32]:
    """Find the outcome for the left item, from a side's name, 'tie' or a label of the row."""
    labels, codes = table.entries(column, "winner")
    keywords = [_KEYWORDS.get(str(label).strip().lower(), np.nan) for label in labels]
    named = np.array(keywords, dtype=np.float32)[codes]
    winner = match_labels(labels, items.tolist())[codes]
    own = np.full(len(first), np.nan, dtype=np.float32)
    own[winner == first] = 1.0
    own[winner == second] = 0.0
    outcome = np.where(np.isnan(own), named, own)
    if (bad := np.isnan(outcome)).any():
        row = int(np.argmax(bad))
        raise table.fault(
            row, column,
            f"the winner {labels[codes[row]]!r} is neither side; it must be left, right, tie, "
            f"{items[first[row]]!r} or {items[second[row]]!r}",
        )  # fmt: skip
    if (clash := ~np.isnan(named) & (named != outcome)).any():
        row = int(np.argmax(clash))
        raise table.fault(
            row, column,
            f"the winner {labels[codes[row]]!r} is a keyword and also the label of an item of "
            "this row, with another meaning; rename the item, or use first,second,outcome",
        )  # fmt: skip
    return outcome


def _find_roles(table: Source, columns: Mapping[str, str]) -> dict[str, str]:
    """Find the column of every role: mapped ones first, then those with the role's own name."""
    for role in columns:
        if role not in _ROLES:
            raise RequestError(
                f"columns maps {role!r}, which is no column of votes; these are {', '.join(_ROLES)}"
            )
    mapped = {role: resolve_column(table, name, f"the {role}") for role, name in columns.items()}
    for column in mapped.values():
        shared = [role for role in mapped if mapped[role] == column]
        if len(shared) > 1:
            raise RequestError(
                f"columns maps {' and '.join(map(repr, shared))} to the same column {column!r}; "
                f"give each its own (the columns are {listed(table)})"
            )
    free = [name for name in table.names if name not in mapped.values()]
    own = {
        role: name
        for role in _ROLES
        if role not in mapped and (name := lookup(table, free, role)) is not None
    }
    return mapped | own


def _choose_layout(
    table: Source, roles: Mapping[str, str], columns: Mapping[str, str]
) -> tuple[str, ...]:
    """Take the first layout whose columns are all there and include those the user mapped."""
    asked = set(columns) - {"worker", "weight"}
    for layout in _LAYOUTS:
        if asked <= set(layout) <= set(roles):
            return layout
    raise InputError(
        f"the columns of the votes were not found; the columns are {listed(table)}, and needed "
        "are winner,loser or left,right,winner or first,second,outcome (and worker) in the "
        "header. Other names are mapped, as in --columns winner=NAME,loser=NAME or "
        'columns={"winner": "NAME", "loser": "NAME"}',
        source=table.source,
    )


def _no_worker(table: Source) -> InputError:
    return InputError(
        f"no column 'worker', which says who voted; the columns are {listed(table)}. Name it "
        'with --columns worker=NAME (columns={"worker": "NAME"}), or pool all votes with '
        "--no-workers (workers=False) for a method without workers such as bt",
        source=table.source,
    )
