"""Features: a prior of scores that depends on known features of items.

r = Σ_b X_b w_b + u over blocks b of features. With the rows of X_b of mean square norm 1, centred, w_b ~ N(0, ρ_b I)
and u ~ N(0, s I), s = 1 - Σρ_b, scores have the prior covariance C = sI + ZZᵀ, Z = (√ρ_b X_b), of mean diagonal 1: the
scale is held as without features. Items then have the precision L + C⁻¹ instead of L + I. Since columns of Z add up to
0, (L + C⁻¹)1 = 1/s·1, and the level of the scores stays independent of everything else, with the variance s/K.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.base import Engine, required
from crowdsift.engines.fused import pair_distances, solve_rows
from crowdsift.engines.grid import MAX_DENSE_ITEMS, PairVariances, SitePass, SiteSystem
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Vector
from crowdsift.numeric.conjugate_gradient import conjugate_gradient
from crowdsift.numeric.dense import inverse_of_root, inverse_root
from crowdsift.numeric.threads import dense_algebra
from crowdsift.solvers.ep.items import ItemPrior, ItemsState, loopy_bp
from crowdsift.solvers.ep.state import Propagation, Settings
from crowdsift.solvers.ep.summaries import SMALLEST, class_evidence, typical_reliability
from crowdsift.solvers.ep.terms.base import Term, alike, far_behind
from crowdsift.solvers.ep.terms.contexts import ContextSites

Matrix = NDArray[np.floating]

_TRIAL = 8  # iterations of a start before it may be dropped
_CLEAR = 0.5  # mean square of scores, 1 before any vote, above which votes determine them
_EQUAL = 1.0  # nats by which two runs with the same scores may differ
_LEAST_OWN = 0.02  # smallest s, the variance that no feature explains
_REST = 2e-3  # steps of log shares below this count as converged
_RELEASE = 3.0  # converged shares move again if a step exceeds this multiple of the tolerance
_STRIDE = 10.0  # most fixed-point steps taken at once while they continue in one direction
_LEAST_SHARE = 1e-6  # smallest ρ: such a block has practically no effect
_STALE = 5e-3  # change of sites and shares that causes S and T to be computed again
# Features times pairs above which S and T count as expensive, and the change that is then allowed.
_EXPENSIVE, _EXPENSIVE_STALE = 2e7, 0.05
_COARSE = 1e-3  # tolerance of the solves for T, which affects only variances and preconditioning
# If hardly any vote closes a loop (preference rows: every item is in one vote), the votes hardly separate two
# explanations: features with a large share and unreliable workers, or features with a small share and reliable workers.
# Only differences between workers do. The evidence then changes little over a wide range of shares, and the class of a
# borderline worker would depend on which share happens to be best. So the probabilities of classes are averaged over
# shares, which are uniform a priori. Weights are held at their posterior means. In units in which these are fixed, a
# share ρ gives the part of scores that no feature explains the variance s = ρ̂(1 - ρ)/ρ, where ρ̂ is the share of the
# run. Votes on items that are in no other vote are then independent given the workers; messages to types need a pass
# over votes, whose pairs have the variance 2s.
_LOOPS = 0.1  # share of votes that close a loop; with more, votes separate scores of items from noise
_SHARE_STEP = 0.04  # distance between shares
_NEGLIGIBLE = 8.0  # nats below the best at which shares no longer count
_SHARE_LEARNING = (60, 1e-4)  # steps of learning π, and their tolerance


class Features(Term):
    """Replace the prior N(0, I) of scores by r = Σ_b X_b w_b + u over blocks b of features."""

    name = "features"
    subject = "features of items"
    option = "--item-features, --item-text"
    adds = "r = Xw + u: what is known of an item predicts its score"
    variance = "the share of each block of features, by MacKay's fixed point"

    def given(self, settings: Settings) -> bool:
        return bool(settings.item_features)

    def applies(self, run: Propagation) -> bool:
        return self.given(run.settings)

    def attempt(self, run: Propagation) -> Propagation:
        """Return the best run with features if it has clearly more evidence, otherwise the run."""
        # Trials start from the run and, for every family of types, from zero scores: without features, votes that share
        # no items determine nothing, and their scores are no useful start. After a few iterations only those continue
        # that may still win.
        if not self.applies(run):
            return run
        trials = list(_starts(run))
        for trial in trials:
            for _ in range(_TRIAL):
                if not trial.done:
                    trial.iterate()
        best, completed = run, list[Propagation]()
        for trial in _without_losers(trials):
            if _comes_to_one_of(completed, trial):
                continue
            trial.complete()
            completed.append(trial)
            if _better(trial, best):
                best = trial
        best.feature_gain = best.evidence[-1] - run.evidence[-1]
        return best


def _starts(base: Propagation) -> Iterator[Propagation]:
    """Yield the trial runs: only the one from the base run if others are expensive and votes suffice."""
    settings, blocks = base.settings, base.settings.item_features
    few = len(blocks[0]) <= MAX_DENSE_ITEMS
    made = DensePrior(blocks) if few else LowRankPrior(blocks)
    clear = base.settled and float(np.mean(base.means**2)) >= _CLEAR
    expensive = isinstance(made, LowRankPrior) and made.is_expensive(int(base.sites.n_pairs))
    for types in () if clear and expensive else settings.families:
        run = Propagation.begin(
            "flat", base.engine, settings.levels, settings, types, base.rule.progress, base.factorisation
        )
        if run is not None:
            run.item_prior = made.fresh()
            yield run
    if base.settled:
        run = base.branch()
        run.item_prior = made.fresh()
        run.restart()
        yield run


def _better(run: Propagation, best: Propagation) -> bool:
    """Return whether a run has more evidence; one with more parameters must have clearly more."""
    wider = run.prior.types.sides and not best.prior.types.sides
    margin = MIN_LOG_BAYES_FACTOR if wider or best.item_prior is None else 0.0
    return run.evidence[-1] > best.evidence[-1] + margin


def _without_losers(runs: list[Propagation]) -> list[Propagation]:
    """Return the runs that may still win; of runs with equal scores, the one with more evidence."""
    kept: list[Propagation] = []
    for run in sorted(runs, key=lambda run: -run.evidence[-1]):
        if not any(
            far_behind(run, other) or (other.prior.types is run.prior.types and alike(run, other)) for other in kept
        ):
            kept.append(run)
    return kept


def _comes_to_one_of(others: list[Propagation], run: Propagation) -> bool:
    """Iterate a run to its end; return True as soon as it has the scores of another run."""
    while others and not run.done:
        run.iterate()
        if run.settled and any(
            alike(run, other)
            and other.prior.types is run.prior.types
            and abs(other.evidence[-1] - run.evidence[-1]) < _EQUAL
            for other in others
        ):
            return True
    return False


class WeightPosterior(NamedTuple):
    """Posterior of the weights of Z: the mean, and the root R of the covariance, which is I - RᵀR or (RᵀR)⁻¹."""

    mean: Vector
    root: Vector
    inverse: bool  # whether RᵀR is the precision

    def variances(self) -> Vector:
        """Return the variance of every weight."""
        if self.inverse:
            return np.asarray((np.linalg.inv(self.root) ** 2).sum(axis=1))
        return np.asarray(np.maximum(1.0 - (self.root**2).sum(axis=0), 0.0))

    def variance(self, rows: Matrix) -> Vector:
        """Return the variance of w·row for every row."""
        if self.inverse:
            return np.asarray((np.linalg.solve(self.root.T, rows.T) ** 2).sum(axis=0))
        inside = (rows**2).sum(axis=1) - ((rows @ self.root.T) ** 2).sum(axis=1)
        return np.asarray(np.maximum(inside, 0.0))


class FeaturePrior(ItemPrior):
    """The prior of a run: `blocks` X_b by item, centred, and the learned `shares` ρ_b."""

    def __init__(self, blocks: Sequence[Matrix], shares: Vector | None = None) -> None:
        self.blocks = tuple(blocks)
        self.shares = np.full(len(blocks), 0.5 / len(blocks)) if shares is None else shares
        self.n_items = len(blocks[0])
        self._step, self._stride = np.zeros(len(blocks) + 1), np.ones(len(blocks) + 1)
        self._longest = np.full(len(blocks) + 1, _STRIDE)

    @property
    def own(self) -> float:
        """Return the variance s that no feature explains."""
        return float(1.0 - self.shares.sum())

    @property
    def sizes(self) -> list[int]:
        """The number of features of every block."""
        return [block.shape[1] for block in self.blocks]

    def design(self) -> Matrix:
        """Return Z, the features times the roots of their shares."""
        parts = [np.sqrt(share) * each for share, each in zip(self.shares, self.blocks, strict=True)]
        return np.concatenate(parts, axis=1)

    def fresh(self) -> Self:
        """Return a prior with the same blocks, before its shares are learned."""
        return type(self)(self.blocks)

    def weights(self, run: ItemsState) -> WeightPosterior:
        """Return the posterior of w."""
        raise NotImplementedError

    def learn(self, run: ItemsState) -> None:
        """Move the shares a step towards more evidence, by a fixed-point step (MacKay 1992)."""
        # At convergence of EP the derivative of the evidence in a variance equals that at fixed sites. It is 0 if the
        # variance is the squared norm of its effects divided by the number of effects that votes determine: ρ_b =
        # |w_b|²/γ_b with γ_b = F_b - tr Cov(w_b)/ρ_b, and likewise for s. All are divided by their sum, since the scale
        # is held elsewhere.
        squares, determined = self._squares(run)
        variances = np.append(self.shares, self.own)
        ratio = np.divide(squares, determined, out=np.ones_like(squares), where=determined > 1e-9)
        step = np.log(np.clip(ratio, 0.25, 4.0))
        if self.own <= _LEAST_OWN * (1.0 + 1e-9) and step[-1] < 0.0:
            # s is at its minimum and the others share the rest: only the differences between their steps count.
            step[-1] = 0.0
            step[:-1] -= float(self.shares @ step[:-1]) / float(self.shares.sum())
        # Once converged, all shares stay until one has far to go; otherwise each would react to the others' last steps.
        step[np.abs(step) < (_RELEASE if self.at_rest else 1.0) * _REST] = 0.0
        self.at_rest = not step.any()
        turns = step * self._step < 0.0  # sites lag behind: a step that reverses was too long
        self._longest = np.where(turns, np.maximum(0.6 * self._stride, 0.3), self._longest)
        self._stride = np.where(turns, 0.6 * self._stride, 1.3 * self._stride)
        self._stride = np.clip(self._stride, 0.3, self._longest)
        self._step = step
        found = variances * np.exp(np.clip(self._stride * step, -1.4, 1.4))
        found = np.maximum(found / found.sum(), _LEAST_SHARE)
        own = max(found[-1] / found.sum(), _LEAST_OWN)
        self.shares = (1.0 - own) * found[:-1] / found[:-1].sum()

    def _squares(self, run: ItemsState) -> tuple[Vector, Vector]:
        """Return what learning the shares needs: αᵀX_bX_bᵀα and tr QX_bX_bᵀ of every block, then αᵀα and tr Q."""
        # With α = C⁻¹m and Q = C⁻¹ - C⁻¹ΣC⁻¹ they are |w_b|²/ρ_b² and γ_b/ρ_b.
        raise NotImplementedError


class DensePrior(FeaturePrior):
    """The prior for few items: C, its inverse and Σ are dense matrices."""

    def __init__(self, blocks: Sequence[Matrix], shares: Vector | None = None) -> None:
        super().__init__([np.asarray(block, np.float64) for block in blocks], shares)
        self._grams = [block @ block.T for block in self.blocks]
        self._at: Vector | None = None
        self._system: SiteSystem | None = None
        self._inverse = self._sigma = np.empty((0, 0))
        self._log_prior = self._log_determinant = 0.0
        self._definite = True

    def _prepare(self) -> None:
        if self._at is None or not np.array_equal(self._at, self.shares):
            C = self.own * np.eye(self.n_items)
            for share, gram in zip(self.shares, self._grams, strict=True):
                C += share * gram
            root, self._log_prior = inverse_root(C)
            self._inverse, self._at, self._system = inverse_of_root(root), self.shares.copy(), None

    def _factorise(self, system: SiteSystem) -> None:
        self._prepare()
        if self._system is system:
            return
        low, high, weight = system.laplacian.pairs()
        precision = self._inverse.copy()
        np.subtract.at(precision, (low, high), weight)
        np.subtract.at(precision, (high, low), weight)
        precision[np.diag_indices(self.n_items)] += system.laplacian.diagonal()
        self._system = system
        try:
            root, self._log_determinant = inverse_root(precision)
            self._sigma, self._definite = inverse_of_root(root), True
        except np.linalg.LinAlgError:
            self._definite = False

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        self._factorise(system)
        return np.asarray(self._sigma @ system.rhs) if self._definite else start

    def pair_variances(self, run: ItemsState) -> PairVariances:
        self._factorise(run.system)
        if not self._definite:
            return PairVariances(np.ones(self.n_items), 0.0, False)
        low, high, _ = run.system.laplacian.pairs()
        items = np.diag(self._sigma).copy()
        pairs = items[low] + items[high] - 2.0 * self._sigma[low, high]
        run.pair_sites.set_pair_variances(pairs)
        return PairVariances(items, self.log_determinant, bool((pairs > 0.0).all()))

    @property
    def covariance(self) -> Vector:
        """Return Σ, the posterior covariance of the scores."""
        return self._sigma

    @property
    def precision(self) -> Vector:
        """Return the prior precision C⁻¹ for the current shares."""
        self._prepare()
        return self._inverse

    @property
    def log_determinant(self) -> float:
        """Return log|L + C⁻¹| + log|C| of the last system."""
        return self._log_determinant + self._log_prior

    def _unexplained(self) -> Vector:
        return np.asarray(self._inverse - self._inverse @ self._sigma @ self._inverse)

    def _squares(self, run: ItemsState) -> tuple[Vector, Vector]:
        alpha, Q = self._inverse @ run.means, self._unexplained()
        squares = [*(float(alpha @ each @ alpha) for each in self._grams), float(alpha @ alpha)]
        determined = [*(float((Q * each).sum()) for each in self._grams), float(np.trace(Q))]
        return np.array(squares), np.array(determined)

    def weights(self, run: ItemsState) -> WeightPosterior:
        """Return cov(w) = I - ZᵀQZ; see the base."""
        self._factorise(run.system)
        Z, Q = self.design(), self._unexplained()
        values, vectors = np.linalg.eigh(0.5 * (Q + Q.T))
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ Z)
        return WeightPosterior(Z.T @ (self._inverse @ run.means), root, False)


class LowRankPrior(FeaturePrior):
    """The prior for many items: no matrix over items is formed.

    With T = (I + sL)⁻¹Z and S = I + ZᵀLT, the weights w ~ N(0, I) of Z have the posterior precision S; scores have the
    mean (I + sL)⁻¹(sb + Zw), w being that of Sw = Tᵀb, and the covariance s(I + sL)⁻¹ + TS⁻¹Tᵀ; and |L + C⁻¹||C| = |I +
    sL||S|. The first part of the covariance is what there is without features, in other units. T takes a solve per
    feature, so it is computed again only if sites have moved. Means are exact with an older T, which then only
    preconditions.
    """

    def __init__(self, blocks: Sequence[Matrix], shares: Vector | None = None) -> None:
        parts = [np.asarray(block, np.float32).T for block in blocks]
        rows = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
        ends = np.cumsum([len(part) for part in parts])[:-1]
        super().__init__([each.T for each in np.split(rows, ends)], shares)
        total = len(rows)
        self._rows = rows  # one row per feature; blocks are views of it
        self._smoothed = np.zeros((0, 0), np.float32)  # Tᵀ
        # T S⁻¹Tᵀ: its diagonal, and its contribution to the variance of every pair.
        self._added: tuple[Vector, Vector] = np.zeros(0), np.zeros(0)
        self._root, self._log_s = np.eye(total), 0.0  # R with RᵀR = S⁻¹
        self._w = np.zeros(total)
        self._made: tuple[Vector, Vector] | None = None  # shares and degrees with which T was computed
        self._fresh = False

    def fresh(self) -> Self:
        """Return a prior with the same blocks, which are not copied; see the base class."""
        other = copy(self)
        FeaturePrior.__init__(other, self.blocks)
        return other

    def is_expensive(self, n_pairs: int) -> bool:
        """Return whether the matrix T takes too long to compute."""
        return len(self._w) * n_pairs > _EXPENSIVE

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        """Return the means by conjugate gradients over w; each step solves a system with I + sL."""
        self._refresh(system)
        s, inner = self.own, 0.1 * tolerance
        rhs = self._transposed(self._smooth(system, system.rhs, start, inner))

        def multiply(w: Vector) -> Vector:
            image = self._times(w)
            return w + self._transposed(image - self._smooth(system, image, 0.0 * image, inner)) / s

        def precondition(v: Vector, out: Vector) -> None:
            out[:] = self._root.T @ (self._root @ v)

        residual = rhs - multiply(self._w)
        relative = float(np.linalg.norm(residual)) / max(float(np.linalg.norm(rhs)), 1e-300)
        if relative > tolerance:
            found = conjugate_gradient(
                multiply,
                residual,
                np.ones(len(rhs)),
                correct=precondition,
                tolerance=min(tolerance / relative, 0.5),
                most=50,
            )
            self._w = self._w + found.x
        return self._smooth(system, s * system.rhs + self._times(self._w), start, tolerance)

    def pair_variances(self, run: ItemsState) -> PairVariances:
        """Set s(I + sL)⁻¹, as without features, plus TS⁻¹Tᵀ; see the base class."""
        s, laplacian = self.own, run.system.laplacian
        found = run.factorisation.variances(run.pair_sites, laplacian, exact=run.exact, factor=s)
        if found is None:
            found, run.messages = loopy_bp(run.pair_sites, laplacian, run.messages, shift=1.0 / s)
            items = found.items
            log_determinant = found.log_determinant + self.n_items * float(np.log(s))
            pairs = run.pair_sites.pair_posteriors(run.means).variance
        else:
            items, log_determinant = s * found.items, found.log_determinant
            pairs = s * run.pair_sites.pair_posteriors(run.means).variance
        if not found.definite:
            return found
        run.pair_sites.set_pair_variances(pairs + self._added[1])
        return PairVariances(items + self._added[0], log_determinant + self._log_s, True)

    def weights(self, run: ItemsState) -> WeightPosterior:
        return WeightPosterior(self._w.copy(), np.asarray(np.linalg.inv(self._root).T), True)

    def learn(self, run: ItemsState) -> None:
        """Move the shares once for each computation of S and T: with outdated ones they would repeat a step."""
        if self._fresh:
            self._fresh = False
            super().learn(run)

    def _squares(self, run: ItemsState) -> tuple[Vector, Vector]:
        covariance = (self._root**2).sum(axis=0)  # the diagonal of S⁻¹
        starts = np.cumsum(self.sizes, dtype=np.intp) - self.sizes
        squares = np.add.reduceat(self._w**2, starts)
        counts = np.add.reduceat(1.0 - covariance, starts)
        own = run.means - self._times(self._w)
        left = (self._explained(run) - counts.sum()) / self.own
        return np.append(squares / self.shares, own @ own / self.own**2), np.append(counts / self.shares, left)

    def _times(self, w: Vector) -> Vector:
        return (self._rows.T @ (self._factor * w).astype(np.float32)).astype(np.float64)

    def _transposed(self, v: Vector) -> Vector:
        """Return the product Zᵀv with the features."""
        return self._factor * (self._rows @ v.astype(np.float32)).astype(np.float64)

    @property
    def _factor(self) -> Vector:
        """Return the factor √ρ of every feature."""
        return np.repeat(np.sqrt(self.shares), self.sizes)

    def _smooth(self, system: SiteSystem, v: Vector, start: Vector, tolerance: float) -> Vector:
        """Return (I + sL)⁻¹ v."""
        s = self.own
        return system.laplacian.solve(v / s, start, shift=1.0 / s, tolerance=tolerance, most=2_000).x

    def _refresh(self, system: SiteSystem) -> None:
        """Compute T and S again if sites or shares have moved since the last time."""
        degrees = system.laplacian.diagonal()
        if self._made is not None:
            shares, before = self._made
            stale = _EXPENSIVE_STALE if self.is_expensive(len(self._added[1])) else _STALE
            moved = float(np.linalg.norm(degrees - before)) > stale * float(np.linalg.norm(before))
            if not moved and float(np.abs(self.shares - shares).max()) <= stale:
                return
        s, Z = self.own, self._rows * self._factor[:, None].astype(np.float32)
        start = self._smoothed if len(self._smoothed) else Z
        self._smoothed = solve_rows(system.laplacian, Z / np.float32(s), start, shift=1.0 / s, tolerance=_COARSE)
        with dense_algebra():
            S = ((Z - self._smoothed) @ Z.T).astype(np.float64) / s  # L(I + sL)⁻¹ = (I - ...)/s
            self._root, self._log_s = inverse_root(0.5 * (S + S.T) + np.eye(len(S)))
            spread = self._smoothed.T @ self._root.T.astype(np.float32)  # T S^-½, a row per item
        items = np.einsum("kf,kf->k", spread, spread).astype(np.float64)
        self._added = items, pair_distances(system.laplacian, spread)
        self._made, self._fresh = (self.shares.copy(), degrees), True


class ShareTrial(NamedTuple):
    """The classes of workers under one share of the features."""

    share: float
    evidence: float  # up to a constant that all shares have in common
    classes: Vector  # log probabilities of every worker's classes under equal priors


def classes_of(run: Propagation, engine: Engine, typical: float) -> Vector:
    """Return `class_evidence` of a run, averaged over shares of features if votes do not determine them."""
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
    """Yield the share of the run, then larger and smaller ones until their evidence is far below."""
    part, spread = _by_features(run, prior)
    sites = required(run.engine.grid).sites(run.prior.types, 1.0)
    sites.system(sites.pair_sums())
    chosen, n_pairs = 1.0 - prior.own, len(sites.pair_posteriors(part).variance)

    def trial(share: float) -> ShareTrial:
        own = chosen * (1.0 - share) / share
        sites.set_pair_variances(np.full(n_pairs, 2.0 * own + spread))

        def messages(masses: Vector) -> float:
            return sites.update(SitePass(run.prior.levels, masses, part, run.sides.prior, 0.0, True)).log_messages

        messages(run.prior.masses)
        if sites.refine():
            messages(run.prior.masses)
        learned = run.prior.learned(sites.type_counts, *_SHARE_LEARNING, extrapolate=True)
        evidence, typical = messages(learned.masses), typical_reliability(learned)
        classes = class_evidence(sites, learned, typical, run.engine.facts.n_workers)
        return ShareTrial(share, evidence, classes)

    first = trial(chosen)
    yield first
    best = first.evidence
    for step in (_SHARE_STEP, -_SHARE_STEP):
        share = chosen + step
        while 0.0 < share < 1.0:
            found = trial(share)
            best = max(best, found.evidence)
            if found.evidence < best - _NEGLIGIBLE:
                break
            yield found
            share += step


def _by_features(run: Propagation, prior: FeaturePrior) -> tuple[Vector, float]:
    """Return the features' part Σ_b X_b w_b of every score, and the mean variance of differences due to the weights."""
    found = prior.weights(run)
    ends = np.cumsum(prior.sizes)[:-1]
    means, variances = np.split(found.mean, ends), np.split(found.variances(), ends)
    part, spread = np.zeros(prior.n_items), 0.0
    for share, X, mean, variance in zip(prior.shares, prior.blocks, means, variances, strict=True):
        part += np.sqrt(share) * (X @ mean.astype(X.dtype))
        spread += share * float(np.einsum("kf,kf,f->", X, X, variance)) / prior.n_items
    return part, 2.0 * spread
