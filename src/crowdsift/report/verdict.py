"""A check of a report, and the answer that all checks give together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "State", "overall"]

State = Literal["good", "care", "bad", "none"]


@dataclass(frozen=True)
class Check:
    """One question about a fit.

    Attributes
    ----------
    key, title
        A short name and what is asked.
    state
        good, care, bad, or none where it cannot be answered.
    finding
        What was found, with figures.
    advice
        What to do; empty where nothing is.
    """

    key: str
    title: str
    state: State
    finding: str
    advice: str = ""


def overall(checks: list[Check]) -> tuple[State, str, str]:
    """The answer to the question of the page: its state, a heading and a sentence.

    Examples
    --------
    >>> from crowdsift.report.verdict import Check, overall
    >>> overall([Check("a", "A", "good", ""), Check("b", "B", "care", "")])[1]
    'Mostly, with care'
    """
    bad = [check.title for check in checks if check.state == "bad"]
    care = [check.title for check in checks if check.state == "care"]
    passed = sum(check.state == "good" for check in checks)
    open_ones = sum(check.state == "none" for check in checks)
    result = f"{passed} of {len(checks)} checks pass"
    if open_ones:
        result += f", {open_ones} could not be made"
    if bad:
        return "bad", "Not yet", f"{result}. Look first at: {_listed(bad + care)}."
    if care:
        return "care", "Mostly, with care", f"{result}. Look at: {_listed(care)}."
    if open_ones * 2 > len(checks):
        return "none", "Hard to say", f"{result}."
    return "good", "Yes", f"{result}; nothing found that speaks against the ranking."


def _listed(titles: list[str]) -> str:
    return ", ".join(title[0].lower() + title[1:] for title in titles)
