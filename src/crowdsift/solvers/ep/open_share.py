"""Classes of types where votes leave open how much features explain: averaged over their share.

Where hardly any vote closes a loop (preference rows: every item in one vote), nothing but how
workers differ tells a large share of the features and small reliabilities from a small share and
large ones. The evidence then hardly falls over a wide range of shares, and a worker near the border
of a class would be on one side of it or the other by the share that happens to be best. So the
probabilities of classes are averaged over shares, uniform before any vote.

Weights are held at their posterior means. In units in which these stay as they are, a share ρ means
that what items have of their own has the variance s = ρ̂(1 - ρ)/ρ, ρ̂ being the share of the run;
votes on items that are in no other vote are then independent given the workers, and messages to
types need a pass over votes, whose pairs have the variance 2s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.engines.base import required
from crowdsift.solvers.ep.contexts import ContextSites
from crowdsift.solvers.ep.item_features import FeaturePrior
from crowdsift.solvers.ep.type_classes import SMALLEST, class_evidence, typical_reliability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdsift.engines.base import Engine
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.state import Propagation

__all__ = ["ShareTrial", "classes_of", "share_trials"]

_LOOPS = 0.1  # of votes that close a loop: with more they tell scores of items from noise
_STEP = 0.04  # between shares
_NEGLIGIBLE = 8.0  # nats behind the best, from which on shares do not count
_LEARNING = (60, 1e-4)  # steps of learning π, and how far


class ShareTrial(NamedTuple):
    """What a share would make of the workers."""

    share: float
    evidence: float  # but for what is the same for all shares
    classes: Vector  # of every worker, logarithms of probabilities where all are as likely before


def classes_of(run: Propagation, engine: Engine, typical: float) -> Vector:
    """`class_evidence` of a run, averaged over shares of features where votes leave them open."""
    prior, facts = run.item_prior, engine.facts
    plain = class_evidence(run.sites, run.prior, typical, facts.n_workers)
    loops = facts.total_weight - (facts.n_items - len(np.unique(facts.component)))
    if (
        not isinstance(prior, FeaturePrior)
        or isinstance(run.sites, ContextSites)
        or loops > _LOOPS * facts.total_weight
    ):
        return plain
    trials = sorted(share_trials(run, prior), key=lambda trial: trial.share)
    if len(trials) < 2:
        return plain
    evidence = np.array([trial.evidence for trial in trials])
    weights = np.exp(evidence - evidence.max()) * np.gradient([trial.share for trial in trials])
    averaged = np.tensordot(weights / weights.sum(), [np.exp(each.classes) for each in trials], 1)
    return np.asarray(np.log(np.maximum(averaged, SMALLEST)))


def share_trials(run: Propagation, prior: FeaturePrior) -> Iterator[ShareTrial]:
    """The share of the run, then larger and smaller ones until they are far behind."""
    part, spread = _by_features(run, prior)
    sites = required(run.engine.grid).sites(run.prior.types, 1.0)
    sites.system(sites.pair_sums())
    chosen, n_pairs = 1.0 - prior.own, len(sites.pair_posteriors(part).variance)

    def trial(share: float) -> ShareTrial:
        own = chosen * (1.0 - share) / share
        sites.set_pair_variances(np.full(n_pairs, 2.0 * own + spread))

        def messages(masses: Vector) -> float:
            return sites.update(
                run.prior.levels, masses, part, damping=0.0, clip=True, side=run.sides.prior
            ).log_messages

        messages(run.prior.masses)
        if sites.refine():
            messages(run.prior.masses)
        learned = run.prior.learned(sites.type_counts, *_LEARNING, extrapolate=True)
        evidence, typical = messages(learned.masses), typical_reliability(learned)
        classes = class_evidence(sites, learned, typical, run.engine.facts.n_workers)
        return ShareTrial(share, evidence, classes)

    first = trial(chosen)
    yield first
    best = first.evidence
    for step in (_STEP, -_STEP):
        share = chosen + step
        while 0.0 < share < 1.0:
            found = trial(share)
            best = max(best, found.evidence)
            if found.evidence < best - _NEGLIGIBLE:
                break
            yield found
            share += step


def _by_features(run: Propagation, prior: FeaturePrior) -> tuple[Vector, float]:
    """Σ_g X_g w_g of every item, and the mean variance that weights leave to a difference."""
    found = prior.weights(run)
    ends = np.cumsum(prior.sizes)[:-1]
    means, variances = np.split(found.mean, ends), np.split(found.variances(), ends)
    part, spread = np.zeros(prior.n_items), 0.0
    for share, X, mean, variance in zip(prior.shares, prior.groups, means, variances, strict=True):
        part += np.sqrt(share) * (X @ mean.astype(X.dtype))
        spread += share * float(np.einsum("kf,kf,f->", X, X, variance)) / prior.n_items
    return part, 2.0 * spread
