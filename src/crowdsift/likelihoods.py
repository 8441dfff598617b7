"""The likelihoods of single comparisons and their derivatives, in plain NumPy.

This file is the specification: engines and the compiled core are tested against it, and it is
tested against finite differences. All functions work elementwise on arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

__all__ = ["log_sigmoid", "logistic", "polya_gamma_mean", "sigmoid"]


def sigmoid(x: Array) -> Array:
    """1/(1 + exp(-x)), without overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.likelihoods import sigmoid
    >>> sigmoid(np.array([-700.0, 0.0, 700.0]))
    array([9.85967654e-305, 5.00000000e-001, 1.00000000e+000])
    """
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def log_sigmoid(x: Array) -> Array:
    """log(1/(1 + exp(-x))), without overflow or loss for large |x|.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.likelihoods import log_sigmoid
    >>> log_sigmoid(np.array([-700.0, 0.0]))
    array([-7.00000000e+02, -6.93147181e-01])
    """
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


def polya_gamma_mean(x: Array) -> Array:
    """tanh(x/2)/(2x), 1/4 at 0: the mean of a Pólya-Gamma(1, x) variable.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.likelihoods import polya_gamma_mean
    >>> polya_gamma_mean(np.array([0.0, 2.0]))
    array([0.25      , 0.19039854])
    """
    near = np.abs(x) < 1e-3
    safe = np.where(near, 1.0, x)
    return np.where(near, 0.25 - x**2 / 48 + x**4 / 480, np.tanh(safe / 2) / (2 * safe))


def logistic(eta: Array, outcome: Array) -> tuple[Array, Array, Array]:
    """Log-likelihood y·log σ(η) + (1-y)·log σ(-η), and its first and second derivative in η.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.likelihoods import logistic
    >>> value, slope, curvature = logistic(np.array([0.0]), np.array([1.0]))
    >>> value.round(4), slope, curvature
    (array([-0.6931]), array([0.5]), array([-0.25]))
    """
    p = sigmoid(eta)
    value = outcome * log_sigmoid(eta) + (1.0 - outcome) * log_sigmoid(-eta)
    return value, outcome - p, -p * sigmoid(-eta)
