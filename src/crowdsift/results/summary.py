"""The summary of a fit, with its warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import asin, ceil, log, pi
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift._version import __version__
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Labels
from crowdsift.numeric.distributions import half_width, limits
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.threads import thread_notes
from crowdsift.results.feature_table import covariate_notes, covariate_summary, feature_notes, feature_summary
from crowdsift.results.sign import MAX_CHECKED_VOTES, THIN, Agreement, gold_needed, order_probability
from crowdsift.results.words import count, many

if TYPE_CHECKING:
    from crowdsift.models import Model
    from crowdsift.models.base import SignSupport
    from crowdsift.results.build import FitBuilder
    from crowdsift.results.tables import Table

_SHARED_ERROR = 0.2  # share of pairs in the wrong order that counts as an error shared by most workers
# Methods whose prior shrinks scores to 0 by as much as the scores themselves.
SHRUNK = ("sift", "bora-map")


_AS_PAIRS = (
    "{} takes rankings as weighted pairs, which are not independent, so that intervals and "
    "reliabilities are approximate; sift and bt use the rankings themselves"
)


class Separation(NamedTuple):
    """How far the differences of scores exceed their errors.

    `ratio` G is the true standard deviation of scores in units of their error, `reliability` G²/(1 + G²) the share of
    the variance that is true.
    """

    ratio: float
    reliability: float


def summary(
    fitted: FitBuilder, found: list[Diagnostic], needed: int | None, passes: float, seconds: float
) -> dict[str, Any]:
    """Return the content of `summary.json`: counts, convergence, likelihood, sign and warnings."""
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
        **({} if votes.item_features is None else feature_summary(fitted)),
        **({} if estimate.covariates is None else covariate_summary(fitted)),
        **_dimensions(fitted),
        **_panels(fitted),
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
    """Return the diagnostics, worst first, and the number of gold pairs that determine the sign."""
    votes, estimate, model = fitted.votes, fitted.estimate, fitted.model
    contexts = int(votes.item_contexts.max(initial=0)) + 1
    found = [Diagnostic(Kind.RESOURCES, note) for note in thread_notes(fitted.threads)]
    if fitted.engine[1].startswith("engine 'torch' cannot run"):
        found.append(Diagnostic(Kind.RESOURCES, fitted.engine[1]))
    several = estimate.dimensions is not None
    for what, given in (("features of items", votes.item_features), ("covariates", votes.features)):
        if several and given is not None:
            note = f"{what} name the dimensions; scores do not depend on them"
            found.append(Diagnostic(Kind.FEATURES, note))
    if votes.item_features is not None:
        found += [Diagnostic(Kind.FEATURES, note) for note in feature_notes(fitted)]
    if estimate.covariates is not None:
        found += [Diagnostic(Kind.FEATURES, note) for note in covariate_notes(estimate.covariates)]
    if votes.choices is not None and model.rankings == "pairs":
        found.append(Diagnostic(Kind.METHOD, _AS_PAIRS.format(model.name)))
    alone = fitted.compared_once and estimate.features is None
    if alone and estimate.workers.reliability is not None:
        nothing = (
            "no item is in two votes: every score only repeats its vote, and nothing can be learned "
            f"about the workers. {advice_to_repeat_pairs(votes.n_workers)}"
        )
        return [*found, Diagnostic(Kind.INFORMATION, nothing), *_unconverged(fitted)], None
    found += [
        *(_with_advice(each, votes.n_workers) for each in estimate.diagnostics),
        *island_diagnostics(int(fitted.component.max()) + 1, contexts),
        *one_way_diagnostics(votes.items, fitted.counted.flags),
    ]
    dimensions, nowhere = estimate.dimensions, []
    if dimensions is not None and dimensions.direction == "common" and not dimensions.has_common:
        from crowdsift.results.dimensions import NO_COMMON

        nowhere = [Diagnostic(Kind.DIRECTION, NO_COMMON)]  # there is no sign to determine
    needed, sign = None, fitted.stated_sign
    if fitted.known is not None and fitted.gold is None and len(votes) > MAX_CHECKED_VOTES:
        message = (
            "how many gold pairs agree with scores found without them is not checked for more than "
            f"{MAX_CHECKED_VOTES:,} votes, since this takes up to five more fits"
        )
        found.append(Diagnostic(Kind.RESOURCES, message))
    if fitted.gold is not None:
        found.extend(gold_diagnostics(model, fitted.gold))
    elif sign is not None and votes.n_workers > 1 and not nowhere:
        unsettled, needed = sign_diagnostics(sign, _order_right(fitted))
        found = unsettled + found
    return [*nowhere, *found, *_unconverged(fitted)], needed


def _unconverged(fitted: FitBuilder) -> list[Diagnostic]:
    rule = fitted.estimate.rule
    if rule.converged:
        return []
    message = (
        f"{fitted.model.name} did not converge in {rule.iterations} iterations: {rule.measure} "
        f"{rule.history[-1]:.3g}, tolerance {rule.tolerance:.3g}"
    )
    return [Diagnostic(Kind.CONVERGENCE, message)]


def _with_advice(found: Diagnostic, workers: int) -> Diagnostic:
    """Return the diagnostics, with advice added to the one that votes contain no information."""
    if found.kind is not Kind.INFORMATION:
        return found
    return Diagnostic(found.kind, f"{found.message}. {advice_to_repeat_pairs(workers)}")


def _order_right(fitted: FitBuilder) -> float:
    """Return the probability, or the share of votes, that pairs are ordered rightly up to the sign."""
    estimate = fitted.estimate
    if fitted.score_sd is not None:
        return order_probability(estimate.scores, estimate.difference_variance, fitted.component, fitted.seed)
    agreed = np.nan_to_num(fitted.counted.agreement, nan=0.5)
    share = float(np.average(agreed, weights=fitted.votes.loads))
    return max(share, 1.0 - share)


def _panels(fitted: FitBuilder) -> dict[str, Any]:
    if fitted.votes.panels is None:
        return {}
    from crowdsift.results.panels import panel_summary

    return panel_summary(fitted)


def _dimensions(fitted: FitBuilder) -> dict[str, Any]:
    if fitted.estimate.dimensions is None:
        return {"dimensions": 1}
    from crowdsift.results.dimensions import dimension_summary

    return dimension_summary(fitted)


def gold_to_check(reliability: float) -> int:
    """Return how many gold pairs would reveal an error that workers share."""
    # If a share ρ² of the variance of scores is true (`separation_reliability`), a share q = ½ + asin(ρ)/π of the pairs
    # is in the right order. If workers share an error that makes it q - 0.2, every gold pair is evidence against q of
    # the Kullback-Leibler divergence of the two shares, on average; 3 nats are enough.
    q = min(max(0.5 + asin(min(reliability, 1.0) ** 0.5) / pi, 0.5 + _SHARED_ERROR / 2), 0.99)
    p = q - _SHARED_ERROR
    return ceil(MIN_LOG_BAYES_FACTOR / (p * log(p / q) + (1.0 - p) * log((1.0 - p) / (1.0 - q))))


def gold_sentence(s: Mapping[str, Any]) -> str:
    """Return a sentence on errors that workers share; empty if nothing is known."""
    if s.get("gold_to_check"):
        return (
            f"Errors that most workers share cannot be seen from votes alone: about {s['gold_to_check']} gold pairs "
            f"drawn at random would reveal one that puts {100 * _SHARED_ERROR:.0f} % of the pairs into the wrong order."
        )
    total = (s.get("gold_agree") or 0) + (s.get("gold_disagree") or 0)
    if s.get("method") != "sift" or not total:
        return ""
    return (
        f"Probabilities are about the order that the gold pairs follow: of {many(total, 'pair')} left out of the fit "
        f"{count(s['gold_agree'])} came out in the right order."
    )


def separation_of(table: Table, method: str, level: float) -> Separation | None:
    """Return separation index and reliability of a table of items; None without intervals."""
    # Estimates that are not shrunk vary by the truth and by their errors: the true variance is var(m) - mean(v).
    # Posterior means vary less than the truth, whose variance is var(m) + mean(v): subtracting the errors would shrink
    # twice. Scores are relative to the means of their components.
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
    if method in SHRUNK:
        reliability = spread / (spread + error)
    else:
        reliability = max(1.0 - error / spread, 0.0) if spread > 0.0 else 0.0
    return Separation(float(np.sqrt(reliability / (1.0 - reliability))), reliability)


_NAMED = 5
_MAX_ONE_WAY = 100  # above this no item that only won or only lost is named
_TYPICAL = 1.25  # reliability of a worker before any vote


def island_diagnostics(n_components: int, n_contexts: int = 1) -> list[Diagnostic]:
    """Report items that form more components than there are contexts."""
    if n_components <= n_contexts:
        return []
    message = (
        f"the items fall into {n_components} components without a comparison between them; "
        "scores and ranks are comparable only within one (column component)"
    )
    return [Diagnostic(Kind.ISLANDS, message)]


def advice_to_repeat_pairs(workers: int) -> str:
    """Return how many pairs, judged again by another worker, would give information about workers."""
    # Two typical workers agree on a pair with probability q = E[p² + (1 - p)²], p = σ(βd) and d ~ N(0, 2); two who
    # click at random agree on every second pair. On average a pair distinguishes the two cases by the Kullback-Leibler
    # divergence of q from one half; 3 nats are enough. A pair judged by two workers is evidence about both.
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    p = sigmoid(_TYPICAL * np.sqrt(2.0) * nodes)
    q = float((p**2 + (1.0 - p) ** 2) @ weights / weights.sum())
    nats = q * log(2.0 * q) + (1.0 - q) * log(2.0 * (1.0 - q))
    pairs = ceil(3.0 / nats)
    return (
        f"About {pairs:,} pairs judged again by another worker would show whether workers agree at all, about "
        f"{ceil(pairs * workers / 2):,} ({pairs} for every worker) who is reliable (crowdsift next --reask)"
    )


def one_way_diagnostics(labels: Labels, flags: Labels) -> list[Diagnostic]:
    """Return warnings about items that only won or only lost."""
    diagnostics = []
    if (n := int((flags != "").sum())) > _MAX_ONE_WAY:  # as replies are, with few votes each
        message = (
            f"{n:,} of {len(labels):,} items won, or lost, all of their votes (column flag): the votes limit their "
            "scores on one side only, the prior on the other"
        )
        return [Diagnostic(Kind.ONE_WAY, message)]
    for flag, side in (("only won", "upper"), ("only lost", "lower")):
        found = labels[flags == flag]
        if len(found):
            many = len(found) > 1
            message = (
                f"{len(found):,} item{'s' if many else ''} {flag}: {_listed(found)}; the votes set no {side} limit to "
                f"{'their scores' if many else 'its score'}, only the prior does"
            )
            diagnostics.append(Diagnostic(Kind.ONE_WAY, message))
    return diagnostics


def sign_diagnostics(sign: SignSupport, order_right: float) -> tuple[list[Diagnostic], int | None]:
    """Return a warning if the workers do not determine the sign, and how many gold pairs would."""
    if sign.log_odds >= THIN:
        return [], None
    needed = gold_needed(order_right)
    cure = (
        "the order itself is too uncertain for gold pairs to settle it: more votes first"
        if needed is None
        else f"{needed} gold pair{'s' if needed > 1 else ''} of known order (--gold, gold=) would settle it"
    )
    message = (
        f"which end of the scores is up is not settled: of the informative workers {sign.positive:.1f} support this "
        f"sign and {sign.negative:.1f} the opposite, so it is right with probability {_share(sign.probability)}; {cure}"
    )
    return [Diagnostic(Kind.SIGN, message)], needed


def gold_diagnostics(model: Model, found: Agreement) -> list[Diagnostic]:
    """Return a warning if gold contradicts the scores; `found` is from scores without each pair."""
    total = found.agree + found.disagree
    if total == 0:
        message = "no gold pair lies within one component, so gold cannot settle the sign"
        if model.takes_gold:
            message = "no gold pair lies within one component of the votes, so none can be checked"
        return [Diagnostic(Kind.GOLD, message)]
    if found.opposed and not model.free_sign:
        message = (
            f"{found.disagree} of {total} gold pairs contradict the scores, and {model.name} "
            "cannot turn them: it takes every worker as honest; use sift"
        )
        return [Diagnostic(Kind.GOLD, message)]
    if 3 * found.disagree > total:
        contradict = f"{found.disagree} of {total} gold pairs contradict the scores"
        without = " that were found without them" if model.free_sign else ""
        return [Diagnostic(Kind.GOLD, contradict + without)]
    return []


def _share(p: float) -> str:
    return "less than 1 %" if p < 0.01 else f"{100 * p:.0f} %"


def _listed(labels: Sequence[Any] | Labels) -> str:
    shown = [_text(label) for label in labels[:_NAMED]]
    if len(labels) > _NAMED:
        return f"{', '.join(shown)} and {len(labels) - _NAMED:,} more (column flag)"
    return ", ".join(shown)


def _text(label: Any) -> str:
    text = " ".join(_parts(label))
    text = " ".join(text.split())
    return text if len(text) <= 48 else text[:47] + "…"


def _parts(label: Any) -> list[str]:
    return [str(label)] if not isinstance(label, tuple) else [text for part in label for text in _parts(part)]


_MOST_VOTES = 2_000_000  # above this, a part of the votes is used
_STEPS = 20


def crowd_side(fitted: FitBuilder) -> dict[str, float | None]:
    """Return γ, the bias of all workers to the left in logits, with its 90 % interval."""
    # It comes from the method if it has one, otherwise it is the maximum of the likelihood of the decided votes,
    # P(left) = σ(βd + γ), with scores and reliabilities as estimated, under a prior N(0, 1). All None where sides are
    # not known.
    names = ("crowd_side", "crowd_side_lower", "crowd_side_upper")
    found = _found(fitted)
    if found is None:
        return dict.fromkeys(names)
    mean, sd = found
    lower, upper = limits(np.array([mean]), np.array([sd]), fitted.level)
    return dict(zip(names, (mean, float(lower[0]), float(upper[0])), strict=True))


def _found(fitted: FitBuilder) -> tuple[float, float] | None:
    """Return mean and standard deviation of the crowd's side bias γ."""
    votes, result = fitted.votes, fitted.estimate.workers
    if fitted.estimate.crowd_side is not None:
        return fitted.estimate.crowd_side
    if not votes.sides_known:
        return None
    step = -(-len(votes) // _MOST_VOTES)
    outcome = votes.outcome[::step].astype(np.float64)
    decided = outcome != 0.5
    first, second = (codes[::step][decided] for codes in (votes.first, votes.second))
    weight, outcome = votes.weight[::step][decided].astype(np.float64), outcome[decided]
    beta = np.ones(votes.n_workers)
    if result.reliability is not None:
        beta = result.reliability - result.random_level
    scores, worker = fitted.estimate.scores, votes.worker_codes()[::step][decided]
    advantage = beta[worker] * (scores[first] - scores[second])
    side = 0.0
    for _ in range(_STEPS):
        p = sigmoid(advantage + side)
        curvature = float(weight @ (p * (1.0 - p))) + 1.0
        move = (float(weight @ (outcome - p)) - side) / curvature
        side += float(np.clip(move, -1.0, 1.0))
        if abs(move) < 1e-9:
            break
    return side, curvature**-0.5
