"""When a study may stop: evidence that stays valid although one looks after every vote.

Two items have a difference d of scores, with d ~ N(0, s₀²) before the votes and N(m, s²) after them. The evidence that
the first is better is the ratio of the densities at d = 0 before and after, times 2 Φ(m/s): the Bayes factor of d > 0
against d = 0. While d ≤ 0 is true its expectation is at most 1 whenever one looks (it is a supermartingale), so that it
ever exceeds 1/α with a probability of at most α (Ville's inequality). A statement about several pairs shares α among
all pairs that could make it wrong. That m and s come from an approximate Gaussian posterior is the one gap in the
argument; docs/guides/collect.md has the error found by simulation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.numeric.likelihoods import normal_cdf

if TYPE_CHECKING:
    from crowdsift.active.beliefs import Belief, Codes
    from crowdsift.numeric import Vector

_PRIOR = 2.0  # variance of a difference of two scores before any vote
_NAMED = 5  # items in a sentence
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Goal(NamedTuple):
    """What is to be found: the best `top` items as a set, or with 0 the whole ranking."""

    top: int

    @staticmethod
    def of(text: str, items: int) -> Goal:
        """Read a goal: first, top-K or ranking."""
        if text in ("first", "ranking"):
            return Goal(int(text == "first"))
        found = re.fullmatch(r"top-?(\d{1,6})", text)
        if not found:
            raise RequestError(f"--goal is first, top-K (as top-3) or ranking, not {text!r}")
        top = int(found[1])
        if not 1 <= top < items:
            raise RequestError(f"--goal {text}: K must be at least 1 and below the {items} items")
        return Goal(top)

    @property
    def text(self) -> str:
        """The goal as it is given."""
        return ("ranking", "first")[self.top] if self.top < 2 else f"top-{self.top}"

    @property
    def words(self) -> str:
        """The goal as the subject of a sentence."""
        if self.top == 1:
            return "first place"
        number = _NUMBERS[self.top] if self.top < len(_NUMBERS) else str(self.top)
        return f"the top {number}" if self.top else "the ranking"


@dataclass(frozen=True)
class Stopping:
    """What the votes say of a goal.

    `claim`: the items that the goal asks for, the best first; `confidence`: 1 - α of the smallest error α at which the
    claim would be settled, and 0 if there is none; `settled`: whether that is at least the confidence wanted;
    `open_items`: items of which it is not settled whether they belong to the claim; none if all is settled.
    """

    claim: Codes
    confidence: float
    settled: bool
    open_items: Codes


def checked_confidence(confidence: float) -> float:
    """Refuse a confidence that is not above 0.5 and below 1."""
    if not 0.5 < confidence < 1.0:
        raise RequestError(f"--confidence is above 0.5 and below 1, as 0.95, not {confidence!r}")
    return confidence


def log_evidence(mean: Vector, variance: Vector) -> Vector:
    """Return the logarithm of the evidence that differences are above 0."""
    z = mean / np.sqrt(variance)
    chance = np.maximum(np.asarray(normal_cdf(z)), 1e-300)
    return np.asarray(np.log(2.0 * chance) + 0.5 * (z * z + np.log(variance / _PRIOR)))


def stopping(belief: Belief, goal: Goal, confidence: float = 0.95) -> Stopping:
    """Say whether a goal is settled, with an error of at most 1 - confidence over the study."""
    order = np.argsort(-belief.mean, kind="stable")
    n, top = len(order), goal.top
    if top:
        a, b = (each.ravel() for each in np.meshgrid(order[:top], order[top:], indexing="ij"))
        pairs = top * (n - top)
    else:  # the order is settled if every item is above the next one
        a, b = order[:-1], order[1:]
        pairs = n * (n - 1) // 2
    found = log_evidence(belief.mean[a] - belief.mean[b], belief.variance(a, b))
    enough = found >= log(pairs / (1.0 - confidence))
    weakest = float(found.min())
    reached = max(0.0, 1.0 - pairs * float(np.exp(-min(weakest, 700.0))))
    still = np.unique(np.concatenate([a[~enough], b[~enough]]))
    return Stopping(order[: top or n], reached, bool(enough.all()), still)


def sentence(goal: Goal, state: Stopping, claim: list[str], confidence: float) -> str:
    """Say in words whether a goal is settled, and what the answer is."""
    subject = goal.words[0].upper() + goal.words[1:]
    named = ", ".join(claim[:_NAMED])
    named += f" and {len(claim) - _NAMED} more" if len(claim) > _NAMED else ""
    are = "are" if goal.top > 1 else "is"
    if state.settled:
        return f"{subject} {are} settled with {100 * confidence:.4g} %: {named}."
    return f"{subject} {are} not settled yet. So far it looks like {named}."
