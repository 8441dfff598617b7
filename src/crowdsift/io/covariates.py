"""Covariates of votes by name: a column, or one for each item of which the difference counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.errors import InputError
from crowdsift.io.columns import lookup, resolve_column
from crowdsift.votes.labels import MISSING, is_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from crowdsift.votes.source import Source

__all__ = ["CovariateColumns", "covariate_columns", "covariate_values", "number_columns"]

_YES_NO = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "y": 1.0, "n": 0.0}


class CovariateColumns(NamedTuple):
    """The column of a covariate in favour of the first item, or those of both items.

    With `value` or `other`, 1 where a column has that value, or what the other column has.
    """

    first: str
    second: str | None
    value: str = ""
    other: str = ""

    @property
    def of_items(self) -> tuple[str, ...]:
        """The columns that say something of items."""
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*self.of_items, self.other) if self.other else self.of_items

    @property
    def compares(self) -> bool:
        """Whether it is one of equality, whose columns are of any kind."""
        return bool(self.value or self.other)


def covariate_columns(
    table: Source, names: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> tuple[CovariateColumns, ...]:
    """The columns that covariates mean.

    Parameters
    ----------
    table
        The votes.
    names
        Of the covariates.
    pairs
        What the first and the second item are called, as ("left", "right"): a covariate `chars`
        may be the column chars, or the columns left_chars and right_chars; ``org=maker`` says
        where these are equal to the column maker, or to the word where there is no such column.
    """
    return tuple(_resolved(table, name, pairs) for name in names)


def _resolved(table: Source, name: str, pairs: Sequence[tuple[str, str]]) -> CovariateColumns:
    """The columns of one covariate: its own, one for each item, or an equality of two."""
    whole = lookup(table, table.names, name)
    if whole is not None:
        return CovariateColumns(whole, None)
    name, equal, value = (part.strip() for part in name.partition("="))
    if equal:
        if not name or not value:
            raise InputError(
                f"the covariate {f'{name}={value}'!r}: write NAME=VALUE or NAME=COLUMN, as "
                "org=OpenAI or org=judge_org",
                source=table.source,
            )
        other = lookup(table, table.names, value)
        plain = _resolved(table, name, pairs)
        return plain._replace(value="" if other else value, other=other or "")
    halves = []
    for one, two in pairs:
        for first, second in (
            (f"{one}_{name}", f"{two}_{name}"),
            (f"{name}_{one}", f"{name}_{two}"),
        ):
            found = [lookup(table, table.names, each) for each in (first, second)]
            if found[0] is not None and found[1] is not None:
                return CovariateColumns(found[0], found[1])
            halves += [(there, missing) for there, missing in
                       ((found[0], second), (found[1], first)) if there is not None]  # fmt: skip
    if halves:
        there, missing = halves[0]
        raise InputError(
            f"the covariate {name!r} has the column {there!r} but no {missing!r}; it needs one for "
            f"each item, or a column {name!r} of differences",
            source=table.source,
        )
    both = " and ".join(f"{each}_{name}" for each in pairs[0])
    return CovariateColumns(
        resolve_column(table, name, f"the covariate {name!r}, nor the columns {both}"), None
    )


def number_columns(table: Source, covariates: Sequence[CovariateColumns]) -> Iterator[str]:
    """The columns that must hold numbers: all but those of yes and no."""
    for each in covariates:
        if not each.compares:
            yield from (name for name in each.names if _answers(table, name) is None)


def covariate_values(table: Source, covariate: CovariateColumns) -> NDArray[np.float64]:
    """The covariate of every vote, in favour of the first item.

    Of two columns of positive numbers it is the log ratio, of counts of which some are 0 that of
    the counts plus 1, of any other numbers, and of yes and no, the difference; so it is where
    they are compared with a value or another column.

    Examples
    --------
    >>> from crowdsift.io.covariates import CovariateColumns, covariate_values
    >>> from crowdsift.votes.source import ArraySource
    >>> table = ArraySource({"a": [4.0, 1.0], "b": [1.0, 1.0], "own": ["yes", "no"]})
    >>> covariate_values(table, CovariateColumns("a", "b")).round(3).tolist()
    [1.386, 0.0]
    >>> covariate_values(table, CovariateColumns("own", None)).tolist()
    [1.0, 0.0]
    >>> table = ArraySource({"one": ["X", "Y"], "two": ["Y", "X"], "judge": ["X", "Z"]})
    >>> covariate_values(table, CovariateColumns("one", "two", other="judge")).tolist()
    [1.0, 0.0]
    """
    if covariate.compares:
        equal = _equal(table, covariate)
        return np.asarray(equal[0] - equal[1] if len(equal) > 1 else equal[0])
    found = [_values(table, name) for name in covariate.names]
    one = found[0]
    if len(found) == 1:
        return one
    two = found[1]
    answers = any(_answers(table, name) is not None for name in covariate.names)
    if not answers and (one > 0.0).all() and (two > 0.0).all():
        return np.asarray(np.log(one) - np.log(two))
    if not answers and all(((each >= 0.0) & (each == np.floor(each))).all() for each in found):
        return np.asarray(np.log1p(one) - np.log1p(two))
    return np.asarray(one - two)


def _values(table: Source, name: str) -> NDArray[np.float64]:
    answers = _answers(table, name)
    if answers is not None:
        return answers
    return np.asarray(table.quantities(name, "covariate"), dtype=np.float64)


def _equal(table: Source, covariate: CovariateColumns) -> list[NDArray[np.float64]]:
    """1 where a column of an item has the value, or what the other column has; 0 if not known."""
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
            f"a covariate asks where {where} have {kind}: no row does; they have {some}",
            source=table.source,
        )
    return equal


def _words(table: Source, name: str) -> NDArray[np.str_]:
    """The column as words in small letters, "" where it is empty."""
    labels, codes = table.encode(name)
    words = np.array(
        [*("" if is_empty(label) else str(label).strip().casefold() for label in labels), ""]
    )
    return np.asarray(words[np.where(codes == MISSING, len(labels), codes)])


def _answers(table: Source, name: str) -> NDArray[np.float64] | None:
    """1 for yes and 0 for no, where a column holds nothing else."""
    labels, codes = table.encode(name)
    words = [str(label).strip().casefold() for label in labels]
    if not words or (codes == MISSING).any() or not all(word in _YES_NO for word in words):
        return None
    return np.array([_YES_NO[word] for word in words])[codes]
