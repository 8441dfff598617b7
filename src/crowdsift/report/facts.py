"""The facts of a report: `gather` collects them, `checks` and `figures` use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.checks.copying import Copying, copying
from crowdsift.checks.joint import joint_table
from crowdsift.checks.leftout import Calibration, Without, calibrate, fit_without
from crowdsift.checks.statistics import FitStatistics, fit_statistics
from crowdsift.errors import CrowdsiftError, RequestError
from crowdsift.fitting.estimate import Resources
from crowdsift.io.items import read_gold
from crowdsift.models import Model
from crowdsift.numeric import Indices, Mask, Vector
from crowdsift.numeric.distributions import Z90, half_width, normal_quantiles
from crowdsift.results.build import side_shares
from crowdsift.results.feature_table import WITHOUT_FEATURES
from crowdsift.results.fit import Fit
from crowdsift.results.predict import vote_probability
from crowdsift.results.query import model_of, positions
from crowdsift.results.reasons import Reason, random_level, reasons
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons, parts

# The verdicts in the order of a report, and those whose votes are doubtful.
VERDICTS = ("reliable", "weak", "distinct", "undecided", "random", "one-sided", "adversarial")
FLAGGED = ("random", "one-sided", "adversarial")
_LEAST = 4.0  # votes on a pair
MOST_ITEMS = 300  # most items with joint statements in a page
_MOST_VOTES = 2_000_000  # most votes with statistics in a page
ABSENT = "The votes are missing: this fit was loaded from a folder. Give them as votes=..., read by crowdsift.read."
IN_FILES = "The votes are larger than the memory of this fit and stay in files; this would need all of them at once."
# Seconds of one core above which a refit runs only on request.
MOST_SECONDS = 8.0
# Seconds per distinct vote and iteration, roughly; an estimate of work and not of time, so that the same votes give the
# same report.
_PLAIN, _SIDES, _TIES = 0.25e-6, 3e-6, 6e-6


@dataclass(frozen=True)
class Facts:
    """The facts of a report; a text in place of a fact is the reason why it is unknown.

    `fit` and `votes` are the fit and its votes, if these are known, and `population` its workers. `code` has the code
    in the votes of every row of the table of items; it is empty without votes. `calibration` are predictions of
    left-out votes, `without` is the ranking without flagged workers, `disputes` are divided pairs. `side_excess` is the
    share of decided votes for the left item beyond what the scores explain, its standard error, and the share itself;
    None where sides are unknown. `fingerprint` is the start of the SHA-256 of the votes as they were fitted. `evidence`
    are joint statements, statistics of fit and copied answers.
    """

    fit: Fit
    votes: Comparisons | None
    population: Population
    code: Indices
    calibration: Calibration | str
    without: Without | str
    disputes: list[Dispute] | str
    side_excess: tuple[float, float, float] | None
    fingerprint: str
    evidence: Evidence


def gather(
    fit: Fit,
    votes: Comparisons | None = None,
    *,
    refit: bool | None = None,
    threads: int | None = None,
    begin: Callable[[str], None] = lambda stage: None,
) -> Facts:
    """Return all facts; run the two refits only if they are fast, or on request."""
    # `begin` is called with the name of every stage when it begins.
    votes = fit.votes if votes is None else votes
    if votes is None or votes.on_disk:
        population, why = describe_population(fit, None), ABSENT if votes is None else IN_FILES
        nothing, known = np.empty(0, np.int64), Evidence.of(replace(fit, votes=None))
        mark = "" if votes is None else _fingerprint(votes)
        return Facts(fit, None, population, nothing, why, why, why, None, mark, known)
    code, scores = codes(fit, votes)
    population, skipped = describe_population(fit, votes), _why_no_refit(fit, votes, refit)
    begin("checking for copied answers")
    evidence = Evidence.of(fit if fit.votes is votes else replace(fit, votes=votes))
    begin("predicting left-out votes")
    model, seed = refit_model(fit), int(fit.summary.get("seed", 0))
    where = Resources.of(fit, threads)
    calibration = skipped or calibrate(votes, model, seed=seed, resources=where)
    begin("leaving out flagged workers")
    without: Without | str = skipped if population.flagged.any() else ""
    return Facts(
        fit=fit,
        votes=votes,
        population=population,
        code=code,
        calibration=calibration,
        without=without
        or fit_without(
            votes,
            model,
            population.flagged,
            scores,
            gold=read_gold(fit.gold, votes),
            mirror=has_gold(fit),
            resources=where,
        ),
        disputes=disputed_pairs(votes, population.flagged),
        side_excess=_side_excess(fit, votes),
        fingerprint=_fingerprint(votes),
        evidence=evidence,
    )


def _why_no_refit(fit: Fit, votes: Comparisons, refit: bool | None) -> str:
    if fit.features is not None and votes.item_features is None:
        if refit:
            raise RequestError(f"the report cannot fit again: {WITHOUT_FEATURES}")
        return f"Left out: {WITHOUT_FEATURES}."
    if refit is False:
        return "Left out, because it takes another fit; --refit (refit=True) makes it."
    rate = _TIES if "tie_width" in fit.worker_table else _SIDES if _has_sides(fit) else _PLAIN
    cost = rate * len(votes) * int(fit.summary["iterations"])
    if refit or cost <= MOST_SECONDS:
        return ""
    return (
        f"Left out, because it takes another fit, here about {cost:,.0f} seconds of one core; "
        "fit.report(..., refit=True) in Python does it."
    )


def refit_model(fit: Fit) -> Model:
    """Return the model of a fit, without the worker types that the fit tried and rejected."""
    # They take most of the time, and a part of the votes does not support them if all votes do not.
    model: Any = model_of(fit)
    changes: dict[str, Any] = {}
    if getattr(model, "sides", False) and not _has_sides(fit):
        changes["sides"] = False
    if getattr(model, "dimensions", None) == "auto":
        changes["dimensions"] = fit.summary.get("dimensions", 1)
    if getattr(model, "pair_effect", False) and not fit.summary.get("pair_effect"):
        changes["pair_effect"] = False
    if getattr(model, "contexts", False) and not fit.summary.get("context_spread"):
        changes["contexts"] = False
    found: Model = replace(model, **changes)
    return found


def has_gold(fit: Fit) -> bool:
    """Return whether gold pairs determined the sign."""
    return fit.summary.get("gold_pairs") is not None


def _has_sides(fit: Fit) -> bool:
    return bool(np.isfinite(fit.worker_table["side_bias"].astype(np.float64)).any())


def codes(fit: Fit, votes: Comparisons) -> tuple[Indices, Vector]:
    """Return the code in the votes of every row of the table of items, and the scores by code."""
    code = positions(fit.labels, votes.items, missing=-1)
    workers = votes.n_workers if votes.has_workers else 0
    same = len(code) == votes.n_items and code.min(initial=0) >= 0
    if not same or workers != fit.worker_table.height:
        raise RequestError(
            f"these are not the votes of this fit: {votes.n_items} items and {workers} workers here, "
            f"{fit.item_table.height} and {fit.worker_table.height} there, or other labels"
        )
    scores = np.empty(len(code))
    scores[code] = fit.item_table["score"]
    return code, scores


def _side_excess(fit: Fit, votes: Comparisons) -> tuple[float, float, float] | None:
    """Return the share of votes for the left item beyond what scores and reliabilities predict."""
    counted = votes.weight * (votes.outcome != 0.5)
    total = float(counted.sum(dtype=np.float64))
    if not votes.sides_known or not total:
        return None
    p = vote_probability(fit, votes)
    left = votes.outcome > 0.5
    excess = float((counted * (left - p)).sum()) / total
    error = float(np.sqrt((counted * p * (1.0 - p)).sum())) / total
    return excess, error, float((counted * left).sum()) / total


def _fingerprint(votes: Comparisons) -> str:
    """Return a digest that is equal for equal votes, independent of file and order."""
    result = sha256()
    for column in (*votes.columns, votes.offsets):
        for rows in parts(column):
            result.update(np.ascontiguousarray(column[rows]).data)
    return result.hexdigest()[:16]


class Evidence(NamedTuple):
    """Results of checks; None if a result is unknown or would take long.

    `joint`: statements about all items at once, in the order of the table of items; `statistics`: separation,
    agreement, triads and misfit; `copying`: workers whose answers agree too often.
    """

    joint: Table | None = None
    statistics: FitStatistics | None = None
    copying: Copying | None = None

    @classmethod
    def of(cls, fit: Fit) -> Evidence:
        """Run the checks that are cheap for a fit with its votes."""
        joint = joint_of(fit)
        if fit.votes is None or len(fit.votes) > _MOST_VOTES:
            return cls(joint)
        try:
            statistics = fit_statistics(fit)
        except CrowdsiftError:
            statistics = None
        try:
            return cls(joint, statistics, copying(fit))
        except CrowdsiftError:
            return cls(joint, statistics)


def joint_of(fit: Fit) -> Table | None:
    """Return joint statements about all items; None for many items or without intervals."""
    if fit.item_table.height > MOST_ITEMS:
        return None
    try:
        return joint_table(fit)
    except CrowdsiftError:
        return None


@dataclass(frozen=True)
class Population:
    """The workers of a fit, in the order of its table.

    `verdict`: one word each; empty if the method judges no workers; `flagged`: workers with doubtful votes; `votes`:
    the votes of each, weights counted; `influence`: each worker's share of the information about scores: votes times
    squared reliability; `left_share`, `decided`: share of the left item among decided votes, NaN where sides are
    unknown; their number; `reasons`: why each has its verdict; `level`: the reliability of a worker who clicks at
    random; `density`: points and heights of the distribution of reliabilities, or None.
    """

    verdict: NDArray[np.str_]
    flagged: Mask
    votes: Vector
    influence: Vector
    left_share: Vector
    decided: Vector
    reasons: list[list[Reason]]
    level: float
    density: tuple[Vector, Vector] | None

    @property
    def judged(self) -> bool:
        """Return whether the method gives verdicts."""
        return bool((self.verdict != "").any())

    @property
    def flagged_share(self) -> float:
        """Return the share of the votes that come from flagged workers."""
        total = float(self.votes.sum())
        return float(self.votes[self.flagged].sum()) / total if total else 0.0


def describe_population(fit: Fit, votes: Comparisons | None) -> Population:
    """Describe the workers of a fit, with its votes or without."""
    table = fit.worker_table
    count = table["comparisons"].astype(np.float64)
    level = random_level(model_of(fit))
    left, decided = side_shares(votes, table.height)
    verdict = table["verdict"].astype(str)
    information = count * np.nan_to_num(table["reliability"].astype(np.float64) - level, nan=1.0) ** 2
    return Population(
        verdict=verdict,
        flagged=np.isin(verdict, FLAGGED),
        votes=count,
        influence=information / max(float(information.sum()), 1e-300),
        left_share=left,
        decided=decided,
        reasons=reasons(table, level, fit.summary.get("sign_probability"), fit.summary.get("direction", "common")),
        level=level,
        density=reliability_density(fit),
    )


def reliability_density(fit: Fit, points: int = 121) -> tuple[Vector, Vector] | None:
    """Return the distribution of reliabilities: the mean of all workers' posteriors."""
    # In `sift` this is the learned distribution, except for its small prior part.
    table = fit.worker_table
    mean = table["reliability"].astype(np.float64)
    spread = None if fit.posterior is None else fit.posterior.quantiles
    if spread is None:
        sd = 0.5 * (table["upper"] - table["lower"]) / half_width(fit.level)
        known = np.isfinite(mean) & np.isfinite(sd)
        if not known.any():
            return None
        spread = normal_quantiles(mean[known], sd[known])
    values = np.sort(spread, axis=None)
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    low, high = np.quantile(values, [0.001, 0.999])
    # About half of Silverman's width: posteriors are already spread, and peaks should stay visible.
    quartiles = np.quantile(values, [0.25, 0.75])
    scale = min(float(values.std()), float(quartiles[1] - quartiles[0]) / 1.34 or np.inf)
    width = max(0.5 * scale * len(mean) ** -0.2, (high - low) / 200.0, 1e-6)
    at = np.linspace(low - 3.0 * width, high + 3.0 * width, points)
    # Bins much narrower than the kernel replace the values.
    count, edges = np.histogram(values, 1000, (at[0], at[-1]))
    centre = 0.5 * (edges[1:] + edges[:-1])
    kernel = np.exp(-0.5 * ((at[:, None] - centre[None, :]) / width) ** 2)
    height = kernel @ count / (count.sum() * width * np.sqrt(2.0 * np.pi))
    return at, height


class Dispute(NamedTuple):
    """Two items by code, the votes for each of them; a tie is half a vote for both."""

    first: int
    second: int
    votes_first: float
    votes_second: float


def disputed_pairs(votes: Comparisons, flagged: Mask, most: int = 12) -> list[Dispute]:
    """Return pairs with votes on both sides, the most divided first, without flagged workers."""
    # Pairs are ordered by the lower end of the 90 % interval (Wilson's) of the share of the smaller side, so that 12 :
    # 11 comes before 2 : 2 and before 20 : 4.
    keep = np.ones(len(votes), bool)
    if len(flagged):
        keep = np.repeat(~flagged, np.diff(votes.offsets))
    if not keep.any():
        return []
    pairs = votes.select(keep).pooled()
    total, share = pairs.weight.astype(np.float64), pairs.outcome.astype(np.float64)
    smaller = np.minimum(share, 1.0 - share)
    low = _wilson_lower(smaller, total)
    order = np.lexsort((pairs.second, pairs.first, -total, -low))
    order = order[(total[order] >= _LEAST) & (low[order] > 0.0)][:most]
    return [
        Dispute(
            int(pairs.first[i]),
            int(pairs.second[i]),
            round(float(total[i] * share[i]), 2),
            round(float(total[i] * (1.0 - share[i])), 2),
        )
        for i in order
    ]


def _wilson_lower(share: Vector, total: Vector) -> Vector:
    n = np.maximum(total, 1e-12)
    centre = share + Z90**2 / (2 * n)
    half = Z90 * np.sqrt(share * (1 - share) / n + Z90**2 / (4 * n**2))
    return np.where(share > 0, (centre - half) / (1 + Z90**2 / n), 0.0)
