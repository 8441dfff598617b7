"""Why a worker has its verdict, in words.

A reason is a template and the figures that fill it, so that a page can hold those of many
thousand workers: the templates once, and a few numbers per worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.results.words import chance, many, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.models import Model
    from crowdsift.results.tables import Table

__all__ = ["SHORT", "TEMPLATES", "Reason", "random_level", "reasons", "typical_reliability"]

# {0}, {1}, ... are filled with texts of the figures. The order is that of the codes in a page.
TEMPLATES = (
    "The answers follow the quality of the items ({0} sure); {1} times as reliable as the typical "
    "worker.",
    "The answers follow the quality of the items ({0} sure), but only with {1} of the typical "
    "worker's reliability.",
    "Better than a coin (at least 95 % sure), but it is not clear by how much.",
    "The answers have next to nothing to do with the quality of the items ({0} sure).",
    "At best half as reliable as the typical worker (at least 95 % sure), and not clearly better "
    "than a coin.",
    "The answers go against the quality of the items ({0} sure).",
    "The answers say on which side an item stood, not how good it is ({0} sure).",
    "Not settled by {0}: it could be useful ({1}), random ({2}) or against the crowd ({3}).",
    "Nobody in this crowd is clearly better than a coin, so nobody can be judged.",
    "Agrees with the order by the votes of others in {0} of the decided votes.",
    "Chose the left item in {0} of the decided votes.",
    "Side bias {0} (interval {1} to {2}; above 0 is to the left).",
    "The {0} alone are at least 20 times as probable from somebody who {1} as from a careful "
    "worker, but few in this crowd do: it is {2} probable that this one does.",
    "Not settled by {0} alone: other kinds of workers might have voted so, too. By what this crowd "
    "is like, this one is {1} ({2} probable).",
)
(
    _RELIABLE, _WEAK, _BARELY, _RANDOM, _HALF, _AGAINST, _SIDED, _OPEN, _NOBODY, _AGREES, _LEFT,
    _SIDE_BIAS, _ALONE, _CROWD,
) = range(len(TEMPLATES))  # fmt: skip

# The same for a table whose legend says what the verdicts mean and whose columns hold the rest.
SHORT = (
    "{0} sure; {1} × typical", "{0} sure; {1} of typical", "unclear by how much", "{0} sure",
    "at best half of typical", "{0} sure", "{0} sure", "useful {1}, random {2}, against {3}",
    "nobody can be judged", "", "", "bias {1} to {2}", "by these votes; in this crowd {2}",
    "but in this crowd {1} ({2})",
)  # fmt: skip

# What a class does of which its votes speak (a Bayes factor of 3 nats is one of 20).
_DOES = {"random": "clicks at random", "adversarial": "answers the opposite",
         "one-sided": "follows the side"}  # fmt: skip
_HALF_LIMIT = 0.55  # half the typical reliability, which is not quite that of the verdicts
_SURE = 0.9  # of a kind that the crowd makes likely, where a worker's own votes do not say it
_LOPSIDED = 0.8  # a share of one side worth a word
_FEW = 10  # decided votes from which on it is


class Reason(NamedTuple):
    """The code of a template and what fills it."""

    code: int
    figures: tuple[str, ...] = ()

    def __str__(self) -> str:
        return TEMPLATES[self.code].format(*self.figures)


def random_level(model: Model) -> float:
    """The reliability of a worker who clicks at random: the one at which all votes are even.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.results.reasons import random_level
    >>> random_level(crowdsift.Sift()), random_level(crowdsift.CrowdBT())
    (0.0, 0.5)
    """
    levels = np.array([0.0, 0.5])
    even = np.abs(model.probability(np.ones(2), levels) - 0.5)
    return float(levels[np.argmin(even)])


def typical_reliability(table: Table, random_level: float = 0.0) -> float:
    """The yardstick of the verdicts: the median of the workers called reliable or weak.

    Verdicts measure by those who are above 0 with 95 %, nearly all of whom get one of these two
    words; NaN where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.reasons import typical_reliability
    >>> from crowdsift.results.tables import Table
    >>> typical_reliability(Table({
    ...     "reliability": np.array([1.0, 2.0, -3.0]),
    ...     "verdict": np.array(["reliable", "weak", "adversarial"], object)}))
    1.5
    """
    trusted = np.isin(table["verdict"].astype(str), ("reliable", "weak"))
    return (
        float(np.median(table["reliability"][trusted] - random_level))
        if trusted.any()
        else (np.nan)
    )


def reasons(
    table: Table, left_share: NDArray[np.float64], decided: NDArray[np.float64], level: float = 0.0
) -> list[list[Reason]]:
    """The reasons of every worker's verdict; empty where a method gives none.

    Parameters
    ----------
    table
        The workers of a fit.
    left_share, decided
        Share of the left item among each worker's decided votes (NaN where sides are unknown),
        and the number of these votes.
    level
        The reliability of a worker who clicks at random.
    """
    names = ("verdict", "reliability", "upper", "comparisons")
    columns = (table[name].tolist() for name in names)
    typical = typical_reliability(table, level)
    chances = _chances(table)
    result = []
    for i, (verdict, reliability, upper, votes) in enumerate(zip(*columns, strict=True)):
        ratio, limit = ((value - level) / typical for value in (reliability, upper))
        found = [_main(verdict, ratio, limit, votes, *chances[i])]
        found += _side_bias(table, i)
        agreed = table["agreement"][i]
        if agreed == agreed:
            found.append(Reason(_AGREES, (percent(agreed),)))
        share = left_share[i]
        if decided[i] >= _FEW and (share >= _LOPSIDED or share <= 1.0 - _LOPSIDED):
            found.append(Reason(_LEFT, (percent(share),)))
        result.append(found if verdict else [])
    return result


def _main(
    verdict: str,
    ratio: float,
    limit: float,
    votes: float,
    reliable: float,
    random: float,
    against: float,
    sided: float,
) -> Reason:
    """The reason of the word itself; see `crowdsift.results.verdicts.verdicts`."""
    if verdict == "reliable":
        return Reason(_RELIABLE, (chance(reliable), f"{ratio:.1f}"))
    if verdict == "weak":
        return (
            Reason(_WEAK, (chance(reliable), percent(max(ratio, 0.0))))
            if reliable >= 0.5
            else Reason(_BARELY)
        )
    if verdict == "random" and random < 0.5 and limit < _HALF_LIMIT:
        return Reason(_HALF)
    found = {"random": random, "adversarial": against, "one-sided": sided}.get(verdict)
    if found is not None and found < 0.5:  # by the evidence of its votes, whatever others do
        return Reason(_ALONE, (many(votes, "vote"), _DOES[verdict], chance(found)))
    if verdict == "random":
        return Reason(_RANDOM, (chance(random),))
    if verdict == "adversarial":
        return Reason(_AGAINST, (chance(against),))
    if verdict == "one-sided":
        return Reason(_SIDED, (chance(sided),))
    if ratio != ratio:
        return Reason(_NOBODY)
    kinds = {"useful": reliable, "random": random, "against the crowd": against}
    likely = max(kinds, key=lambda kind: kinds[kind])
    if kinds[likely] >= _SURE:  # by what the crowd is like
        return Reason(_CROWD, (many(votes, "vote"), likely, chance(kinds[likely])))
    return Reason(_OPEN, (many(votes, "vote"), chance(reliable), chance(random), chance(against)))


def _side_bias(table: Table, row: int) -> list[Reason]:
    """The side bias, where it is clear."""
    low, high = float(table["side_lower"][row]), float(table["side_upper"][row])
    if low > 0.0 or high < 0.0:
        digits = 1 if f"{low:.1f}" != f"{high:.1f}" else 2  # +0.08 to +0.12, not +0.1 to +0.1
        figures = (f"{value:+.{digits}f}" for value in (table["side_bias"][row], low, high))
        return [Reason(_SIDE_BIAS, tuple(figures))]
    return []


def _chances(table: Table) -> NDArray[np.float64]:
    """Probabilities of being reliable, random, adversarial and one-sided, one row per worker."""
    names = ("p_reliable", "p_random", "p_adversarial", "p_one_sided")
    nothing = np.full(table.height, np.nan)
    return np.stack([table.get(name, nothing) for name in names], axis=1)
