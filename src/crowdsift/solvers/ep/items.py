"""The prior of item scores, and the variances of items and compared pairs."""

from typing import Protocol

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.engines.fused import FusedSites
from crowdsift.engines.grid import (
    MAX_DENSE_ITEMS,
    MAX_FACTOR_WORK,
    Factoriser,
    GridSites,
    PairPosteriors,
    PairVariances,
    SiteSystem,
)
from crowdsift.engines.kinds import Operator
from crowdsift.numeric import Vector

# Belief propagation stops when messages change by at most this times the diagonal, or after this many sweeps. While
# scores still move, the tolerance is this share of their last change.
_TOLERANCE, _SWEEPS = 1e-5, 30
_SHARE, _COARSE = 0.01, 3e-4
_CHEAP = 4e6  # multiplications of a factorisation that takes milliseconds
MIN_EFFECT, MAX_EFFECT = 1e-3, 4.0  # range in which a variance is tried
_REACH = 4.0  # factor by which a variance may change in one pass


def loopy_bp(
    sites: GridSites, laplacian: Operator, messages: Vector | None, shift: float = 1.0, change: float = 0.0
) -> tuple[PairVariances, Vector | None]:
    """Run Gaussian belief propagation on the graph of compared pairs; L is the Laplacian."""
    # With D_j = 1 + L_jj, an item's precision is D_j less the messages to it. This is exact on trees, and close where
    # short cycles are rare. log|L + I| has Bethe's form, Σ_pairs log(l_a l_b - W²) + Σ_j (1 - degree_j) log
    # precision_j. `messages` are the sums per item that the previous call returned for these sites; None starts without
    # messages. None is returned for variances if there is no proper Gaussian. With a `shift`, L + shift·I takes the
    # place of L + I. `change` is the last change of the scores: while it is large, messages need not be exact.
    tolerance = max(_TOLERANCE, min(_SHARE * change, _COARSE))
    if isinstance(sites, FusedSites) and shift == 1.0:
        there = sites.loopy_bp(tolerance, _SWEEPS, fresh=messages is None)
        if there is not None:
            return there, np.zeros(0) if there.definite else None
    D = shift + laplacian.diagonal()
    settled = tolerance * D
    improper = PairVariances(np.ones(len(D)), 0.0, False), None
    precision = D if messages is None else D - messages
    found = sites.propagate(precision, settled, fresh=messages is None)
    for _ in range(_SWEEPS - 1):
        if not found.unsettled or found.improper:
            break
        found = sites.propagate(D - found.sums, settled)
    precision = D - found.sums
    if found.improper or not (precision > 0.0).all():
        return improper
    last = sites.propagate(precision, settled, last=True)
    if last.improper:
        return improper
    sites.set_pair_variances(shared=last.shared)
    log_determinant = last.log_determinant + float((1.0 - last.degrees) @ np.log(precision))
    return PairVariances(1.0 / precision, log_determinant, True), found.sums


class Factorisation:
    """Compute exact variances for the pairs of one engine, if a factorisation is affordable; this is decided once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[float, Factoriser | None] = {}

    def variances(
        self, sites: GridSites | None, laplacian: Operator, *, exact: bool, factor: float = 1.0
    ) -> PairVariances | None:
        """Return the variances of items and set those of pairs; None if a factorisation is too expensive."""
        # `exact` allows one that takes a fraction of a second; otherwise only one as fast as belief propagation is
        # made. With a `factor` s, the matrix is sL + I, whose inverse is 1/s times that of L + I/s.
        found = self._factoriser(sites, laplacian, MAX_FACTOR_WORK if exact else _CHEAP)
        if found is None:
            return None
        items, pairs, log_determinant, definite = found(factor * laplacian.pairs().weight)
        if definite and sites is not None:
            sites.set_pair_variances(pairs)
        return PairVariances(items, log_determinant, definite)

    def possible(self, sites: GridSites | None, laplacian: Operator) -> bool:
        """Return whether exact variances can be computed at all."""
        return self._factoriser(sites, laplacian, MAX_FACTOR_WORK) is not None

    def _factoriser(self, sites: GridSites | None, laplacian: Operator, most: float) -> Factoriser | None:
        if most not in self._known:
            grid, n = required(self._engine.grid), self._engine.facts.n_items
            self._known[most] = None
            # A sparse factorisation of P pairs and n items needs at least P²/n multiplications, the sum of squared
            # column counts. If that is too many, the pairs, which can be as numerous as votes, stay in the engine.
            sparse = sites is not None and sites.n_pairs**2 / n <= most
            if n <= MAX_DENSE_ITEMS or sparse:
                low, high, _ = laplacian.pairs()
                self._known[most] = grid.factoriser(low, high, n, most)
        return self._known[most]


class VarianceMethod(Protocol):
    """A source of exact variances of items and pairs."""

    def variances(
        self, sites: GridSites | None, laplacian: Operator, *, exact: bool, factor: float = 1.0
    ) -> PairVariances | None:
        """See `Factorisation`."""

    def possible(self, sites: GridSites | None, laplacian: Operator) -> bool:
        """See `Factorisation`."""


class ItemsState(Protocol):
    """The part of a run that a prior of items uses."""

    means: Vector
    system: SiteSystem
    factorisation: VarianceMethod
    exact: bool
    messages: Vector | None

    @property
    def pair_sites(self) -> GridSites:
        """Return the sites."""


class ItemPrior:
    """Hold the prior N(0, C) of scores, with C learned; `at_rest` is set when C has converged."""

    n_items: int
    at_rest: bool = False  # whether the parameters have settled

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        """Solve (L + C⁻¹) m = b for the means of the scores."""
        raise NotImplementedError

    def pair_variances(self, run: ItemsState) -> PairVariances:
        """Set the variances of pairs; return the variances of items and log|L + C⁻¹| + log|C|."""
        raise NotImplementedError

    def learn(self, run: ItemsState) -> None:
        """Move the parameters a step up the evidence."""
        raise NotImplementedError

    def forms(self, run: ItemsState) -> tuple[float, float]:
        """Return the two parts of E[rᵀC⁻¹r] under the posterior of the scores: mᵀC⁻¹m and tr C⁻¹Σ."""
        m, system = run.means, run.system
        inner = float(m @ (system.rhs - system.laplacian.multiply(m)))
        return inner, self.n_items - self._explained(run)

    def drift(self, run: ItemsState) -> float:
        """Return the size of the scores relative to what their prior expects: 1 if E[uᵀC⁻¹u] is their number."""
        return float(max(sum(self.forms(run)) / self.n_items, 0.25) ** 0.5)

    def rescale(self, scale: float) -> None:
        """Adapt parameters to scores divided by `scale`. Nothing to do if C has mean diagonal 1."""

    def _explained(self, run: ItemsState) -> float:
        """Return the sum over pairs of weight times variance, tr LΣ."""
        weight = run.system.laplacian.pairs()[2]
        return float(weight @ run.pair_sites.pair_posteriors(run.means).variance)


def scoring_step(slope: float, information: float, variance: float) -> float:
    """Return the variance after a step of Fisher scoring: within a factor of 4, and from .001 to 4."""
    # At a fixed point of EP the derivative of the evidence in the variance equals that at fixed sites. So the variance
    # is learned together with the sites, one step per pass, as the distribution of types is.
    ahead = variance + slope / max(information, 1e-12)
    ahead = min(max(ahead, variance / _REACH), variance * _REACH)
    return min(max(ahead, MIN_EFFECT), MAX_EFFECT)


def learned_effect(found: PairPosteriors, variance: float) -> float:
    """Return the variance s of the pair effect after a step."""
    return scoring_step(found.slope, found.information, variance)


def spectral_scores(votes: Operator, n_items: int, *, steps: int = 60, tolerance: float = 1e-2) -> Vector | None:
    """Return starting scores: D^-½ times the leading eigenvector of D^-½ (XᵀX - L(e²)) D^-½, centred, with RMS 1."""
    # The answers of one worker to different pairs are products of its reliability and the two differences, so the mean
    # of XᵀX less its diagonal part is a quadratic form of r. The eigenvector is found by Lanczos iteration with full
    # orthogonalisation, to a residual of `tolerance` times the eigenvalue, which suffices for a start. None is returned
    # if votes are not correlated.
    degrees = votes.diagonal()
    scale = (degrees > 0) / np.sqrt(np.maximum(degrees, 1e-300))
    first = arbitrary(n_items) * (scale > 0)
    norm = float(np.linalg.norm(first))
    if norm == 0.0:
        return None
    basis, alphas, betas = [first / norm], [], []
    for step in range(min(steps, n_items)):
        w = scale * votes.multiply(scale * basis[-1])
        alphas.append(float(w @ basis[-1]))
        for q in basis + basis:  # orthogonalise twice: rounding errors of the first time are removed
            w = w - float(q @ w) * q
        betas.append(float(np.linalg.norm(w)))
        if betas[-1] < 1e-10 or step + 1 == min(steps, n_items):
            break
        if step % 5 == 4:
            values, vectors = _tridiagonal(alphas, betas)
            if betas[-1] * abs(vectors[-1, -1]) < tolerance * max(values[-1], 1e-12):
                break
        basis.append(w / betas[-1])
    values, vectors = _tridiagonal(alphas, betas)
    if values[-1] <= 1e-10:
        return None
    scores = scale * sum(part * q for part, q in zip(vectors[:, -1], basis, strict=False))
    scores = scores - scores.mean()
    size = float(np.sqrt(np.mean(scores**2)))
    return None if size < 1e-12 else scores / size


def _tridiagonal(alphas: list[float], betas: list[float]) -> tuple[Vector, Vector]:
    off = betas[: len(alphas) - 1]
    values, vectors = np.linalg.eigh(np.diag(alphas) + np.diag(off, 1) + np.diag(off, -1))
    return values, vectors


def arbitrary(n: int) -> Vector:
    """Return a fixed vector without symmetry: fractional parts of multiples of the golden ratio."""
    return np.asarray(np.modf(np.arange(1, n + 1) * 0.6180339887498949)[0] - 0.5, np.float64)
