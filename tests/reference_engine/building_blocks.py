"""What only the specification and tests of solvers need: terms of outcomes, a dense Laplacian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.dense import DenseOperator
from crowdsift.engines.kinds import WeightedPairs
from crowdsift.numeric.likelihoods import sigmoid

Vector = NDArray[np.float64]


def outcome_terms(z: Vector, width: Vector, tied: NDArray[np.bool_]) -> tuple[Vector, Vector, Vector]:
    """Return log Z of an outcome, its derivative e in z, and f = e² + (log Z)''."""
    # Z is σ(z - δ) of a win with the tie width δ, and 1 - σ(z - δ) - σ(-z - δ) of a tie (Rao and Kupper 1967).
    p1, p2 = sigmoid(z - width), sigmoid(-z - width)
    log_p1, log_p2 = -np.logaddexp(0.0, width - z), -np.logaddexp(0.0, width + z)
    with np.errstate(divide="ignore"):
        log_tie = np.log(np.expm1(np.minimum(2.0 * width, 700.0))) + log_p1 + log_p2
    e_tie = p2 - p1
    f_tie = e_tie**2 - p1 * (1.0 - p1) - p2 * (1.0 - p2)
    return (
        np.where(tied, log_tie, log_p1),
        np.where(tied, e_tie, 1.0 - p1),
        np.where(tied, f_tie, (1.0 - p1) * (1.0 - 2.0 * p1)),
    )


def laplacian(n_items: int, first: NDArray[np.uint32], second: NDArray[np.uint32], weight: Vector) -> DenseOperator:
    """Return Σ weight (e_first - e_second)(e_first - e_second)ᵀ."""
    matrix = np.zeros((n_items, n_items))
    for a, b, sign in ((first, first, 1), (second, second, 1), (first, second, -1)):
        np.add.at(matrix, (a, b), sign * weight)
    np.add.at(matrix, (second, first), -weight)
    low, high = np.minimum(first, second), np.maximum(first, second)
    return DenseOperator(matrix, pairs=WeightedPairs(low, high, weight))
