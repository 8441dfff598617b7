"""Everything a report shows, as figures: gathered once, drawn elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.report.disputes import Dispute, disputed_pairs
from crowdsift.report.evidence import Evidence
from crowdsift.report.leftout import Calibration, Without, calibrate, fit_without
from crowdsift.report.population import Population, describe_population
from crowdsift.results.data import model_of
from crowdsift.results.feature_table import WITHOUT_FEATURES
from crowdsift.votes.comparisons import parts
from crowdsift.votes.labels import key_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.models import Model
    from crowdsift.results.record import FitRecord
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["ABSENT", "MOST_SECONDS", "Facts", "codes", "gather", "has_gold", "refit_model"]

ABSENT = (
    "The votes are not at hand: this fit was loaded from a folder. Give them as votes=..., read "
    "by crowdsift.read."
)
IN_FILES = (
    "The votes are larger than the memory of this fit and stay in files; this would need all of "
    "them at once."
)

# A refit that takes longer, in seconds of one core, is made on request only.
MOST_SECONDS = 8.0
# Seconds of one distinct vote in one iteration, roughly; by work and not by the clock, so that the
# same votes make the same report.
_PLAIN, _SIDES, _TIES = 0.25e-6, 3e-6, 6e-6


@dataclass(frozen=True)
class Facts:
    """What a report states; where something could not be found out, the reason why.

    Attributes
    ----------
    fit, votes
        What is reported on; the votes may be unknown.
    population
        The workers.
    code
        The code in the votes of every row of the table of items; empty without votes.
    calibration
        Predictions of left-out votes, or why there are none.
    without
        The ranking without flagged workers, or why there is none.
    disputes
        Divided pairs, or why there are none.
    side_excess
        Share of decided votes for the left item beyond what the scores explain, its standard
        error, and the share itself; None where sides are unknown.
    fingerprint
        The start of the SHA-256 of the votes as they were fitted.
    evidence
        Joint statements, statistics of fit, copied answers.
    """

    fit: FitRecord
    votes: Comparisons | None
    population: Population
    code: NDArray[np.int64]
    calibration: Calibration | str
    without: Without | str
    disputes: list[Dispute] | str
    side_excess: tuple[float, float, float] | None
    fingerprint: str
    evidence: Evidence

    @cached_property
    def win_matrix(self) -> NDArray[np.float64]:
        """Who is preferred to whom, for pictures of all widths."""
        return self.fit.win_matrix()


def gather(
    fit: FitRecord,
    votes: Comparisons | None = None,
    *,
    refit: bool | None = None,
    threads: int | None = None,
) -> Facts:
    """Find out everything; the two refits only where they are cheap, or on request.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report.facts import gather
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> facts = gather(crowdsift.fit(votes), votes)
    >>> 0.3 < facts.calibration.log_loss < 0.7
    True
    """
    votes = fit.votes if votes is None else votes
    if votes is None or votes.on_disk:
        population, why = describe_population(fit, None), ABSENT if votes is None else IN_FILES
        nothing, known = np.empty(0, np.int64), Evidence.of(replace(fit, votes=None))
        mark = "" if votes is None else _fingerprint(votes)
        return Facts(fit, None, population, nothing, why, why, why, None, mark, known)
    code, scores = codes(fit, votes)
    population = describe_population(fit, votes)
    cost = _refit_seconds(fit, votes)
    skipped = ""
    if fit.features is not None and votes.item_features is None:
        if refit:
            raise RequestError(f"the report cannot fit again: {WITHOUT_FEATURES}")
        skipped = f"Left out: {WITHOUT_FEATURES}."
    elif refit is False:
        skipped = "Left out on request."
    elif refit is None and cost > MOST_SECONDS:
        skipped = (
            f"Left out, because it takes another fit, here about {cost:,.0f} seconds of one core; "
            "fit.report(..., refit=True) in Python does it."
        )
    model, seed = refit_model(fit), int(fit.summary.get("seed", 0))
    return Facts(
        fit=fit,
        votes=votes,
        population=population,
        code=code,
        calibration=skipped or calibrate(votes, model, seed=seed, threads=threads),
        without=(skipped if population.flagged.any() else "")
        or fit_without(
            votes, model, population.flagged, scores, mirror=has_gold(fit), threads=threads
        ),
        disputes=disputed_pairs(votes, population.flagged),
        side_excess=_side_excess(fit, votes, scores),
        fingerprint=_fingerprint(votes),
        evidence=Evidence.of(fit if fit.votes is votes else replace(fit, votes=votes)),
    )


def refit_model(fit: FitRecord) -> Model:
    """The model of a fit without the worker types that it looked for and did not find.

    They cost many times the rest, and are not found in a part of the votes if not in all.
    """
    model: Any = model_of(fit)
    changes = {}
    if getattr(model, "sides", False) and not _has_sides(fit):
        changes["sides"] = False
    if getattr(model, "pair_effect", False) and not fit.summary.get("pair_effect"):
        changes["pair_effect"] = False
    if getattr(model, "contexts", False) and not fit.summary.get("context_spread"):
        changes["contexts"] = False
    found: Model = replace(model, **changes)
    return found


def has_gold(fit: FitRecord) -> bool:
    """Whether pairs with a known answer settled the sign; refits do not know them."""
    return fit.summary.get("gold_pairs") is not None


def _refit_seconds(fit: FitRecord, votes: Comparisons) -> float:
    """What another fit would take on one core, roughly."""
    rate = _TIES if "tie_width" in fit.worker_table else _SIDES if _has_sides(fit) else _PLAIN
    return rate * len(votes) * int(fit.summary["iterations"])


def _has_sides(fit: FitRecord) -> bool:
    return bool(np.isfinite(fit.worker_table["side_bias"].astype(np.float64)).any())


def codes(fit: FitRecord, votes: Comparisons) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The code in the votes of every row of the table of items, and the scores by code."""
    code = _codes(fit, votes)
    scores = np.empty(len(code))
    scores[code] = fit.item_table["score"]
    return code, scores


def _codes(fit: FitRecord, votes: Comparisons) -> NDArray[np.int64]:
    """The code of every row of the table of items."""
    place = {_key(label): code for code, label in enumerate(votes.items)}
    found = [place.get(_key(label), -1) for label in fit.labels]
    workers = votes.n_workers if votes.has_workers else 0
    same = len(found) == votes.n_items and min(found, default=-1) >= 0
    if not same or workers != fit.worker_table.height:
        raise RequestError(
            "these are not the votes of this fit: "
            f"{votes.n_items} items and {workers} workers here, "
            f"{fit.item_table.height} and {fit.worker_table.height} there, or other labels"
        )
    return np.array(found, np.int64)


def _key(label: Any) -> Any:
    """Equal for equal labels; those of a context are pairs."""
    return tuple(map(key_of, label)) if isinstance(label, tuple) else key_of(label)


def _side_excess(
    fit: FitRecord, votes: Comparisons, scores: NDArray[np.float64]
) -> tuple[float, float, float] | None:
    """Votes for the left item beyond those that scores and reliabilities predict, as a share."""
    counted = votes.weight * (votes.outcome != 0.5)
    total = float(counted.sum(dtype=np.float64))
    if not votes.sides_known or not total:
        return None
    reliability = fit.worker_table["reliability"].astype(np.float64)
    worker = np.repeat(np.arange(votes.n_workers), np.diff(votes.offsets))
    beta = reliability[worker] if votes.has_workers else np.full(len(votes), np.nan)
    difference = scores[votes.first.astype(np.int64)] - scores[votes.second.astype(np.int64)]
    p = model_of(fit).probability(difference, beta)
    left = votes.outcome > 0.5
    excess = float((counted * (left - p)).sum()) / total
    error = float(np.sqrt((counted * p * (1.0 - p)).sum())) / total
    return excess, error, float((counted * left).sum()) / total


def _fingerprint(votes: Comparisons) -> str:
    """Equal for equal votes, whatever file or order they came in."""
    result = sha256()
    for column in (*votes.columns, votes.offsets):
        for rows in parts(column):
            result.update(np.ascontiguousarray(column[rows]).data)
    return result.hexdigest()[:16]
