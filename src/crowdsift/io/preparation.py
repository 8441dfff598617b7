"""From a table and the plan of reading it to the rows that become votes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.io.answers import empty_codes, require_values
from crowdsift.io.bad_rows import set_bad_aside
from crowdsift.io.columns import lookup, refuse_empty, resolve_column
from crowdsift.io.conditions import require_condition
from crowdsift.io.covariates import CovariateColumns, covariate_columns, number_columns
from crowdsift.io.formats.unfolded import Unfolded, UnfoldedSource
from crowdsift.io.layouts import OUTCOME, SIDES, WINNER, no_worker, require_context
from crowdsift.io.recognise import PLAIN, Plan
from crowdsift.io.selection import Selection
from crowdsift.votes.labels import context_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.io.options import ReadOptions
    from crowdsift.votes.labels import By
    from crowdsift.votes.source import Source

__all__ = ["WORK_TIME", "Prepared", "prepared"]

WORK_TIME = "WorkTimeInSeconds"  # the column of times of work in batches of Mechanical Turk


@dataclass(frozen=True, eq=False)
class Prepared:
    """The loaded rows of votes, what their columns are, and what became of the other rows."""

    table: Source
    plan: Plan
    selection: Selection
    has_workers: bool
    sides_known: bool
    by: By
    covariates: tuple[CovariateColumns, ...] = ()
    covariate_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


def prepared(
    table: Source, plan: Plan, options: ReadOptions, *, every_column: bool = False,
    seen: NDArray[np.uint64] | None = None,
) -> Prepared:  # fmt: skip
    """Load the columns of votes and choose the rows, without those that were seen before."""
    if options.where:
        require_condition(options.where)
    has_workers = options.workers and plan.format.workers
    if not (options.unique or plan.format.unique):
        table.refuse_copies()
    if plan.format.unfold is not None:
        table, plan, selection = _unfolded(table, plan, options, every_column)
    if has_workers and "worker" not in plan.roles:
        raise no_worker(table)
    if options.sides and plan.layout is WINNER:
        raise RequestError(
            "sides=True, but columns 'winner' and 'loser' do not say who was on the left; "
            "use left,right,winner or first,second,outcome"
        )
    columns = tuple(plan.roles[role] for role in plan.layout[:2])
    pairs = [(plan.layout[0], plan.layout[1]), (columns[0], columns[1])]
    covariates = covariate_columns(table, options.covariates, pairs)
    by = _context(table, plan, options)
    used = (*plan.layout, *(["worker"] if has_workers else []), "weight")
    plan = replace(plan, roles={role: plan.roles[role] for role in used if role in plan.roles})
    if plan.format.unfold is None:
        selection = _loaded(table, plan, options, by, covariates, every_column)
    _choose(selection, plan, options, by, covariates, seen)
    return Prepared(
        table=selection.selected(),
        plan=plan,
        selection=selection,
        has_workers=has_workers,
        sides_known=plan.layout is SIDES if options.sides is None else options.sides,
        by=by,
        covariates=covariates,
        covariate_names=options.covariates,
        notes=(*table.notes, *_pooled(table, has_workers), *_noted(selection, plan)),
    )


def _unfolded(
    table: Source, plan: Plan, options: ReadOptions, every_column: bool
) -> tuple[Source, Plan, Selection]:
    """The votes of nested records as a table of their own."""
    assert plan.format.unfold is not None
    found: Unfolded = plan.format.unfold(table, plan.roles, options.where)
    names = tuple(found.columns)
    layout = next(each for each in (SIDES, OUTCOME, WINNER) if set(each) <= set(names))
    roles = {name: name for name in names}
    votes = UnfoldedSource(found, table)
    votes.load(names)
    record = np.asarray(found.record, np.int64)
    one_each = len(record) == len(found.row) and bool((record == np.arange(len(record))).all())
    selection = Selection.of(votes, len(found.row), None if one_each else record)
    if (kept := table.kept()) is not None:
        out = np.flatnonzero(~kept[np.asarray(found.row, np.int64)])
        selection.mark(out, Selection.LEFT_OUT)
    if every_column and found.in_place:  # to be written back
        table.load(table.names, condition=options.where)
    for number, reason in found.aside.items():
        selection.set_records_aside(np.array([number]), "", reason)
    selection.mark(np.asarray(found.empty, np.int64), Selection.EMPTY)
    return votes, Plan(plan.format, layout, roles, found.context), selection


def _context(table: Source, plan: Plan, options: ReadOptions) -> By:
    """The column of contexts, or several: that of the format, or those asked for."""
    if not options.by:
        return plan.context
    requested = context_names(options.by)
    if len(requested) == 1 and lookup(table, table.names, requested[0]) is None:
        requested = tuple(name.strip() for name in requested[0].split(","))
    names = tuple(require_context(table, name, plan.roles) for name in requested)
    if len(set(names)) < len(names):
        raise RequestError(f"--by {','.join(requested)}: a column is there twice; name each once")
    by = names if len(names) > 1 else names[0]
    if plan.context and by != plan.context:
        raise RequestError(
            f"--by {','.join(names)}: the items of the format {plan.format.name} are replies, "
            f"whose contexts are the prompts ({plan.context!r}); with --format plain and --columns "
            "winner=..., loser=... items are texts, whatever was asked"
        )
    return by


def _loaded(
    table: Source,
    plan: Plan,
    options: ReadOptions,
    by: By,
    covariates: tuple[CovariateColumns, ...],
    every_column: bool,
) -> Selection:
    """Load what is needed of a table whose rows are votes."""
    roles = plan.roles
    replies = [roles[role] for role in plan.layout[:2]] if plan.replies else []
    prompts = list(context_names(by)) if plan.replies else []
    names = [*roles.values(), *(n for c in covariates for n in c.names), *context_names(by)]
    names += [resolve_column(table, each, "what names a row (--unique)") for each in options.unique]
    names += [each for each in plan.format.unique if each in table.names]
    noted = () if plan.format.noted is None else plan.format.noted[:1]
    names += [each for each in (*noted, WORK_TIME) if each in table.names]
    if every_column:
        names = list(table.names)
    else:
        names = [name for name in names if name not in (*replies, *prompts)]
    rows = table.load(names, replies=replies, prompts=prompts, condition=options.where)
    refuse_empty(table, rows, "votes")
    selection = Selection.of(table, rows)
    if (kept := table.kept()) is not None:
        selection.mark(np.flatnonzero(~kept), Selection.LEFT_OUT)
    return selection


def _choose(
    selection: Selection, plan: Plan, options: ReadOptions, by: By,
    covariates: tuple[CovariateColumns, ...], seen: NDArray[np.uint64] | None,
) -> None:  # fmt: skip
    """Leave out rows that are doubled, empty or bad."""
    table, values = selection.table, require_values(options.values)
    for row, reason in table.broken().items():
        selection.set_aside(np.array([row]), "", reason.partition(";")[0])
    unique = options.unique or tuple(n for n in plan.format.unique if n in table.names)
    if unique:
        selection.drop_doubled(unique, seen)
    skip = options.skip_bad is not False
    if plan.layout is SIDES and (plan.format is not PLAIN or skip or "" in values.values()):
        labels, codes = table.encode(plan.roles["winner"])
        if all(label.__hash__ is not None for label in labels):
            blank = empty_codes(labels, plan, values)
            selection.drop_empty(blank, codes)
    if skip:
        roles = plan.roles
        columns = [(roles[role], "item label") for role in plan.layout[:2]]
        columns += [(roles["worker"], "worker label")] if "worker" in roles else []
        columns += [(name, "context") for name in context_names(by)]
        numbers = [(roles[role], role) for role in ("outcome", "weight") if role in roles]
        numbers += [(name, "covariate") for name in number_columns(table, covariates)]
        set_bad_aside(selection, plan, values, labels=columns, numbers=numbers)
        if isinstance(options.skip_bad, str | os.PathLike) and selection.reasons:
            hidden = (
                {} if options.hide_workers is None else {roles.get("worker"): options.hide_workers}
            )
            selection.write_aside(options.skip_bad, list(dict.fromkeys(roles.values())), hidden)
    selection.refuse_nothing()


def _pooled(table: Source, has_workers: bool) -> tuple[str, ...]:
    """Warn that the votes of several files are pooled, where each may be of another judge."""
    if has_workers or len(table.files) < 2:
        return ()
    shown = ", ".join(table.files[:3]) + (", ..." if len(table.files) > 3 else "")
    return (
        f"the votes of {len(table.files):,} files ({shown}) are pooled as those of one unknown "
        "voter: if each file is of another judge, add a column worker to them, or put each into a "
        "folder worker=NAME/ and read these with --partitions (partitions=True)",
    )


def _noted(selection: Selection, plan: Plan) -> tuple[str, ...]:
    """Rows that the format marks and that are used all the same, counted."""
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
    return (
        f"{count:,} of the rows used are of {words}; --where \"{name} != '{value}'\" leaves them "
        "out",
    )
