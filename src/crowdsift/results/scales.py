"""Scales on which scores are shown: Elo, logits, win rates; and the anchor of their level."""

from collections.abc import Mapping
from math import isfinite, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.models import Model
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric import Vector
from crowdsift.numeric.distributions import LEVEL
from crowdsift.results.fit import Fit
from crowdsift.results.query import keys_of, model_of
from crowdsift.results.tables import Table
from crowdsift.results.words import label

SCALES = ("standard", "elo", "logit", "winrate")
# columns of the method's own scale beside another one
STANDARD = ("standard_score", "standard_lower", "standard_upper")
_VALUES = ("score", "lower", "upper")
_ELO = 400.0 / log(10.0)  # points per logit
_CENTRE = {"standard": 0.0, "logit": 0.0, "elo": 1000.0}  # mean of a component without an anchor
_NAMES = {"elo": "Elo", "winrate": "win rate", "logit": "logit"}
_STEP = 1e-5  # for the slope of a probability at 0
_MOST_PAIRS = 4_000_000  # pairs above which win rates come from a table
_PLACES = 4096  # entries of that table


def score_name(fit: Fit) -> str:
    """Return the name of a score on the scale of a fit: score, Elo, logit or win rate."""
    return _NAMES.get(fit.summary.get("scale") or "standard", "score")


def scale_text(fit: Fit) -> str:
    """Return a sentence on the level of another scale; empty on the method's own."""
    scale, anchor = fit.summary.get("scale") or "standard", fit.summary.get("anchor")
    if scale == "winrate":
        return "Win rate: the share won against the others of its component, each as often."
    if scale == "standard" and not anchor:
        return ""
    unit = {"elo": "Elo points", "logit": "Logits"}.get(scale, "Scores")
    where = ", ".join(f"{label(item)} = {value:g}" for item, value in (anchor or {}).items())
    where = where or f"their mean is {_CENTRE[scale]:g}"
    return f"{unit}, {where}: only differences mean something."


def checked_level(level: Any) -> float:
    """Return the level of intervals as a number between 0.5 and 1, or raise an error."""
    is_number = isinstance(level, int | float) and not isinstance(level, bool)
    if not is_number or not 0.5 < level < 1.0:
        raise RequestError(f"level must be above 0.5 and below 1, such as 0.95, not {level!r}")
    return float(level)


def typical_reliability(fit: Fit) -> float:
    """Return the median reliability over votes; NaN if the method estimates none."""
    # Every vote counts once with the reliability of its worker: a few spammers with many votes, or many with few,
    # hardly change the median.
    table = fit.worker_table
    if not table.height and fit.summary.get("typical_reliability") is not None:
        return float(fit.summary["typical_reliability"])  # of a ranking without its workers
    reliability = table["reliability"].astype(np.float64)
    known = np.isfinite(reliability)
    if trusted := fit.summary.get("trusted"):  # the scale is that of the trusted panel
        known &= np.isin(table["panel"], trusted["values"])
    if not known.any():
        return float("nan")
    order = np.argsort(reliability[known], kind="stable")
    count = np.cumsum(table["comparisons"].astype(np.float64)[known][order])
    return float(reliability[known][order][np.searchsorted(count, 0.5 * count[-1])])


def slope_of(fit: Fit) -> float:
    """Return logits per unit of score for a typical worker: 4 dP/dd at d = 0, which is b for P = σ(b d)."""
    model, step = model_of(fit), np.array([_STEP, -_STEP])
    typical = np.full(2, typical_reliability(fit))
    up, down = model.probability(step, typical)
    return float(4.0 * (up - down) / (2.0 * _STEP))


def is_scaled(scale: Any, anchor: Any) -> bool:
    """Return whether the request differs from the standard scale or is no scale."""
    plain = isinstance(scale, str) and scale == "standard"
    return not plain or not (anchor is None or (isinstance(anchor, Mapping) and not anchor))


def require_scale(scale: Any) -> None:
    """Raise an error for an unknown scale."""
    if not isinstance(scale, str) or scale not in SCALES:
        raise RequestError(f"scale must be one of {', '.join(SCALES)}, not {scale!r}")


def require_anchors(scale: Any, anchor: Any, items: list[Any], by: bool = False) -> None:
    """Raise an error for a scale or anchors that no fit of these items, with contexts `by`, can have."""
    require_scale(scale)
    if not isinstance(anchor, Mapping | None):
        raise RequestError(f"anchors are values by item, such as {{'a': 1200}}, not {anchor!r:.60}")
    if anchor and scale == "winrate":
        raise RequestError("a win rate has no level to choose; leave the anchor out")
    items = [each[1] for each in items] if by else items
    labels = set(keys_of(items)) if anchor else set()
    for item, value in (anchor or {}).items():
        if keys_of([item])[0] not in labels:
            near = ", ".join(str(each) for each in items[:3])
            raise RequestError(
                f"the anchor {item!r} is not among the items, which are {near}, ...; name an item as the votes do"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise RequestError(f"the anchor {item!r} needs a finite number, not {value!r}")


def scaled_fields(fit: Fit, scale: str = "standard", anchor: Mapping[Any, float] | None = None) -> dict[str, Any]:
    """Return the fields of a fit that change with the scale: `shown` and `summary`."""
    # With b the slope of a typical worker a score r is shown as r (standard), b·r (logit), 400/ln 10·b·r (elo), or as
    # the share of wins of that worker for this item against all others of its component (winrate). The mean of a
    # component is 0, of elo 1000, unless an anchor has a given value; then all scores move with it. Intervals move with
    # their scores: the anchor is a point of the scale, not an item without error. `anchor` has the wanted value of an
    # item, one item per component. An item in several contexts has the value in each of them.
    require_anchors(scale, anchor, fit.item_table["item"].tolist())
    known = _anchors(fit, {} if anchor is None else anchor)
    if lacks := lacks_scale(fit, scale):
        raise RequestError(f"{lacks}; use the scale standard")
    summary = {**fit.summary, "scale": scale}
    for name in ("scale_factor", "anchor"):
        summary.pop(name, None)
    if scale == "standard" and not known:
        return {"shown": None, "summary": summary}
    if scale == "winrate":
        return {
            "shown": _shown(fit, _win_rates(fit, {name: fit.item_table[name] for name in _VALUES})),
            "summary": summary,
        }
    factor = 1.0
    if scale != "standard":
        factor = (_ELO if scale == "elo" else 1.0) * slope_of(fit)
    table = fit.item_table
    component = table["component"].astype(np.int64)
    offset = np.full(component.max() + 1, _CENTRE[scale])
    for row, value in known.items():
        offset[component[row]] = value - factor * float(table["score"][row])
    values = {name: offset[component] + factor * table[name] for name in _VALUES}
    summary["scale_factor"] = factor
    if known:
        summary["anchor"] = {str(item): float(value) for item, value in (anchor or {}).items()}
    return {"shown": _shown(fit, values), "summary": summary}


def with_own_scale(fit: Fit) -> Table:
    """Return the table of items to save: with the method's own scale if another one is shown."""
    if fit.shown is None:
        return fit.shown_items
    own = {name: fit.item_table[value] for name, value in zip(STANDARD, _VALUES, strict=True)}
    return Table({**fit.shown_items, **own})


def moved(fit: Fit, values: dict[str, Vector]) -> dict[str, Vector]:
    """Return limits of scores, given on the method's own scale, on the scale of the fit."""
    scale = fit.summary.get("scale") or "standard"
    if fit.shown is None:
        return values
    if scale == "winrate":
        return _win_rates(fit, values)
    factor = float(fit.summary.get("scale_factor") or 1.0)
    offset = fit.shown["score"] - factor * fit.item_table["score"]
    return {name: offset + factor * value for name, value in values.items()}


def own_scale(saved: Table) -> tuple[Table, Table | None]:
    """Invert `with_own_scale`: return the method's own table, and the shown one."""
    saved = Table({name: column for name, column in saved.items() if name != "se"})
    if not set(STANDARD) <= set(saved):
        return saved, None
    shown = {name: column for name, column in saved.items() if name not in STANDARD}
    own = {value: saved[name] for name, value in zip(STANDARD, _VALUES, strict=True)}
    return Table({**shown, **own}), Table(shown)


def _anchors(fit: Fit, anchor: Mapping[Any, float]) -> dict[int, float]:
    """Return the rows of anchors and their values; raise an error for two in one component."""
    labels = keys_of(fit.item_table["item"].tolist())
    component = fit.item_table["component"]
    found: dict[int, float] = {}
    taken: dict[int, Any] = {}
    for item, value in anchor.items():
        (key,) = keys_of([item])
        rows = [row for row, own in enumerate(labels) if own == key]
        for row in rows:
            other = taken.setdefault(int(component[row]), item)
            if other != item:
                raise RequestError(
                    f"the anchors {other!r} and {item!r} are compared with each "
                    "other, so one of them settles the level; give one"
                )
            found[row] = float(value)
    return found


def lacks_scale(fit: Fit, scale: str) -> str:
    """Return why the scores cannot be shown on this scale; it needs a typical worker whose votes follow the scores."""
    # A typical worker with reliability 0 still has win rates, all of them one half.
    if scale == "standard" or scale not in SCALES:
        return ""
    slope = slope_of(fit)
    if slope > 0.0 or (scale == "winrate" and not slope < 0.0):
        return ""
    return f"the typical worker does not follow the scores (slope {slope:.3g}), so they have no {scale} scale"


def unscaled_fields(fit: Fit, why: str) -> dict[str, Any]:
    """Return the fields of a fit that stays on the standard scale, with a warning that gives the reason."""
    found = Diagnostic(Kind.SCALE, f"{why}: they are on the scale standard")
    summary = {**fit.summary, "warnings": [*fit.summary["warnings"], found.message]}
    return {"summary": summary, "diagnostics": (*fit.diagnostics, found)}


def _win_rates(fit: Fit, wanted: dict[str, Vector]) -> dict[str, Vector]:
    """Return scores or limits as shares of wins against the others, whose scores stay fixed."""
    table, model = fit.item_table, model_of(fit)
    reliability = typical_reliability(fit)
    component = table["component"].astype(np.int64)
    values = {name: np.full(table.height, np.nan) for name in wanted}
    for group in np.unique(component):
        inside = np.flatnonzero(component == group)
        score = table["score"][inside].astype(np.float64)
        for name, column in wanted.items():
            at = column[inside].astype(np.float64)
            values[name][inside] = _against(at, score, model, reliability)
    return values


def _against(at: Vector, score: Vector, model: Model, reliability: float) -> Vector:
    """Return the mean probability of winning against all other items, for items with the scores `at`."""
    others = len(score) - 1
    if not others:
        return np.full(len(at), 0.5)

    def probability(difference: Vector) -> Vector:
        typical = np.full(difference.shape, reliability)
        return np.asarray(model.probability(difference, typical), np.float64)

    if len(at) * len(score) <= _MOST_PAIRS:
        total = probability(at[:, None] - score[None, :]).sum(axis=1)
    else:
        known = np.concatenate([at[np.isfinite(at)], score])
        place = np.linspace(known.min(), known.max(), _PLACES)
        part = [probability(x - score).sum() for x in place]
        total = np.where(np.isfinite(at), np.interp(at, place, part), np.nan)
    return np.asarray((total - probability(at - score)) / others)


def _shown(fit: Fit, values: dict[str, NDArray[Any]]) -> Table:
    return Table({**fit.item_table, **values})


def level_text(level: float = LEVEL) -> str:
    """Return a level as a percentage, such as 90 %."""
    return f"{100.0 * level:g} %"
