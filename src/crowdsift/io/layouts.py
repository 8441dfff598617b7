"""Our own columns of votes, in three layouts, and names of users for them."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import listed, lookup, resolve_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdsift.votes.source import Source

__all__ = [
    "OUTCOME",
    "ROLES",
    "SIDES",
    "WINNER",
    "choose_layout",
    "find_roles",
    "mapped_roles",
    "no_worker",
    "not_found",
    "require_context",
]

# The layouts in the order of preference; `winner` of the first names a side, of the last an item.
SIDES = ("left", "right", "winner")
OUTCOME = ("first", "second", "outcome")
WINNER = ("winner", "loser")
_LAYOUTS = (SIDES, OUTCOME, WINNER)
ROLES = tuple(dict.fromkeys((*WINNER, *SIDES, *OUTCOME, "worker", "weight")))
# Further roles of formats, for which a user may name a column.
_OF_FORMATS = ("context", "item", "rank", "task")
# The columns of the items of a result, which a context column stands beside.
_RESULT_COLUMNS = (
    *("item", "score", "lower", "upper", "rank", "rank_lower", "rank_upper"),
    *("comparisons", "component", "flag"),
)


def mapped_roles(
    table: Source, columns: Mapping[str, str], *, nested: bool = False
) -> dict[str, str]:
    """The columns that a user named, by role; `nested` where they are inside of records."""
    for role in columns:
        if role not in (*ROLES, *_OF_FORMATS):
            raise RequestError(
                f"columns maps {role!r}, which is no column of votes; these are {', '.join(ROLES)}"
            )
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


def find_roles(table: Source, mapped: Mapping[str, str]) -> dict[str, str]:
    """Find the column of every role: mapped ones first, then those with the role's own name."""
    free = [name for name in table.names if name not in mapped.values()]
    own = {
        role: name
        for role in ROLES
        if role not in mapped and (name := lookup(table, free, role)) is not None
    }
    return {**mapped, **own}


def choose_layout(roles: Mapping[str, str], mapped: Mapping[str, str]) -> tuple[str, ...] | None:
    """Take the first layout whose columns are all there and include those the user mapped."""
    required = set(mapped) - {"worker", "weight"}
    for layout in _LAYOUTS:
        if required <= set(layout) <= set(roles):
            return layout
    return None


def not_found(table: Source, hint: str) -> InputError:
    """The error for a table without columns of votes."""
    wanted = sorted({name for layout in _LAYOUTS for name in layout} | {"worker"})
    near = {name: difflib.get_close_matches(name.lower(), wanted, 1, 0.75) for name in table.names}
    meant = [
        f"{found[0]!r} by {name!r}" for name, found in near.items() if found not in ([], [name])
    ]
    hints = f" (did you mean {', '.join(meant)}?)" if meant else ""
    if not any(near.values()) and os.path.isfile(table.source):
        if len(table.names) == 1:
            hints = " (the first line must be the header: is there a title or a comment above it?)"
        elif len(table.names) <= 4:
            hints = " (or is that the first vote? Then put winner,loser,worker or such above it)"
    return InputError(
        f"the columns of the votes were not found; the columns are {listed(table)}{hints}, and "
        "needed are winner,loser or left,right,winner or first,second,outcome (and worker) in the "
        "header. Other names are mapped, as in --columns winner=NAME,loser=NAME or "
        f'columns={{"winner": "NAME", "loser": "NAME"}}{hint}',
        source=table.source,
    )


def no_worker(table: Source, known: tuple[str, ...] = ()) -> InputError:
    """The error for votes without a column that says who voted."""
    names = " or ".join(map(repr, known)) if known else "'worker'"
    return InputError(
        f"no column {names}, which says who voted; the columns are {listed(table)}. Name it "
        'with --columns worker=NAME (columns={"worker": "NAME"}), or pool all votes and fit them '
        "by a method without workers such as bt: crowdsift fit --no-workers (workers=False)",
        source=table.source,
    )


def require_context(table: Source, by: str, roles: Mapping[str, str]) -> str:
    """The context column, which must not be one of those of the votes or of the results."""
    name = resolve_column(table, by, "the context (--by, by=)")
    taken = [role for role, column in roles.items() if column == name and role != "context"]
    if taken:
        raise RequestError(f"the column {name!r} is the {taken[0]} of the votes, not a context")
    if name in _RESULT_COLUMNS:
        raise RequestError(
            f"a context column named {name!r} would be mistaken for that of the results; rename it"
        )
    return name
