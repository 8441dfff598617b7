"""How sure the top of the leaderboard is: first place, neighbours, and who beats whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.distributions import half_width
from crowdsift.report.evidence import MOST_ITEMS
from crowdsift.report.svg import Drawing, Scale, isolated
from crowdsift.results.history import ranks_over_updates
from crowdsift.results.predict import difference_sd
from crowdsift.results.scales import level_text
from crowdsift.results.words import abbreviated, chance, count, item_label, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.report.facts import Facts
    from crowdsift.results.record import FitRecord
    from crowdsift.results.tables import Table

__all__ = ["BADGES", "first_badges", "history_figure", "matrix_figure", "top_sentences"]

BADGES = ("", "clearly first", "may be first", "probably first")  # what is said beside an item
CLEAR, OPEN, PROBABLE = 1, 2, 3

_NAMED = 5  # items that share first place, by name
_SHOWN = {True: 30, False: 10}  # items of the matrix on a wide screen and on a phone
_LONGEST = {True: 30, False: 14}  # characters of their labels
_CELLS = {True: (24.0, 44.0), False: (18.0, 30.0)}  # the least and the most of a cell's width
_SHADES = 5
_LETTER = 6.7  # the width of a letter, roughly
_TIP = 300  # characters of a label under the pointer


def top_sentences(facts: Facts) -> list[str]:
    """Who shares first place by name, and on what the intervals count, in sentences.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report.facts import gather
    >>> from crowdsift.report.top import top_sentences
    >>> votes = crowdsift.simulate(items=6, workers=8, comparisons=900, seed=3).comparisons()
    >>> len(top_sentences(gather(crowdsift.fit(votes, "bt"), refit=False)))
    1
    """
    fit, result = facts.fit, _first(facts)
    effect, own = fit.summary.get("design_effect"), fit.summary.get("group_effect")
    if effect:
        groups = f"{count(fit.summary['dependent_groups'])} values of {fit.summary['dependent_by']}"
        why = f"Intervals count the {groups} instead of the votes"
        if own:
            why = (
                f"Items are not equally good on all {groups} (standard deviation {own**0.5:.2f}, "
                "that of scores being about 1), and intervals know it"
            )
        result.append(f"{why}; variances are {effect:.1f} times those of independent votes.")
    return result


def first_badges(fit: FitRecord, joint: Table) -> NDArray[np.int64]:
    """Return what is said of first place, for every item: a place in `BADGES`.

    Within a component, the leader is clearly first if nothing shown beside it leaves that open:
    its interval of ranks is 1 to 1, no other item's holds 1, the interval of its lead over every
    other item is above 0, and no other item shares first place in the statement about all items
    at once. Otherwise every item whose interval of ranks holds 1 may be first; a leader that is
    the only one of them is probably first.
    """
    table, badges = fit.item_table, np.zeros(joint.height, np.int64)
    may = (table["rank_lower"] == 1) & (table["comparisons"] > 0)
    for component in np.unique(table["component"]):
        rows = np.flatnonzero((table["component"] == component) & (table["comparisons"] > 0))
        if len(rows) < 2:
            continue
        leader, open_to = int(rows[0]), rows[may[rows]]
        lead = table["score"][leader] - table["score"][rows[1:]].astype(np.float64)
        error = difference_sd(fit, np.full(len(rows) - 1, leader), rows[1:])
        clear = (
            len(open_to) == 1
            and table["rank_upper"][leader] == 1
            and int(joint["shares_first"][rows].sum()) == 1
            and bool((lead > half_width(fit.level) * error).all())
        )
        badges[open_to] = CLEAR if clear else PROBABLE if len(open_to) == 1 else OPEN
    return badges


def _first(facts: Facts) -> list[str]:
    """Return who is, or may be, the best; of one connected scale."""
    fit, table = facts.fit, facts.evidence.joint
    if table is None or fit.summary.get("components") != 1:
        return []
    badges, level = first_badges(fit, table), level_text(fit.level)
    first = np.flatnonzero(badges)
    if not len(first):
        return []
    names = [shortened(item_label(fit.labels[i], fit.summary.get("by")), 60) for i in first]
    best = chance(float(table["p_best"][first].sum()))
    if badges[first[0]] == CLEAR:
        return [f"“{names[0]}” is clearly the best ({level} sure)."]
    if badges[first[0]] == PROBABLE:
        return [f"“{names[0]}” is probably the best ({best}), but not clearly at {level}."]
    listed = ", ".join(f"“{name}”" for name in names[:_NAMED])
    more = f" and {count(len(first) - _NAMED)} more" if len(first) > _NAMED else ""
    return [
        f"First place is open between {listed}{more}: the best is one of them with {best}, "
        f"the first of them with {chance(float(table['p_best'][first[0]]))}."
    ]


def matrix_figure(facts: Facts, width: float) -> str:
    """Probability that the row's item is preferred to the column's, for the best items."""
    fit = facts.fit
    if fit.item_table.height > MOST_ITEMS or fit.summary.get("components") != 1:
        return ""
    wide = width > 500
    shown = min(_SHOWN[wide], fit.item_table.height)
    if shown < 3:
        return ""
    matrix = facts.win_matrix[:shown, :shown]
    names = [item_label(fit.labels[i], fit.summary.get("by")) for i in range(shown)]
    short = abbreviated(names, _LONGEST[wide])
    left = _LETTER * max(map(len, short)) + 38.0
    least, most = _CELLS[wide]
    shown = min(shown, int((width - left - 4.0) / least))
    cell = min((width - left - 4.0) / shown, most)
    top = 26.0
    picture = Drawing(width, top + cell * shown + 4.0, "Who is preferred to whom")
    for i in range(shown):
        middle = top + cell * (i + 0.5) + 4.0
        tip = shortened(names[i], _TIP)
        picture.label(left - 8.0, middle, f"{isolated(short[i])} {i + 1}", "item end", tip)
        picture.label(left + cell * (i + 0.5), top - 8.0, str(i + 1), "tick middle")
        for j in range(shown):
            p = float(matrix[i, j])
            shade = min(int(abs(p - 0.5) * 2.0 * _SHADES), _SHADES - 1)
            kind = "same" if i == j else f"{'win' if p > 0.5 else 'loss'}{shade}"
            at = left + cell * j, top + cell * i
            picture.rectangle(*at, cell - 1.5, cell - 1.5, f"cell {kind}")
            if i != j:
                text = f"{100 * p:.0f}"
                picture.label(at[0] + 0.5 * cell - 0.75, middle, text, "tick share middle")
    return picture.text()


def history_figure(facts: Facts, width: float) -> str:
    """Ranks of the items that are the best now, from one update to the next."""
    votes, ranks = ranks_over_updates(facts.fit.summary.get("history") or [])
    if len(votes) < 2:
        return ""
    names, wide = list(ranks), width > 500
    lowest = max(max(place or 0 for place in places) for places in ranks.values())
    right = width - (220.0 if wide else 120.0)
    left, top, bottom = 36.0, 30.0, 40.0 + 20.0 * min(max(lowest, 4), 18)
    picture = Drawing(width, bottom + 44.0, "Ranks of the best items over updates")
    x = Scale(votes[0], votes[-1], left, right)
    y = Scale(1, max(lowest, 2), top + 8.0, bottom - 8.0)
    picture.axis_x(x, top, bottom, "votes", 5 if wide else 3)
    picture.label(4, 14, "rank", "name")
    short = abbreviated(names, 30 if wide else 14)
    for place, name in enumerate(names):
        points = [(x(v), y(at)) for v, at in zip(votes, ranks[name], strict=True) if at]
        kind = "same" if place else "up"
        picture.path(points, f"history {kind}")
        for at in points:
            picture.circle(*at, 3, f"end-dot {kind}", f"{name}")
        now = ranks[name][-1]
        picture.label(right + 8.0, points[-1][1] + 4.0, f"{now} {isolated(short[place])}", "item",
                      shortened(name, _TIP))  # fmt: skip
    return picture.text()
