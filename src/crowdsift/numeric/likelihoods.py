"""The logistic and the normal distribution function, and likelihoods based on them, elementwise on arrays."""

import math

import numpy as np

from crowdsift.numeric import Vector

Array = Vector

# E[σ(x)] of x ~ N(m, v) is close to σ(m/√(1 + c v)), as σ(x) is close to Φ(√c x). The reference answers and the
# compiled core use this c, with five digits of π.
LOGISTIC_SMOOTHING = 3.14159 / 8.0


def smoothing(variance: Array | float) -> Array:
    """Return k = 1/√(1 + c·v): E[σ(x)] of x ~ N(m, v) is close to σ(k·m)."""
    return np.asarray(1.0 / np.sqrt(1.0 + LOGISTIC_SMOOTHING * variance))


def sigmoid(x: Array) -> Array:
    """Return 1/(1 + exp(-x)), without overflow."""
    below = np.exp(-np.abs(x))
    below += 1.0
    above = np.exp(np.minimum(x, 0.0))  # takes less time than a choice between 1 and another number
    above /= below
    return above


def log_sigmoid(x: Array) -> Array:
    """Return log(1/(1 + exp(-x))), without overflow or loss for large |x|."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


def normal_cdf(z: Array) -> Array:
    """Return Φ(z), the distribution function of the standard normal."""
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return np.asarray(0.5 * erfc(-z / math.sqrt(2.0)), dtype=np.float64)
