"""How sure the top of the leaderboard is: first place, neighbours, and who beats whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.errors import CrowdsiftError
from crowdsift.report.svg import Drawing, isolated
from crowdsift.results.scales import level_text
from crowdsift.results.words import count, item_label, many, percent, shortened

if TYPE_CHECKING:
    from crowdsift.report.facts import Facts
    from crowdsift.results.record import FitRecord

__all__ = ["matrix_figure", "top_sentences"]

MOST_ITEMS = 300  # of which joint statements are made for a page
_NAMED = 5  # items that share first place, by name
_SHOWN = {True: 12, False: 6}  # items of the matrix on a wide screen and on a phone
_SHADES = 5


def top_sentences(fit: FitRecord) -> list[str]:
    """What holds for all items at once, and what was asked for beside it, in sentences.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report.top import top_sentences
    >>> votes = crowdsift.simulate(items=6, workers=8, comparisons=900, seed=3).comparisons()
    >>> len(top_sentences(crowdsift.fit(votes, "bt")))
    3
    """
    result = [*_joint(fit), *_reliability(fit)]
    robust = fit.summary.get("robustness")
    if robust:
        result.append(f"{robust['text']}.")
    found = fit.summary.get("statistics")
    if found:
        result += _statistics(found)
    moving = fit.summary.get("drift")
    if moving and moving["workers"]:
        result.append(f"Changed with time: {_listed(moving['workers'])}.")
    effect = fit.summary.get("design_effect")
    if effect:
        result.append(
            f"Intervals count the {count(fit.summary['dependent_groups'])} values of "
            f"{fit.summary['dependent_by']} instead of the votes; variances are {effect:.1f} times "
            "those of independent votes."
        )
    return result


def _joint(fit: FitRecord) -> list[str]:
    """Who shares first place, and how many neighbours are apart; of one connected scale."""
    if fit.item_table.height > MOST_ITEMS or fit.summary.get("components") != 1:
        return []
    try:
        table = fit.joint()
    except CrowdsiftError:
        return []
    first = np.flatnonzero(table["shares_first"])
    level = level_text(fit.level)
    names = [shortened(item_label(fit.labels[i], fit.summary.get("by")), 40) for i in first]
    best = percent(float(table["p_best"][0]))
    if len(first) == 1:
        result = f"{names[0]} is clearly the best ({level} sure)."
    else:
        listed = ", ".join(f"“{name}”" for name in names[:_NAMED])
        more = f" and {count(len(first) - _NAMED)} more" if len(first) > _NAMED else ""
        result = (
            f"{many(len(first), 'item')} share first place: {listed}{more} ({level} sure that the "
            f"best is among them; it is the first one with {best})."
        )
    apart = int(table["above_next"].sum())
    pairs = fit.item_table.height - 1
    return [result, f"{count(apart)} of {many(pairs, 'neighbouring pair')} are clearly apart, all "
            f"of these statements together at {level}."]  # fmt: skip


def _reliability(fit: FitRecord) -> list[str]:
    share = fit.summary.get("separation_reliability")
    if share is None:
        return []
    return [f"Of the variance of the scores {percent(float(share))} is true, not error (scale "
            "separation reliability)."]  # fmt: skip


def _statistics(found: dict[str, object]) -> list[str]:
    result = []
    halves = found.get("split_half_reliability")
    if isinstance(halves, float):
        result.append(
            f"Two halves of the workers agree on the scores to {halves:.2f} (correlation, stepped "
            "up to all workers)."
        )
    if isinstance(found.get("alpha"), float):
        result.append(f"Krippendorff's alpha of votes on the same pair is {found['alpha']:.2f}.")
    workers = found.get("misfitting_workers")
    if isinstance(workers, list) and workers:
        result.append(f"Noisier than chance explains: {_listed(workers)}.")
    return result


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"“{shortened(name, 40)}”" for name in names[:_NAMED])
    return shown + (f" and {count(len(names) - _NAMED)} more" if len(names) > _NAMED else "")


def matrix_figure(facts: Facts, width: float) -> str:
    """Probability that the row's item is preferred to the column's, for the best items."""
    fit = facts.fit
    if fit.item_table.height > MOST_ITEMS or fit.summary.get("components") != 1:
        return ""
    shown = min(_SHOWN[width > 500], fit.item_table.height)
    if shown < 3:
        return ""
    matrix = fit.win_matrix()[:shown, :shown]
    left = 0.34 * width
    cell = min((width - left - 4.0) / shown, 44.0)
    top = 26.0
    picture = Drawing(width, top + cell * shown + 4.0, "Who is preferred to whom")
    for i in range(shown):
        name = item_label(fit.labels[i], fit.summary.get("by"))
        short = isolated(shortened(name, 26 if width > 500 else 11))
        middle = top + cell * (i + 0.5) + 4.0
        picture.label(left - 8.0, middle, f"{short} {i + 1}", "item end", name)
        picture.label(left + cell * (i + 0.5), top - 8.0, str(i + 1), "tick middle")
        for j in range(shown):
            p = float(matrix[i, j])
            shade = min(int(abs(p - 0.5) * 2.0 * _SHADES), _SHADES - 1)
            kind = "same" if i == j else f"{'win' if p > 0.5 else 'loss'}{shade}"
            at = left + cell * j, top + cell * i
            picture.rectangle(*at, cell - 1.5, cell - 1.5, f"cell {kind}")
            if i != j:
                text = f"{100 * p:.0f}"
                picture.label(at[0] + 0.5 * cell - 0.75, middle, text, "tick middle")
    return picture.text()
