"""What is told of a worker: against sums over all its types, one by one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from crowdsift.engines.fused import ReliabilitySummary
from crowdsift.engines.grid import TypePosteriors, mirrored
from crowdsift.solvers.ep import summaries
from crowdsift.solvers.ep.summaries import chosen_types, class_evidence, quantiles, summarise, typical_reliability
from crowdsift.solvers.ep.workers import WorkerPrior, hints_at_sides, power_grid, side_scores, worker_types

WORKERS, LEVELS = 7, power_grid(9)


def posteriors(prior, seed=1):
    """Sites that know nothing but posteriors: random ones, some workers with grids of their own."""
    rng = np.random.default_rng(seed)
    points = np.tile(mirrored(LEVELS), (WORKERS, 1))
    points[2:4] *= 0.3
    likelihood = rng.gamma(0.3, size=(WORKERS, len(prior.masses)))

    def result(masses, rows, own=None):
        joint = masses * likelihood[rows]
        return TypePosteriors(points[rows], joint / joint.sum(axis=1, keepdims=True))

    return SimpleNamespace(posteriors=result)


def listed(prior, points, masses):
    """Every type of a worker: reliability, width, side-only bias or None, and its probability."""
    types = prior.types
    regular = [(beta, width, None) for width in types.widths for beta in points]
    odd = zip(types.side_only, types.side_only_widths, strict=True)
    every = regular + [(0.0, width, lean) for lean, width in odd]
    return [(*each, mass) for each, mass in zip(every, masses, strict=True)]


@pytest.mark.parametrize(("ties", "sides"), [(False, False), (True, False), (True, True)])
def test_summaries_are_sums_over_types(ties, sides, monkeypatch):
    prior = WorkerPrior.start(LEVELS, 1.0, 0.5, worker_types(ties=ties, sides=sides))
    monkeypatch.setattr(summaries, "_NUMBERS", 3 * len(prior.masses))  # some workers at a time
    monkeypatch.setattr(summaries, "_BLOCK", 2 * len(mirrored(LEVELS)))
    monkeypatch.setattr(summaries, "_MANY", 1)  # these sites offer no summary of many workers
    rng = np.random.default_rng(2)
    G, V = rng.normal(size=WORKERS), rng.uniform(0.1, 0.5, WORKERS)
    sites = posteriors(prior)
    found = summarise(sites, prior, (G, V))
    result = sites.posteriors(prior.masses, slice(0, WORKERS))
    for s in range(WORKERS):
        types = listed(prior, result.points[s], result.masses[s])
        mean = sum(p * beta for beta, _, _, p in types)
        assert found.mean[s] == pytest.approx(mean)
        second = sum(p * beta**2 for beta, _, _, p in types)
        assert found.sd[s] == pytest.approx(np.sqrt(second - mean**2))
        assert found.width[s] == pytest.approx(sum(p * width for _, width, _, p in types))
        odd = [(lean, p) for *_, lean, p in types if lean is not None]
        assert found.p_side_only[s] == pytest.approx(sum(p for _, p in odd), abs=1e-15)
        if sides:
            regular = 1.0 - sum(p for _, p in odd)
            side = regular * G[s] + sum(p * lean for lean, p in odd)
            square = regular * (G[s] ** 2 + V[s])
            square += sum(p * lean**2 * (1 + 1 / 9) for lean, p in odd)
            assert found.side[s] == pytest.approx(side)
            assert found.side_sd[s] == pytest.approx(np.sqrt(square - side**2))
        else:
            assert not found.side.any()
            assert not found.points.side.any()
            assert not found.points.side_variance.any()
        if ties and not sides:  # types that stand for all: each is as frequent as it is probable
            beta, width = found.points.reliability[s], found.points.width[s]
            assert len(beta) == 64
            for level, own, _, p in types:
                assert np.mean((beta == level) & (width == own)) == pytest.approx(p, abs=1 / 64)
        ends = [found.spread[s, 0], found.lower[s], found.upper[s], found.spread[s, -1]]
        assert ends == sorted(ends)  # at 1/32, 1/20, 19/20 and 31/32
    if not ties:  # a type is a reliability: its quantiles stand for all
        np.testing.assert_array_equal(found.points.reliability, found.spread)
        assert found.spread.shape == (WORKERS, 16)
    twice = found.scaled(2.0)
    for name in ("mean", "sd", "lower", "upper", "spread"):
        np.testing.assert_allclose(getattr(twice, name), 2.0 * getattr(found, name))
    np.testing.assert_allclose(twice.points.reliability, 2.0 * found.points.reliability)


class OnDevice:
    """Sites that sum up and look up by themselves, here by NumPy; `asked` is what of them."""

    def __init__(self, prior, *, whole):
        self._inner, self._prior, self._whole = posteriors(prior), prior, whole
        self.asked = []

    def posteriors(self, masses, rows, own=None):
        return self._inner.posteriors(masses, rows, own)

    def summary(self, masses, levels):
        self.asked.append("summary")
        if not self._whole:
            return None
        result = self.posteriors(masses, slice(0, WORKERS))
        mean = (result.points * result.masses).sum(axis=1)
        return ReliabilitySummary(
            mean,
            np.sqrt((result.points**2 * result.masses).sum(axis=1) - mean**2),
            quantiles(result.points, result.masses, levels),
        )

    def quantiles(self, points, masses, levels, atom):
        self.asked.append("quantiles")
        return quantiles(points, masses, levels, atom)

    def class_masses(self, masses, zone):
        result = self.posteriors(masses, slice(0, WORKERS))
        inside = result.points < -zone, np.abs(result.points) <= zone, result.points > zone
        return np.stack([(result.masses * own).sum(axis=1) for own in inside], axis=1)

    def loopy_bp(self, tolerance, sweeps, *, fresh):
        return None

    def idle_threads(self):
        return 3


@pytest.mark.parametrize(("ties", "whole"), [(False, True), (False, False), (True, False)])
def test_what_an_engine_sums_up_by_itself_is_the_same(ties, whole, monkeypatch):
    prior = WorkerPrior.start(LEVELS, 1.0, 0.5, worker_types(ties=ties, sides=ties))
    sides = np.linspace(-1.0, 1.0, WORKERS), np.full(WORKERS, 0.3)
    plain = summarise(posteriors(prior), prior, sides)
    monkeypatch.setattr(summaries, "_MANY", WORKERS)
    monkeypatch.setattr(summaries, "_BLOCK", 2 * len(mirrored(LEVELS)))  # several threads
    sites = OnDevice(prior, whole=whole)
    found = summarise(sites, prior, sides)
    assert sites.asked == (["summary"] if whole else ["summary", "quantiles"])
    for one, two in zip([*found[:-1], *found.points], [*plain[:-1], *plain.points], strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    if whole:
        zones = [class_evidence(each, prior, 1.2, WORKERS) for each in (sites, posteriors(prior))]
        np.testing.assert_allclose(zones[0], zones[1], rtol=1e-9)


def test_quantiles_that_an_engine_does_not_look_up_are_found_here(monkeypatch):
    prior = WorkerPrior.start(LEVELS, 1.0, 0.5, worker_types(ties=True, sides=True))
    sides = np.linspace(-1.0, 1.0, WORKERS), np.full(WORKERS, 0.3)
    plain = summarise(posteriors(prior), prior, sides)
    monkeypatch.setattr(summaries, "_MANY", WORKERS)
    monkeypatch.setattr(OnDevice, "quantiles", lambda self, *given: None)
    found = summarise(OnDevice(prior, whole=False), prior, sides)
    for one, two in zip([*found[:-1], *found.points], [*plain[:-1], *plain.points], strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)


def test_side_only_types_among_the_points_of_a_worker():
    prior = WorkerPrior.start(LEVELS, 1.0, 0.5, worker_types(ties=True, sides=True))
    masses = np.zeros((1, len(prior.masses)))
    masses[0, [3, -2]] = 0.25, 0.75
    sites = SimpleNamespace(posteriors=lambda given, rows, own=None: TypePosteriors(mirrored(LEVELS)[None], masses))
    points = summarise(sites, prior, (np.array([0.4]), np.array([0.09]))).points
    regular = points.reliability[0] != 0.0
    assert regular.sum() == 16
    assert set(points.reliability[0, regular]) == {mirrored(LEVELS)[3]}
    assert set(points.width[0, regular]) == {prior.types.widths[0]}
    assert set(points.side[0, regular]) == {0.4}
    assert set(points.side_variance[0, regular]) == {0.09}
    assert set(points.width[0, ~regular]) == {prior.types.side_only_widths[-2]}
    assert set(points.side[0, ~regular]) == {prior.types.side_only[-2]}
    assert set(points.side_variance[0, ~regular]) == {0.0}


def test_quantiles_of_a_gaussian_with_an_atom():
    """A share a of exactly 0 beside N(m, s²): its quantiles are 0 for levels in between."""
    points = np.linspace(-9.0, 9.0, 3601)[None]
    levels = np.array([0.02, 0.2, 0.35, 0.5, 0.7, 0.98])
    for mean, atom in ((0.7, 0.0), (0.7, 0.3), (-0.4, 0.5)):
        masses = np.diff(norm.cdf(np.linspace(-9.0025, 9.0025, 3602), mean, 1.0))[None]
        found = quantiles(points, (1 - atom) * masses, levels, np.array([atom]))
        below = (1 - atom) * norm.cdf(0.0, mean)
        inside = (levels > below) & (levels < below + atom)
        rest = np.where(levels >= below + atom, levels - atom, levels) / (1 - atom)
        expected = np.where(inside, 0.0, norm.ppf(rest, mean, 1.0))
        np.testing.assert_allclose(found[0], expected, atol=1e-4)
        assert inside.any() == (atom > 0.0)


def test_types_are_chosen_as_often_as_they_are_probable():
    masses = np.random.default_rng(3).dirichlet(np.ones(11), 5)
    chosen = chosen_types(2.0 * masses, 4000)
    assert (np.diff(chosen, axis=1) >= 0).all()
    for row, own in zip(chosen, masses, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=11) / 4000, own, atol=1 / 2000)


@pytest.mark.parametrize("sides", [False, True])
def test_classes_are_averages_within_them(sides, monkeypatch):
    """Adversarial, random, informative, one-sided: the mean likelihood of the types of each."""
    prior = WorkerPrior.start(LEVELS, 1.0, 0.5, worker_types(ties=sides, sides=sides))
    monkeypatch.setattr(summaries, "_NUMBERS", 3 * len(prior.masses))
    rng = np.random.default_rng(5)
    likelihood = rng.gamma(0.5, size=(WORKERS, len(prior.masses)))

    def result(masses, rows, own=None):
        joint = masses * likelihood[rows]
        points = np.tile(mirrored(LEVELS), (len(joint), 1))
        return TypePosteriors(points, joint / joint.sum(axis=1, keepdims=True))

    typical = typical_reliability(prior)
    found = class_evidence(SimpleNamespace(posteriors=result), prior, typical, WORKERS)
    beta = np.tile(mirrored(LEVELS), len(prior.types.widths))
    odd = np.full(len(prior.types.side_only), np.nan)
    level = np.concatenate([beta, odd])
    inside = [level < -typical / 4, np.abs(level) <= typical / 4, level > typical / 4]
    inside += [np.isnan(level)] if sides else []
    wanted = np.stack([likelihood[:, own] @ prior.masses[own] / prior.masses[own].sum() for own in inside], axis=1)
    wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-9)


@pytest.mark.parametrize("mean", [1.5, -1.5])
def test_the_typical_reliability_is_the_median_of_the_larger_side(mean):
    prior = WorkerPrior.start(power_grid(401), mean, 0.4)
    assert typical_reliability(prior) == pytest.approx(1.5, abs=0.02)


def test_scores_of_sides_are_standardised():
    """Of workers who toss coins, over all outcomes: mean 0 and variance 1, both."""
    decided = np.array([1.0, 3.0, 4.0, 0.0])
    found, chance = [], []
    for a in range(2):
        for b in range(4):
            for c in range(5):
                leaning = np.array([2 * a - 1, 2 * b - 3, 2 * c - 4, 0.0])
                found.append(side_scores(decided, leaning))
                ways = (1, 3, 3, 1)[b] * (1, 4, 6, 4, 1)[c]
                chance.append(ways / 2.0**8)
    scores, chance = np.array(found), np.array(chance)
    assert chance.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(chance @ scores, 0.0, atol=1e-12)
    np.testing.assert_allclose(chance @ scores**2, 1.0, rtol=1e-12)
    assert side_scores(np.zeros(2), np.zeros(2)) == (0.0, 0.0)
    assert side_scores(np.ones(2), np.array([1.0, -1.0])) == (0.0, 0.0)  # one vote each: no spread


@pytest.mark.parametrize(
    ("decided", "leaning", "hint"),
    [
        (4, [2] * 20 + [0] * 80, False),  # ΣS/√Σn is 2
        (4, [2] * 21 + [0] * 79, True),
        (4, [-2] * 21 + [0] * 79, True),
        (9, [5, -5] * 5 + [3, -3] * 45, False),  # some lean to either side: 1.33
        (9, [5, -5] * 6 + [3, -3] * 44, True),  # 1.6
    ],
)
def test_sides_are_hinted_at_by_all_or_by_some_of_either_side(decided, leaning, hint):
    """The row of gold does not count."""
    result = SimpleNamespace(decided=np.append(np.full(100, float(decided)), 90.0), leaning=np.append(leaning, 90.0))
    engine = SimpleNamespace(
        facts=SimpleNamespace(n_items=3, n_workers=101, n_gold=1), counts=SimpleNamespace(tally=lambda scores: result)
    )
    assert hints_at_sides(engine) is hint


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_two_votes_beside_a_light_one_have_a_dispersion_of_variance_1(weight):
    """Of coins: S² of a single vote is certain, whatever its weight, and does not spread."""
    decided = np.array([2.0, weight])
    found = [side_scores(decided, np.array([s, weight]))[1] for s in (-2.0, 0.0, 0.0, 2.0)]
    assert np.var(found) == pytest.approx(1.0)
