"""The distribution of worker types against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsift.engines.grid import mirrored
from crowdsift.solvers.ep.workers import SHARES, WorkerPrior, power_grid, worker_types

PRIOR_WORKERS, SHARE_WORKERS, SPREAD_WORKERS, LEAST_SPREAD = 50.0, 5.0, 20.0, 0.05


class Mixture:
    """p0 on one grid: ρ₊N(μ, τ²) + ρ₋N(-μ, τ²) + ρ₀δ₀, each part normalised over the points."""

    def __init__(self, points) -> None:
        self._points, self._zero = points, len(points) // 2
        self._log_widths = np.log(np.gradient(points))

    def parts(self, centre: float, spread: float, shares):
        """The Gaussian parts times their shares; the grid is symmetric, so one mirrors other."""
        logs = self._log_widths - 0.5 * ((self._points - centre) / spread) ** 2
        able = np.exp(logs - logs.max())
        able /= able.sum()
        return shares[0] * able, shares[1] * able[::-1]

    def masses(self, centre: float, spread: float, shares):
        """p0 on the grid."""
        plus, minus = self.parts(centre, spread, shares)
        total = plus + minus
        total[self._zero] += shares[2]
        return total

    def step(self, counts, centre: float, spread: float, shares):
        """One step of EM for p0 given the counts of types."""
        plus, minus = self.parts(centre, spread, shares)
        total = plus + minus
        total[self._zero] += shares[2]
        ratio = counts / np.maximum(total, 1e-300)
        plus *= ratio
        minus *= ratio
        held_plus, held_minus = float(plus.sum()), float(minus.sum())
        if held_minus > held_plus:  # + is the majority's side
            plus, minus, held_plus, held_minus = minus, plus, held_minus, held_plus
        everyone = float(counts.sum())
        held = np.array([held_plus, held_minus, everyone - held_plus - held_minus])
        shares = (held + SHARE_WORKERS * np.array(SHARES)) / (everyone + SHARE_WORKERS)
        able = max(held_plus + held_minus, 1e-12)
        both = plus + minus[::-1]  # reliabilities of adversaries with their sign turned
        centre = float(self._points @ both) / able
        squares = float((self._points - centre) ** 2 @ both)
        variance = (squares + SPREAD_WORKERS * (0.5 * centre) ** 2) / (able + SPREAD_WORKERS)
        return centre, max(float(np.sqrt(variance)), LEAST_SPREAD), shares


def expected(prior, counts):
    """The update of π in plain NumPy."""
    counts = np.where(counts < 1e-6, 0.0, counts)  # of a worker: nobody
    points, widths = mirrored(prior.levels), len(prior.types.widths)
    table = counts[: widths * len(points)].reshape(widths, -1)
    by_level, everyone = table.sum(axis=0), counts.sum()
    regular, centre, spread, shares = by_level.sum(), prior.centre, prior.spread, prior.shares
    if centre is None:
        centre = points @ by_level / regular
        spread = max(np.sqrt((points - centre) ** 2 @ by_level / regular), LEAST_SPREAD)
    mixture = Mixture(points)
    centre, spread, shares = mixture.step(by_level, centre, spread, shares)
    width = (table.sum(axis=1) + SHARE_WORKERS / widths) / (regular + SHARE_WORKERS)
    p0 = np.outer(width, mixture.masses(centre, spread, shares)).ravel()
    pure = len(counts) - table.size
    if pure:
        share = (everyone - regular + 0.5) / (everyone + 1.0)
        p0 = np.concatenate([(1 - share) * p0, np.full(pure, share / pure)])
    masses = (counts + PRIOR_WORKERS * p0) / (everyone + PRIOR_WORKERS)
    return [masses, centre, spread, shares]


@given(st.sampled_from([5, 13, 49]), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_an_update_is_that_of_the_formulas(points, ties, sides, seed):
    rng = np.random.default_rng(seed)
    levels = power_grid(points)
    prior = WorkerPrior.start(levels, 1.0, 0.5, worker_types(ties=ties, sides=sides))
    for _ in range(3):  # the first has no mixture yet
        counts = rng.gamma(0.2, size=len(prior.masses)) + 1e-9
        theirs = expected(prior, counts)
        prior = prior.updated(counts)
        ours = [prior.masses, prior.centre, prior.spread, prior.shares]
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
        assert prior.masses.sum() == pytest.approx(1.0)


def test_a_flipped_prior_is_that_of_the_flipped_counts():
    rng = np.random.default_rng(3)
    prior = WorkerPrior.start(power_grid(9), 0.0, 1.0, worker_types(ties=True, sides=True))
    counts = rng.gamma(0.5, size=len(prior.masses))
    table = prior.by_width(counts)
    turned = np.concatenate([table[:, ::-1].ravel(), counts[table.size :]])
    one, two = prior.updated(counts).flipped(), prior.flipped().updated(turned)
    np.testing.assert_allclose(one.masses, two.masses, rtol=1e-9)
    assert one.centre == pytest.approx(two.centre)


def test_learning_ends_where_plain_steps_do():
    """Workers with likelihoods over types of their own: extrapolated, the same π, far sooner."""
    rng = np.random.default_rng(2)
    levels = power_grid(25)
    points = mirrored(levels)
    own = np.where(rng.random(80) < 0.8, 1.0, -1.0) * rng.normal(1.2, 0.4, 80)
    seen = own + rng.normal(0.0, 0.9, 80)
    likelihood = np.exp(-0.5 * ((points - seen[:, None]) / 0.9) ** 2)
    calls = 0

    def counts(masses):
        nonlocal calls
        calls += 1
        joint = masses * likelihood
        return (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)

    start = WorkerPrior.start(levels, 1.0, 0.5)
    plain = start.learned(counts, 5_000, 1e-11, extrapolate=False)
    slow, calls = calls, 0
    fast = start.learned(counts, 1_000, 1e-11, extrapolate=True)
    np.testing.assert_allclose(fast.masses, plain.masses, atol=1e-8)
    assert fast.centre == pytest.approx(plain.centre, abs=1e-7)
    assert fast.spread == pytest.approx(plain.spread, abs=1e-7)
    assert calls < 0.5 * slow
    assert fast.masses.min() > 0.0
    soon, calls, likelihood = calls, 0, likelihood[:, ::-1]
    turned = start.flipped().learned(counts, 1_000, 1e-11, extrapolate=True)  # all are adversaries
    np.testing.assert_allclose(turned.masses, fast.masses[::-1], atol=1e-8)
    assert turned.centre == pytest.approx(-fast.centre)
    assert calls <= soon + 2


@pytest.mark.parametrize("extrapolate", [False, True])
def test_types_that_are_gone_come_back_only_for_a_worker_who_is_clearly_one(extrapolate):
    """π at rest stays at rest for any number of steps; else a type grows out of nothing."""
    levels = power_grid(25)
    points = mirrored(levels)
    seen = np.random.default_rng(4).normal(1.0, 0.3, 124)
    likelihood = np.exp(-0.5 * ((points - seen[:, None]) / 0.6) ** 2)

    def counts_with(ratio):
        """One worker who fits the last type better, so many times as well as its average one."""
        own = likelihood.copy()
        own[0, -1] = ratio * float(own[0] @ rest.masses)

        def counts(masses):
            joint = masses * own
            return (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)

        return counts

    rest = WorkerPrior.start(levels, 1.0, 0.5)
    rest = rest.learned(counts_with(1.0), 3_000, 1e-13, extrapolate=False)
    assert rest.masses[-1] < 1e-12
    # A step multiplies the type's mass by ratio/(M + 50), more than 1.
    weak = rest.learned(counts_with(1.3 * 174), 400, 0.0, extrapolate=extrapolate)
    np.testing.assert_allclose(weak.masses, rest.masses, atol=1e-6)
    clear = rest.learned(counts_with(1.0 / rest.masses[-1]), 400, 1e-12, extrapolate=extrapolate)
    assert clear.masses[-1] > 0.5 / 174


def test_a_majority_of_adversaries_is_the_majority():
    """Counts that lie on the negative side: the centre is theirs, in the next step as well."""
    levels = power_grid(25)
    points = mirrored(levels)
    counts = 300.0 * np.exp(-0.5 * ((points + 1.5) / 0.5) ** 2)
    prior = WorkerPrior.start(levels, 1.0, 0.5)
    for _ in range(50):
        prior = prior.updated(counts)
    assert prior.centre == pytest.approx(-1.5, abs=0.1)
    assert prior.shares[0] > 0.9


@pytest.mark.parametrize(("ties", "sides"), [(False, False), (True, True)])
def test_a_prior_starts_as_a_gaussian_and_a_little_of_everything(ties, sides):
    levels, types = power_grid(25), worker_types(ties=ties, sides=sides)
    prior = WorkerPrior.start(levels, 1.0, 0.5, types)
    points, n = mirrored(levels), len(prior.masses)
    density = np.exp(-0.5 * ((points - 1.0) / 0.5) ** 2) * np.gradient(points)
    table = prior.by_width(prior.masses)
    given = 0.97 * density / density.sum() / len(types.widths) + 0.03 / n
    np.testing.assert_allclose(table, np.tile(given, (len(types.widths), 1)), rtol=1e-12)
    np.testing.assert_allclose(prior.masses[table.size :], 0.03 / n, rtol=1e-12)
    assert prior.masses.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(levels, 6.0 * (np.arange(1, 13) / 12) ** 1.5, rtol=1e-12)


@pytest.mark.parametrize("known", [False, True])
def test_a_rescaled_prior_is_the_distribution_of_scaled_reliabilities(known):
    """Its moments are scaled, and it learns from counts what it would have learned unscaled."""
    prior = WorkerPrior.start(power_grid(9), 1.0, 0.5, worker_types(ties=True, sides=True))
    counts = np.random.default_rng(3).gamma(0.5, size=len(prior.masses))
    prior = prior.updated(counts) if known else prior
    factor = 0.4
    wide = prior.rescaled(factor)
    np.testing.assert_allclose(mirrored(wide.levels), factor * mirrored(prior.levels))
    np.testing.assert_array_equal(wide.masses, prior.masses)
    assert (wide.centre is None) == (not known)
    if known:
        assert wide.centre == pytest.approx(factor * prior.centre)
    one, two = prior.updated(counts).rescaled(factor), wide.updated(counts)
    np.testing.assert_allclose(one.masses, two.masses, rtol=1e-9)
    assert one.centre == pytest.approx(two.centre)
    assert one.spread == pytest.approx(two.spread)


def test_a_prior_without_sides_is_that_of_the_regular_types():
    prior = WorkerPrior.start(power_grid(9), 1.0, 0.5, worker_types(ties=True, sides=True))
    plain = prior.without_sides(worker_types(ties=True, sides=False))
    regular = prior.by_width(prior.masses)
    assert prior.masses.sum() - regular.sum() > 0.005  # some of it was of side-only types
    assert plain.masses.sum() == pytest.approx(1.0)
    given = regular / regular.sum()
    np.testing.assert_allclose(plain.by_width(plain.masses), given, rtol=1e-12)


def test_types_are_a_grid_of_rising_widths_and_side_only_types_at_every_second():
    types = worker_types(ties=True, sides=True)
    assert (np.diff(types.widths) > 0.0).all()
    assert types.widths[0] > 0.0
    pairs = set(zip(types.side_only, types.side_only_widths, strict=True))
    assert len(pairs) == len(types.side_only) == 6 * 7
    assert {width for _, width in pairs} == set(types.widths[::2])
    assert {-lean for lean, _ in pairs} == {lean for lean, _ in pairs}  # both sides alike
