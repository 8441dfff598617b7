"""Dimensions: tastes that differ and errors that workers share, by variational Bayes.

    z = a_s·(x_i - x_j) + γ_s,   x_i ~ N(0, I),   a_s ~ N(μ, Σ), mirrored or 0; μ and Σ learned

Positions and weights are Gaussian and independent of each other in the approximate posterior. Every logistic term is
a parabola of its expected slope and curvature, so that both updates are closed. Positions of few items have one
covariance matrix; beyond, a D x D block per item, and conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from crowdsift.engines.dimensions import Crowd, DimensionUpdate, Part
from crowdsift.engines.dimensions import Dimensions as Passes
from crowdsift.engines.kinds import Operator
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Codes, Vector
from crowdsift.numeric.dense import inverse_of_root, inverse_root
from crowdsift.solvers.ep.items import arbitrary
from crowdsift.solvers.ep.state import Propagation, Settings
from crowdsift.solvers.ep.terms.base import Exclusion, Term

MAX_DENSE_ROWS = 2_000  # most items x dimensions with one covariance matrix
_TRIAL_ROWS, _FINAL_ROWS = 240, 1_200  # the same for one component: in a trial, and at the end
_PSEUDO = np.array([3.5, 0.5, 0.5, 0.5])  # prior counts of workers by class
# prior variance of weights, and the number of workers for which this prior counts
_VARIANCE, _PRIOR_WORKERS = 1e-3, 2.0
_ONE_SIDED = 1.0 / 9.0  # precision of the side bias of one-sided workers
_GOLD = 1.0 / 9.0  # precision of the weights of gold
_SHARE = 3e-7  # relative change of the bound at which a run ends, if that is more than _NATS
_NATS, _NEARLY = 0.02, 1.0  # change of the bound at which a run ends, and at which it becomes exact
_CALMER = 0.25  # decrease of the caution of steps in one iteration
_MOST, _STEPS = 300, 6  # most iterations, and steps of conjugate gradients in each
_FIRST = 10  # iterations in one dimension before others are added
_NEW_VARIANCE = 0.5  # initial variance of the weights of a new dimension
_ANY = 1e9  # precision of the weights of a dimension before its population is opened
_NOBODY = np.log([0.97, 0.01, 0.01, 0.01])  # class probabilities while a new dimension is fitted
_HELD = 6  # iterations with these probabilities
_LANCZOS, _COLUMNS = 14, 8  # steps of the residual test (half of them for a part of the votes), and its columns
_TESTED, _TESTED_EACH = 100_000, 10  # least votes of that test: in all, and per item
_BEYOND_CHANCE = 3.5  # standard deviations above chance of an eigenvalue from which on another dimension is tried
_NOT_BY_CHANCE = 2.0  # ... below which half of the steps are enough to give up


class Dimensions(Term):
    """Let workers weigh several dimensions of items; tried last, by a separate solver."""

    name = "dimensions"
    subject = "several dimensions"
    option = "--dimensions"
    adds = "a·(x_i - x_j) in D dimensions in place of β(r_i - r_j)"
    variance = "Σ of the weights a, by variational Bayes; D by evidence and left-out votes"
    excludes = (
        Exclusion("features", "Features only name the dimensions; positions keep the plain prior."),
        Exclusion("covariates", "Covariates only name the dimensions, without coefficients."),
        Exclusion("partial pooling", "The rankings of contexts are scores, not positions."),
        Exclusion("contexts", "A worker has one vector of weights in all contexts."),
        Exclusion("pair effect", "Further dimensions replace the effect of pairs."),
        Exclusion("dependent votes", "Items in groups have a score, not a position.", True),
    )

    def given(self, settings: Settings) -> bool:
        """Return whether a number of dimensions above one was asked for."""
        return settings.dimensions > 1

    def applies(self, run: Propagation) -> bool:
        """Return False: see the class."""
        return False


class Setting(NamedTuple):
    """The passes over the votes, and what is constant in a run."""

    passes: Passes
    width: Vector
    ties: bool
    component: Codes  # of every item
    part: Part = Part.ALL

    def update(self, state: State, caution: float) -> DimensionUpdate:
        """Return the result of a pass over the workers from a state."""
        before = state.positions, state.covariance, state.crowd, state.weights, state.second
        return self.passes.update(*before, self.width, self.ties, int(self.part), caution)


@dataclass(frozen=True)
class State:
    """Positions and weights with their uncertainty, and the population of workers.

    `covariance` is one matrix over items and dimensions, or a block per item; `second` are second moments of the
    weights, `shares` those of the classes of every worker.
    """

    positions: Vector
    covariance: Vector
    weights: Vector
    second: Vector
    crowd: Crowd
    shares: Vector
    bound: float = -np.inf
    log_determinant: float = 0.0  # of the precision of positions
    iterations: int = 0
    converged: bool = False

    @property
    def count(self) -> int:
        """The number of dimensions."""
        return int(self.positions.shape[1])

    def blocks(self) -> Vector:
        """Return the covariance of every item."""
        if self.covariance.ndim == 3:
            return self.covariance
        K, D = self.positions.shape
        return np.ascontiguousarray(np.einsum("iaib->iab", self.covariance.reshape(K, D, K, D)))

    def on_host(self) -> State:
        """Return the state with arrays of NumPy in place of vectors that an engine keeps on a device."""
        names = ("positions", "covariance", "weights", "second", "shares")
        arrays: dict[str, Any] = {name: np.asarray(getattr(self, name)) for name in names}
        return replace(self, **arrays)

    def penalty(self) -> float:
        """Return the divergence of the positions from their prior."""
        K, D = self.positions.shape
        blocks = self.blocks()
        total = float(np.einsum("iaa->", blocks) + (self.positions**2).sum())
        return float(0.5 * (total - K * D + self.log_determinant))

    def turned(self, R: Vector) -> State:
        """Return the state with positions multiplied by R, and weights transformed to match."""
        back, E = np.linalg.inv(R).T, self.weights.shape[1]
        full = np.eye(E)
        full[: self.count, : self.count] = back  # a' = R⁻¹ a, as a row a R⁻ᵀ
        K, D = self.positions.shape
        if self.covariance.ndim == 3:
            covariance = R.T @ self.covariance @ R
        else:
            one = self.covariance.reshape(K * D * K, D) @ R
            two = np.swapaxes(one.reshape(K, D, K * D), 1, 2).reshape(K * K * D, D) @ R
            covariance = np.ascontiguousarray(np.swapaxes(two.reshape(K, K * D, D), 1, 2).reshape(K * D, K * D))
        unfull = np.linalg.inv(full)
        crowd = self.crowd._replace(mean=self.crowd.mean @ full, precision=unfull @ self.crowd.precision @ unfull.T)
        log_determinant = self.log_determinant - 2.0 * K * float(np.linalg.slogdet(R)[1])
        return replace(
            self,
            positions=self.positions @ R,
            covariance=covariance,
            weights=self.weights @ full,
            second=full.T @ self.second @ full,
            crowd=crowd,
            log_determinant=log_determinant,
        )

    def extended(self, direction: Vector) -> State:
        """Return the state with one more dimension, in which items lie along a direction."""
        K, D = self.positions.shape
        blocks = np.zeros((K, D + 1, D + 1))
        blocks[:, :D, :D] = self.blocks()
        blocks[:, D, D] = 0.1
        weights = np.insert(self.weights, D, 0.0, axis=1)
        second = np.insert(np.insert(self.second, D, 0.0, axis=1), D, 0.0, axis=2)
        second[:, D, D] = _NEW_VARIANCE
        precision = np.insert(np.insert(self.crowd.precision, D, 0.0, axis=0), D, 0.0, axis=1)
        precision[D, D] = _ANY
        crowd = self.crowd._replace(mean=np.insert(self.crowd.mean, D, 0.0), precision=precision)
        positions = np.concatenate([self.positions, direction[:, None]], axis=1)
        return State(positions, blocks, weights, second, crowd, self.shares).opened()

    def opened(self) -> State:
        """Return the state with a wider population, and almost no workers of the other classes."""
        # A run narrows the population and hardly widens it: what an earlier one has left is no good place to start.
        # A group with another taste could end up as mirrored workers.
        covariance = np.linalg.inv(self.crowd.precision)
        covariance[: self.count, : self.count] += _NEW_VARIANCE * np.eye(self.count)
        precision = np.asarray(np.linalg.inv(covariance), np.float64)
        return replace(self, crowd=self.crowd._replace(precision=precision, log_shares=_NOBODY))


def begin(scores: Vector, variance: Vector, weights: Vector, sd: Vector) -> State:
    """Return the state of one dimension, from scores and weights (workers x 1, or x 2 with a side)."""
    S, E = weights.shape
    second = weights[:, :, None] * weights[:, None, :]
    second[:, np.arange(E), np.arange(E)] += sd**2
    mean = weights.mean(axis=0)
    spread = np.maximum(weights.var(axis=0) + (sd**2).mean(axis=0), 0.01)
    crowd = Crowd(mean, np.diag(1.0 / spread), np.log(_PSEUDO / _PSEUDO.sum()), _ONE_SIDED, _GOLD)
    shares = np.tile([1.0, 0.0, 0.0, 0.0], (S, 1))
    return State(scores[:, None], variance[:, None, None], weights, second, crowd, shares)


def run(setting: Setting, state: State, held: int = 0, most: int = _MOST) -> State:
    """Iterate until the bound settles; the population is held for the first iterations."""
    # The positions of few items get one covariance matrix once the bound has nearly settled. Then steps become less
    # cautious, down to the expected curvature. Caution stays if the bound falls faster and faster, or exceeds 0, which
    # no log probability of votes does. Trials keep the safe curvature: below it the weights do not maximise the bound,
    # which may fall on the way.
    last, moved, at_last, exact = -np.inf, np.inf, _exact(setting, state), False
    caution, least, safe = 1.0, float(setting.part is not Part.ALL), state
    for iteration in range(most):
        found = setting.update(state, caution)
        bound = found.bound - (state.penalty() if iteration else 0.0)
        settled = max(_NATS, _SHARE * abs(bound))
        if caution < 1.0 and not (bound <= 0.0 and last - bound <= max(moved, 10.0 * settled)):
            state, caution = safe, min(2.0 * caution + _CALMER, 1.0)
            least, last = caution, -np.inf
            continue
        safe = state
        state = replace(
            state,
            weights=found.weights,
            second=found.second,
            shares=found.shares,
            bound=bound,
            iterations=iteration + 1,
        )
        change = abs(bound - last) if iteration > held + 1 else np.inf
        if change < settled and exact == at_last and caution <= least:
            return replace(state, converged=True).on_host()
        moved = change
        if change < max(_NEARLY, settled) and caution > least:
            caution, moved = max(caution - _CALMER, least), np.inf
        last, exact = bound, exact or (at_last and change < _NEARLY)
        if iteration >= held:
            state = replace(state, crowd=_crowd(state.crowd, found.population, state.count))
        state = _standardised(_items(state, found.rhs, found.system, setting if exact else None))
    return state.on_host()


def _crowd(before: Crowd, sums: Vector, D: int) -> Crowd:
    E = len(before.mean)
    shares, first, square = sums[:4], sums[4 : 4 + E], sums[4 + E :].reshape(E, E)
    count = max(float(shares[0] + shares[1]), 1e-9)
    mean = first / count
    covariance = square - count * np.outer(mean, mean) + _PRIOR_WORKERS * _VARIANCE * np.eye(E)
    covariance = covariance / (count + _PRIOR_WORKERS)
    precision = np.zeros((E, E))
    precision[:D, :D] = np.linalg.inv(covariance[:D, :D])
    if E > D:
        precision[D, D] = 1.0 / covariance[D, D]
    counts = shares + _PSEUDO
    if E == D:
        counts[3] = 1e-300
    return before._replace(
        mean=mean, precision=0.5 * (precision + precision.T), log_shares=np.log(counts / counts.sum())
    )


def _exact(setting: Setting, state: State) -> bool:
    K, D = state.positions.shape
    rows = _FINAL_ROWS if setting.part is Part.ALL else _TRIAL_ROWS
    largest = int(np.bincount(setting.component).max())
    return bool(K * D <= MAX_DENSE_ROWS and largest * D <= rows)


def _items(state: State, rhs: Vector, system: Operator, exact: Setting | None) -> State:
    K, D = state.positions.shape
    if exact is not None:
        precision, covariance = dense(system, K, D), np.zeros((K * D, K * D))
        log_determinant, sizes = 0.0, np.bincount(exact.component)
        order = np.argsort(exact.component, kind="stable")
        starts = np.cumsum(sizes) - sizes
        for size in np.unique(sizes[sizes > 0]).tolist():
            items = order[starts[sizes == size][:, None] + np.arange(size)]
            rows = (items[:, :, None] * D + np.arange(D)).reshape(len(items), -1)
            place = rows[:, :, None], rows[:, None, :]
            if len(items) == 1:
                root, log_det = inverse_root(precision[place][0])
                covariance[place] = inverse_of_root(root)
            else:
                covariance[place] = np.linalg.inv(precision[place])
                log_det = float(np.linalg.slogdet(precision[place])[1].sum())
            log_determinant += log_det
        positions = (covariance @ rhs.reshape(-1)).reshape(K, D)
        return replace(state, positions=positions, covariance=covariance, log_determinant=log_determinant)
    diagonal = system.diagonal() + np.eye(D)
    inverses: Any = np.linalg.inv(diagonal)
    x = state.positions
    r = rhs - x - system.multiply(x)
    y = np.einsum("iab,ib->ia", inverses, r)
    p, size = y, float((r * y).sum())
    end = 1e-6 * float((rhs * np.einsum("iab,ib->ia", inverses, rhs)).sum())
    for _ in range(_STEPS):
        if size <= end:
            break
        Ap = p + system.multiply(p)
        step = size / float((p * Ap).sum())
        x, r = x + step * p, r - step * Ap
        y = np.einsum("iab,ib->ia", inverses, r)
        size, before = float((r * y).sum()), size
        p = y + size / before * p
    log_determinant = float(np.linalg.slogdet(diagonal)[1].sum())
    return replace(state, positions=x, covariance=inverses, log_determinant=log_determinant)


def dense(system: Operator, K: int, D: int) -> Vector:
    """Return the dense matrix I + L over items and dimensions, where `system` holds the blocks of L."""
    low, high, weight = system.pairs()
    Q = np.zeros((K, K, D, D))
    np.add.at(Q, (low, high), -np.asarray(weight))
    Q += np.swapaxes(Q, 0, 1)
    at = np.arange(K)
    Q[at, at] = np.eye(D) - Q.sum(axis=1)
    return np.ascontiguousarray(np.swapaxes(Q, 1, 2)).reshape(K * D, K * D)


def _standardised(state: State) -> State:
    """Give the positions the second moments of their prior, which raises the bound."""
    squares = np.einsum("ia,ib->ab", state.positions, state.positions)
    moments = (squares + state.blocks().sum(axis=0)) / len(state.positions)
    values, vectors = np.linalg.eigh(moments)
    return state.turned(vectors @ np.diag(np.maximum(values, 1e-6) ** -0.5) @ vectors.T)


class Trial(NamedTuple):
    """A number of dimensions that was tried, its evidence and its left-out log loss (NaN: not measured)."""

    dimensions: int
    evidence: float
    left_out_loss: float


def _tried(out: Setting, state: State) -> Trial:
    """Return the evidence of a trial, the log-probability of its left-out votes given the others, and its loss."""
    total, weight = out.passes.log_probability(
        state.positions, state.covariance, state.weights, state.second, out.width, out.ties, int(out.part)
    )
    return Trial(state.count, state.bound + total, -total / max(weight, 1e-300))


def search(setting: Setting, one: State, most: int, loads: Vector) -> tuple[State | None, tuple[Trial, ...]]:
    """Return the state of the number of dimensions that evidence and left-out votes choose."""
    # Another dimension is tried while a test of the residuals passes, on six votes of seven. It is kept if the evidence
    # of all votes rises by more than 3 nats and the loss of the other votes falls. None stands for one dimension; `one`
    # is where the run of one dimension ended, `loads` are the numbers of votes of workers.
    kept, out = setting._replace(part=Part.KEPT), setting._replace(part=Part.LEFT_OUT)
    direction, values = leading_residual(setting, one.positions, one.weights, _some(setting, loads))
    if most < 2 or not beyond_chance(values):
        return None, ()
    best = run(kept, one)
    trials = [_tried(out, best)]
    while best.count < most:
        if best.count > 1:
            direction, values = leading_residual(kept, best.positions, best.weights)
            if not beyond_chance(values):
                break
        trial = run(kept, best.extended(direction), _HELD)
        trials.append(_tried(out, trial))
        more = trials[-1].evidence > trials[-2].evidence + MIN_LOG_BAYES_FACTOR
        if not more or trials[-1].left_out_loss >= trials[-2].left_out_loss:
            break
        best = trial
    return (resumed(setting, best) if best.count > 1 else None), tuple(trials)


def fitted(setting: Setting, one: State, count: int, loads: Vector) -> State:
    """Return the state of a given number of dimensions."""
    state, some = run(setting, one, most=_FIRST), _some(setting, loads)
    while state.count < count:
        direction, _ = leading_residual(setting, state.positions, state.weights, some)
        state = run(setting, state.extended(direction), _HELD)
    return state


def resumed(setting: Setting, state: State) -> State:
    """Return the end of a run on all votes that continues from the end of another run."""
    return run(setting, state.opened(), _HELD)


def beyond_chance(values: Vector, by: float = _BEYOND_CHANCE) -> bool:
    """Return whether the first eigenvalue clearly exceeds the others, which arise by chance."""
    chance = values[1:]
    return bool(values[0] > chance.mean() + by * chance.std(ddof=1))


def _some(setting: Setting, loads: Vector) -> Vector | None:
    """Return every k-th worker, so that the first test uses a part of the votes; None means all workers."""
    enough = max(_TESTED, _TESTED_EACH * len(setting.component))
    step = max(int(float(loads.sum()) / enough), 1)
    return None if step < 2 else np.asarray(np.arange(len(loads)) % step == 0, np.float64)


def leading_residual(
    setting: Setting, positions: Vector, weights: Vector, taken: Vector | None = None
) -> tuple[Vector, Vector]:
    """Return the direction that residuals of workers share, its eigenvalue, and eigenvalues that arise by chance."""
    # Return a vector over items of root mean square 1, and the largest eigenvalues: of the residuals, then of residuals
    # with random signs.
    K, count = len(positions), _COLUMNS
    steps = _LANCZOS if taken is None else _LANCZOS // 2
    taken = np.ones(len(weights)) if taken is None else taken
    operator = setting.passes.residuals(positions, weights, setting.width, taken, setting.ties, int(setting.part))
    degrees = operator.diagonal()
    scale = ((degrees > 0) / np.sqrt(np.maximum(degrees, 1e-300)))[:, None]
    start = arbitrary(K) * np.ones_like(degrees)  # on the device, where degrees are there
    q = np.stack([np.roll(start, c) for c in range(count)], axis=1) * (scale > 0)
    q = q / np.maximum(np.linalg.norm(q, axis=0), 1e-300)
    basis: list[Vector] = [q]
    alphas: list[Vector] = []
    betas: list[Vector] = []
    for step in range(min(steps, K - 1)):
        if step == _LANCZOS // 2 and not beyond_chance(_ritz(alphas, betas)[0][:, -1], _NOT_BY_CHANCE):
            break
        w = scale * operator.multiply(scale * basis[-1])
        alphas.append((w * basis[-1]).sum(axis=0))
        for each in basis + basis:
            w = w - each * (each * w).sum(axis=0)
        size = np.linalg.norm(w, axis=0)
        betas.append(size)
        basis.append(w / np.maximum(size, 1e-300))
    values, vectors = _ritz(alphas, betas)
    direction = scale[:, 0] * sum(part * each[:, 0] for part, each in zip(vectors[0, :, -1], basis, strict=False))
    direction = direction - direction.mean()
    return direction / max(float(np.sqrt(np.mean(direction**2))), 1e-300), values[:, -1]


def _ritz(alphas: list[Vector], betas: list[Vector]) -> tuple[Vector, Vector]:
    """Return the eigenvalues and eigenvectors of the tridiagonal matrix of every column."""
    at = np.arange(len(alphas))
    T = np.zeros((len(alphas[0]), len(at), len(at)))
    T[:, at, at] = np.stack(alphas, axis=1)
    if len(at) > 1:
        T[:, at[1:], at[:-1]] = np.stack(betas[: len(at) - 1], axis=1)
    values, vectors = np.linalg.eigh(T)
    return np.asarray(values), np.asarray(vectors)
