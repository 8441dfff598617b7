"""Read votes: open, recognise, name the columns, choose the rows, give labels codes.

`coded_votes` is the whole pipeline; each of its steps is one call:

1. `open_source` makes a table of a path, a database, a frame or arrays (`columns.py`; files are
   read by DuckDB in `duck.py`, frames in `frames.py`);
2. `plan_reading` recognises the format and finds the column of every role (`columns.py`);
3. `unfold` makes a row per vote where records are nested (`formats/`);
4. `plan_columns` adds contexts and covariates (`columns.py`);
5. `load_rows` and `choose_rows` read the columns and set aside rows that are no votes (`rows.py`);
6. `_encoded` turns labels into codes, from which `Comparisons` are made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.io.columns import (
    SIDES,
    Plan,
    answer_columns,
    covariate_values,
    open_source,
    plan_columns,
    plan_reading,
    style_values,
)
from crowdsift.io.files import read_files, require_separate
from crowdsift.io.formats import ASSUMED, side_columns
from crowdsift.io.options import ReadOptions
from crowdsift.io.resources import limited_memory
from crowdsift.io.rows import (
    Answers,
    Selection,
    alike,
    choose_rows,
    context_labels,
    find_repeats,
    load_rows,
    read_answers,
    read_outcomes,
    refuse_answers,
    split_items,
    time_column,
    unfold,
)
from crowdsift.io.sql import identifiers
from crowdsift.numeric import Codes, Labels, Vector
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons, Grades
from crowdsift.votes.intake import Intake
from crowdsift.votes.labels import By, context_names, shown
from crowdsift.votes.source import Source

if TYPE_CHECKING:
    from crowdsift.votes.choices import Choices

_MILLISECONDS = 1000.0  # times whose typical value is above this are in milliseconds, not seconds
_MEANT = ("the second", "a tie", "the first")
_REPLY = "reply (a text, or a list of messages of which the last is the assistant's)"


def read(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    format: str = "auto",
    values: Mapping[str, str] | None = None,
    where: str = "",
    unique: str | Sequence[str] = (),
    skip_bad: bool | str | os.PathLike[str] = False,
    workers: bool = True,
    sides: bool | None = None,
    covariates: Sequence[str] = (),
    by: str | Sequence[str] = "",
    partitions: bool = False,
    worker_from_path: bool | str = False,
    worker_columns: str | Sequence[str] = (),
    style_control: bool = False,
    encoding: str = "",
    query: str = "",
    memory: str = "",
    hide_workers: bool | str | os.PathLike[str] = False,
    threads: int | None = None,
) -> Comparisons:
    """Read votes, one row per vote, from a file, a data frame or arrays.

    There are three layouts, each with an optional column ``weight``:

    - ``winner, loser, worker``;
    - ``left, right, winner, worker``, where the winner is ``left``, ``right``, ``tie`` or the item's label;
    - ``first, second, outcome, worker`` with an outcome in [0, 1] for the first over the second.

    If a table has columns of several layouts, sides go before outcomes, and outcomes before winner and loser. Other
    columns are ignored. Names match exactly, otherwise without regard to case and to blanks around them.

    Parameters
    ----------
    source
        A path to CSV, TSV, JSON, JSONL or Parquet, also gzipped; a folder of such files; a pattern such as
        ``"votes-*.csv"``; or ``"-"`` for standard input. With `query`, a database. In Python also a pandas, polars or
        pyarrow frame, a DuckDB relation, a dict of columns, arrays ``(winner, loser, worker)``, or `Comparisons`, which
        are returned unchanged.
    columns
        Other names of the columns, as ``{"winner": "chosen"}``.
    format
        The name of a format (docs/formats.md), or "plain" for the columns above; by default the format whose columns
        are there.
    values
        What answers mean, as ``{"A": "left", "B": "right", "C": "tie"}``; also "empty".
    where
        A condition in SQL on the columns; rows that do not meet it are left out.
    unique
        Columns that identify a row; of rows equal in them the first counts.
    skip_bad
        True sets bad rows aside and counts them; a path also writes them there with reasons. By default the first bad
        row is an error.
    workers
        False pools all votes as of one unknown voter; no worker column is needed.
    sides
        Whether the first item was shown on the left. By default this is so for ``left`` and ``right`` only, since many
        files with ``first`` and ``second`` have the winner always first. True uses ``first`` as the left, too.
    covariates
        Names of further columns of numbers, in favour of the first item.
    by
        The name of a column of contexts (topic, prompt, scene): one ranking for each of its values, with the same
        workers. An item is then a pair (value, item). Several names, as ``("language", "turn")`` or
        ``"language,turn"``, give one for each combination, with items ((value, value), item).
    partitions
        Whether folders named NAME=VALUE in the path give columns of text.
    worker_from_path
        Whether the path of a file names its worker: True takes the folders or names that differ, a pattern such as
        ``"verdicts/{worker}/result.json"`` marks the worker's place.
    worker_columns
        Columns of answers, one for each worker, or the beginnings of their names.
    style_control
        Whether lengths, headers, lists and bold text, from the column conv_metadata of Chatbot Arena, are covariates.
    encoding
        The encoding of text files, as "cp1252" or "utf-16". By default UTF-8; other files that look like Windows-1252
        are read as such, with a note in ``intake.notes``.
    query
        One SELECT whose columns are those of votes, where `source` is a database: an address such as
        ``postgresql://host/name``, or a file of SQLite or DuckDB.
    memory
        An amount such as ``"4GB"``: Parquet files whose votes would need more are read into files, not into memory.
    hide_workers
        True replaces the labels of workers by pseudonyms, also in notes and bad rows; the path of a file uses the
        secret key in it (docs/report.md).
    threads
        How many threads may read and sort; default: all cores that this process may use.

    Returns
    -------
    Comparisons
        Labels are kept as given. All are text in CSV, so "007" and "7" are two items; in other sources the number 7 and
        the text "7" are two items as well. The integer 7 and the float 7.0 are one, and where items have integers, all
        whole numbers become integers. Outcomes and weights are checked, then kept as float32; weights below about 1e-45
        count as 0. ``intake`` counts how every row was used.

    Raises
    ------
    InputError
        If the votes cannot be used; the message names the row and a remedy. This includes a winner ``left``,
        ``right`` or ``tie`` which is also the label of an item in that row and would mean another outcome as a label.

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
    given = {name: value for name, value in locals().items() if name != "source"}
    return source if isinstance(source, Comparisons) else read_votes(source, ReadOptions(**given))


def read_votes(votes: Any, options: ReadOptions | None = None, seen: NDArray[np.uint64] | None = None) -> Comparisons:
    """Read votes with these options; `Comparisons` are returned unchanged."""
    # Rows whose hash is among `seen`, the `row_ids` of earlier votes, are left out and counted.
    options = options or ReadOptions()
    if isinstance(votes, Comparisons):
        if changed := options.changed():
            raise RequestError(
                f"{', '.join(changed)}: options of reading, and these votes are "
                "read already; give them to crowdsift.read"
            )
        return votes
    if options.memory:
        from crowdsift.io.streamed import streamed_votes

        streamed = streamed_votes(votes, options)
        if streamed is not None:
            return replace(streamed, reading=options.remembered())
    with limited_memory(options.memory), coded_votes(votes, options, seen=seen) as coded:
        coded.table.close()  # its content is not needed while the votes are sorted
        return coded.comparisons(thread_count(options.threads))


@contextmanager
def coded_votes(
    source: Any,
    options: ReadOptions | None = None,
    *,
    every_column: bool = False,
    grouped: bool = False,
    seen: NDArray[np.uint64] | None = None,
) -> Iterator[CodedVotes]:
    """Read votes row by row, in the order of the source, while their table is open; see `read`."""
    # `every_column`: whether the table holds all columns of the source, not only those of votes; `grouped`: whether the
    # caller names a column of dependent votes, so that none is suggested; `seen`: the `row_ids` of earlier votes; rows
    # among them are left out and counted.
    options = options or ReadOptions()
    if isinstance(options.skip_bad, str | os.PathLike):
        read_from = [("votes", path) for path in read_files(source)]
        require_separate(read_from, [("bad rows", options.skip_bad)])
    table = open_source(source, options)
    try:
        table, planned = _with_workers(table, options)
        plan = plan_reading(table, planned)
        own = {"worker", *plan.format.columns.get("worker", ())} & set(table.names)
        if options.worker_from_path and (own := own - {table.worker_column}):
            table.notes += (f"paths name workers; the column {'/'.join(sorted(own))} is not used",)
        if options.hide_workers is not None and "worker" in plan.roles:
            _hide_worker(table, plan.roles["worker"], options)
        if not (options.unique or plan.format.unique):
            table.refuse_copies()
        if plan.format.unfold is not None:
            table, plan = unfold(table, plan, planned, every_column=every_column)
        plan = plan_columns(table, plan, planned)
        selection = load_rows(table, plan, planned, every_column=every_column)
        choose_rows(selection, plan, planned, seen)
        coded = _encoded(selection, plan, planned, grouped=grouped)
        yield replace(coded, reading=options.remembered())
    finally:
        table.close()


def _with_workers(table: Source, options: ReadOptions) -> tuple[Source, ReadOptions]:
    if not (options.worker_from_path or options.worker_columns):
        return table, options
    sides: dict[str, str] = {}
    if options.worker_columns:
        from crowdsift.io.frames import melted

        answers = answer_columns(table, options.worker_columns)
        found = side_columns(name for name in table.names if name not in answers)
        if "left" not in table.names and len(found) == 1 and not options.columns:
            sides = dict(zip(("left", "right"), found[0], strict=True))
        table = melted(table, answers, options.where)
    columns = {**sides, **options.columns, "worker": table.worker_column}
    return table, replace(options, columns=columns, worker_from_path=False, worker_columns=())


def _hide_worker(table: Source, column: str, options: ReadOptions) -> None:
    """Hide labels of workers in names of folders; raise an error for a condition that may contain labels."""
    if column.casefold() in identifiers(options.where):
        raise RequestError(
            f"--where (where=) names the column of workers ({column}), and the condition would be kept beside the "
            "pseudonyms: select the rows before, or hide the workers without this condition"
        )
    table.hide(column, options.hide_workers.pseudonym)


@dataclass(frozen=True, eq=False)
class CodedVotes:
    """Votes row by row, as codes into sorted labels, while their table is open.

    None stands for outcomes and weights that are all 1, and for unknown workers. Rows that are no votes
    (empty, duplicates, set aside) are not among them; `intake` counts these.
    """

    table: Source
    items: Labels
    first: Codes
    second: Codes
    outcome: NDArray[np.float32] | None
    workers: Labels
    worker: Codes | None
    weight: NDArray[np.float32] | None
    features: NDArray[np.float32] | None
    feature_names: tuple[str, ...]
    sides_known: bool
    by: By
    intake: Intake
    pair: tuple[str, str] = ("", "")  # the columns of the first and the second item
    grade: NDArray[np.uint8] | None = None  # by how much the better side is better, if answers have grades
    reading: Mapping[str, Any] = field(default_factory=dict)
    row_ids: NDArray[np.uint64] | None = None
    choices: Choices | None = None

    def comparisons(self, threads: int) -> Comparisons:
        """Return the votes as `Comparisons`."""
        votes = Comparisons.from_codes(
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
        return replace(
            votes,
            intake=self.intake,
            reading=self.reading,
            row_ids=self.row_ids,
            choices=self.choices,
            grades=self._grades(),
        )

    def _grades(self) -> Grades | None:
        """Return the decided votes with their grades, in canonical order; None without grades."""
        if self.grade is None or self.outcome is None or self.features is not None:
            return None
        worker = np.zeros(len(self.first), np.uint32) if self.worker is None else self.worker
        weight = np.ones(len(self.first), np.float32) if self.weight is None else self.weight
        level = np.maximum(self.grade, 1).astype(np.int64)  # an answer without a grade means "better"
        found = Grades(self.first, self.second, self.outcome, worker, weight, level)
        order = np.lexsort(found)
        return found.select(order[self.outcome[order] != 0.5])


def _encoded(selection: Selection, plan: Plan, options: ReadOptions, *, grouped: bool) -> CodedVotes:
    """Give the labels of the chosen rows codes, and read their numbers."""
    table, roles = selection.selected(), plan.roles
    items, first, second = table.pairs(*plan.pair, _REPLY if plan.format.replies else "item label")
    outcome, both_bad, grade = None, 0, None
    meant: tuple[str, ...] = ()
    if plan.layout[-1] == "winner":
        answers = read_answers(table, plan, options.meanings, (items, first, second))
        refuse_answers(table, roles["winner"], answers, (items, first, second))
        outcome, both_bad, grade = answers.outcome, answers.both_bad, answers.grade
        meant = _meant(plan, answers, bool(options.meanings))
    elif plan.layout[-1] == "outcome":
        outcome = read_outcomes(table, plan)
    workers: Labels = np.array([None], dtype=object)
    worker, hiding = None, options.hide_workers
    if "worker" in roles:
        workers, (worker,) = table.labels([roles["worker"]], "worker label")
    notes = (*selection.table.notes, *_pooled(selection.table, plan), *_marked(selection, plan))
    notes += meant + _graded(grade) + (() if grouped else _dependent(selection.table, plan))
    notes += () if plan.format.replies else alike(items, "items")
    notes += alike(workers, "workers", shown if hiding is None else hiding.pseudonym)
    if hiding is not None and worker is not None:  # done here, so that later messages show no label
        workers, code = hiding.pseudonyms(workers)
        worker = code[worker]
    weight = None
    if "weight" in roles:
        weight = table.quantities(roles["weight"], "weight").astype(np.float32, copy=False)
    if plan.by:
        context = context_labels(table, context_names(plan.by))
        items, first, second = split_items(context, items, first, second)
    vectors = [covariate_values(table, each).astype(np.float32) for each in plan.covariates]
    style = style_values(table) if options.style_control else {}
    vectors += [each.astype(np.float32) for each in style.values()]
    if vectors and worker is None:  # methods with covariates estimate coefficients for workers
        workers, worker = np.array(["all votes"], dtype=object), np.zeros(len(first), np.uint32)
        notes += ("the votes have no workers; with covariates all of them count as votes of one worker",)
    intake = selection.intake(plan.format.name, len(first), both_bad, notes)
    if not (options.unique or plan.format.unique):
        columns = (first, second, worker, outcome, weight, *vectors)
        intake = _with_repeats(intake, table, tuple(roles.values()), columns)
    if worker is not None and (timed := time_column(table, plan.format)):
        seconds = _median_by_worker(_seconds(table, timed), worker, workers)
        intake = replace(intake, work_seconds=seconds)
    return CodedVotes(
        table=table,
        items=items,
        first=first,
        second=second,
        outcome=outcome,
        workers=workers,
        worker=worker,
        weight=weight,
        features=np.column_stack(vectors) if vectors else None,
        feature_names=(*options.covariates, *style),
        sides_known=plan.layout is SIDES and plan.format.name != ASSUMED if options.sides is None else options.sides,
        by=plan.by,
        intake=intake,
        grade=grade,
        pair=plan.pair,
        row_ids=selection.row_ids(),
        choices=_choices(selection, (first, second), worker),
    )


def _choices(selection: Selection, pair: tuple[Any, Any], worker: Codes | None) -> Choices | None:
    found = getattr(selection.table, "unfolded", None)
    if found is None or not len(found.ranks):
        return None
    from crowdsift.votes.choices import Choices

    rows, ranks = selection.rows, np.asarray(found.ranks, np.float64)
    record = np.asarray(found.record, np.int64)[rows]
    return Choices.of_pairs(record, pair, ranks[rows], worker, found.max_diff)


def _with_repeats(
    intake: Intake, table: Source, used: tuple[str, ...], columns: tuple[NDArray[Any] | None, ...]
) -> Intake:
    """Add the number of rows that repeat earlier ones beyond chance, with a warning."""
    first, second, worker, *more = columns
    assert first is not None
    worker = np.zeros(len(first), np.uint32) if worker is None else worker
    given = [each for each in (first, second, worker, *more) if each is not None]
    rest = [name for name in table.names if name and name not in used]
    found = find_repeats(tuple(given), lambda: table.hashes(rest) if rest else None)
    if found is None:
        return intake
    source, row = table.place(found.row)
    names = ",".join(table.names) if len(table.names) <= 8 else "COLUMNS, the columns that name a row"
    note = (
        f"{found.count:,} rows equal earlier ones in {found.equal_in}, more than chance explains (the first is row "
        f"{row:,} of {source}): if votes were uploaded twice, they count twice. --unique {names} (unique=), "
        "keeps the first of equal rows; without it all count"
    )
    return replace(intake, repeated=found.count, notes=(*intake.notes, note))


def _seconds(table: Source, name: str) -> Vector:
    """Return times as seconds: numbers, clock times such as 00:01:16, or milliseconds."""
    found = np.asarray(table.numbers(name), np.float64)
    if not np.isfinite(found).any():
        labels, codes = table.encode(name)
        clocks = [re.fullmatch(r"(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)", str(label).strip()) for label in labels]
        times = [np.dot([3600.0, 60.0, 1.0], [*map(float, each.groups("0"))]) if each else np.nan for each in clocks]
        return np.array([*times, np.nan])[np.minimum(codes, len(labels))]
    typical = np.nanmedian(found) if np.isfinite(found).any() else 0.0
    return found / 1000.0 if typical > _MILLISECONDS else found


def _median_by_worker(seconds: NDArray[Any], worker: Codes, workers: Labels) -> dict[Any, float]:
    """Return the median of each worker's times by label; rows without a time are left out."""
    known = np.flatnonzero(np.isfinite(seconds))
    order = known[np.argsort(worker[known], kind="stable")]
    found, starts = np.unique(worker[order], return_index=True)
    times = np.split(seconds[order], starts[1:]) if len(known) else []
    return {workers[who]: float(np.median(own)) for who, own in zip(found, times, strict=True)}


def _pooled(table: Source, plan: Plan) -> tuple[str, ...]:
    """Return a warning that the votes of several files are pooled, although each may have its own judge."""
    if "worker" in plan.roles or len(table.files) < 2:
        return ()
    shown = ", ".join(table.files[:3]) + (", ..." if len(table.files) > 3 else "")
    return (
        f"the votes of {len(table.files):,} files ({shown}) are pooled as those of one unknown voter: if each file is "
        "of another judge, --worker-from-path (worker_from_path=True) takes the judge from the path",
    )


def _dependent(table: Source, plan: Plan) -> tuple[str, ...]:
    name = plan.format.dependent
    if not name or name not in table.names:
        return ()
    return (
        f"votes that share a value of {name} may depend on each other; --dependent-by {name} "
        f"(dependent_by={name!r}) takes this into account in the intervals",
    )


def _meant(plan: Plan, answers: Answers, stated: bool) -> tuple[str, ...]:
    """Return what answers were taken for, if the format is assumed or they are the numbers 0 to 2."""
    texts = [shown(label).strip("'") for label in answers.labels]
    numbers = bool(texts) and set(texts) <= {"0", "1", "2"} and not (stated or plan.format.values)
    if plan.format.name != ASSUMED and not numbers:
        return ()
    pairs, counts = np.unique(np.stack([answers.codes, 2 * answers.outcome]), axis=1, return_counts=True)
    if len(counts) > len(texts) or len(counts) > 8:  # answers that are labels of items
        return ()
    words = [f"{texts[int(code)]} is {_MEANT[int(y)]} ({n:,})" for (code, y), n in zip(pairs.T, counts, strict=True)]
    return (f"of the answers {', '.join(words)}; if this is wrong, say what they mean with --values (values=)",)


def _graded(grade: NDArray[np.uint8] | None) -> tuple[str, ...]:
    if grade is None:
        return ()
    return (
        f"{int((grade > 1).sum()):,} answers say that a side is much better (as A>>B); sift learns "
        "by how much, other methods count them as votes for that side, like A>B",
    )


def _marked(selection: Selection, plan: Plan) -> tuple[str, ...]:
    noted = plan.format.noted
    if noted is None or noted[0] not in selection.table.names:
        return ()
    column, value, words = noted
    labels, codes = selection.table.encode(column)
    marked = [code for code, label in enumerate(labels) if label == value]
    count = int(np.isin(codes[selection.rows], marked).sum())
    if not count:
        return ()
    name = column if column.isidentifier() else f'"{column}"'
    return (f"{count:,} of the rows used are of {words}; --where \"{name} != '{value}'\" leaves them out",)
