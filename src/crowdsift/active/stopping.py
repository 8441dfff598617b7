"""Rules for stopping a study: evidence that stays valid if it is checked after every vote.

A goal is settled when `log_evidence` is at least log(boundaries/α) for every pair that the claim puts in order. The
best K items have one boundary, between the items K and K + 1; a ranking has one between all neighbours. A wrong claim
puts at least the two items at one boundary in the wrong order, and that has a probability of at most α/boundaries by
Ville's inequality. If more than two items are tied, each claim needs more pairs, and errors are rarer. This, and the
accuracy of the Gaussian posterior, was checked by simulation: docs/research/asking.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from crowdsift.active.beliefs import Belief
from crowdsift.errors import RequestError
from crowdsift.numeric import Indices
from crowdsift.numeric.distributions import SURE, log_evidence

_NAMED = 5  # items named in a sentence
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Goal(NamedTuple):
    """The goal: the best `top` items as a set, or with 0 the whole ranking."""

    top: int

    @staticmethod
    def of(text: str, items: int) -> Goal:
        """Return the goal from its text: first, top-K or ranking."""
        if text in ("first", "ranking"):
            return Goal(int(text == "first"))
        found = re.fullmatch(r"top-?(\d{1,6})", text)
        if not found:
            raise RequestError(f"--goal is first, top-K (such as top-3) or ranking, not {text!r}")
        top = int(found[1])
        if not 1 <= top < items:
            raise RequestError(f"--goal {text}: K must be at least 1 and below the {items} items")
        return Goal(top)

    @property
    def text(self) -> str:
        """Return the goal as text."""
        return ("ranking", "first")[self.top] if self.top < 2 else f"top-{self.top}"

    @property
    def words(self) -> str:
        """Return the goal as the subject of a sentence."""
        if self.top == 1:
            return "first place"
        number = _NUMBERS[self.top] if self.top < len(_NUMBERS) else str(self.top)
        return f"the top {number}" if self.top else "the ranking"


@dataclass(frozen=True)
class Stopping:
    """The state of a goal.

    `claim` are the items that answer the goal, the best first. `confidence` is 1 - α for the smallest error α at which
    the claim would be settled, or 0; `settled` says whether that is at least the wanted confidence.
    """

    claim: Indices
    confidence: float
    settled: bool


def checked_confidence(confidence: float) -> float:
    """Raise an error for a confidence that is not above 0.5 and below 1."""
    if not 0.5 < confidence < 1.0:
        raise RequestError(f"--confidence is above 0.5 and below 1, such as 0.95, not {confidence!r}")
    return confidence


def stopping(belief: Belief, goal: Goal, confidence: float = SURE) -> Stopping:
    """Return whether a goal is settled, with an error of at most 1 - confidence over the study."""
    order = np.argsort(-belief.mean, kind="stable")
    n, top = len(order), goal.top
    if top:
        a, b = np.repeat(order[:top], n - top), np.tile(order[top:], top)
    else:  # the order is settled if every item is above the next one
        a, b = order[:-1], order[1:]
    boundaries = 1 if top else n - 1
    found = log_evidence(belief.mean[a] - belief.mean[b], belief.variance(a, b))
    enough = found >= log(boundaries / (1.0 - confidence))
    weakest = float(found.min())
    reached = max(0.0, 1.0 - boundaries * float(np.exp(-min(weakest, 700.0))))
    return Stopping(order[: top or n], reached, bool(enough.all()))


def sentence(goal: Goal, state: Stopping, claim: list[str], confidence: float) -> str:
    """Return a sentence on whether a goal is settled, and on its answer."""
    subject = goal.words[0].upper() + goal.words[1:]
    named = ", ".join(claim[:_NAMED])
    named += f" and {len(claim) - _NAMED} more" if len(claim) > _NAMED else ""
    are = "are" if goal.top > 1 else "is"
    if state.settled:
        return f"{subject} {are} settled with {100 * confidence:.4g} % confidence: {named}."
    return f"{subject} {are} not settled yet. So far it looks like {named}."
