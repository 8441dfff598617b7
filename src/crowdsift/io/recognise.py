"""Which format votes are in, and which of their columns is what: the plan of reading them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import listed
from crowdsift.io.formats import FORMATS, NAMES, Format, Found
from crowdsift.io.layouts import (
    SIDES,
    WINNER,
    choose_layout,
    find_roles,
    mapped_roles,
    no_worker,
    not_found,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdsift.io.options import ReadOptions
    from crowdsift.votes.source import Source

__all__ = ["Plan", "plan_reading"]

PLAIN = Format(name="plain", title="our own columns")


@dataclass(frozen=True)
class Plan:
    """How a table is read.

    Attributes
    ----------
    format
        The format, `PLAIN` for our own columns.
    layout
        The roles that say what was compared and how it came out; empty until it is unfolded.
    roles
        The column of every role.
    context
        The column of contexts that the format has, "" for none.
    """

    format: Format
    layout: tuple[str, ...]
    roles: Mapping[str, str] = field(default_factory=dict)
    context: str = ""

    @property
    def replies(self) -> bool:
        """Whether items are replies, whose texts may be long."""
        return self.format.replies


def plan_reading(table: Source, options: ReadOptions) -> Plan:
    """Recognise the format of a table by its columns, or take the one that the options name."""
    name = options.format.replace("_", "-").lower()
    if name == "auto":
        return _recognised(table, options)
    if name not in NAMES:
        raise RequestError(
            f"unknown format {options.format!r}; the formats are auto, {', '.join(NAMES)}"
        )
    if name == "plain":
        plain = _plain(table, options)
        if plain is None:
            raise not_found(table, "")
        return plain
    wanted = [each for each in FORMATS if each.name == name]
    found = [_found(table, each, options) for each in wanted]
    best = next((each for each in found if not each.lacking), None)
    if best is None:
        best = max(found, key=lambda each: len(each.there))
        raise InputError(
            f"not in the format {name} ({best.format.title}): {_missing_columns(best)}; the "
            f"columns are {listed(table)}. Name the columns with --columns ROLE=NAME, or choose "
            "another format",
            source=table.source,
        )
    return _plan(table, best, options)


def _recognised(table: Source, options: ReadOptions) -> Plan:
    """Our own columns where they are there, else the first format whose columns are."""
    plain = _plain(table, options)
    fitting = [each for each in FORMATS if each.fits(table.names, _mapped(table, each, options))]
    if plain is not None:
        # Whoever names chosen and rejected by hand means them as the format does: by prompt.
        mapped = [each for each in fitting if each.replies] if options.columns else []
        # Without workers our own columns are those of evalica.
        nobody = [each for each in fitting if not each.workers]
        if "worker" not in plain.roles and options.workers and nobody:
            mapped = mapped or nobody
        if not mapped:
            return plain
        fitting = mapped
    if fitting:
        return _plan(table, _found(table, fitting[0], options), options)
    known = [_found(table, each, options) for each in FORMATS]
    near = [each for each in known if each.lacking and _is_near(each)]
    if not near:
        raise not_found(table, "")
    best = max(near, key=lambda each: (len(each.there) / _size(each), len(each.there)))
    name = f"{best.format.name} ({best.format.title})"
    raise not_found(table, f". It is nearly the format {name}: {_missing_columns(best)}")


def _mapped(table: Source, form: Format, options: ReadOptions) -> dict[str, str]:
    """The columns that the user names, by role."""
    nested = form.unfold is not None and bool(form.marks)
    try:
        return mapped_roles(table, options.columns, nested=nested)
    except InputError:
        return {"": ""}  # such a column is not here: no format fits


def _found(table: Source, form: Format, options: ReadOptions) -> Found:
    """Which columns of a format are there, and which are missing."""
    nested = form.unfold is not None and bool(form.marks)
    return form.find(table.names, mapped_roles(table, options.columns, nested=nested))


def _plain(table: Source, options: ReadOptions) -> Plan | None:
    """The plan for our own columns, in any layout; None where they are not there."""
    nested = {"data", "annotations"} <= set(table.names)
    mapped = mapped_roles(table, options.columns, nested=nested)
    roles = find_roles(table, mapped)
    layout = choose_layout(roles, mapped)
    return None if layout is None else Plan(PLAIN, layout, roles)


def _plan(table: Source, found: Found, options: ReadOptions) -> Plan:
    """The plan for a format whose columns were found; an error where workers are missing."""
    form, roles = found.format, dict(found.roles)
    if form.unfold is not None:
        if "worker" in form.columns and "worker" not in roles and options.workers:
            raise no_worker(table, form.columns["worker"])
        return Plan(form, (), roles)
    layout = SIDES if "left" in roles else WINNER
    if form.workers and options.workers and "worker" not in roles:
        raise no_worker(table, form.columns.get("worker", ()))
    if "weight" not in roles and "weight" in table.names:
        roles["weight"] = "weight"
    return Plan(form, layout, roles, roles.get("context", ""))


def _missing_columns(found: Found) -> str:
    """What is there of a format and what is missing, for a message."""
    verb = "is" if len(found.there) == 1 else "are"
    there = f"{', '.join(found.there)} {verb} there, " if found.there else ""
    return f"{there}{' and '.join(found.lacking)} missing"


def _is_near(found: Found) -> bool:
    """Half of the columns, or two of which one is a mark of the format."""
    marked = any(mark in found.there for mark in found.format.marks)
    return 2 * len(found.there) >= _size(found) or (marked and len(found.there) >= 2)


def _size(found: Found) -> int:
    return len(found.there) + len(found.lacking)
