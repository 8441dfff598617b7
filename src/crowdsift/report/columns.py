"""Tables of the page as columns: what its script sorts and searches, within a limit of bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.report.population import VERDICTS
from crowdsift.report.top import first_badges
from crowdsift.results.reasons import SHORT
from crowdsift.results.scales import scale_text, score_name
from crowdsift.results.words import label, shortened
from crowdsift.votes.labels import as_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.report.facts import Facts
    from crowdsift.results.tables import Table

__all__ = [
    "FIRST_ROWS",
    "LONGEST_NAME",
    "MOST_ROWS",
    "as_json",
    "item_columns",
    "overall_columns",
    "scale_words",
    "value_range",
    "worker_columns",
]

MOST_ROWS = 100_000  # of a table; the CSV files hold all
MOST_BYTES = 2_000_000  # of a table, so that a page stays below 5 MB whatever the labels are
FIRST_ROWS = 25  # in the page itself, for readers without scripts; also the rows of a page
LONGEST_NAME = 300  # characters of a label in a table that is too large
_NUMBER_BYTES, _REASON_BYTES = 9, 50  # of a value, and of the reasons of a worker


def _ranking(table: Table) -> dict[str, NDArray[Any]]:
    """The columns of a leaderboard."""
    return {
        "rank": table["rank"],
        "name": table["item"],
        "score": table["score"],
        "lower": table["lower"],
        "upper": table["upper"],
        "rank_lower": table["rank_lower"],
        "rank_upper": table["rank_upper"],
        "votes": table["comparisons"],
        "group": table["component"],
    }


def scale_words(facts: Facts) -> dict[str, str]:
    """What scores are called, and where their level comes from."""
    name = score_name(facts.fit)
    return {"score_name": name[0].upper() + name[1:], "scale_text": scale_text(facts.fit)}


def overall_columns(facts: Facts) -> dict[str, Any] | None:
    """The best items over all contexts, where there is such a ranking."""
    if facts.fit.overall_ranking is None:
        return None
    table = facts.fit.overall_ranking.shown_items
    result = _columns({name: column[:FIRST_ROWS] for name, column in _ranking(table).items()})
    result["scale"] = value_range(table["score"], table["lower"], table["upper"])
    return {**result, "total": table.height}


def item_columns(facts: Facts) -> dict[str, Any]:
    """The leaderboard as columns."""
    table = facts.fit.shown_items
    columns = _ranking(table)
    if by := facts.fit.context_columns:
        values = zip(*(table[name] for name in by), strict=True)
        columns["context"] = as_column([", ".join(map(label, value)) for value in values])
    result = _columns(columns)
    result["scale"] = value_range(table["score"], table["lower"], table["upper"])
    result["digits"] = 0 if facts.fit.summary.get("scale") == "elo" else 2
    joint = facts.evidence.joint
    if joint is not None:
        result["badge"] = first_badges(facts.fit, joint).tolist()[: len(result["name"])]
    result["groups"] = len(set(result.get("context", result["group"])))
    return result


def worker_columns(facts: Facts) -> dict[str, Any]:
    """The workers as columns, the flagged ones first, then by votes."""
    table, population = facts.fit.worker_table, facts.population
    place = {word: len(VERDICTS) - i for i, word in enumerate(VERDICTS)}
    severity = np.array([place.get(word, 99) for word in population.verdict.tolist()])
    order = np.lexsort((np.arange(table.height), -population.votes, severity))
    columns = {
        "verdict": population.verdict,
        "name": table["worker"],
        "reliability": table["reliability"],
        "lower": table["lower"],
        "upper": table["upper"],
        "votes": table["comparisons"],
        "agreement": table["agreement"],
    }
    if np.isfinite(table["side_bias"].astype(np.float64)).any():
        columns["side_bias"] = table["side_bias"]
    if np.isfinite(population.left_share).any():
        columns["left"] = population.left_share
    result = _columns({name: column[order] for name, column in columns.items()})
    result["why"] = [
        [[reason.code, *reason.figures] for reason in population.reasons[i] if SHORT[reason.code]]
        for i in order[: len(result["name"])].tolist()
    ]
    result["why_text"] = [
        "; ".join(SHORT[code].format(*given) for code, *given in why)
        for why in result["why"][:FIRST_ROWS]
    ]
    result["flagged"] = min(int(population.flagged.sum()), len(result["name"]))
    result["scale"] = value_range(
        table["reliability"], table["lower"], table["upper"], population.level
    )
    result["level"] = population.level
    return result


def _columns(columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Columns as lists: texts as they read, numbers to six digits, None where missing."""
    result: dict[str, Any] = {"total": len(next(iter(columns.values())))}
    texts = {
        name: [label(value) for value in column[:MOST_ROWS]]
        for name, column in columns.items()
        if name in ("name", "context")
    }
    others = _NUMBER_BYTES * len(columns) + _REASON_BYTES
    rows = _rows_within(texts, others)
    if rows < min(result["total"], MOST_ROWS):  # shorter labels leave room for more rows
        for name, long in texts.items():
            texts[name] = [shortened(text, LONGEST_NAME) for text in long]
        rows = _rows_within(texts, others)
    for name, column in columns.items():
        values = column[:rows]
        if name in texts:
            result[name] = texts[name][:rows]
        elif values.dtype.kind == "f":
            result[name] = [float(f"{v:.6g}") if v - v == 0 else None for v in values.tolist()]
        else:
            result[name] = values.tolist()
    return result


def _rows_within(texts: dict[str, list[str]], others: int) -> int:
    """How many rows fit into `MOST_BYTES`, each of its texts and so many bytes of other values."""
    sizes = [
        sum(len(as_json(text).encode()) for text in row)
        for row in zip(*texts.values(), strict=True)
    ]
    return int(np.searchsorted(np.cumsum(np.array(sizes, np.int64) + others), MOST_BYTES))


def value_range(*columns: Any) -> list[float]:
    """The limits of all values, with a little air."""
    values = np.concatenate([np.atleast_1d(np.asarray(c, np.float64)) for c in columns])
    values = values[np.isfinite(values)]
    if not len(values):
        return [0.0, 1.0]
    low, high = float(values.min()), float(values.max())
    air = 0.02 * (high - low) or 0.5
    return [float(f"{low - air:.5g}"), float(f"{high + air:.5g}")]


def as_json(value: Any) -> str:
    """JSON that no HTML parser can take for markup."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark, code in (("<", "003c"), (">", "003e"), ("&", "0026"), ("\u2028", "2028"),
                       ("\u2029", "2029")):  # fmt: skip
        text = text.replace(mark, f"\\u{code}")
    return text
