"""How many votes the best choice of pairs would save: ``python -m benchmarks.active_bound``.

A yardstick for `benchmarks.active` without a fit and without noise. Scores and reliabilities are known to whoever
designs; a vote on items d apart, by a random worker, has the precision E[β² σ'(βd)]; errors are Gaussian with the
inverse of the summed precisions, and a pair is in the wrong order with probability Φ(-|d| / f). Votes are shared among
pairs, in fractions, by multiplicative steps along the derivative of the number of wrong pairs. Printed is the share of
6,000 random votes with which that design has as few wrong pairs. A choice that looks at answers may in principle do
better than one fixed beforehand; one that has to learn scores and workers does worse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.active import ITEMS, RANDOM
from crowdsift.numeric.likelihoods import normal_cdf, sigmoid

Floats = NDArray[np.float64]
ONE, TWO = np.triu_indices(ITEMS, 1)
PRIOR = 1.0 / 3.0  # precision of a score uniform on [-3, 3]


def precision(gap: Floats) -> Floats:
    """Mean of β² σ'(βd) over β uniform on [0, 1]."""
    beta = (np.arange(200) + 0.5)[:, None] / 200
    chance = sigmoid(beta * gap)
    return np.asarray((beta**2 * chance * (1.0 - chance)).mean(axis=0))


def laplacian(weight: Floats) -> Floats:
    """Matrix of the quadratic form Σ w (r_a - r_b)²."""
    matrix = np.zeros((ITEMS, ITEMS))
    matrix[ONE, TWO] = -weight
    matrix += matrix.T
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix


def between(matrix: Floats) -> Floats:
    """Return the quadratic form of a matrix at the contrast of every pair."""
    own = np.diagonal(matrix)
    return np.asarray(own[ONE] + own[TWO] - 2.0 * matrix[ONE, TWO])


def covariance(votes: Floats, each: Floats) -> Floats:
    """Of the scores, after so many votes on every pair."""
    return np.asarray(np.linalg.inv(PRIOR * np.eye(ITEMS) + laplacian(votes * each)))


def wrong(gap: Floats, spread: Floats) -> float:
    """Return the share of pairs in the wrong order."""
    return float(np.mean(normal_cdf(-gap / np.sqrt(spread))))


def best(total: float, gap: Floats, each: Floats, steps: int = 60) -> float:
    """Return the share of wrong pairs under the best design with a number of votes."""
    votes = np.exp(-0.5 * gap**2)
    for _ in range(steps):
        votes *= total / votes.sum()
        s = covariance(votes, each)
        f = np.sqrt(between(s))
        worth = np.exp(-0.5 * (gap / f) ** 2) / np.sqrt(2 * np.pi) * gap / (2 * f**3)
        votes *= np.sqrt(np.maximum(each * between(s @ laplacian(worth) @ s), 1e-12))
    votes *= total / votes.sum()
    return wrong(gap, between(covariance(votes, each)))


def main() -> None:
    """Ten sets of scores."""
    shares = []
    grid = np.linspace(0.5, 0.8, 7)
    for seed in range(10):
        scores = np.random.default_rng([seed, 7]).uniform(-3, 3, ITEMS)
        gap = np.abs(scores[ONE] - scores[TWO])
        each = precision(gap)
        level = wrong(gap, between(covariance(np.full(len(gap), RANDOM / len(gap)), each)))
        errors = [best(share * RANDOM, gap, each) for share in grid]
        shares.append(float(np.interp(-level, -np.array(errors), grid)))
    print(f"share of votes under the best design: {np.mean(shares):.1%}", end=" ")
    print(f"(least {min(shares):.1%}, most {max(shares):.1%})")


if __name__ == "__main__":
    main()
