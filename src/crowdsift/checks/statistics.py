"""Statistics of fit: separation, agreement, misfitting workers and items, intransitive triads.

Those of comparative judgement and of Rasch measurement, for a worker of typical reliability or, in several dimensions,
of the same weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import CrowdsiftError, RequestError
from crowdsift.fitting.refit import refitter
from crowdsift.models.diagnostics import Kind
from crowdsift.numeric import Vector
from crowdsift.numeric.conjugate_gradient import conjugate_gradient
from crowdsift.numeric.distributions import LEVEL, half_width, normal_share
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results.fit import Fit
from crowdsift.results.predict import vote_probability
from crowdsift.results.query import model_of, positions
from crowdsift.results.scales import typical_reliability
from crowdsift.results.summary import Separation, separation_of
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import components, for_lower, pair_codes

Refit = Callable[[Comparisons], Fit]

_SURE = 0.95  # probability that no worker, or item, is named by chance
_LEAST = 1e-6  # least probability of an outcome, so that one vote does not decide all


_STEEPEST, _HALVINGS = 30.0, 40  # largest factor, and steps of bisection, in the calibration of a worker's log odds
_FEW_PAIRS = 10  # with fewer pairs, their spread is no measure of the accuracy of each


class Agreement(NamedTuple):
    """Krippendorff's alpha with the limits of its interval."""

    alpha: float
    lower: float
    upper: float


@dataclass(frozen=True)
class FitStatistics:
    """Statistics of fit.

    `separation`: index and scale separation reliability; None without intervals; `split_half`: correlation of scores
    from two halves of the workers, stepped up to all of them; None if it was not requested; `agreement`: Krippendorff's
    alpha of votes on the same pair, with its interval; None if no pair has two votes; `triads`: intransitive triads,
    and how many the model expects; `workers`, `items`: infit and outfit mean squares with their limits, the standard
    score of the infit, and whether it is too large to be chance. Workers are compared with one of typical reliability
    (in several dimensions with their own weights), items with the reliabilities of their workers. Nothing misfits if a
    diagnostic says that the votes contain no information; `scale_separation`: scale separation reliability as
    comparative judgement publishes it; see `scale_separation`.
    """

    separation: Separation | None
    split_half: float | None
    agreement: Agreement | None
    triads: Triads | None
    workers: Any
    items: Any
    scale_separation: float | None = None

    @property
    def alpha(self) -> float | None:
        """Return Krippendorff's alpha without its interval."""
        return None if self.agreement is None else self.agreement.alpha

    @property
    def misfitting(self) -> list[Any]:
        """Return the workers whose votes fit worse than chance explains, worst first."""
        wrong, z, worker = (np.asarray(self.workers[n]) for n in ("misfit", "infit_z", "worker"))
        chosen = np.flatnonzero(wrong)
        order = chosen[np.argsort(-z[chosen].astype(float), kind="stable")]
        return list(worker[order].tolist())

    def to_json(self) -> dict[str, Any]:
        """Return the figures in the form of `summary.json`."""
        triads = self.triads
        return {
            "separation_index": None if self.separation is None else self.separation.ratio,
            "separation_reliability": None if self.separation is None else self.separation.reliability,
            "scale_separation_reliability": self.scale_separation,
            "split_half_reliability": self.split_half,
            **dict(zip(("alpha", "alpha_lower", "alpha_upper"), self.agreement or (None, None, None), strict=True)),
            "triads": None if triads is None else triads._asdict(),
            "misfitting_workers": [str(label) for label in self.misfitting],
            "misfitting_items": [
                str(label) for label in np.asarray(self.items["item"])[np.asarray(self.items["misfit"])]
            ],
        }


def fit_statistics(fit: Fit, halves: int = 0, *, gold: Any = None, threads: int | None = None) -> FitStatistics:
    """Return statistics of a fit and its votes; see `Fit.statistics`."""
    votes = fit.votes
    if votes is None:
        raise RequestError("a loaded fit does not hold its votes; fit them again for statistics")
    seed, correlation = int(fit.summary["seed"]), None
    if halves:
        refit = refitter(fit, gold, threads, warm=False)
        correlation = split_half(votes, refit, halves, seed)
    p = vote_probability(fit, votes)
    workers, items = mean_squares(fit, votes, p)
    if any(each.kind is Kind.INFORMATION for each in fit.diagnostics):  # there is no model to misfit
        workers, items = (Table({**table, "misfit": np.zeros(table.height, bool)}) for table in (workers, items))
    return FitStatistics(
        separation=separation_of(fit.item_table, fit.method, fit.level),
        split_half=correlation,
        agreement=agreement_alpha(votes, fit.level),
        triads=count_triads(votes, p, seed),
        workers=workers,
        items=items,
        scale_separation=scale_separation(votes),
    )


_HALF_WIN = 0.3  # epsilon of Bertoli-Barsotti and Punzo (2012)
_MAX_STEPS, _TOLERANCE = 100, 1e-9  # of Newton's method for scores in logits
_MAX_STEP = 50.0  # logits; a longer first step is that of a long chain of items, each known from few votes
_MAX_PRODUCTS = 2_000  # iterations of conjugate gradients per step


def scale_separation(votes: Comparisons) -> float | None:
    """Return the scale separation reliability of comparative judgement; None without a spread."""
    # Published figures are 1 - mean(se²)/var(score), by the model of Bradley and Terry. An item with M votes and w wins
    # counts as ε + (M - 2ε)/M·w wins with ε = 0.3, so no score is infinite. se² is 1 over the item's own information,
    # with the other scores fixed, as in `btm` of the R package sirt. Workers count the same, a tie is half a win, and
    # components are centred separately.
    pooled, n = votes.pooled(), votes.n_items
    one, two = pooled.first.astype(np.int64), pooled.second.astype(np.int64)
    weight = pooled.weight.astype(np.float64)
    won = weight * pooled.outcome

    def by_item(first: Vector, second: Vector) -> Vector:
        return np.asarray(np.bincount(one, first, n) + np.bincount(two, second, n))

    total = by_item(weight, weight)
    component, held = components(votes).astype(np.int64), total > 0.0
    size = np.bincount(component)

    def centred(values: Vector) -> Vector:
        return np.asarray(values - (np.bincount(component, values) / size)[component])

    wins = by_item(won, weight - won)
    wins += _HALF_WIN * (1.0 - 2.0 * np.divide(wins, total, out=np.full(n, 0.5), where=held))
    scores = np.zeros(n)
    for _ in range(_MAX_STEPS):
        p = sigmoid(scores[one] - scores[two])
        curvature = weight * p * (1.0 - p)
        information = by_item(curvature, curvature)

        def multiply(v: Vector, curvature: Vector = curvature) -> Vector:
            flow = curvature * (v[one] - v[two])
            return by_item(flow, -flow)

        left = centred(wins - by_item(weight * p, weight - weight * p))
        diagonal = np.maximum(information, 1e-12)
        # The shift keeps the level at 0, which the Laplacian does not determine.
        solved = conjugate_gradient(multiply, left, diagonal, tolerance=1e-6, shift=1e-6, most=_MAX_PRODUCTS)
        step = centred(solved.x)
        if np.abs(step).max() > _MAX_STEP:
            return None
        scores += step / max(1.0, 0.5 * float(np.abs(step).max()))  # a full step may overshoot
        if np.abs(step).max() < _TOLERANCE:
            break
    else:  # some items above all others whose own losses outweigh ε
        return None
    spread = float((scores[held] ** 2).sum() / max(held.sum() - len(np.unique(component[held])), 1))
    if not spread > 0.0:
        return None
    return max(1.0 - float(np.mean(1.0 / information[held])) / spread, 0.0)


def split_half(votes: Comparisons, refit: Refit, halves: int = 10, seed: int = 0) -> float | None:
    """Return the mean correlation of scores from random halves of workers, corrected by Spearman-Brown."""
    # By Spearman and Brown, 2r/(1 + r) is the correlation for twice as many workers. None if a half cannot be fitted,
    # or if there are no workers to halve.
    if not votes.has_workers or votes.n_workers < 2:
        return None
    rng = np.random.Generator(np.random.PCG64(seed))
    worker, found = votes.worker_codes().astype(np.int64), []
    for _ in range(halves):
        one = np.zeros(votes.n_workers, bool)
        one[rng.permutation(votes.n_workers)[: votes.n_workers // 2]] = True
        try:
            parts = [refit(votes.select(one[worker] == side)) for side in (True, False)]
        except CrowdsiftError:
            continue
        scores = [_by_code(part, votes) for part in parts]
        both = np.isfinite(scores[0]) & np.isfinite(scores[1])
        if both.sum() > 2 and all(score[both].std() > 0.0 for score in scores):
            r = float(np.corrcoef(scores[0][both], scores[1][both])[0, 1])
            found.append(2.0 * r / (1.0 + r) if r > -1.0 else -1.0)
    return float(np.mean(found)) if found else None


def calibrated(
    p: Vector, worker: NDArray[Any], wins: Vector, votes: Vector, n_workers: int, prior: float = 0.0
) -> Vector:
    """Return probabilities with each worker's log odds rescaled by its own votes."""
    # A fit shrinks probabilities towards 1/2, and some methods treat all workers as equally reliable. `p`, `worker`,
    # `wins`, `votes` have one row each: the probability of a win, the worker, the wins, and the votes.
    logit = np.log(p / (1.0 - p))
    factor = most_likely(np.zeros(len(p)), logit, worker, wins, votes, n_workers, prior, 1.0)
    return sigmoid(np.clip(factor[worker] * logit, -_STEEPEST, _STEEPEST))


def most_likely(
    base: Vector,
    x: Vector,
    worker: NDArray[Any],
    wins: Vector,
    votes: Vector,
    n_workers: int,
    prior: float,
    mean: float,
) -> Vector:
    """Return each worker's most likely c in the log odds base + c·x, with the penalty prior·(c - mean)²/2."""
    low, high = np.full((2, n_workers), _STEEPEST) * [[-1.0], [1.0]]
    for _ in range(_HALVINGS):  # the derivative decreases in c
        middle = 0.5 * (low + high)
        q = sigmoid(np.clip(base + middle[worker] * x, -_STEEPEST, _STEEPEST))
        slope = np.bincount(worker, (wins - votes * q) * x, n_workers) - prior * (middle - mean)
        low, high = np.where(slope > 0.0, middle, low), np.where(slope > 0.0, high, middle)
    return np.asarray(0.5 * (low + high))


def mean_squares(fit: Fit, votes: Comparisons, own: Vector) -> tuple[Table, Table]:
    """Return infit and outfit of workers and of items.

    With p the probability and y the outcome, W = p(1-p): outfit is the mean of (y-p)²/W, infit Σ(y-p)²/ΣW; both are 1
    on average if the model holds, larger if votes are noisier, smaller if they follow the scores more closely than
    expected. Ties are left out. The infit has variance Σ(W - 4W²)/(ΣW)² under the model, which gives its standard
    score, and the third central moment ΣW(1 - 4W)²/(ΣW)³, by which the first term of Cornish and Fisher makes it
    normal. The outfit has variance Σ(1/W - 4)/n². Limits are those of `_mean_square_limits`.

    For workers p is that of typical reliability: noisier workers misfit. In several dimensions, where no weights are
    typical, it is `own`, the probability by each vote's worker. For items it is `own`, calibrated: an item does not
    misfit because bad workers voted on it.
    """
    scores, who = _by_code(fit, votes), votes.worker_codes().astype(np.int64)
    typical = np.full(len(votes), typical_reliability(fit))
    gap = scores[votes.first] - scores[votes.second]
    alike = np.asarray(model_of(fit).probability(gap, typical), np.float64)
    y, weight = votes.outcome.astype(np.float64), votes.weight.astype(np.float64)
    if votes.ties_are_outcomes:
        weight = np.where(votes.outcome == 0.5, 0.0, weight)
    own = np.clip(np.where(np.isfinite(own), own, alike), _LEAST, 1.0 - _LEAST)
    of_workers = own if "p_distinct" in fit.worker_table else alike
    if votes.has_workers:
        own = calibrated(own, who, weight * y, weight, votes.n_workers, prior=1.0)

    def table(name: str, labels: NDArray[Any], codes: list[NDArray[Any]], p: Vector) -> Table:
        count = len(labels)
        p = np.clip(p, _LEAST, 1.0 - _LEAST)
        variance, square = p * (1.0 - p), (y - p) ** 2

        def total(values: Vector) -> Vector:
            result = np.zeros(count)
            for code in codes:
                result += np.bincount(code, values, count)
            return result

        held = np.maximum(total(weight), 1e-300)
        spread = np.maximum(total(weight * variance), 1e-300)
        infit = total(weight * square) / spread
        second = np.maximum(total(weight * (variance - 4.0 * variance**2)), 0.0)
        error = np.sqrt(second) / spread
        z = np.divide(infit - 1.0, error, out=np.zeros(count), where=error > 1e-9)
        third = total(weight * variance * (1.0 - 4.0 * variance) ** 2)
        skew = np.divide(third, second**1.5, out=np.zeros(count), where=error > 1e-9)
        seen = total(weight) > 0.0
        bound = half_width(1.0 - 2.0 * (1.0 - _SURE) / max(int(seen.sum()), 1))
        outfit = total(weight * square / variance) / held
        outfit_error = np.sqrt(total(weight * (1.0 / variance - 4.0))) / held
        columns: dict[str, Vector] = {}
        for kind, values, sd in (("infit", infit, error), ("outfit", outfit, outfit_error)):
            lower, upper = _mean_square_limits(values, sd, fit.level)
            ends = (kind, values), (f"{kind}_lower", lower), (f"{kind}_upper", upper)
            columns |= {each: np.where(seen, column, np.nan) for each, column in ends}
        large = z - skew * (z**2 - 1.0) / 6.0 > bound
        return Table(
            {
                name: labels,
                **columns,
                "infit_z": np.where(seen, z, np.nan),
                "misfit": seen & large & (columns["infit_lower"] > 1.0),  # consistent with the interval
            }
        )

    count = votes.n_workers if votes.has_workers else 0
    of_items = table("item", votes.items, [votes.first, votes.second], own)
    row = positions(fit.labels, votes.items.tolist())
    of_items = Table({name: column[row] for name, column in of_items.items()})
    return table("worker", votes.workers[:count], [who] if count else [], of_workers), of_items


def _mean_square_limits(value: Vector, sd: Vector, level: float) -> tuple[Vector, Vector]:
    """Return limits of mean squares whose standard deviation is `sd` if the model holds."""
    # Wilson and Hilferty: (value/μ)^(1/3) is about normal with mean 1 - sd²/9 and standard deviation sd/3 if the true
    # mean square is μ. NaN means no limit, for few or very uneven votes.
    z = half_width(level)
    middle, half = 1.0 - sd**2 / 9.0, z * sd / 3.0
    lower = np.where(half >= sd**2 / 9.0, value / np.maximum(middle + half, 1e-9) ** 3, np.nan)
    upper = np.where(middle > half, value / np.maximum(middle - half, 1e-9) ** 3, np.nan)
    return lower, upper


def agreement_alpha(votes: Comparisons, level: float = LEVEL) -> Agreement | None:
    """Return Krippendorff's alpha of votes on the same pair; None if no pair has two votes."""
    # The units are ordered pairs: every pair counts in both orders, so that the order of its items does not matter.
    # Outcomes differ by (y - y')²: a tie is halfway. In both orders alpha is linear in the share of votes on the same
    # pair that differ. The interval is Wilson's for this share; its sample size is the effective number of pairs, or
    # the size with the same variance if there are enough pairs to estimate that.
    y = for_lower(votes.first, votes.second, votes.outcome).astype(np.float64)
    weight = votes.weight.astype(np.float64)
    _, unit = pair_codes(votes.first, votes.second, votes.n_items)
    count, total, squares = (np.bincount(unit, values) for values in (weight, weight * y, weight * y * y))
    several = count > 1.0
    if not several.any():
        return None
    count, total, squares = count[several], total[several], squares[several]
    differ = 2.0 * (count * squares - total**2) / (count * (count - 1.0))
    # In both orders there are 2n values with Σy = n and Σy² = Σ(y² + (1-y)²).
    n = count.sum()
    both = 2.0 * squares.sum() - 2.0 * total.sum() + n
    expected = 2.0 * (2.0 * n * both - n**2) / (2.0 * n - 1.0)
    if not expected > 0.0:
        return None
    share, z = float(count @ differ / n), half_width(level)
    size = float(n**2 / (count @ count))
    spread = float(count @ (differ - share) ** 2 / n)
    if len(count) >= _FEW_PAIRS and spread > 0.0:
        size *= max(share * (1.0 - share) / spread * (1.0 - 1.0 / len(count)), 1.0)
        z *= 1.0 + (z**2 + 1.0) / (4.0 * (len(count) - 1.0))  # the quantile of Student's t
    middle = (share + z**2 / (2.0 * size)) / (1.0 + z**2 / size)
    variance = max(share * (1.0 - share), 0.0) / size
    wide = z * np.sqrt(variance + (z / (2.0 * size)) ** 2) / (1.0 + z**2 / size)
    factor = 2.0 * n / expected
    ends = min(max(middle + wide, share), 1.0), max(min(middle - wide, share), 0.0)
    alpha, lower, upper = (float(1.0 - factor * each) for each in (share, *ends))
    return Agreement(alpha, lower, upper)


def _by_code(fit: Fit, votes: Comparisons) -> Vector:
    """Return the scores of the items of the votes; NaN for items without a score."""
    padded = np.append(fit.item_table["score"].astype(np.float64), np.nan)
    held = np.append(fit.item_table["comparisons"] > 0, False)
    row = positions(votes.items, fit.labels, missing=-1)
    return np.where(held[row], padded[row], np.nan)


MOST_ITEMS = 1_000  # most items whose triads are counted, by products of matrices
_DRAWS = 100  # draws of votes from the model, for the spread of the count
_NUMBERS = 5e9  # most multiplications for these draws
_NORMAL_FROM = 1_000  # votes on a pair from which on the number for one item is treated as normal


class Triads(NamedTuple):
    """Triads of items whose three pairs all have a majority.

    `intransitive` of them form a circle; `expected` and `sd` are the mean and spread of that number in votes drawn from
    the model on the same pairs; `sd` is None for too many items.
    """

    triads: int
    intransitive: int
    expected: float
    sd: float | None


def count_triads(votes: Comparisons, p: Vector, seed: int = 0) -> Triads | None:
    """Return the count of intransitive triads; None for more than `MOST_ITEMS` items, or no triad."""
    # `votes`: their majorities count, weights included; a tie is half a vote for each item; `p`: the model's
    # probability of every vote that it goes to the first item.
    k = votes.n_items
    if k > MOST_ITEMS:
        return None
    weight = votes.weight.astype(np.float64)
    first, second = votes.first, votes.second
    y, q = (for_lower(first, second, x) for x in (votes.outcome.astype(np.float64), p))
    keys, unit = pair_codes(first, second, k)
    count, wins, total = (np.bincount(unit, v) for v in (weight, weight * y, weight * q))
    chance = np.asarray(total / count)
    decided = wins != 0.5 * count
    one, two = keys // k, keys % k
    joined = np.zeros((k, k))
    joined[one, two] = joined[two, one] = decided
    complete = round(float(((joined @ joined) * joined).sum()) / 6.0)
    if not complete:
        return None
    first, second = one[decided], two[decided]
    found = _circles(first, second, (wins > 0.5 * count)[decided].astype(np.float64), k)
    rng = np.random.Generator(np.random.PCG64(seed))
    size = np.maximum(np.round(count[decided]), 1.0).astype(np.int64)
    above = _majority(size, chance[decided])
    draws = None
    if _DRAWS * float(k) ** 3 <= _NUMBERS:
        drawn = rng.random((_DRAWS, len(size))) < above
        draws = [_circles(first, second, each.astype(np.float64), k) for each in drawn]
    return Triads(
        complete,
        round(found),
        _circles(first, second, above, k),
        None if draws is None else float(np.std(draws, ddof=1)),
    )


def _circles(first: Vector, second: Vector, above: Vector, k: int) -> float:
    """Return the expected number of circles among triads if pairs are independent: tr(P³)/3."""
    matrix = np.zeros((k, k))
    matrix[first, second], matrix[second, first] = above, 1.0 - above
    return float(((matrix @ matrix) * matrix.T).sum() / 3.0)


def _majority(count: Vector, p: Vector) -> Vector:
    """Return P(more than half of `count` votes), given that it is not half."""
    # From `_NORMAL_FROM` votes on the count is treated as normal, so that the cost does not grow with weights.
    q = np.clip(p, 1e-12, 1.0 - 1e-12)
    result = normal_share((q - 0.5) * np.sqrt(count / (q * (1.0 - q))))
    for size in np.unique(count[count < _NORMAL_FROM]):
        at = count == size
        k = np.arange(size + 1)
        log_choose = np.concatenate([[0.0], np.cumsum(np.log((size - k[:-1]) / (k[:-1] + 1.0)))])
        mass = np.exp(log_choose + np.outer(np.log(q[at]), k) + np.outer(np.log1p(-q[at]), size - k))
        up, down = mass[:, 2 * k > size].sum(axis=1), mass[:, 2 * k < size].sum(axis=1)
        result[at] = up / (up + down)
    return result
