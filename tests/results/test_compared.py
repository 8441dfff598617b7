"""P(one item is better) of compared pairs against exact integration over scores."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift.numeric.likelihoods import normal_cdf, sigmoid
from crowdsift.results.predict import differences

WORKERS = 4  # so few that what they are is known without the vote in question
SHOWN = {2: 40, 3: 12}  # islands that are integrated, by size; of some only one vote is kept


def islands(size: int, votes: int, *, ties: bool = False, sides: bool = False) -> dict:
    """Votes on 600 islands: a chain first, then pairs at random; workers of three kinds."""
    rng = np.random.default_rng(5)
    score = rng.standard_normal((600, size))
    island, place = np.repeat(np.arange(600), votes), np.tile(np.arange(votes), 600)
    a = np.where(place < size - 1, place, rng.integers(0, size, len(island)))
    b = np.where(place < size - 1, place + 1, (a + rng.integers(1, size, len(island))) % size)
    worker = rng.integers(0, WORKERS, len(island))
    beta = np.array([2.5, 2.0, 1.0, -2.0])[worker]
    lean = np.array([1.0, -1.0, 0.5, 0.0])[worker] * sides
    z = beta * (score[island, a] - score[island, b]) + lean
    width, draw = (0.7 if ties else 0.0), rng.random(len(island))
    win, loss = sigmoid(z - width), sigmoid(-z - width)
    outcome = np.where(draw < win, 1.0, np.where(draw > 1.0 - loss, 0.0, 0.5))
    kept = (island >= 10) | (place < size - 1)
    rows = {"first": island * size + a, "second": island * size + b, "outcome": outcome}
    return {name: values[kept] for name, values in {**rows, "worker": worker}.items()}


def fitted(rows: dict, *, sides: bool = False, **parameters: object) -> crowdsift.Fit:
    given = dict(rows)
    first, second = given.pop("first"), given.pop("second")
    votes = crowdsift.Comparisons.from_arrays(first, second, sides_known=sides, **given)
    return crowdsift.fit(votes, crowdsift.Sift(**parameters))


def exact(fit: crowdsift.Fit, rows: dict, island: int, size: int) -> list[float]:
    """P(better) of neighbours in an island, by sums over a grid of their differences.

    The workers are those of the fit, by the points of their posteriors, each but for the vote in question: a point
    counts by 1/Z, Z the probability of the vote given all others.
    """
    assert fit.posterior is not None
    assert fit.posterior.points is not None
    assert fit.population is not None
    at = np.linspace(-7.0, 7.0, 701 if size == 2 else 71)
    d = np.meshgrid(*[at] * (size - 1), indexing="ij")
    covariance = 2.0 * np.eye(size - 1) - np.eye(size - 1, k=1) - np.eye(size - 1, k=-1)
    precision = np.linalg.inv(covariance) * fit.population["scale"] ** 2
    prior = -0.5 * sum(precision[i, j] * d[i] * d[j] for i in range(len(d)) for j in range(len(d)))
    given = []
    for i in np.flatnonzero(rows["first"] // size == island):
        one, two = rows["first"][i] % size, rows["second"][i] % size
        gap = sum(d[min(one, two) : max(one, two)]) * (1.0 if one < two else -1.0)
        b, width, side, variance = (part[rows["worker"][i]] for part in fit.posterior.points)
        k = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * variance)
        z = b * gap[..., None] + side
        win, loss = sigmoid(k * (z - width)), sigmoid(k * (-z - width))
        y = rows["outcome"][i]
        given.append(win if y == 1 else loss if y == 0 else 1 - win - loss)
    logs = [np.log(each.mean(axis=-1)) for each in given]
    for i, each in enumerate(given):
        others = np.exp(prior + sum(logs) - logs[i])
        share = 1.0 / np.tensordot(others, each, axes=others.ndim)
        logs[i] = np.log(each @ (share / share.sum()))
    density = np.exp(prior + sum(logs))
    above = [(density * ((gap > 0) + 0.5 * (gap == 0))).sum() for gap in d]
    return [float(part / density.sum()) for part in above]


@pytest.mark.parametrize(
    ("size", "votes", "ties", "sides", "most"),
    [
        (2, 3, False, False, 0.003),
        (2, 5, False, False, 0.003),
        (2, 4, True, False, 0.006),
        (2, 4, True, True, 0.006),
        (3, 4, False, False, 0.01),
    ],
)
def test_exact_integration(size: int, votes: int, ties: bool, sides: bool, most: float) -> None:
    """In islands of two but for the points of workers; of three other pairs are Gaussian."""
    rows = islands(size, votes, ties=ties, sides=sides)
    fit = fitted(rows, sides=sides, pair_effect=False)
    one = [i * size + a for i in range(SHOWN[size]) for a in range(size - 1)]
    two = [i + 1 for i in one]
    chance = np.concatenate([exact(fit, rows, island, size) for island in range(SHOWN[size])])
    _, _, difference, sd = differences(fit, one, two)
    apart, gauss = fit.better(one, two) - chance, normal_cdf(difference / sd) - chance
    assert np.abs(apart).max() < min(most, 0.6 * np.abs(gauss).max())
    assert np.abs(fit.better(two, one) + fit.better(one, two) - 1.0).max() < 1e-12


def test_what_stays_and_what_is_loaded(tmp_path) -> None:
    """Pairs never compared keep the Gaussian; a saved fit answers alike, as do equal votes."""
    rows = islands(3, 4)
    fit = fitted(rows)
    seen = {tuple(sorted(pair)) for pair in zip(rows["first"], rows["second"], strict=True)}
    never = [(3 * i, 3 * i + 2) for i in range(600) if (3 * i, 3 * i + 2) not in seen]
    assert len(never) > 100
    one, two = (list(side) for side in zip(*never, strict=True))
    _, _, difference, sd = differences(fit, one, two)
    assert (fit.better(one, two) == normal_cdf(difference / sd)).all()
    fit.save(tmp_path / "fit")
    one, two = rows["first"].tolist(), rows["second"].tolist()
    saved = crowdsift.load(tmp_path / "fit").better(one, two)
    np.testing.assert_allclose(saved, fit.better(one, two), atol=1e-5)
    shares = {name: np.concatenate([values, values]) for name, values in rows.items()}
    shares["outcome"] = np.concatenate([0.8 * rows["outcome"] + 0.1, rows["outcome"]])
    soft = fitted(shares, ties=False).better(one, two)
    assert ((soft > 0.0) & (soft < 1.0)).all()
    assert np.corrcoef(soft, fit.better(one, two))[0, 1] > 0.97
