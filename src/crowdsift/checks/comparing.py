"""Compare two fits of the same items: two sessions, two panels, or two methods."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.numeric import Indices, Vector
from crowdsift.numeric.distributions import half_width
from crowdsift.results.fit import Fit
from crowdsift.results.query import keys_of
from crowdsift.results.scales import checked_level, level_text
from crowdsift.results.store import taken_by
from crowdsift.results.summary import SHRUNK, separation_of
from crowdsift.results.tables import Table

_SURE = 0.95  # probability that no item is named by chance
_MIN_ITEMS = 4  # shared items for an interval of a correlation


@dataclass(frozen=True, repr=False)
class Comparison:
    """How the scores of two fits agree.

    `correlation`: Pearson's correlation r of the scores of the shared items, with its interval (Fisher's); `corrected`:
    r/√(R₁R₂), the correlation of the true scores, with the limits of r divided likewise. It exceeds 1 if the scores
    agree more than their errors suggest; `reliability`: R of each fit: the share of the variance of its scores, over
    the shared items, that is not error; `items`: a row for every shared item: its score in each fit in units of the
    true standard deviation there, their difference with its standard error, z, and whether it differs. With 95 % no
    item is named whose scores agree; `only_first`, `only_second`: items in only one of the fits; `level`: the level of
    the intervals; `same_votes`: whether both fits use the same votes, whose errors are not independent: nothing is
    corrected, and no item is tested.
    """

    correlation: tuple[float, float, float]
    corrected: tuple[float, float, float] | None
    reliability: tuple[float, float]
    items: Table
    only_first: list[Any]
    only_second: list[Any]
    level: float
    same_votes: bool = False

    @property
    def differing(self) -> list[Any]:
        """Return the items that differ, largest difference first."""
        found = np.flatnonzero(self.items["differs"])
        order = found[np.argsort(-np.abs(self.items["z"][found]), kind="stable")]
        return list(self.items["item"][order].tolist())

    def to_json(self) -> dict[str, Any]:
        """Return the figures and the table as one object."""
        found: dict[str, Any] = {"shared_items": self.items.height, "level": self.level, "same_votes": self.same_votes}
        for name, values in (("correlation", self.correlation), ("corrected_correlation", self.corrected)):
            ends = (name, f"{name}_lower", f"{name}_upper")
            found |= dict.fromkeys(ends) if values is None else dict(zip(ends, values, strict=True))
        one, two = self.reliability
        return {
            **found,
            "reliability_first": one,
            "reliability_second": two,
            "differing_items": [str(item) for item in self.differing],
            "only_first": [str(item) for item in self.only_first],
            "only_second": [str(item) for item in self.only_second],
            "items": [{**row, "item": str(row["item"])} for row in self.items.records()],
        }

    def __str__(self) -> str:
        """Return the result in sentences."""
        level = level_text(self.level)

        def figure(values: tuple[float, float, float]) -> str:
            r, lower, upper = values
            return f"{r:.3f} ({level} interval {lower:.3f} to {upper:.3f})"

        alone = len(self.only_first), len(self.only_second)
        more = f"; {alone[0]} only in the first, {alone[1]} only in the second" if any(alone) else ""
        lines = [f"{self.items.height} items are in both fits{more}."]
        lines.append(f"Correlation of the scores: {figure(self.correlation)}.")
        if self.same_votes:
            lines.append("Both fits use the same votes, so their errors are the same: no item is tested.")
            return "\n".join(lines)
        shares = " and ".join(f"{share:.3f}" for share in self.reliability)
        if self.corrected is None:
            lines.append(f"Not corrected for error: the reliabilities are {shares}.")
        else:
            lines.append(f"Corrected for error: {figure(self.corrected)}; reliabilities {shares}.")
        found = self.differing
        named = ", ".join(map(str, found[:10])) + (", ..." if len(found) > 10 else "")
        some = f"{len(found)} of {self.items.height} items differ beyond their errors: {named}."
        lines.append(some if found else "No item differs beyond the errors of its scores.")
        return "\n".join(lines)

    __repr__ = __str__


def compare(first: Any, second: Any, *, level: float = 0.9) -> Comparison:
    """Compare the scores of two fits of the same items, such as two sessions or two panels.

    Each fit has its own unit: scores are centred, per component of each fit, and divided by their true standard
    deviation. Posterior means are first stretched by 1/R to undo the prior. Errors of the two fits count as
    independent, so their votes should not overlap.

    Parameters
    ----------
    first, second
        Fits, or folders of saved fits.
    level
        The level of the intervals of the correlations.

    Examples
    --------
    >>> import crowdsift
    >>> drawn = crowdsift.simulate(items=20, workers=20, comparisons=4000, seed=3)
    >>> votes = drawn.comparisons()
    >>> even = votes.worker_codes() % 2 == 0
    >>> halves = [crowdsift.fit(votes.select(side), "bt") for side in (even, ~even)]
    >>> print(crowdsift.compare(*halves))
    20 items are in both fits.
    Correlation of the scores: 0.97... (90 % interval 0.9... to 0.9...).
    Corrected for error: ...
    """
    fits = [_loaded(each) for each in (first, second)]
    level = checked_level(level)
    keys = [keys_of(fit.labels) for fit in fits]
    rows = [{key: row for row, key in enumerate(own)} for own in keys]
    shared = [key for key in keys[0] if key in rows[1]]
    at = [np.array([own[key] for key in shared], np.int64) for own in rows]
    group = [fit.item_table["component"][row] for fit, row in zip(fits, at, strict=True)]
    part = np.unique(np.stack(group), axis=1, return_inverse=True)[1].reshape(-1)
    kept = np.flatnonzero(np.bincount(part, minlength=1)[part] > 1)  # not alone in its component
    if len(kept) < _MIN_ITEMS:
        raise RequestError(
            f"the fits share {len(kept)} items that are compared with each other in both; a comparison needs "
            f"{_MIN_ITEMS}. Items must have the same labels in both"
        )
    part, at = np.unique(part[kept], return_inverse=True)[1].reshape(-1), [row[kept] for row in at]
    units = [_units(fit, row, part) for fit, row in zip(fits, at, strict=True)]
    (x, x_error, one), (y, y_error, two) = units
    r = float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))
    half = half_width(level) / np.sqrt(max(len(kept) - int(part.max()) - 3.0, 1e-9))
    centre = np.arctanh(np.clip(r, -1.0 + 1e-15, 1.0 - 1e-15))
    correlation = (r, float(np.tanh(centre - half)), float(np.tanh(centre + half)))
    shrink = float(np.sqrt(one * two))
    corrected = None
    same = not set(taken_by(fits[0])).isdisjoint(taken_by(fits[1]))
    if shrink > 0.0 and not same:
        corrected = (r / shrink, correlation[1] / shrink, correlation[2] / shrink)
    difference, error = x - y, np.sqrt(x_error**2 + y_error**2)
    z = np.divide(difference, error, out=np.zeros(len(kept)), where=error > 0.0)
    bound = half_width(1.0 - (1.0 - _SURE) / len(kept))
    labels = np.empty(len(kept), object)
    labels[:] = [fits[0].labels[row] for row in at[0]]
    table = {
        "item": labels,
        "first": x,
        "second": y,
        "difference": difference,
        "se": error,
        "z": z,
        "differs": (np.abs(z) > bound) & (not same),
    }
    only_first, only_second = (
        [label for label, key in zip(fit.labels, own, strict=True) if key not in other]
        for fit, own, other in zip(fits, keys, reversed(rows), strict=True)
    )
    return Comparison(correlation, corrected, (one, two), Table(table), only_first, only_second, level, same)


def _loaded(fit: Any) -> Fit:
    """Return a fit, loaded if a folder is given; raise an error for one without intervals."""
    from crowdsift.fitting import load
    from crowdsift.results.fit import Fit

    found = fit if isinstance(fit, Fit) else load(fit)
    if not np.isfinite(found.item_table["upper"]).any():
        raise RequestError(f"the method {found.method} has no intervals, which a comparison needs; use bt or sift")
    return found


def _units(fit: Fit, row: Indices, part: NDArray[np.intp]) -> tuple[Vector, Vector, float]:
    """Return scores and errors in units of the true standard deviation, and the reliability."""
    columns = {name: fit.item_table[name][row] for name in ("score", "lower", "upper")}
    found = separation_of(Table({**columns, "component": part}), fit.method, fit.level)
    share = 0.0 if found is None else found.reliability
    score = columns["score"] - (np.bincount(part, columns["score"]) / np.bincount(part))[part]
    error = (columns["upper"] - columns["lower"]) / (2.0 * half_width(fit.level))
    spread = float(score @ score) / max(len(score) - int(part.max()) - 1, 1)
    if not spread > 0.0:
        raise RequestError("all shared items have the same score in one of the fits")
    safe = max(share, 1e-12)
    if fit.method in SHRUNK:  # m is R times an unshrunk estimate, whose error is v/R
        true = np.sqrt(spread / safe)
        return score / safe / true, error / np.sqrt(safe) / true, share
    true = np.sqrt(spread * safe)
    return score / true, error / true, share
