"""The logistic and the normal distribution function, and likelihoods based on them, elementwise on arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# E[σ(x)] of x ~ N(m, v) is close to σ(m/√(1 + c v)), as σ(x) is close to Φ(√c x). The reference answers and the
# compiled core use this c, with five digits of π.
LOGISTIC_SMOOTHING = 3.14159 / 8.0


def smoothing(variance: Array | float) -> Array:
    """Return k = 1/√(1 + c·v): E[σ(x)] of x ~ N(m, v) is close to σ(k·m)."""
    return np.asarray(1.0 / np.sqrt(1.0 + LOGISTIC_SMOOTHING * variance))


def sigmoid(x: Array) -> Array:
    """Return 1/(1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def log_sigmoid(x: Array) -> Array:
    """Return log(1/(1 + exp(-x))), without overflow or loss for large |x|."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


def outcome_terms(z: Array, width: Array, tied: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Return log Z of an outcome, its derivative e in z, and f = e² + (log Z)''."""
    # Z is σ(z - δ) for a win with the tie width δ, and 1 - σ(z - δ) - σ(-z - δ) for a tie (Rao and Kupper 1967).
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


def normal_cdf(z: Array) -> Array:
    """Return Φ(z), the distribution function of the standard normal."""
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return np.asarray(0.5 * erfc(-z / math.sqrt(2.0)), dtype=np.float64)
