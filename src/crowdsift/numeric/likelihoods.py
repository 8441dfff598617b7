"""The logistic and the normal distribution function, and likelihoods based on them, elementwise on arrays."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Vector

Array = Vector

# E[σ(x)] of x ~ N(m, v) is close to σ(m/√(1 + c v)), as σ(x) is close to Φ(√c x). The reference answers and the
# compiled core use this c, with five digits of π.
LOGISTIC_SMOOTHING = 3.14159 / 8.0
_FAR = 60.0  # largest -x in `bounded_sigmoid`: single precision holds its exponential


def smoothing(variance: Array | float) -> Array:
    """Return k = 1/√(1 + c·v): E[σ(x)] of x ~ N(m, v) is close to σ(k·m)."""
    return np.asarray(1.0 / np.sqrt(1.0 + LOGISTIC_SMOOTHING * variance))


def sigmoid(x: Array) -> Array:
    """Return 1/(1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def bounded_sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """Return σ(x) faster, in the precision of x; below -60 it is σ(-60)."""
    e = np.asarray(np.negative(x))
    np.minimum(e, e.dtype.type(_FAR), out=e)
    np.exp(e, out=e)
    e += 1
    return np.asarray(np.reciprocal(e, out=e))


def log_sigmoid(x: Array) -> Array:
    """Return log(1/(1 + exp(-x))), without overflow or loss for large |x|."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


def normal_cdf(z: Array) -> Array:
    """Return Φ(z), the distribution function of the standard normal."""
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return np.asarray(0.5 * erfc(-z / math.sqrt(2.0)), dtype=np.float64)
