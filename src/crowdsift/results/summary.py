"""The summary of a fit, and what deserves a look in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift._version import __version__
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric.distributions import half_width
from crowdsift.numeric.threads import thread_notes
from crowdsift.results.coefficients import covariate_notes, covariate_summary
from crowdsift.results.crowd_side import crowd_side
from crowdsift.results.diagnostics import (
    advice_to_repeat_pairs,
    gold_diagnostics,
    island_diagnostics,
    no_information_diagnostic,
    one_way_diagnostics,
    sign_diagnostics,
)
from crowdsift.results.feature_table import feature_notes, feature_summary
from crowdsift.results.sign import order_probability

if TYPE_CHECKING:
    from crowdsift.results.build import FitBuilder
    from crowdsift.results.tables import Table

# Methods whose scores are drawn to 0 by a prior of the size of the scores themselves.
_SHRUNK = ("sift", "bora-map")


class Separation(NamedTuple):
    """How far scores differ beyond their errors.

    `ratio` G is the true standard deviation of scores in units of their error, `reliability`
    G²/(1 + G²) the share of the variance that is true.
    """

    ratio: float
    reliability: float


def summary(
    fitted: FitBuilder, found: list[Diagnostic], needed: int | None, passes: float, seconds: float
) -> dict[str, Any]:
    """What `summary.json` holds: counts, convergence, likelihood, sign and warnings.

    Parameters
    ----------
    fitted
        The estimate.
    found, needed
        As `diagnose` returns them.
    passes, seconds
        What the fit took.
    """
    votes, estimate, gold = fitted.votes, fitted.estimate, fitted.gold
    rule, sign, stated = estimate.rule, fitted.sign, fitted.stated_sign
    return {
        "method": fitted.model.name,
        "version": __version__,
        "items": votes.n_items,
        "workers": votes.n_workers if votes.has_workers else 0,
        "comparisons": len(votes),
        "votes": votes.total_weight,
        "components": int(fitted.component.max()) + 1,
        "by": list(votes.by) if isinstance(votes.by, tuple) else votes.by or None,
        "sides_known": votes.sides_known,
        "workers_hidden": votes.reading.get("hide_workers"),
        "intake": None if votes.intake is None else votes.intake.to_json(),
        "converged": rule.converged,
        "measure": rule.measure,
        "iterations": rule.iterations,
        "passes": round(passes, 2),
        "log_likelihood": estimate.log_likelihood,
        "mean_log_likelihood": estimate.log_likelihood / votes.total_weight,
        "evidence": estimate.evidence,
        "tie_rate": fitted.tie_rates[1],
        **estimate.details,
        **crowd_side(fitted),
        **feature_summary(fitted),
        **covariate_summary(fitted),
        "seconds": round(seconds, 6),
        "sign_margin": None if sign is None else sign.margin,
        "sign_probability": None if stated is None else stated.probability,
        "sign_unsettled": any(each.kind is Kind.SIGN for each in found),
        "gold_needed": needed,
        "gold_pairs": None if fitted.known is None else len(fitted.known),
        "gold_agree": None if gold is None else gold.agree,
        "gold_disagree": None if gold is None else gold.disagree,
        "level": fitted.level,
        "scale": "standard",
        "seed": fitted.seed,
        "engine": fitted.engine[0],
        "engine_reason": fitted.engine[1],
        "warnings": [each.message for each in found],
    }


def diagnose(fitted: FitBuilder) -> tuple[list[Diagnostic], int | None]:
    """What deserves a look, the worst first, and how many gold pairs would settle the sign."""
    votes, estimate, model = fitted.votes, fitted.estimate, fitted.model
    contexts = int(votes.item_contexts.max(initial=0)) + 1
    found = [Diagnostic(Kind.RESOURCES, note) for note in thread_notes(fitted.threads)]
    if fitted.engine[1].startswith("engine 'torch' cannot run"):
        found.append(Diagnostic(Kind.RESOURCES, fitted.engine[1]))
    if votes.item_features is not None:
        found += [Diagnostic(Kind.FEATURES, note) for note in feature_notes(fitted)]
    found += [Diagnostic(Kind.FEATURES, note) for note in covariate_notes(fitted)]
    alone = fitted.compared_once and estimate.features is None
    if alone and estimate.workers.reliability is not None:
        return [*found, no_information_diagnostic(votes.n_workers), *_unconverged(fitted)], None
    found += [
        *(_with_advice(each, votes.n_workers) for each in estimate.diagnostics),
        *island_diagnostics(int(fitted.component.max()) + 1, contexts),
        *one_way_diagnostics(votes.items, fitted.counted.flags),
    ]
    needed, sign = None, fitted.stated_sign
    if fitted.gold is not None:
        found.extend(gold_diagnostics(model, fitted.gold))
    elif sign is not None and votes.n_workers > 1:
        unsettled, needed = sign_diagnostics(sign, _order_right(fitted))
        found = unsettled + found
    return [*found, *_unconverged(fitted)], needed


def _unconverged(fitted: FitBuilder) -> list[Diagnostic]:
    """That the method stopped before its tolerance."""
    rule = fitted.estimate.rule
    if rule.converged:
        return []
    message = (
        f"{fitted.model.name} did not converge in {rule.iterations} iterations: {rule.measure} "
        f"{rule.history[-1]:.3g}, tolerance {rule.tolerance:.3g}"
    )
    return [Diagnostic(Kind.CONVERGENCE, message)]


def _with_advice(found: Diagnostic, workers: int) -> Diagnostic:
    """That votes hold no information, with what would change that."""
    if found.kind is not Kind.INFORMATION:
        return found
    return Diagnostic(found.kind, f"{found.message}. {advice_to_repeat_pairs(workers)}")


def _order_right(fitted: FitBuilder) -> float:
    """Probability that a pair is in the right order up to the sign.

    From the posterior of the scores; without one, the share of votes that agree with them.
    """
    estimate = fitted.estimate
    if fitted.score_sd is not None:
        return order_probability(
            estimate.scores, estimate.difference_variance, fitted.component, fitted.seed
        )
    agreed = np.nan_to_num(fitted.counted.agreement, nan=0.5)
    share = float(np.average(agreed, weights=fitted.votes.loads))
    return max(share, 1.0 - share)


def separation_of(table: Table, method: str, level: float) -> Separation | None:
    """As `separation`, of a table of items with intervals of this level."""
    sd = (table["upper"] - table["lower"]).astype(np.float64) / (2.0 * half_width(level))
    known = np.isfinite(sd)
    component = table["component"][known].astype(np.int64)
    groups = len(np.unique(component))
    score = table["score"][known].astype(np.float64)
    if len(score) <= groups:
        return None
    mean = np.bincount(component, score) / np.maximum(np.bincount(component), 1)
    spread = float(((score - mean[component]) ** 2).sum() / (len(score) - groups))
    error = float(np.mean(sd[known] ** 2))
    if not error > 0.0:
        return None
    if method in _SHRUNK:
        reliability = spread / (spread + error)
    else:
        reliability = max(1.0 - error / spread, 0.0) if spread > 0.0 else 0.0
    return Separation(float(np.sqrt(reliability / (1.0 - reliability))), reliability)
