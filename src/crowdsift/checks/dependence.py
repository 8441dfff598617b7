"""Votes that depend on each other, by prompt, task or session, and drift of reliability in time.

Huber's sandwich by groups (Liang and Zeger 1986): with H the curvature of the objective and s_g the sum of the
gradients of the votes of group g, the scores have the covariance H⁻¹ (Σ s_g s_gᵀ) H⁻¹ for any dependence within groups.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from crowdsift.checks.influence import ScoreModel, worker_slopes
from crowdsift.errors import RequestError
from crowdsift.fitting.estimate import MIN_GROUPS
from crowdsift.fitting.rows import VoteRows
from crowdsift.models.covariance import ComponentCovariance
from crowdsift.numeric import Indices, Vector
from crowdsift.numeric.distributions import half_width, limits
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results.fit import Fit
from crowdsift.results.query import positions
from crowdsift.results.ranking import rank_limits
from crowdsift.results.tables import Table, whole

MOST_ITEMS = 1_000  # most items whose curvature is inverted
_LEAST = 1e-6  # relative to the largest variance
_NUMBERS = 10_000_000  # sums by group and item in memory at a time


def sandwich(model: ScoreModel, weight: Vector, group: Indices, scores: Vector) -> Vector:
    """Return the sandwich covariance of the scores for votes in G groups, H⁻¹ (Σ s_g s_gᵀ) H⁻¹ · G/(G-1)."""
    k = model.n_items
    _, hessian = model.derivatives(scores, weight)
    p = sigmoid(model.slope * (scores[model.first] - scores[model.second]))
    residual = weight * model.slope * (model.outcome - p)
    _, code = np.unique(group, return_inverse=True)
    code = code.reshape(-1)
    count = int(code.max()) + 1
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(count + 1))
    middle, step = np.zeros((k, k)), max(_NUMBERS // k, 1)
    for begin in range(0, count, step):
        end = min(begin + step, count)
        rows = order[starts[begin] : starts[end]]
        place = (code[rows] - begin) * k
        size = (end - begin) * k
        sums = np.bincount(place + model.first[rows], residual[rows], size)
        sums -= np.bincount(place + model.second[rows], residual[rows], size)
        sums = sums.reshape(-1, k)
        middle += sums.T @ sums
    outer = np.linalg.solve(hessian, np.linalg.solve(hessian, middle).T)
    return np.asarray(outer * count / max(count - 1, 1))


def fields_of_rows(fit: Fit, rows: VoteRows | None) -> dict[str, Any]:
    """Return the fields of a fit that change with rows: intervals by groups, drift over time."""
    fields: dict[str, Any] = {}
    if rows is None:
        return fields
    if rows.group is not None and fit.summary.get("group_effect"):  # its intervals already take groups into account
        groups = {"dependent_by": rows.grouped_by, "dependent_groups": len(np.unique(rows.group))}
        fields["summary"] = {**fit.summary, **groups}
    elif rows.group is not None:
        fields = dependent_fields(fit, rows)
    if rows.time is not None:
        summary = fields.get("summary", fit.summary)
        fields["summary"] = {**summary, "drift": drift(fit, rows).to_json()}
    return fields


def dependent_fields(fit: Fit, rows: VoteRows) -> dict[str, Any]:
    """Return the fields of a fit with intervals for dependent votes within groups."""
    # In methods with workers the curvature holds their slopes fixed, and the method's own intervals are widened by the
    # ratio of the sandwich to the variance from this curvature.
    votes, posterior = fit.votes, fit.posterior
    if votes is None or posterior is None or posterior.sd is None:
        raise RequestError(f"{fit.method} gives no intervals, so none can allow for dependent votes")
    if votes.n_items > MOST_ITEMS:
        raise RequestError(f"{votes.n_items:,} items are too many for dependent votes, at most {MOST_ITEMS:,}")
    if rows.group is None:
        raise RequestError("no column says which votes depend on each other")
    groups = len(np.unique(rows.group))
    if groups < MIN_GROUPS:
        raise RequestError(
            f"the votes are of {groups} groups by {rows.grouped_by}; at least "
            f"{MIN_GROUPS} are needed to see how groups differ"
        )
    standing = ScoreModel.of(fit, votes)
    slope = worker_slopes(fit, votes)[rows.worker]
    model = ScoreModel(rows.first, rows.second, rows.outcome, slope, votes.n_items, standing.prior)
    row = positions(votes.items, fit.labels)
    scores = model.scores(rows.weight, fit.item_table["score"].astype(np.float64)[row])
    component = fit.item_table["component"].astype(np.int64)[row] - 1
    wide = _about_means(sandwich(model, rows.weight, rows.group, scores), component)
    inverse = np.asarray(np.linalg.inv(model.derivatives(scores, rows.weight)[1]), np.float64)
    plain = _about_means(inverse, component)
    own = posterior.sd / np.sqrt(np.maximum(np.diag(plain), 1e-300))
    own = np.where(np.isfinite(own), own, 1.0)
    covariance = _as_precision(component, own[:, None] * wide * own[None, :])
    sd = covariance.deviations(posterior.sd)
    effect = float(np.mean(np.diag(wide)) / np.mean(np.diag(plain)))
    return {
        "item_table": _table(fit, row, covariance, sd),
        "posterior": replace(posterior, covariances=covariance, sd=sd),
        "summary": {
            **fit.summary,
            "dependent_by": rows.grouped_by,
            "dependent_groups": groups,
            "design_effect": effect,
        },
    }


def _as_precision(component: Indices, matrix: Vector) -> ComponentCovariance:
    """Return a covariance about the means of components as the pairs of its precision."""
    # On a component of k items its inverse on differences, L, has rows that add up to 0: it is a Laplacian, of weights
    # that may be negative. With fewer groups than items it has no inverse; variances below a millionth of the largest
    # are raised to that.
    low: list[Indices] = [np.empty(0, np.int64)]
    high, weight = list(low), [np.empty(0)]
    for each in np.unique(component):
        items = np.flatnonzero(component == each)
        k = len(items)
        if k < 2:
            continue
        values, vectors = np.linalg.eigh(matrix[np.ix_(items, items)] + 1.0 / k)
        values = np.maximum(values, _LEAST * values[-1])
        inverse = (vectors / values) @ vectors.T
        i, j = np.triu_indices(k, 1)
        centre = np.eye(k) - 1.0 / k
        low.append(items[i])
        high.append(items[j])
        weight.append(-(centre @ inverse @ centre)[i, j])
    one, two = np.concatenate(low), np.concatenate(high)
    return ComponentCovariance(component, one, two, np.concatenate(weight), 0.0)


def _about_means(matrix: Vector, component: Indices) -> Vector:
    same = component[:, None] == component[None, :]
    centre = np.eye(len(component)) - same / same.sum(axis=1)
    return np.asarray(np.where(same, centre @ matrix @ centre.T, 0.0))


def _table(fit: Fit, row: Indices, covariance: ComponentCovariance, sd: Vector | None) -> Table:
    old, order = fit.item_table, np.argsort(row, kind="stable")
    score = old["score"].astype(np.float64)[row]
    lower, upper = limits(score, sd, fit.level)
    counted = old["comparisons"][row] > 0
    component = (old["component"].astype(np.int64)[row] - 1).astype(np.uint32)
    deviation = np.full(len(score), np.nan) if sd is None else sd
    seed = int(fit.summary.get("seed") or 0)
    found = rank_limits(score, deviation, covariance.blocks, component, seed, fit.level)
    columns = {
        "lower": np.where(counted, lower, np.nan),
        "upper": np.where(counted, upper, np.nan),
        **{
            name: whole(np.where(counted, limit.astype(np.float64), np.nan))
            for name, limit in zip(("rank_lower", "rank_upper"), found, strict=True)
        },
    }
    return Table({**old, **{name: column[order] for name, column in columns.items()}})


_SURE = 0.95  # probability that no worker is named by chance
_FEWEST = 10  # least decided votes of a worker


class Drift(NamedTuple):
    """Change of reliability from the first votes to the last.

    `crowd_change` is the relative change of the slope of all workers, `crowd_z` its standard score. `workers` has the
    columns worker, early and late (logits per unit of score in the first and the second half of the time), z, and
    drifts, which says whether z is too large to be chance.
    """

    crowd_change: float
    crowd_z: float
    workers: Table

    @property
    def drifting(self) -> list[Any]:
        """Return the workers who drift, surest first."""
        chosen = np.flatnonzero(self.workers["drifts"])
        order = chosen[np.argsort(-np.abs(self.workers["z"][chosen]), kind="stable")]
        return list(self.workers["worker"][order].tolist())

    def to_json(self) -> dict[str, Any]:
        """Return the figures in the form of `summary.json`."""
        named = [str(label) for label in self.drifting]
        return {"crowd_change": self.crowd_change, "crowd_z": self.crowd_z, "workers": named}


def drift(fit: Fit, rows: VoteRows) -> Drift:
    """Test whether slopes change with time, by efficient scores."""
    # With τ from -1 (the first vote) to 1 (the last one) in order of time, a worker votes with probability σ((b +
    # δτ)d). Without drift U = Σ(y-p)τd has mean 0 and, b being estimated too, the variance ΣWτ²d² - (ΣWτd²)²/ΣWd², W =
    # p(1-p); δ is U over this. For all workers together, bτd takes the place of τd.
    votes = fit.votes
    if votes is None or rows.time is None:
        raise RequestError("drift needs the votes and a column of times")
    row = positions(votes.items, fit.labels)
    score = fit.item_table["score"].astype(np.float64)[row]
    slopes = worker_slopes(fit, votes)
    decided = (rows.outcome == 0.0) | (rows.outcome == 1.0)
    order = np.unique(rows.time, return_inverse=True)[1].reshape(-1)
    tau = 2.0 * order / max(int(order.max()), 1) - 1.0
    gap = score[rows.first] - score[rows.second]
    p = sigmoid(slopes[rows.worker] * gap)
    residual = rows.outcome - p
    weight = np.where(decided, rows.weight, 0.0)
    information = weight * p * (1.0 - p)
    count = votes.n_workers
    change, spread = _efficient(rows.worker, count, residual * weight, information, gap, tau)
    held = np.bincount(rows.worker, weight, count)
    z = np.where(spread > 0.0, change * np.sqrt(np.maximum(spread, 0.0)), 0.0)
    enough = (held >= _FEWEST) & (spread > 0.0)
    bound = half_width(1.0 - (1.0 - _SURE) / max(int(enough.sum()), 1))
    own = slopes[rows.worker] * gap
    everybody = np.zeros(len(own), np.int64)
    shift, total = _efficient(everybody, 1, residual * weight, information, own, tau)
    shown = votes.n_workers if votes.has_workers else 0
    return Drift(
        float(shift[0]) * 2.0,
        float(shift[0] * np.sqrt(max(total[0], 0.0))),
        Table(
            {
                "worker": votes.workers[:shown],
                "early": np.where(enough, slopes - 0.5 * change, np.nan)[:shown],
                "late": np.where(enough, slopes + 0.5 * change, np.nan)[:shown],
                "z": np.where(enough, z, np.nan)[:shown],
                "drifts": (enough & (np.abs(z) > bound))[:shown],
            }
        ),
    )


def _efficient(
    unit: Indices, count: int, residual: Vector, information: Vector, gap: Vector, tau: Vector
) -> tuple[Vector, Vector]:
    """Return the change δ of the slope in every unit, and its information, with the slope itself unknown."""

    def total(values: Vector) -> Vector:
        return np.asarray(np.bincount(unit, values, count), np.float64)

    slope, both = total(information * gap**2), total(information * tau * gap**2)
    share = np.divide(both, slope, out=np.zeros(count), where=slope > 0.0)
    left = np.maximum(total(information * (tau * gap) ** 2) - share * both, 0.0)
    score = total(residual * tau * gap) - share * total(residual * gap)
    return np.divide(score, left, out=np.zeros(count), where=left > 1e-12), left
