"""Open a source of rows and name its columns: recognise the format, find the column of every role.

`open_source` makes a table of a path, a database, a frame or arrays. `plan_reading` determines the content of the
table: our own columns in one of three layouts, or a format (`crowdsift.io.formats`).
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError, RequestError
from crowdsift.io.formats import ASSUMED, PLAIN, Format, Found, known_formats
from crowdsift.io.options import ROLES, ReadOptions
from crowdsift.io.sql import STUDY_QUERY, is_study, kind_of_database, shown_address
from crowdsift.numeric import Vector
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.labels import MISSING, By, context_names, is_empty
from crowdsift.votes.source import Source

# The layouts in order of preference; `winner` names a side in the first, an item in the last.
SIDES = ("left", "right", "winner")
OUTCOME = ("first", "second", "outcome")
WINNER = ("winner", "loser")
LAYOUTS = (SIDES, OUTCOME, WINNER)
# The columns of item tables, which a context column must not be called.
_RESULT_COLUMNS = (
    *("item", "score", "lower", "upper", "rank", "rank_lower", "rank_upper"),
    *("comparisons", "component", "se", "flag"),
)
STYLE = "conv_metadata"  # of Chatbot Arena: counts of tokens and of Markdown, by side
_YES_NO = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "y": 1.0, "n": 0.0}


def open_source(source: Any, options: ReadOptions | None = None, *, called: str = "") -> Source:
    """Return a path, a database, a frame or arrays as a table; no rows are read yet."""
    # Tables of something else than votes have no options and are in no database. Errors name the file; for a frame,
    # which has no name, they say `called`, by default "votes".
    query = options.query if options else ""
    if options and options.worker_from_path and (not isinstance(source, str | os.PathLike) or kind_of_database(source)):
        raise RequestError(
            "--worker-from-path (worker_from_path=) is for files: other votes have no path that could name a worker"
        )
    if not isinstance(source, str | os.PathLike):
        from crowdsift.io.frames import source_of

        _refuse_query(query)
        table = source_of(source)
        if called and table.source == "votes":
            table.source = called
        return table
    path, threads = os.fsdecode(source), thread_count(options.threads if options else None)
    if kind_of_database(source):
        from crowdsift.io.databases import DatabaseSource

        if options is None:
            raise InputError(
                "a database, from which only votes are read; write these rows as CSV or Parquet",
                source=shown_address(path),
            )
        if not query and is_study(source):
            query = STUDY_QUERY
        if not query:
            raise RequestError(
                f"{shown_address(path)} is a database; say which rows are votes with --query (query=), such as 'SELECT "
                "winner, loser, worker FROM votes'"
            )
        return DatabaseSource(path, query, threads, skip_bad=options.skip_bad is not False)
    from crowdsift.io.duck import FileSource

    _refuse_query(query)
    if options is None:
        return FileSource(path, threads)
    return FileSource(path, threads, options, lambda names: holds_votes(names, options))


def holds_votes(names: Sequence[str], options: ReadOptions) -> bool:
    """Return whether a file with these columns can contain votes under these options."""
    own = {name.strip().casefold() for name in names}
    if options.columns or options.worker_columns:
        return all(name.strip().casefold() in own for name in options.columns.values())
    forms = [form for form in known_formats() if options.format_name in ("auto", form.name)]
    plain = options.format_name in ("auto", PLAIN.name) and any(own.issuperset(layout) for layout in LAYOUTS)
    return plain or any(form.fits(names, {}) for form in forms)


def _refuse_query(query: str | None) -> None:
    if query:
        raise RequestError(
            "--query (query=) is for votes in a database: an address such as "
            "postgresql://host/name, or a file of SQLite or DuckDB"
        )


def resolve_column(table: Source, name: str, what: str) -> str:
    """Return the table's column of this name, or raise an error that suggests others."""
    found = lookup(table, table.names, name)
    if found is not None:
        return found
    lower = {each.lower(): each for each in table.names}
    close = [lower[each] for each in difflib.get_close_matches(name.lower(), lower)]
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise InputError(f"no column {name!r} for {what}; {hint}the columns are {listed(table)}", source=table.source)


def lookup(table: Source, names: Sequence[str], name: str) -> str | None:
    """Return the one name of a list that equals another exactly, or otherwise up to case."""
    name = name.strip()
    for fold in (str.strip, lambda text: text.strip().casefold()):
        found = [each for each in names if fold(each) == fold(name)]
        if len(found) > 1:
            raise InputError(
                f"the columns {' and '.join(map(repr, found))} could both be {name!r}; rename or remove one",
                source=table.source,
            )
        if found:
            return found[0]
    return None


def refuse_empty(table: Source, rows: int, what: str) -> None:
    """Raise an error for a table without rows."""
    if rows == 0:
        raise InputError(
            f"no {what}: there are columns ({listed(table)}) but no rows; was the file written to its end?",
            source=table.source,
        )


def listed(table: Source) -> str:
    """Return the table's columns for a message, at most twenty of them."""
    names = [name or "(no name)" for name in table.names]
    if len(names) > 20:
        names[20:] = [f"and {len(names) - 20} more"]
    return ", ".join(names) or "none"


@dataclass(frozen=True)
class Plan:
    """How a table is read.

    `format` is `PLAIN` for our own columns; `layout` holds the roles of items and answers (empty until rows are
    unfolded); `roles` maps each role to its column; `context` is the format's column of contexts and `by` the one (or
    those) in use, "" for none; `covariates` their columns.
    """

    format: Format
    layout: tuple[str, ...]
    roles: Mapping[str, str] = field(default_factory=dict)
    context: str = ""
    by: By = ""
    covariates: tuple[CovariateColumns, ...] = ()

    @property
    def pair(self) -> tuple[str, str]:
        """Return the columns of the first and the second item."""
        return self.roles[self.layout[0]], self.roles[self.layout[1]]

    def unique(self, table: Source, options: ReadOptions) -> tuple[str, ...]:
        """Return the columns that identify a row: the ones a user named, or otherwise the format's."""
        return options.unique or tuple(each for each in self.format.unique if each in table.names)


def plan_reading(table: Source, options: ReadOptions) -> Plan:
    """Return how to read a table: in the format that its columns show, or in the one that the options name."""
    name = options.format_name
    if name == "auto":
        return _recognised(table, options)
    if name == PLAIN.name:
        plain = _plain(table, options)
        if plain is None:
            raise _not_found(table, "")
        return plain
    found = [_found(table, each, options) for each in known_formats() if each.name == name]
    best = next((each for each in found if not each.lacking), None)
    if best is None:
        best = max(found, key=lambda each: len(each.there))
        raise InputError(
            f"not in the format {name} ({best.format.title}): {_missing_columns(best)}; the columns are "
            f"{listed(table)}. Name the columns with --columns ROLE=NAME, or choose another format",
            source=table.source,
        )
    return _plan(table, best, options)


def _recognised(table: Source, options: ReadOptions) -> Plan:
    """Return the plan for our own columns if they are there, or for the first format that fits."""
    plain = _plain(table, options)
    pooled = plain is not None and "worker" not in plain.roles and options.workers
    if plain is not None and not options.columns and not pooled:
        return plain
    known = known_formats()
    fitting = [each for each in known if each.fits(table.names, _mapped(table, each, options))]
    if plain is not None:
        # A user who names the columns chosen and rejected means them as the format does: by prompt.
        replies = [each for each in fitting if each.replies] if options.columns else []
        # Without a column "worker", our own columns may belong to a format with another name for it, or to evalica.
        known_worker = [
            each for each in fitting if pooled and (not each.workers or "worker" in _found(table, each, options).roles)
        ]
        fitting = replies or known_worker
        if not fitting:
            return plain
    if fitting:
        found = _found(table, fitting[0], options)
        _refuse_two_formats(table, found, [_found(table, each, options) for each in fitting[1:]])
        return _plan(table, found, options)
    near = [each for form in known if _is_near(each := _found(table, form, options))]
    if not near:
        raise _not_found(table, "")
    # Of formats that are equally near, a format that takes few names is more likely than one that takes many.
    near.sort(key=lambda each: sum(map(len, each.format.columns.values())))
    best = max(near, key=lambda each: (len(each.there) / _size(each), len(each.there)))
    name = f"{best.format.name} ({best.format.title})"
    raise _not_found(table, f". It is nearly the format {name}: {_missing_columns(best)}")


def _refuse_two_formats(table: Source, found: Found, others: Sequence[Found]) -> None:
    """Raise an error for a table with the columns of a second format that shares none with the first."""
    for other in others:
        if set(found.there) & set(other.there) or other.format.name == ASSUMED:
            continue
        if other.format.title == found.format.title:
            table.notes += (f"the items are {' and '.join(found.there)}; {' and '.join(other.there)} are not used",)
        else:
            names = [f"{x.format.name} ({', '.join(x.there)})" for x in (found, other)]
            raise InputError(
                f"the columns of two formats, {' and '.join(names)}: choose one with --format "
                f"{found.format.name} (format=), or write each to a separate file",
                source=table.source,
            )


def _plain(table: Source, options: ReadOptions) -> Plan | None:
    """Return the plan for our own columns, in the first complete layout; None if there is none."""
    nested = {"data", "annotations"} <= set(table.names)
    mapped = _mapped_roles(table, options.columns, nested=nested)
    free = [name for name in table.names if name not in mapped.values()]
    own = {role: name for role in ROLES if role not in mapped and (name := lookup(table, free, role)) is not None}
    roles, required = {**mapped, **own}, set(mapped) - {"worker", "weight"}
    for layout in LAYOUTS:
        if required <= set(layout) <= set(roles):
            return Plan(PLAIN, layout, roles)
    return None


def _plan(table: Source, found: Found, options: ReadOptions) -> Plan:
    form, roles = found.format, dict(found.roles)
    known = form.columns.get("worker", ())
    needed = "worker" in form.columns if form.unfold else form.workers
    if needed and not form.pooled and options.workers and "worker" not in roles:
        raise no_worker(table, known)
    if "worker" not in roles and options.workers and (late := [name for name in known if name in table.later_names]):
        raise InputError(
            f"no column {late[0]!r}, which later files have and which says who voted: add it, read the files apart, or "
            "pool all votes (--no-workers, workers=False)",
            source=table.files[0],
        )
    if form.unfold is not None:
        if "weight" not in form.columns and (weight := roles.get("weight", "weight")) in table.names:
            table.notes += (f"the column {weight!r} is not used: every answer of the format {form.name} counts once",)
        return Plan(form, (), roles)
    if "weight" not in roles and "weight" in table.names:
        roles["weight"] = "weight"
    layout = SIDES if "left" in roles else OUTCOME if "outcome" in roles else WINNER
    if form.name == ASSUMED:
        who = f"workers in {roles['worker']!r}" if "worker" in roles else "no workers"
        table.notes += (
            f"items are taken from {roles['left']!r} and {roles['right']!r}, answers from {roles['winner']!r}, {who}; "
            "--columns left=NAME,right=NAME,winner=NAME,worker=NAME takes others, and --sides says that the first was "
            "shown on the left",
        )
    return Plan(form, layout, roles, roles.get("context", ""))


def _mapped_roles(table: Source, columns: Mapping[str, str], *, nested: bool = False) -> dict[str, str]:
    """Return the columns that a user named, by role; `nested` ones are inside records."""
    if nested:
        return dict(columns)
    mapped = {role: resolve_column(table, name, f"the {role}") for role, name in columns.items()}
    for column in mapped.values():
        shared = [role for role in mapped if mapped[role] == column]
        if len(shared) > 1:
            raise RequestError(
                f"columns maps {' and '.join(map(repr, shared))} to the same column {column!r}; "
                f"give each its own (the columns are {listed(table)})"
            )
    return mapped


def _mapped(table: Source, form: Format, options: ReadOptions) -> dict[str, str]:
    try:
        return _mapped_roles(table, options.columns, nested=form.is_nested)
    except InputError:
        return {"": ""}


def _found(table: Source, form: Format, options: ReadOptions) -> Found:
    return form.find(table.names, _mapped_roles(table, options.columns, nested=form.is_nested))


def _not_found(table: Source, hint: str) -> InputError:
    wanted = sorted({name for layout in LAYOUTS for name in layout} | {"worker"})
    near = {name: difflib.get_close_matches(name.lower(), wanted, 1, 0.75) for name in table.names}
    meant = [f"{found[0]!r} by {name!r}" for name, found in near.items() if found not in ([], [name])]
    hints = f" (did you mean {', '.join(meant)}?)" if meant else ""
    if not any(near.values()) and os.path.isfile(table.source):
        if table.source.endswith(".json"):
            hints = " (are the votes in a list inside of it? Then save that list)"
        elif len(table.names) == 1:
            hints = " (the first line must be the header: is there a title or a comment above it?)"
        elif len(table.names) <= 4:
            hints = " (or is that the first vote? Then put winner,loser,worker or such above it)"
    return InputError(
        f"the columns of the votes were not found; the columns are {listed(table)}{hints}, and "
        "needed are winner,loser or left,right,winner or first,second,outcome (and worker) in the "
        "header. Other names are mapped by --columns winner=NAME,loser=NAME or "
        f'columns={{"winner": "NAME", "loser": "NAME"}}{hint}',
        source=table.source,
    )


def no_worker(table: Source, known: tuple[str, ...] = ()) -> InputError:
    """Make the error for votes without a column of workers."""
    names = " or ".join(map(repr, known)) if known else "'worker'"
    return InputError(
        f"no column {names}, which says who voted; the columns are {listed(table)}. Name it "
        'with --columns worker=NAME (columns={"worker": "NAME"}), or pool all votes and fit them '
        "by a method without workers such as bt: crowdsift fit --no-workers (workers=False)",
        source=table.source,
    )


def _missing_columns(found: Found) -> str:
    there = [f"{', '.join(found.there)} {_is(found.there)} there"] if found.there else []
    return ", ".join([*there, f"{' and '.join(found.lacking)} {_is(found.lacking)} missing"])


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _is_near(found: Found) -> bool:
    marked = any(mark in found.there for mark in found.format.marks)
    near = 2 * len(found.there) >= _size(found) or (marked and len(found.there) >= 2)
    return bool(found.lacking) and near


def _size(found: Found) -> int:
    return len(found.there) + len(found.lacking)


def plan_columns(table: Source, plan: Plan, options: ReadOptions) -> Plan:
    """Return the complete plan: with the roles that are used, contexts and covariates."""
    has_workers = options.workers and plan.format.workers
    has_workers = has_workers and ("worker" in plan.roles or not plan.format.pooled)
    if has_workers and "worker" not in plan.roles:
        raise no_worker(table)
    if options.sides and plan.layout is WINNER:
        raise RequestError(
            "sides=True, but columns 'winner' and 'loser' do not say who was on "
            "the left; use left,right,winner or first,second,outcome"
        )
    if options.style_control:
        resolve_column(table, STYLE, "the style of replies (--style-control)")
    pairs = [(plan.layout[0], plan.layout[1]), plan.pair]
    covariates = tuple(_covariate(table, name, pairs) for name in options.covariates)
    by = _contexts(table, plan, options)
    used = (*plan.layout, *(["worker"] if has_workers else []), "weight")
    roles = {role: plan.roles[role] for role in used if role in plan.roles}
    return Plan(plan.format, plan.layout, roles, plan.context, by, covariates)


def _contexts(table: Source, plan: Plan, options: ReadOptions) -> By:
    """Return the column or columns of contexts: of the format, or of the options."""
    if not options.by:
        return plan.context
    requested = context_names(options.by)
    if len(requested) == 1 and lookup(table, table.names, requested[0]) is None:
        requested = tuple(name.strip() for name in requested[0].split(","))
    names = tuple(_context(table, name, plan.roles) for name in requested)
    if len(set(names)) < len(names):
        raise RequestError(f"--by {','.join(requested)}: a column occurs twice; name each once")
    by = names if len(names) > 1 else names[0]
    if plan.context and by != plan.context:
        raise RequestError(
            f"--by {','.join(names)}: the items of the format {plan.format.name} are replies, whose contexts are the "
            f"prompts ({plan.context!r}); with --format plain and --columns winner=..., loser=... items are texts, for "
            "any question"
        )
    return by


def _context(table: Source, by: str, roles: Mapping[str, str]) -> str:
    """Return a context column, which must not be a column of the votes or of the results."""
    name = resolve_column(table, by, "the context (--by, by=)")
    taken = [role for role, column in roles.items() if column == name and role in ROLES]
    if taken:
        raise RequestError(f"the column {name!r} is the {taken[0]} of the votes, not a context")
    if name in _RESULT_COLUMNS:
        raise RequestError(f"a context column named {name!r} would be mistaken for that of the results; rename it")
    return name


class CovariateColumns(NamedTuple):
    """The column of a covariate in favour of the first item, or the columns of both items."""

    first: str
    second: str | None
    value: str = ""
    other: str = ""

    @property
    def of_items(self) -> tuple[str, ...]:
        """Return the columns that describe items."""
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns that are read."""
        return (*self.of_items, self.other) if self.other else self.of_items

    @property
    def compares(self) -> bool:
        """Return whether the covariate tests equality; its columns may then be of any type."""
        return bool(self.value or self.other)


def _covariate(table: Source, name: str, pairs: Sequence[tuple[str, str]]) -> CovariateColumns:
    # With the pair ("left", "right"), a covariate `chars` is the column chars, or the columns left_chars and
    # right_chars; `org=maker` tests whether these equal the column maker, or the word "maker" if there is no such
    # column.
    whole = lookup(table, table.names, name)
    if whole is not None:
        return CovariateColumns(whole, None)
    name, equal, value = (part.strip() for part in name.partition("="))
    if equal:
        if not name or not value:
            raise InputError(
                f"the covariate {f'{name}={value}'!r}: write NAME=VALUE or NAME=COLUMN: org=OpenAI or org=judge_org",
                source=table.source,
            )
        other = lookup(table, table.names, value)
        plain = _covariate(table, name, pairs)
        return plain._replace(value="" if other else value, other=other or "")
    halves = []
    for one, two in pairs:
        for first, second in ((f"{one}_{name}", f"{two}_{name}"), (f"{name}_{one}", f"{name}_{two}")):
            found = [lookup(table, table.names, each) for each in (first, second)]
            if found[0] is not None and found[1] is not None:
                return CovariateColumns(found[0], found[1])
            halves += [
                (there, missing) for there, missing in ((found[0], second), (found[1], first)) if there is not None
            ]
    if halves:
        there, missing = halves[0]
        raise InputError(
            f"the covariate {name!r} has the column {there!r} but no {missing!r}; it needs one for "
            f"each item, or a column {name!r} of differences",
            source=table.source,
        )
    both = " and ".join(f"{each}_{name}" for each in pairs[0])
    return CovariateColumns(resolve_column(table, name, f"the covariate {name!r}, nor the columns {both}"), None)


def answer_columns(table: Source, given: Sequence[str]) -> list[str]:
    """Return the columns of answers for the given names or beginnings of names."""
    found: list[str] = []
    for name in (part.strip() for each in given for part in each.split(",")):
        own = lookup(table, table.names, name)
        begun = [each for each in table.names if each.startswith(name.removesuffix("*"))]
        if own is None and not begun:
            resolve_column(table, name, "the answers of a worker (--worker-columns)")
        found += [own] if own is not None else begun
    return list(dict.fromkeys(found))


def style_values(table: Source) -> dict[str, Vector]:
    """Return the covariates of style: log ratios of tokens, headers, lists and bold text."""
    # Counts that may be 0 are increased by 1; a count may be an object of counts by kind.
    names = {
        "tokens": "sum_assistant_{}_tokens",
        "headers": "header_count_{}",
        "lists": "list_count_{}",
        "bold": "bold_count_{}",
    }
    counts = np.empty((len(names), 2, 0)).tolist()
    for row, (entry,) in enumerate(table.rows([STYLE])):
        entry = json.loads(entry) if isinstance(entry, str) else entry
        for (what, name), both in zip(names.items(), counts, strict=True):
            for side, column in zip("ab", both, strict=True):
                found = entry.get(name.format(side)) if isinstance(entry, dict) else None
                parts: list[Any] = [found]
                if isinstance(found, dict):  # in Parquet a kind that the reply has not is null
                    parts = [each for each in found.values() if each is not None]
                if not all(isinstance(each, int | float) and each >= 0 for each in parts):
                    raise table.fault(
                        row,
                        STYLE,
                        f"no count {name.format(side)}, which --style-control needs "
                        f"for {what}; leave the row out (--where), or fit without style control",
                    )
                column.append(sum(parts))
    return {what: _log_ratio(*np.array(both, np.float64)) for what, both in zip(names, counts, strict=True)}


def _log_ratio(one: Vector, two: Vector) -> Vector:
    """Return the log ratio of two columns of positive numbers; if there are zeros, add 1 to all entries first."""
    if (one > 0.0).all() and (two > 0.0).all():
        return np.asarray(np.log(one) - np.log(two))
    return np.asarray(np.log1p(one) - np.log1p(two))


def number_columns(table: Source, covariates: Sequence[CovariateColumns]) -> Iterator[str]:
    """Yield the columns that must contain numbers: all except columns of yes and no."""
    for each in covariates:
        if not each.compares:
            yield from (name for name in each.names if _answers(table, name) is None)


def covariate_values(table: Source, covariate: CovariateColumns) -> Vector:
    """Return the covariate of every vote, in favour of the first item."""
    # Two columns of positive numbers give the log ratio; counts with zeros give the log ratio of the counts plus 1.
    # Other numbers, answers of yes and no, and comparisons with a value or a column give the difference.
    if covariate.compares:
        equal = _equal(table, covariate)
        return np.asarray(equal[0] - equal[1] if len(equal) > 1 else equal[0])
    answers = [_answers(table, name) for name in covariate.names]
    found = [
        np.asarray(table.quantities(name, "covariate"), np.float64) if given is None else given
        for name, given in zip(covariate.names, answers, strict=True)
    ]
    if len(found) == 1:
        return found[0]
    one, two = found
    numeric = all(given is None for given in answers)
    counts = all(((each >= 0.0) & (each == np.floor(each))).all() for each in found)
    if numeric and (counts or ((one > 0.0).all() and (two > 0.0).all())):
        return _log_ratio(one, two)
    return np.asarray(one - two)


def _equal(table: Source, covariate: CovariateColumns) -> list[Vector]:
    """Return 1 where an item's column has the value, or the entry of the other column, else 0."""
    columns = [_words(table, name) for name in covariate.of_items]
    if covariate.other:
        wanted = _words(table, covariate.other)
        kind = f"any value of the column {covariate.other!r}"
    else:
        wanted = np.array([covariate.value.casefold()])
        kind = f"{covariate.value!r} (no column has that name)"
    equal = [((each == wanted) & (each != "")).astype(np.float64) for each in columns]
    if not any(each.any() for each in equal):
        known = sorted({str(word) for each in columns for word in np.unique(each) if word})
        some = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        where = " and ".join(map(repr, covariate.of_items))
        raise InputError(
            f"a covariate asks where {where} have {kind}: no row does; they have {some}", source=table.source
        )
    return equal


def _words(table: Source, name: str) -> NDArray[np.str_]:
    """Return the column as words in lower case, "" for empty entries."""
    labels, codes = table.encode(name)
    words = np.array([*("" if is_empty(label) else str(label).strip().casefold() for label in labels), ""])
    return np.asarray(words[np.where(codes == MISSING, len(labels), codes)])


def _answers(table: Source, name: str) -> Vector | None:
    """Return 1 for yes and 0 for no, or None if a column holds anything else."""
    labels, codes = table.encode(name)
    words = [str(label).strip().casefold() for label in labels]
    if not words or (codes == MISSING).any() or not all(word in _YES_NO for word in words):
        return None
    return np.array([_YES_NO[word] for word in words])[codes]
