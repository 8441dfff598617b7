"""Distinct labels of a column in DuckDB, and their values in Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from crowdsift.votes.labels import LabelError, shown
from crowdsift.votes.replies import BEGINNING, HASH, MARK

__all__ = ["decoded", "label_sql", "parsed"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def label_sql(columns: Sequence[str], *, ordered: bool, one_line: bool = False) -> str:
    """The table `labels` of the distinct entries of columns: label, how it is shown, code.

    With `ordered` the codes follow the order of the labels as shown.
    """
    shown_as = "label"
    if one_line:  # labels of long texts without line breaks; see crowdsift.votes.replies
        length = BEGINNING + len(MARK) + HASH
        shown_as = (
            f"CASE WHEN length(label) = {length} AND substring(label, {BEGINNING + 1}, "
            f"{len(MARK)}) = '{MARK}' THEN translate(label, chr(9) || chr(10) || chr(13), '   ') "
            "ELSE label END"
        )
    order = "ORDER BY shown" if ordered else ""
    every = " UNION ALL ".join(f"SELECT {column} AS label FROM votes" for column in columns)
    return (
        "CREATE OR REPLACE TEMP TABLE labels AS SELECT label, shown, "
        f"(row_number() OVER ({order}) - 1)::UINTEGER AS code FROM (SELECT label, {shown_as} AS "
        f"shown FROM (SELECT DISTINCT label FROM ({every}) WHERE label IS NOT NULL))"
    )


def decoded(query: Callable[[str], Any], kind: str) -> list[Any]:
    """The labels by code, as values of Python; times with a zone are in UTC."""
    if kind == "TIMESTAMP WITH TIME ZONE":
        rows = query("SELECT epoch_us(label) FROM labels ORDER BY code").fetchall()
        return [_EPOCH + timedelta(microseconds=count) for (count,) in rows]
    if kind == "TIMESTAMP_NS":
        found = query(
            "SELECT code FROM labels WHERE epoch_ns(label) % 1000 <> 0 LIMIT 1"
        ).fetchone()
        if found is not None:
            text = query(f"SELECT label::VARCHAR FROM labels WHERE code = {found[0]}").fetchone()[0]
            raise LabelError(
                0,
                f"the label {text} is finer than microseconds; write such labels as text",
            )
    return [label for (label,) in query("SELECT label FROM labels ORDER BY code").fetchall()]


def parsed(labels: Sequence[str]) -> list[Any]:
    """JSON values; the place of the first that Python cannot hold is in the error."""
    values = []
    for place, label in enumerate(labels):
        try:
            values.append(json.loads(label))
        except (ValueError, RecursionError):  # 4,300 digits, or a thousand brackets
            raise LabelError(
                place,
                f"the value {shown(label)} is too long or too deeply nested for a label; write it "
                "as text",
            ) from None
    return values
