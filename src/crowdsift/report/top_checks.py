"""Checks of the whole: first place, what the leader hangs on, separation, misfit, copies, drift.

Each gives None where there is nothing to ask: no question is listed that cannot be put.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.report.top import CLEAR, OPEN, first_badges
from crowdsift.report.verdict import Check, State
from crowdsift.results.scales import level_text
from crowdsift.results.words import abbreviated, count, label, many, percent

if TYPE_CHECKING:
    from crowdsift.report.facts import Facts

__all__ = ["top_checks"]

SEPARATION = (0.8, 0.5)  # reliability of the scale: good from, bad below
FRAGILE = (2.0, 0.01)  # votes, and share of the votes, up to which the leader hangs on few
CIRCLES = 3.0  # standard deviations
_NAMED, _LONGEST = 3, 24


def top_checks(facts: Facts) -> list[Check]:
    """The checks that can be made, in the order in which a reader needs them."""
    found = [
        _first_place(facts), _leader(facts), _separation(facts), _misfit(facts), _circles(facts),
        _copies(facts), _drift(facts),
    ]  # fmt: skip
    return [check for check in found if check is not None]


def _first_place(facts: Facts) -> Check | None:
    joint = facts.evidence.joint
    if joint is None or facts.fit.summary["components"] != 1 or joint.height < 2:
        return None
    badges, level = first_badges(facts.fit, joint), level_text(facts.fit.level)
    apart, pairs = int(joint["above_next"].sum()), joint.height - 1
    rest = f"{count(apart)} of {many(pairs, 'neighbouring pair')} are clearly apart."
    if CLEAR in badges:
        return Check("first", "First place", "good", f"One item is clearly the best ({level} "
                     f"sure); {rest}")  # fmt: skip
    who = "One item is probably the best, but not clearly"
    if OPEN in badges:
        who = f"{many(int((badges > 0).sum()), 'item')} may be the best"
    return Check("first", "First place", "care", f"{who} ({level}); {rest}",
                 "Name them together, or ask for votes on pairs of the first.")  # fmt: skip


def _leader(facts: Facts) -> Check | None:
    found = facts.fit.summary.get("robustness")
    if not found:
        return None
    votes, total = found["votes"], float(found["total_votes"])
    fragile = votes is not None and (votes <= FRAGILE[0] or votes < FRAGILE[1] * total)
    nothing = votes is None and bool(found.get("note"))  # to take away
    return Check("leader", "Votes the leader hangs on", "care" if fragile or nothing else "good",
                 f"{found['text']}.",
                 "A handful of votes decides who comes first." if fragile else "")  # fmt: skip


def _separation(facts: Facts) -> Check | None:
    share = facts.fit.summary.get("separation_reliability")
    if share is None:
        return None
    state: State = "good" if share >= SEPARATION[0] else "care" if share >= SEPARATION[1] else "bad"
    finding = f"{percent(float(share))} of the variance of the scores is true, not error (scale "
    finding += "separation reliability)."
    halves = (facts.fit.summary.get("statistics") or {}).get("split_half_reliability")
    if halves is not None:
        finding += f" Two halves of the workers agree to {halves:.2f}, stepped up to all."
    advice = "More votes per item would separate the items." if state != "good" else ""
    return Check("separation", "Separation of the items", state, finding, advice)


def _misfit(facts: Facts) -> Check | None:
    found = facts.evidence.statistics
    if found is None or not found.workers.height:
        return None
    wrong = found.workers["misfit"].astype(bool) & ~facts.population.flagged
    beside = " beside the flagged ones" if facts.population.flagged.any() else ""
    title = "Misfitting workers"
    if not wrong.any():
        return Check("misfit", title, "good", f"No worker{beside} is noisier than chance "
                     "explains (infit).")  # fmt: skip
    rows = np.flatnonzero(wrong)[np.argsort(-found.workers["infit"][wrong], kind="stable")]
    verb = "is" if len(rows) == 1 else "are"
    return Check("misfit", title, "care", f"{count(len(rows))} of "
                 f"{many(found.workers.height, 'worker')}{beside} {verb} noisier than chance "
                 f"explains (infit): {_listed(found.workers['worker'][rows].tolist())}.",
                 "Look at their votes: tired, another question, or another taste.")  # fmt: skip


def _circles(facts: Facts) -> Check | None:
    found = facts.evidence.statistics
    if found is None or found.triads is None or found.triads.sd is None:
        return None
    triads = found.triads
    wide = triads.intransitive > triads.expected + CIRCLES * max(float(triads.sd or 0.0), 1.0)
    finding = f"{count(triads.intransitive)} of {many(triads.triads, 'triad')} of items go round "
    finding += f"in a circle; {triads.expected:.0f} are expected."
    if found.agreement is not None:
        alpha, lower, upper = found.agreement
        finding += f" Votes on the same pair agree with Krippendorff's alpha {alpha:.2f} "
        finding += f"({level_text(facts.fit.level)} interval {lower:.2f} to {upper:.2f})."
    return Check("circles", "One dimension", "care" if wide else "good", finding,
                 "One scale does not explain these votes: look for groups of workers or of "
                 "questions (--by)." if wide else "")  # fmt: skip


def _copies(facts: Facts) -> Check | None:
    found = facts.evidence.copying
    if found is None:
        return None
    title = "Copied and repeated answers"
    if not found.groups and not found.repeats.height:
        return Check("copies", title, "good", "No two workers answer too much alike, and nobody "
                     "only repeats an earlier answer.")  # fmt: skip
    parts = [f"{_listed(group)} answer alike" for group in found.groups[:2]]
    if len(found.groups) > 2:
        parts.append(f"so do {many(len(found.groups) - 2, 'more group')}")
    if found.repeats.height:
        who = _listed(found.repeats["worker"].tolist())
        parts.append(f"on the same pair again {who} gave the same answer too often")
    text = "; ".join(parts)
    return Check("copies", title, "care", f"{text[0].upper()}{text[1:]}, beyond what scores "
                 "explain.", "Votes that are not independent count too much: collapse or leave "
                 "out the copies.")  # fmt: skip


def _drift(facts: Facts) -> Check | None:
    found = facts.fit.summary.get("drift")
    if not found:
        return None
    if not found["workers"]:
        return Check("drift", "Change over time", "good", "Nobody's reliability changes with "
                     "time.")  # fmt: skip
    return Check("drift", "Change over time", "care",
                 f"Reliability changes with time: {_listed(found['workers'])}.",
                 "Look at early and late votes apart.")  # fmt: skip


def _listed(names: list[str] | tuple[str, ...]) -> str:
    """A few names, and how many more there are."""
    shown = abbreviated([label(name) for name in names[:_NAMED]], _LONGEST)
    more = f" and {count(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
    return ", ".join(f"“{name}”" for name in shown) + more
