"""The reason of every verdict in words, and the suggestion: pay, review or block.

A reason is a template with figures. So a page can hold the reasons of many thousand workers: each template once, and a
few numbers per worker.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.models import Model
from crowdsift.numeric import Labels
from crowdsift.results.fit import Fit
from crowdsift.results.query import model_of
from crowdsift.results.tables import Table
from crowdsift.results.verdicts import ACCUSED, MAX_USEFUL, MIN_VOTES
from crowdsift.results.words import count, many, percent

# {0}, {1}, ... are replaced by texts of the figures. The order is that of the codes in a page. The sentences may be
# sent to the worker: they contain facts, no probabilities, and only figures of the tables.
TEMPLATES = (
    "The answers follow the quality of the items.",
    "The answers follow the quality of the items, but less closely than those of a typical worker.",
    "The answers do not differ clearly from guessing.",
    "The answers mostly go against those of the other workers; perhaps the question was understood "
    "the other way round.",
    "Most answers chose the item on the {0}, whichever item stood there.",
    "The answers are not enough to judge this worker; they count like all others.",
    "{0}, {1} agreement with the order that the other workers' votes imply (guessing gives about 50\u00a0%).",
    "{0}.",
    "{0} of the decided answers chose the left item.",
    "The workers do not settle which end of the ranking is up, so this worker cannot be judged; "
    "pairs with a known answer (gold) would settle it. The answers count like all others.",
    "The answers are consistent, but they weigh other things than {0}.",
    "{0} of {1} on pairs with a known answer (gold) are right.",
)
(_RELIABLE, _WEAK, _RANDOM, _AGAINST, _SIDED, _OPEN, _FACTS, _VOTES, _LEFT, _SIGN, _DISTINCT, _GOLD) = range(
    len(TEMPLATES)
)

# The same for a table whose legend explains the verdicts and whose columns have the other figures.
SHORT = (
    "{0} × typical",
    "less than typical",
    "like guessing",
    "against the others",
    "mostly {0}",
    "not settled by {0}",
    "",
    "",
    "",
    "sign not settled",
    "weighs other things",
    "gold: {0} of {1}",
)

# The workers with which distinct ones are compared, by the direction of the scores.
OTHERS = {"common": "those of most workers", "gold": "the gold pairs do", "trusted": "the trusted votes do"}

_LOPSIDED = 0.8  # share of one side that is mentioned
_FEW = 10  # least votes for that


class Reason(NamedTuple):
    """The code of a template and its figures."""

    code: int
    figures: tuple[str, ...] = ()

    def __str__(self) -> str:
        return TEMPLATES[self.code].format(*self.figures)


def random_level(model: Model) -> float:
    """Return the reliability of a worker who clicks at random, at which every vote has probability ½."""
    levels = np.array([0.0, 0.5])
    even = np.abs(model.probability(np.ones(2), levels) - 0.5)
    return float(levels[np.argmin(even)])


def typical_reliability(table: Table, random_level: float = 0.0) -> float:
    """Return the reliability to which verdicts refer: the median of reliable and weak workers."""
    # Verdicts refer to workers who are above 0 with 95 %, and nearly all of these are reliable or weak; NaN if there
    # are none.
    trusted = np.isin(table["verdict"].astype(str), ("reliable", "weak"))
    return float(np.median(table["reliability"][trusted] - random_level)) if trusted.any() else (np.nan)


def reasons(
    table: Table, level: float = 0.0, sign: float | None = None, direction: str = "common"
) -> list[list[Reason]]:
    """Return the reasons of every worker's verdict; empty if a method gives no verdicts."""
    # The first reason is that of the verdict, the others are further facts. `sign` is the probability that the sign of
    # the scores is right; None if it is known.
    unsettled = sign is not None and sign < 1.0 - MAX_USEFUL
    apart = ((table["lower"] > level) | (table["upper"] < level)).tolist()
    left = table.get("left_share", np.full(table.height, np.nan)).tolist()
    names = ("verdict", "reliability", "comparisons", "agreement")
    columns = (table[name].tolist() for name in names)
    typical = typical_reliability(table, level)
    plain = {
        "weak": Reason(_WEAK),
        "random": Reason(_RANDOM),
        "adversarial": Reason(_AGAINST),
        "distinct": Reason(_DISTINCT, (OTHERS[direction],)),
    }
    gold = [table.get(f"gold_{name}", np.zeros(table.height)) for name in ("votes", "agreement")]
    result: list[list[Reason]] = []
    for row, (verdict, reliability, votes, agreed) in enumerate(zip(*columns, strict=True)):
        if not verdict:
            result.append([])
            continue
        counted = many(votes, "vote")
        if verdict == "reliable":
            first = Reason(_RELIABLE, (f"{(reliability - level) / typical:.1f}",))
        elif verdict == "one-sided":
            first = Reason(_SIDED, ("left" if left[row] > 0.5 else "right",))
        else:
            by_sign = unsettled and apart[row] and votes >= MIN_VOTES
            first = plain.get(verdict) or (Reason(_SIGN) if by_sign else Reason(_OPEN, (counted,)))
        known = agreed is not None and agreed == agreed
        facts = Reason(_FACTS, (counted, percent(agreed))) if known else Reason(_VOTES, (counted,))
        found = [first, facts]
        if votes >= _FEW and max(left[row], 1.0 - left[row]) >= _LOPSIDED:
            found.append(Reason(_LEFT, (percent(left[row]),)))
        if gold[0][row]:
            right = float(gold[0][row] * gold[1][row])
            found.append(Reason(_GOLD, (count(round(right, 1)), many(gold[0][row], "vote"))))
        result.append(found)
    return result


def decisions(fit: Fit) -> Table:
    """Return a row per worker: worker, verdict, reason, votes, median_seconds, suggestion.

    Random, one-sided and adversarial workers get "review", or "block" if they have at least 20 votes and that
    class has a probability of 99 %; a random worker must also have `p_above_random` of at most 75 %. Reliable, weak,
    distinct and undecided workers get "pay". The median time of answers changes no suggestion.
    """
    table = fit.worker_table
    accused = np.isin(table["verdict"].astype(str), ACCUSED)
    return Table(
        {
            "worker": table["worker"],
            "verdict": table["verdict"],
            "reason": reason_texts(fit),
            "votes": table["comparisons"],
            "median_seconds": table.get("median_seconds", np.full(table.height, np.nan)),
            "suggestion": table.get("suggestion", np.where(accused, "review", "pay").astype(object)),
        }
    )


def with_reasons(fit: Fit) -> Table:
    """Return the workers with a column for the reason of every verdict."""
    columns: dict[str, NDArray[Any]] = {}
    for name in fit.worker_table:
        columns[name] = fit.worker_table[name]
        if name == "verdict":
            columns["reason"] = reason_texts(fit)
    return Table(columns)


def reason_texts(fit: Fit) -> Labels:
    """Return the reason of every verdict in sentences that can be sent to the worker."""
    sign, direction = fit.summary.get("sign_probability"), fit.summary.get("direction", "common")
    found = reasons(fit.worker_table, random_level(model_of(fit)), sign, direction)
    texts = np.empty(len(found), dtype=object)
    texts[:] = [" ".join(map(str, each)).replace("\u00a0", " ") for each in found]
    return texts
