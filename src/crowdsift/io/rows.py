"""Choose the rows that become votes, and count the others by reason.

Rows that are left out, empty, bad or duplicates are counted. Rows that may have been uploaded twice are found in three
ways. A row may equal an earlier one in columns that otherwise identify rows. Far more rows may be equal than by chance,
while workers hardly ever answer a pair differently the second time. A block of rows may be repeated in the same order.
"""

from __future__ import annotations

import csv
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError
from crowdsift.io.columns import LAYOUTS, OUTCOME, SIDES, STYLE, Plan, number_columns, refuse_empty, resolve_column
from crowdsift.io.files import replace_file
from crowdsift.io.formats import ASSUMED, GRADED, PLAIN, SIDE_WORDS, TIE_WORDS, Format, folded, side_columns
from crowdsift.io.options import ROLES, ReadOptions
from crowdsift.numeric import Codes, Indices, Labels, Mask, Vector
from crowdsift.votes.intake import Intake
from crowdsift.votes.labels import MISSING, LabelError, context_names, is_empty, match_labels, shown
from crowdsift.votes.pseudonyms import Hiding
from crowdsift.votes.source import LIMITS, Added, SortedCodes, Source, number_of

Hashes = NDArray[np.uint64]
Pairs = tuple[Labels, Codes, Codes]  # labels, codes

_WORK_TIME = "WorkTimeInSeconds"  # the column of work times in batches of Mechanical Turk
_NAMING = "what names a row (--unique)"
_OUTCOME = {"left": 1.0, "right": 0.0, "tie": 0.5, "both bad": 0.5}
_MIN_REPEATED = 20  # least repeated rows, or rows of a block, that chance does not explain
_ROUNDING = 1e-6  # by which a number that a tool computed may exceed its range
_CLEARLY = 5.0  # standard deviations beyond chance
_CONFLICTS = 0.1  # differing second answers per equal one if workers judge pairs again
_BLANKS = ("-", "--", "na", "n/a", "nan", "null", "none", "?")  # texts of other programs for an empty cell
_SAMPLE = 1 << 19  # about the number of rows that are sorted
_MAX_BLOCK_ROWS = 1 << 22  # most rows whose order is compared; of more, only equal rows are counted
_ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplier that mixes hashes of several columns


def unfold(table: Source, plan: Plan, options: ReadOptions, *, every_column: bool) -> tuple[Source, Plan]:
    """Return the votes of nested records as a table, and the plan of its columns."""
    from crowdsift.io.frames import UnfoldedSource

    assert plan.format.unfold is not None
    found = plan.format.unfold(table, plan.roles, options.where)
    kept = table.kept()
    if every_column and found.in_place:  # to be written back
        table.load(table.names, condition=options.where)
    names = tuple(found.columns)
    layout = next(each for each in LAYOUTS if set(each) <= set(names))
    roles = {name: name for name in names if name in ROLES}
    return UnfoldedSource(found, table, kept), Plan(plan.format, layout, roles, found.context)


def load_rows(table: Source, plan: Plan, options: ReadOptions, *, every_column: bool) -> Selection:
    """Load the columns that votes need; rows that do not meet the condition are left out."""
    if plan.format.unfold is not None:
        return _unfolded_rows(table)
    pair, contexts = plan.pair, context_names(plan.by)
    replies, prompts = (pair, contexts) if plan.format.replies else ((), ())
    names = [*plan.roles.values(), *(n for c in plan.covariates for n in c.names), *contexts]
    names += [resolve_column(table, each, _NAMING) for each in options.unique]
    noted = () if plan.format.noted is None else plan.format.noted[:1]
    offered = (*plan.format.unique, *noted, time_column(table, plan.format))
    names += [n for n in offered if n and n in table.names]
    names += [STYLE] if options.style_control else []
    names = [name for name in names if name not in (*replies, *prompts)]
    names = list(table.names) if every_column else names
    rows = table.load(names, replies=replies, prompts=prompts, condition=options.where)
    refuse_empty(table, rows, "votes")
    selection = Selection(table, np.zeros(rows, np.uint8))
    if (kept := table.kept()) is not None:
        selection.mark(np.flatnonzero(~kept), Selection.LEFT_OUT)
    return selection


def time_column(table: Source, form: Format) -> str:
    """Return the column of the time that an answer took, "" if there is none."""
    known = folded(form.seconds) if form.seconds else _WORK_TIME
    return next((name for name in table.names if known in (name, form.seconds and folded(name))), "")


def _unfolded_rows(table: Any) -> Selection:
    found, kept = table.unfolded, table.kept_rows
    table.load(table.names)
    record = np.asarray(found.record, np.int64)
    one_each = len(record) == len(found.row) and bool((record == np.arange(len(record))).all())
    selection = Selection(table, np.zeros(len(found.row), np.uint8), None if one_each else record)
    if kept is not None:
        out = np.flatnonzero(~kept[np.asarray(found.row, np.int64)])
        selection.mark(out, Selection.LEFT_OUT)
    for number, reason in found.aside.items():
        selection.set_records_aside(np.array([number]), "", reason)
    selection.mark(np.asarray(found.empty, np.int64), Selection.EMPTY)
    return selection


def choose_rows(selection: Selection, plan: Plan, options: ReadOptions, seen: NDArray[np.uint64] | None) -> None:
    """Mark rows that are broken, empty or duplicates, and bad ones with `skip_bad`, as unused."""
    table, roles = selection.table, plan.roles
    for row, reason in table.broken().items():
        selection.set_aside(np.array([row]), "", reason.partition(";")[0])
    if unique := plan.unique(table, options):
        selection.drop_duplicates(unique, seen)
    skip, values = options.skip_bad is not False, options.meanings
    blanks = plan.format is not PLAIN or skip or "" in values.values() or table.has_blanks
    if plan.layout is SIDES and blanks:
        labels, codes = table.codes(roles["winner"])
        if all(label.__hash__ is not None for label in labels):
            known = meanings(labels, plan, values)
            selection.drop_empty([code for code, word in enumerate(known) if word == ""], codes)
    elif plan.layout is OUTCOME and plan.format is not PLAIN:
        labels, codes = table.codes(roles["outcome"])
        selection.drop_empty([c for c, label in enumerate(labels) if _is_blank(label)], codes)
    if plan.format.sets_aside or skip:
        _set_unlabelled_aside(selection, plan)
    if skip:
        _set_bad_aside(selection, plan, values)
        if isinstance(options.skip_bad, str | os.PathLike) and selection.reasons:
            hiding = options.hide_workers
            hidden = {} if hiding is None else {roles.get("worker"): hiding}
            selection.write_aside(options.skip_bad, list(dict.fromkeys(roles.values())), hidden)
    selection.refuse_nothing()


def _set_unlabelled_aside(selection: Selection, plan: Plan) -> None:
    table, roles = selection.table, plan.roles
    labels = [(column, "item label") for column in plan.pair]
    labels += [(roles["worker"], "worker label")] if "worker" in roles else []
    labels += [(name, "context") for name in context_names(plan.by)]
    for column, what in labels:
        for rows, why in _unlabelled(table, column):
            selection.set_aside(rows, column, f"{why} {what}")
    if len(rows := selection.rows):
        _, (first, second) = selection.selected().labels(plan.pair, "item label")
        selection.set_aside(rows[first == second], plan.pair[0], "an item compared with itself")


def _set_bad_aside(selection: Selection, plan: Plan, values: Mapping[str, str]) -> None:
    # These are the checks that otherwise raise an error for the first bad row; a bad row that is missed here still
    # raises one there.
    table, roles = selection.table, plan.roles
    if "outcome" in roles:
        bad = np.isnan(_outcomes(table, plan))
        selection.set_aside(np.flatnonzero(bad), roles["outcome"], "not a valid outcome")
    numbers = [(roles[role], role) for role in ("weight",) if role in roles]
    numbers += [(name, "covariate") for name in number_columns(table, plan.covariates)]
    for column, role in numbers:
        low, high = LIMITS[role]
        given = table.numbers(column)
        bad = ~(np.isfinite(given) & (given >= low) & (given <= high))
        selection.set_aside(np.flatnonzero(bad), column, f"not a valid {role}")
    if len(selection.rows) == 0:
        return
    chosen, rows = selection.selected(), selection.rows
    items, (first, second) = chosen.labels(plan.pair, "item label")
    if plan.layout[-1] == "winner":
        answers = read_answers(chosen, plan, values, (items, first, second))
        wrong = answers.unknown | answers.clash
        selection.set_aside(rows[wrong], roles["winner"], "a winner that is neither side")


class Selected(Source):
    """Some rows of another source, in its order; row numbers are those of the other source."""

    def __init__(self, base: Source, rows: Indices) -> None:
        self._base, self._rows = base, rows
        self.names, self.source, self.backend = base.names, base.source, base.backend
        self.notes, self.by_column = base.notes, base.by_column

    def load(self, wanted: Sequence[str], **_: Any) -> int:
        """Return the number of selected rows; the other source is loaded already."""
        return len(self._rows)

    def encode(self, name: str) -> tuple[list[Any], Codes]:
        try:
            labels, codes = self._base.encode(name)
        except LabelError as fault:
            raise LabelError(int(np.searchsorted(self._rows, fault.row)), fault.message) from None
        used, (own,) = _used([codes[self._rows]], len(labels))
        return [labels[code] for code in used.tolist()], own

    def sorted_codes(self, columns: Sequence[str]) -> SortedCodes | None:
        found = self._base.sorted_codes(columns)
        if found is None:
            return None
        used, own = _used([each[self._rows] for each in found.codes], len(found.labels))
        unclear = np.flatnonzero(np.isin(used, found.unclear)).tolist()
        return SortedCodes(found.labels[used], own, unclear)

    def numbers(self, name: str) -> Vector | NDArray[np.float32]:
        return self._base.numbers(name)[self._rows]

    def hashes(self, names: Sequence[str]) -> NDArray[np.uint64] | None:
        found = self._base.hashes(names)
        return None if found is None else found[self._rows]

    def value(self, name: str, row: int) -> Any:
        return self._base.value(name, int(self._rows[row]))

    def whole(self, name: str, row: int) -> Any:
        return self._base.whole(name, int(self._rows[row]))

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        wanted = iter(self._rows.tolist())
        following = next(wanted, None)
        for number, entries in enumerate(self._base.rows(names)):
            if number == following:
                yield entries
                following = next(wanted, None)

    def place(self, row: int) -> tuple[str, int]:
        return self._base.place(int(self._rows[row]))

    @property
    def all_rows(self) -> Source:
        return self._base

    @property
    def written_names(self) -> tuple[str, ...]:
        return self._base.written_names

    def write(self, path: str, kind: str, added: Added) -> None:
        rows = self._rows if added.rows is None else self._rows[added.rows]
        self._base.write(path, kind, replace(added, rows=rows))

    def close(self) -> None:
        self._base.close()


def _used(codes: list[Codes], count: int) -> tuple[Indices, list[Codes]]:
    there = np.zeros(count + 1, bool)
    for each in codes:
        there[np.minimum(each, count)] = True
    there[count] = False
    used = np.flatnonzero(there)
    number = np.full(count + 1, MISSING, np.uint32)
    number[used] = np.arange(len(used), dtype=np.uint32)
    return used, [number[np.minimum(each, count)] for each in codes]


def _number(text: str) -> int:
    """Return a hash of 64 bits that is equal in every run."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


@dataclass
class Selection:
    """The use of every row of a table, and the first reason against it.

    If `record` joins rows, as for rankings, records are used and counted as a whole.
    """

    table: Source
    state: NDArray[np.uint8]
    record: Indices | None = None
    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)  # record: column, reason
    ids: NDArray[np.uint64] | None = None  # hashes of the columns that identify a row; 0 if there are none
    known: int = 0  # rows that the updated fit already has

    USED, LEFT_OUT, DUPLICATE, EMPTY, ASIDE = range(5)

    @property
    def rows(self) -> Indices:
        """Return the rows that are used so far."""
        state = self.state if self.record is None else self.state[self.record]
        return np.flatnonzero(state == self.USED)

    def selected(self) -> Source:
        """Return the table with only these rows."""
        return self.table if not self.state.any() else Selected(self.table, self.rows)

    def mark(self, records: NDArray[Any], state: int) -> None:
        """Give used records, named by their numbers, the state of unused ones."""
        self.state[records[self.state[records] == self.USED]] = state

    def set_aside(self, rows: NDArray[Any], column: str, reason: str) -> None:
        """Set aside rows that cannot be used, with the reason."""
        records = rows if self.record is None else np.unique(self.record[rows])
        self.set_records_aside(records, column, reason)

    def set_records_aside(self, records: NDArray[Any], column: str, reason: str) -> None:
        """Set aside records that cannot be used, with the reason."""
        for number in records[self.state[records] == self.USED].tolist():
            self.reasons[number] = (column, reason)
        self.mark(records, self.ASIDE)

    def drop_duplicates(self, columns: Sequence[str], seen: NDArray[np.uint64] | None = None) -> None:
        """Mark rows as duplicates that equal an earlier one in the columns, or one in `seen`."""
        names = [resolve_column(self.table, name, _NAMING) for name in columns]
        rows = record = self.rows
        if self.record is not None:  # the first row of each
            record, first = np.unique(self.record[rows], return_index=True)
            rows = rows[first]
        key = np.zeros(len(rows), np.int64)
        ids = np.full(len(rows), _number("\0".join(names)), np.uint64)
        known = np.ones(len(rows), bool)
        for name in names:
            labels, codes = self.table.codes(name)
            own = codes[rows]
            blank = [code for code, label in enumerate(labels) if not str(label).strip()]
            known &= (own != MISSING) & ~np.isin(own, blank)
            hashes = np.array([*(_number(str(label)) for label in labels), 0], np.uint64)
            own = np.minimum(own, len(labels))
            key = np.unique(key * (len(labels) + 1) + own, return_inverse=True)[1].reshape(-1)
            ids = ids * _ODD + hashes[own]
        _, first = np.unique(key[known], return_index=True)
        again = np.ones(int(known.sum()), bool)
        again[first] = False
        self.mark(record[known][again], self.DUPLICATE)
        self.ids = np.zeros(len(self.state), np.uint64)
        self.ids[record[known]] = ids[known]
        if seen is not None:
            old = np.flatnonzero(np.isin(self.ids, seen) & (self.state == self.USED))
            self.mark(old, self.DUPLICATE)
            self.known = len(old)

    def row_ids(self) -> NDArray[np.uint64] | None:
        """Return the sorted hashes of the rows used; None if no columns identify rows."""
        if self.ids is None:
            return None
        used = self.ids[(self.state == self.USED) & (self.ids != 0)]
        return np.unique(used) if len(used) else None

    def drop_empty(self, blank: Sequence[int], codes: Codes) -> None:
        """Mark rows without an answer: no entry, or one of the codes that mean none."""
        empty = np.flatnonzero((codes == MISSING) | np.isin(codes, blank))
        self.mark(empty if self.record is None else self.record[empty], self.EMPTY)

    def intake(self, name: str, votes: int, both_bad: int, notes: tuple[str, ...]) -> Intake:
        """Return the counts of all rows."""
        count = np.bincount(self.state, minlength=5).tolist()
        reasons = Counter(reason for _, reason in self.reasons.values())
        return Intake(
            format=name,
            rows=len(self.state),
            used=count[self.USED],
            empty=count[self.EMPTY],
            duplicates=count[self.DUPLICATE],
            set_aside=count[self.ASIDE],
            left_out=count[self.LEFT_OUT],
            votes=votes,
            both_bad=both_bad,
            reasons=tuple(reasons.most_common()),
            notes=notes,
            known=self.known,
        )

    def refuse_nothing(self) -> None:
        """Raise an error if no row is left."""
        if self.state.all():
            line = str(self.intake("rows", 0, 0, ())).partition(": ")[2]
            raise InputError(f"no votes are left: {line}", source=self.table.source)

    def write_aside(
        self, path: str | os.PathLike[str], columns: Sequence[str], hidden: Mapping[str | None, Hiding]
    ) -> None:
        """Write the rows that were set aside, with their places and reasons."""
        # The columns in `hidden` get pseudonyms. For a row whose cells could not be separated only its place is then
        # written, since any cell may contain a label.
        with replace_file(Path(path)) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(["source", "row", "column", "reason", *columns])
            for record, (column, reason) in sorted(self.reasons.items()):
                own = [record] if self.record is None else np.flatnonzero(self.record == record)
                if len(own) == 0:  # a record without a single vote
                    continue
                row = int(own[0])
                values = [self.table.value(name, row) for name in columns]
                shown = ["" if value is None else value for value in values]
                for place, name in enumerate(columns):
                    if hidden and not column:
                        shown[place] = ""
                    elif name in hidden and not is_empty(shown[place]):
                        shown[place] = hidden[name].pseudonym(shown[place])
                writer.writerow([*self.table.place(row), column, reason, *shown])


def _unlabelled(table: Source, column: str) -> Iterator[tuple[Indices, str]]:
    labels, codes = table.codes(column)
    nested = [c for c, label in enumerate(labels) if label.__hash__ is None]
    empty = [c for c, label in enumerate(labels) if c not in nested and is_empty(label)]
    yield np.flatnonzero(np.isin(codes, nested)), "a list or record as the"
    yield np.flatnonzero((codes == MISSING) | np.isin(codes, empty)), "empty"


def meanings(
    labels: Sequence[Any], plan: Plan, values: Mapping[str, str], *, any_words: bool = True
) -> list[str | None]:
    """Return the meaning of every answer: a side, "tie", "both bad", "" for none, None if unknown."""
    # The user's meanings take precedence over the format's, and these over words for sides, which are recognised if
    # `any_words`: if no answer is the label of an item.
    words = {"left": "left", "right": "right", "tie": "tie"}
    if any_words:
        words |= {answer: side for answer, (side, _) in GRADED.items()} | _side_words(labels)
    if plan.format.words:
        for one, two in SIDE_WORDS[:5]:  # not 0 and 1, nor 1 and 2: 1 could be either side
            words |= {one: "left", two: "right"} if one != "1" else {}
        words |= dict.fromkeys(TIE_WORDS, "tie")
    for role in ("left", "right"):  # the name of the side's own column, or its ending
        name = plan.roles.get(role, role)
        prefix = plan.format.pairs
        words.setdefault(name.casefold(), role)
        words.setdefault(name.removeprefix(prefix).casefold(), role)
    if plan.format.name == ASSUMED and plan.pair[0].endswith("0"):  # of reply_0 and reply_1; 2 is then neither
        words |= {"0": "left", "1": "right", "2": "?"}
    words |= {answer.casefold(): meaning for answer, meaning in plan.format.values.items()}
    folded = {answer.casefold(): meaning for answer, meaning in values.items()}
    known: list[str | None] = []
    for label in labels:
        text = _answer(label)
        if plan.format.decode is not None and text not in values:
            text = plan.format.decode(text)
        fold = text.casefold()
        if is_empty(label) or not text:
            known.append("")
        else:
            known.append(values.get(text, folded.get(fold, words.get(fold))))
    return known


def _answer(label: Any) -> str:
    """Return an answer as text; 1.0, from a column of numbers with gaps, is 1."""
    text = str(label).strip()
    return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdigit() else text


def _side_words(labels: Sequence[Any]) -> dict[str, str]:
    """Return the answers that differ only in the word for a side, such as Image A and Image B."""
    # 1 and 2 are the sides, and 0 with them is a tie. 0 and 1 alone, and -1, 0 and 1, are ambiguous and left out.
    answers = {_answer(label).casefold() for label in labels if not is_empty(label)}
    pairs = [pair for pair in side_columns(answers) if pair != ("0", "1") and "-1" not in pair]
    if len(pairs) != 1:
        return {}
    ties = (*TIE_WORDS, "0") if pairs[0] == ("1", "2") else TIE_WORDS
    return {**dict.fromkeys(ties, "tie"), pairs[0][0]: "left", pairs[0][1]: "right"}


def _is_blank(label: Any) -> bool:
    """Return whether a label is one of the texts that files have for a missing number."""
    return is_empty(label) or str(label).strip().casefold() in ("nan", "null", "none", "na")


def read_outcomes(table: Source, plan: Plan) -> NDArray[np.float32]:
    """Return the outcome for the first item of every row, from numbers in any known range."""
    column = plan.roles["outcome"]
    found = _outcomes(table, plan)
    if np.isnan(found).any():
        if plan.format.span is None:
            table.quantities(column, "outcome")  # raises the error
        row = int(np.argmax(np.isnan(found)))
        first, second, what = plan.format.span or (1.0, 0.0, "outcome")
        raise table.fault(
            row,
            column,
            f"the {what} {shown(table.value(column, row))} is not between {min(first, second):g} and "
            f"{max(first, second):g}: {first:g} says that the first item is better, {second:g} the second, "
            f"{(first + second) / 2:g} a tie; correct it, or set such rows aside with --skip-bad (skip_bad=True)",
        )
    if plan.format.draws and {number_of(label) for label in table.encode(column)[0]} == {0.0, 1.0}:
        what = plan.format.span[2] if plan.format.span else "outcome"
        table.all_rows.notes += (f"every {what} is 0 or 1: 1 is a win of the first item, and 0 counts as a tie",)
    return found.astype(np.float32)


def _outcomes(table: Source, plan: Plan) -> Vector:
    """Return outcomes in [0, 1], NaN for entries that are no number or outside the range."""
    # In our own columns, 1 and 2 name the better item, and -1, 0 and 1 are the result of the first one.
    column, form = plan.roles["outcome"], plan.format
    if form.span is not None:  # numbers of tools, also as text
        labels, codes = table.encode(column)
        known = np.array([*(np.nan if _is_blank(x) or isinstance(x, bool) else number_of(x) for x in labels), np.nan])
        given = known[np.minimum(codes, len(labels))]
        first, second = form.span[:2]
    else:
        given = np.asarray(table.numbers(column), np.float64)
        values = set(np.unique(given)[:4].tolist())
        first, second = (1.0, 2.0) if values in ({1.0, 2.0}, {1.0, 1.5, 2.0}) else (1.0, 0.0)
        second = -1.0 if values in ({-1.0, 1.0}, {-1.0, 0.0, 1.0}) else second
    outcome = (given - second) / (first - second)
    inside = np.abs(outcome - 0.5) <= 0.5 + (_ROUNDING if form.span else 0.0)
    outcome = np.where(inside, np.clip(outcome, 0.0, 1.0), np.nan)
    return np.where(np.isin(given, form.draws), 0.5, outcome)


@dataclass(frozen=True)
class Answers:
    """The outcome for the left item of every row, NaN if the answer names neither side.

    `grade` is by how much the side is better (1, 2; 0 for a tie), None if no answer has one.
    """

    outcome: NDArray[np.float32]
    both_bad: int
    labels: list[Any]
    codes: Codes
    clash: Mask
    grade: NDArray[np.uint8] | None = None

    @property
    def unknown(self) -> Mask:
        """Return the rows whose answer names neither side."""
        return np.isnan(self.outcome)


def read_answers(table: Source, plan: Plan, values: Mapping[str, str], pairs: Pairs) -> Answers:
    """Return the outcome for the left item, from a word for a side or from a label of the row."""
    items, first, second = pairs
    column = plan.roles["winner"]
    labels, codes = table.entries(column, "winner")
    own_labels = match_labels(labels, items.tolist())
    known = meanings(labels, plan, values, any_words=plan.format.words or bool((own_labels < 0).all()))
    words = np.array([_OUTCOME.get(word or "?", np.nan) for word in known], dtype=np.float32)
    named = words[codes]
    own = np.full(len(first), np.nan, dtype=np.float32)
    if not plan.format.words:
        winner = own_labels[codes]
        own[winner == first] = 1.0
        own[winner == second] = 0.0
    outcome = np.where(np.isnan(own), named, own)
    bad = [code for code, word in enumerate(known) if word == "both bad"]
    both_bad = int((np.isin(codes, bad) & (outcome == 0.5)).sum()) if bad else 0
    clash = ~np.isnan(named) & (named != outcome)
    texts, mapped = ([str(label).strip().casefold() for label in labels], {*map(str.casefold, values)})
    grades = [1 if text in mapped else GRADED.get(text, ("", 0))[1] for text in texts]
    grade = np.array(grades, np.uint8)[codes] if max(grades, default=0) > 1 else None
    return Answers(outcome, both_bad, labels, codes, clash, grade)


def refuse_answers(table: Source, column: str, answers: Answers, pairs: Pairs) -> None:
    """Raise an error for answers that name neither side, with a list, and for words that are also labels."""
    if (bad := answers.unknown).any():
        raise _neither(table, column, answers, bad, pairs)
    if answers.clash.any():
        row = int(np.argmax(answers.clash))
        raise table.fault(
            row,
            column,
            f"the winner {shown(answers.labels[answers.codes[row]])} is a keyword and also the label of an item of "
            "this row, with another meaning; rename the item, or use first,second,outcome",
        )


def _neither(table: Source, column: str, answers: Answers, bad: Mask, pairs: Pairs) -> InputError:
    """Return the error for answers that are neither a side nor a tie, with the most frequent ones."""
    items, first, second = pairs
    row = int(np.argmax(bad))
    column = str(table.value("worker", row)) if table.by_column else column
    count = np.bincount(answers.codes[bad], minlength=len(answers.labels))
    often = np.argsort(-count, kind="stable")[: min(8, int((count > 0).sum()))].tolist()
    listed = ", ".join(
        f"{shown(answers.labels[code])} ({count[code]:,} {'row' if count[code] == 1 else 'rows'})" for code in often
    )
    more = f" and {int((count > 0).sum()) - len(often)} more" if (count > 0).sum() > 8 else ""
    texts = [str(answers.labels[code])[:20] for code in often[:4]]
    mapped = ",".join(f"{text}={'tie' if text.casefold() in TIE_WORDS else '...'}" for text in texts)
    return table.fault(
        row,
        column,
        f"the winner {shown(answers.labels[answers.codes[row]])} is neither side; it must be left, "
        f"right, tie, {shown(items[first[row]])} or {shown(items[second[row]])}. Answers that are "
        f"neither: {listed}{more}; correct the cells, say what they mean with --values "
        f'"{mapped}" (left, right, tie or empty), or set such rows aside with --skip-bad',
    )


@dataclass(frozen=True)
class Repeats:
    """How many rows repeat, which is the first, and in which columns they are equal."""

    count: int
    row: int
    equal_in: str


def find_repeats(columns: tuple[NDArray[Any], ...], further: Callable[[], Hashes | None]) -> Repeats | None:
    """Return the rows that repeat earlier ones beyond chance, or None."""
    # `columns`: first item, second item and worker as codes, then the other columns of votes; `further`: returns a hash
    # of the other columns of the source, or None; it is called only if votes repeat.
    first, second, worker = columns[:3]
    pair = _mixed(np.minimum(first, second), np.maximum(first, second))
    cell, vote = _mixed(worker, pair), _mixed(*columns)
    step = len(vote) // _SAMPLE + 1
    some = np.flatnonzero(cell % np.uint64(step) == 0)  # all rows of a worker on a pair, or none
    again, at = _again(vote[some])
    if not again:
        return None
    named = False
    if (other := further()) is not None:
        whole = _mixed(vote, other)
        named = 2 * _distinct(other[some]) >= _distinct(whole[some])
        again, at = _again(whole[some])
        if named and again:
            return Repeats(step * again, int(some[at]), "every column")
        vote = vote if named else whole
    chance = _expected(pair, worker, step)
    bound = chance + _CLEARLY * np.sqrt(chance) + _MIN_REPEATED
    equal, judged = step * again, step * (len(some) - _distinct(cell[some]))
    if not named and equal > bound and judged - equal <= max(_CONFLICTS * equal, bound):
        return Repeats(equal, int(some[at]), "worker, items and answer")
    return _block(vote, step) if len(vote) <= _MAX_BLOCK_ROWS else None


def _mixed(*columns: NDArray[Any]) -> Hashes:
    """Return a hash for each row of columns, given as codes, hashes or float32."""
    result = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        result ^= (column.view(np.uint32) if column.dtype == np.float32 else column).astype(np.uint64)
        result *= _ODD
        result ^= result >> np.uint64(29)
    return result


def _distinct(keys: Hashes) -> int:
    return int((np.diff(np.sort(keys)) != 0).sum()) + 1


def _again(keys: Hashes) -> tuple[int, int]:
    """Return how many keys equal an earlier one, and the index of the first of these."""
    first = np.unique(keys, return_index=True)[1]
    later = np.ones(len(keys), bool)
    later[first] = False
    return len(keys) - len(first), int(np.argmax(later)) if len(keys) else 0


def _expected(pair: Hashes, worker: NDArray[Any], step: int) -> float:
    """Return how often workers would judge a pair again by chance, if all drew pairs at the same rates."""
    # Two draws are the same pair with probability q = sum of squared shares, so n draws of a worker contain about q n
    # (n - 1) / 2 repeated ones, and never more than n - 1.
    votes = np.unique(pair[pair % np.uint64(step) == 0], return_counts=True)[1]
    equal = step * float(((votes / len(pair)) ** 2).sum())
    own = np.bincount(worker).astype(np.float64)
    own = own[own > 0]
    return float(np.minimum(own - 1.0, equal * own * (own - 1.0) / 2.0).sum())


def _block(vote: Hashes, step: int) -> Repeats | None:
    """Return blocks of rows that are repeated in the same order, by hashes of windows of rows."""
    # A window with fewer different rows may be repeated by chance, for instance in a sorted file.
    count = len(vote) - _MIN_REPEATED + 1
    if count <= _MIN_REPEATED:
        return None
    powers = np.full(len(vote), _ODD, np.uint64)
    powers[0] = 1
    sums = np.concatenate([[np.uint64(0)], np.cumsum(vote * np.cumprod(powers))])
    powers[1:] = pow(int(_ODD), -1, 1 << 64)
    window = _mixed((sums[_MIN_REPEATED:] - sums[:-_MIN_REPEATED]) * np.cumprod(powers)[:count])
    at = np.flatnonzero(window % np.uint64(step) == 0)
    _, first, code = np.unique(window[at], return_index=True, return_inverse=True)
    later = at[at - at[first[code.reshape(-1)]] >= _MIN_REPEATED]
    views = np.lib.stride_tricks.sliding_window_view(vote, _MIN_REPEATED)
    kept = [np.zeros(0, np.int64)]
    for start in range(0, len(later), 1 << 16):
        part = later[start : start + (1 << 16)]
        varied = (np.diff(np.sort(views[part], axis=1), axis=1) != 0).sum(axis=1) + 1
        kept.append(part[2 * varied >= _MIN_REPEATED])
    begins = np.concatenate(kept)
    change = np.bincount(begins, minlength=len(vote) + 1) - np.bincount(begins + _MIN_REPEATED, minlength=len(vote) + 1)
    covered = np.cumsum(change)[:-1] > 0
    if not covered.any():
        return None
    return Repeats(int(covered.sum()), int(np.argmax(covered)), "worker, items and answer, in the same order")


def alike(labels: Iterable[Any], what: str, named: Callable[[str], str] = shown) -> tuple[str, ...]:
    """Return a warning if text labels differ only in blanks or Unicode form."""
    # `named` is how the warning names a label.
    texts = [label for label in labels if isinstance(label, str)]
    notes: tuple[str, ...] = ()
    if blank := [named(text) for text in texts if len(text) < 5 and text.casefold() in _BLANKS]:
        cells = " and ".join(blank[:3])
        notes = (f"cells with {cells} count as {what}; if they mean none, leave them out with --where (where=)",)
    odd = [text for text in texts if not text.isascii() or text != " ".join(text.split())]
    if not odd:
        return notes
    by_form: dict[str, list[str]] = {}
    for text in odd:
        by_form.setdefault(" ".join(unicodedata.normalize("NFKC", text).split()), []).append(text)
    for text in set(texts).difference(odd):
        if text in by_form:
            by_form[text].insert(0, text)
    groups = [sorted(group) for group in by_form.values() if len(group) > 1]
    if not groups:
        return notes
    first = " and ".join(named(text) for text in min(groups)[:3])
    more = f" ({len(groups)} such groups)" if len(groups) > 1 else ""
    return (
        *notes,
        f"the {what} {first} differ only in blanks or Unicode form{more}; they count as different "
        f"{what}: write them alike if they are the same",
    )


def context_labels(table: Source, names: Sequence[str]) -> tuple[Labels, Indices]:
    """Return sorted contexts, as tuples for several columns, and the codes of the rows."""
    found = [table.labels([name], "context") for name in names]
    values, code = found[0][0], found[0][1][0].astype(np.int64)
    if len(found) == 1:
        return values, code
    for labels, (more,) in found[1:]:
        code = code * len(labels) + more
    present, code = np.unique(code, return_inverse=True)
    parts, rest = [], present
    for labels, _ in reversed(found):
        parts.append(labels[rest % len(labels)])
        rest = rest // len(labels)
    values = np.empty(len(present), dtype=object)
    values[:] = list(zip(*reversed(parts), strict=True))
    return values, code.reshape(-1)


def split_items(
    context: tuple[Labels, Indices], items: Labels, first: Codes, second: Codes
) -> tuple[Labels, Codes, Codes]:
    """Return items split by context: sorted labels (value, item), and codes into them."""
    values, code = context
    own = np.empty(len(items), np.int64)  # the context of every item with only one
    own[first], own[second] = code, code
    if (own[first] == code).all() and (own[second] == code).all():
        order = np.argsort(own, kind="stable")
        place = np.empty(len(items), np.uint32)
        place[order] = np.arange(len(items), dtype=np.uint32)
        labels = np.empty(len(items), dtype=object)
        labels[:] = list(zip(values[own[order]], items[order], strict=True))
        return labels, place[first], place[second]
    start = code.astype(np.int64) * len(items)
    found, places = np.unique(np.concatenate([start + first, start + second]), return_inverse=True)
    labels = np.empty(len(found), dtype=object)
    labels[:] = list(zip(values[found // len(items)], items[found % len(items)], strict=True))
    one, two = places.reshape(2, -1).astype(np.uint32)
    return labels, one, two
