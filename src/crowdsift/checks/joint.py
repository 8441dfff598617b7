"""Statements about all items at once, from the joint posterior of their scores.

Intervals that each hold with 90 % hold together far more rarely: ten independent ones in a third of the cases. Here the
level is that of the whole statement.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.numeric import Mask, Vector
from crowdsift.numeric.distributions import half_width
from crowdsift.results.fit import Fit
from crowdsift.results.predict import difference_sd, dimensions_of, item_codes, probabilities
from crowdsift.results.scales import checked_level, moved
from crowdsift.results.tables import Table

MOST_ITEMS = 1_000  # most items of a component whose pairs are compared one by one
_FEWEST, _MOST = 2_000, 20_000  # least and most draws
_NUMBERS = 200_000_000  # most pairs of items times draws
_PART = 4_000_000  # numbers in memory at a time
_MATRIX = 2_000  # most items of a matrix of probabilities
_PLACES = 4_001  # distances at which a steep probability is computed, with interpolation between them


class JointErrors(NamedTuple):
    """Draws of the errors of scores about the mean of their component, one row per draw.

    `sd` has the standard deviations of scores, `variance` the variances of differences. It is None for many items,
    whose errors count as independent.
    """

    draws: NDArray[np.float32]
    sd: Vector
    variance: Vector | None

    def difference_sd(self, item: int) -> Vector:
        """Return the standard deviations of the differences of an item to all; 1 to itself."""
        if self.variance is None:
            variance = self.sd**2 + self.sd[item] ** 2
        else:
            variance = self.variance[item].copy()
        variance[item] = 1.0
        return np.asarray(np.sqrt(np.maximum(variance, 1e-300)))


def joint_table(fit: Fit, level: float | None = None, top: int = 3) -> Table:
    """Return statements about all items of a component at once; see `Fit.joint`."""
    level = fit.level if level is None else checked_level(level)
    if not isinstance(top, int) or isinstance(top, bool) or top < 1:
        raise RequestError(f"top must be a whole number above 0, not {top!r}")
    table = fit.item_table
    columns = {name: np.full(table.height, np.nan) for name in ("lower", "upper", "best", "top")}
    first, apart = np.zeros(table.height, bool), np.zeros(table.height, bool)
    for rows in _components(fit):
        score = table["score"][rows].astype(np.float64)
        if len(rows) == 1:
            columns["best"][rows] = columns["top"][rows] = 1.0
            columns["lower"][rows] = columns["upper"][rows] = score
            first[rows] = True
            continue
        errors = _errors(fit, rows)
        half = _largest(np.abs(errors.draws) / errors.sd, level) * errors.sd
        columns["lower"][rows], columns["upper"][rows] = score - half, score + half
        columns["best"][rows], columns["top"][rows] = _placed(score, errors, top)
        first[rows] = _sharing_first(score, errors, level)
        apart[rows] = _apart(score, errors, level)
    shown = {name: columns[name] for name in ("lower", "upper")}
    labels = {name: table[name] for name in (*fit.context_columns, "item")}
    return Table(
        {
            **labels,
            "rank": table["rank"],
            "score": fit.shown_items["score"],
            **moved(fit, shown),
            "p_best": columns["best"],
            f"p_top_{top}": columns["top"],
            "shares_first": first,
            "above_next": apart,
            "component": table["component"],
        }
    )


def first_place(fit: Fit, level: float | None = None) -> list[list[Any]]:
    """Return the items that may be the best, a list per component; see `Fit.first_place`."""
    level = fit.level if level is None else checked_level(level)
    found, labels = [], fit.labels
    for rows in _components(fit):
        score = fit.item_table["score"][rows].astype(np.float64)
        inside = np.ones(1, bool)
        if len(rows) > 1:
            inside = _sharing_first(score, _errors(fit, rows), level)
        found.append([labels[row] for row in rows[inside]])
    return found


def win_matrix(fit: Fit) -> Vector:
    """Return P(row preferred to column) by a random worker; see `Fit.win_matrix`."""
    table = fit.item_table
    if table.height > _MATRIX:
        raise RequestError(
            f"a matrix of {table.height:,} items is too large (at most "
            f"{_MATRIX:,}); ask `predict` for the pairs of interest"
        )
    score, component = table["score"].astype(np.float64), table["component"]
    difference = score[:, None] - score[None, :]
    if dimensions_of(fit) is None:
        at, place = np.unique(np.abs(difference), return_inverse=True)
        upper = _of_distances(fit, at)[place].reshape(difference.shape)
        result = np.where(difference >= 0.0, upper, 1.0 - upper)
    else:
        (one, two), code = np.triu_indices(len(score), 1), item_codes(fit)
        p, result = probabilities(fit, difference[one, two], code[one], code[two]), difference
        result[one, two], result[two, one] = p, 1.0 - p
    result[component[:, None] != component[None, :]] = np.nan
    np.fill_diagonal(result, 0.5)
    return np.asarray(result)


def _of_distances(fit: Fit, at: Vector) -> Vector:
    """Return P(first over second) by a random worker for sorted distances of scores."""
    # The mean over workers is a smooth function of the distance, and expensive with many workers: for many distances it
    # is interpolated by Chebyshev polynomials if their coefficients decay.
    from numpy.polynomial import Chebyshev

    for degree in (16, 64, 256):
        if len(at) < 4 * degree:
            break
        series = Chebyshev.interpolate(lambda x: probabilities(fit, x), degree, [0.0, at[-1]])
        if np.abs(series.coef[-3:]).max() < 1e-8:
            return np.asarray(series(at))
    if len(at) <= _PLACES:
        return probabilities(fit, at)
    places = np.linspace(0.0, at[-1], _PLACES)
    return np.interp(at, places, probabilities(fit, places))


def _components(fit: Fit) -> Iterator[NDArray[np.intp]]:
    component = fit.item_table["component"]
    counted = fit.item_table["comparisons"] > 0
    for group in np.unique(component):
        rows = np.flatnonzero((component == group) & counted)
        if len(rows):
            yield rows


def _errors(fit: Fit, rows: NDArray[np.intp]) -> JointErrors:
    """Return draws of errors from the joint posterior of a component."""
    # With D the variances of differences, C = -½JDJ (J = I - 11ᵀ/K) is the covariance about the mean. It has no
    # inverse, so 11ᵀ is added, and removed from the draws by subtracting their mean.
    k = len(rows)
    rng = np.random.Generator(np.random.PCG64(int(fit.summary.get("seed") or 0)))
    count = int(np.clip(_NUMBERS // k**2, _FEWEST, _MOST)) // 2
    noise = rng.standard_normal((count, k), dtype=np.float32)
    if k > MOST_ITEMS:
        half = 0.5 * (fit.item_table["upper"] - fit.item_table["lower"])[rows]
        sd = half.astype(np.float64) / half_width(fit.level)
        if np.isnan(sd).any():
            raise RequestError(f"{fit.method} gives no intervals for these items")
        error = noise * sd.astype(np.float32)
        return JointErrors(np.concatenate([error, -error]), sd, None)
    one, two = (index.reshape(-1) for index in np.meshgrid(rows, rows, indexing="ij"))
    variance = difference_sd(fit, one, two).reshape(k, k) ** 2
    np.fill_diagonal(variance, 0.0)
    covariance = variance - variance.mean(axis=0)
    covariance = -0.5 * (covariance - covariance.mean(axis=1)[:, None])
    size = max(float(np.trace(covariance)) / k, 1e-300)
    root = np.linalg.cholesky(covariance + size / k + 1e-9 * size * np.eye(k))
    error = noise @ root.T.astype(np.float32)
    error -= error.mean(axis=1, keepdims=True)
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    return JointErrors(np.concatenate([error, -error]), sd, variance)


def _largest(values: NDArray[Any], level: float) -> float:
    return float(np.quantile(values.max(axis=1), level))


def _placed(score: Vector, errors: JointErrors, top: int) -> tuple[Vector, Vector]:
    """Return how often an item is the best, and among the best `top`, in draws of the scores."""
    k, count = len(score), len(errors.draws)
    drawn = errors.draws + score.astype(np.float32)
    best = np.bincount(drawn.argmax(axis=1), minlength=k) / count
    if top >= k:
        return best, np.ones(k)
    among = np.argpartition(-drawn, top - 1, axis=1)[:, :top]
    return best, np.bincount(among.reshape(-1), minlength=k) / count


def _sharing_first(score: Vector, errors: JointErrors, level: float) -> Mask:
    """Return the items that no other is clearly above; at the level, the best is among them."""
    # Multiple comparisons with the best: item i is excluded if (m_j - m_i)/s_ij > c_i for some j, with c_i the quantile
    # of the largest such ratio if i were equal to all others in truth. So the best item is excluded in at most 1 -
    # level of the cases.
    k = len(score)
    shares = np.zeros(k, bool)
    # c is at least that of one comparison, and at most that of all of them separately (Bonferroni).
    least, most = _bonferroni(level, 1), _bonferroni(level, k - 1)
    for item in range(k):
        sd = errors.difference_sd(item)
        ratio = (score - score[item]) / sd
        ratio[item] = -np.inf
        worst = float(ratio.max())
        if worst <= least:
            shares[item] = True
        elif worst < most:
            against = (errors.draws - errors.draws[:, item, None]) / sd.astype(np.float32)
            against[:, item] = -np.inf
            shares[item] = worst <= _largest(against, level)
    return shares


def _bonferroni(level: float, count: int) -> float:
    return half_width(1.0 - 2.0 * (1.0 - level) / count)


def _apart(score: Vector, errors: JointErrors, level: float) -> Mask:
    """Return whether each item is above the next, all statements together at the level."""
    # By the largest of all differences in standard deviations (Tukey), since the votes decide which items are
    # neighbours.
    k = len(score)
    above = np.zeros(k, bool)
    sd = np.array([errors.difference_sd(item)[item + 1] for item in range(k - 1)])
    ratio = -np.diff(score) / sd
    if errors.variance is None:
        above[:-1] = ratio > _bonferroni(level, k * (k - 1))
        return above
    scale = np.sqrt(np.maximum(errors.variance, 1e-300)).astype(np.float32)
    np.fill_diagonal(scale, np.inf)
    largest = np.zeros(len(errors.draws) // 2, np.float32)  # draws with opposite sign have the same value
    part = max(_PART // len(largest), 1)
    for item in range(k - 1):
        for begin in range(item + 1, k, part):
            others = slice(begin, min(begin + part, k))
            gap = errors.draws[: len(largest), others] - errors.draws[: len(largest), item, None]
            np.maximum(largest, (np.abs(gap) / scale[item, others]).max(axis=1), out=largest)
    above[:-1] = ratio > np.quantile(largest, level)
    return above
