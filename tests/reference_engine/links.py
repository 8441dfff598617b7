"""The likelihoods of single comparisons and their derivatives, in plain NumPy.

This file is the specification: engines and the compiled core are tested against it, and it is tested against finite
differences. All functions work elementwise on arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric.likelihoods import log_sigmoid, normal_cdf, sigmoid

Array = NDArray[np.float64]


def polya_gamma_mean(x: Array) -> Array:
    """tanh(x/2)/(2x), 1/4 at 0: the mean of a Pólya-Gamma(1, x) variable."""
    near = np.abs(x) < 1e-3
    safe = np.where(near, 1.0, x)
    return np.where(near, 0.25 - x**2 / 48 + x**4 / 480, np.tanh(safe / 2) / (2 * safe))


def logistic(eta: Array, outcome: Array) -> tuple[Array, Array, Array]:
    """Log-likelihood y·log σ(η) + (1-y)·log σ(-η), and its first and second derivative in η."""
    p = sigmoid(eta)
    value = outcome * log_sigmoid(eta) + (1.0 - outcome) * log_sigmoid(-eta)
    return value, outcome - p, -p * sigmoid(-eta)


def probit(z: Array, outcome: Array) -> tuple[Array, Array, Array]:
    """Log-likelihood y·log Φ(z) + (1-y)·log Φ(-z), and its first and second derivative in z."""
    (log_up, up), (log_down, down) = _normal_tail(z), _normal_tail(-z)
    value = outcome * log_up + (1.0 - outcome) * log_down
    first = outcome * up - (1.0 - outcome) * down
    return value, first, -outcome * up * (z + up) - (1.0 - outcome) * down * (down - z)


def _normal_tail(z: Array) -> tuple[Array, Array]:
    """Log Φ(z) and φ(z)/Φ(z), by an asymptotic series where Φ underflows."""
    far = z < -36.0
    near = np.where(far, 0.0, z)
    below = normal_cdf(near)
    above = normal_cdf(np.minimum(-near, 0.0))  # the small one of Φ(z) and Φ(-z) is exact
    log_phi = np.where(near > 0, np.log1p(-above), np.log(below))
    ratio = np.exp(-0.5 * near**2) / (math.sqrt(2.0 * math.pi) * below)
    out = np.where(far, z, -40.0)
    series = 1 - 1 / out**2 + 3 / out**4 - 15 / out**6
    tail = -0.5 * out**2 - 0.5 * math.log(2 * math.pi) - np.log(-out) + np.log(series)
    return np.where(far, tail, log_phi), np.where(far, -out / series, ratio)


class Derivatives(NamedTuple):
    """A log-likelihood ℓ(d, t) of N comparisons and its derivatives.

    d is the difference of scores, t the p parameters of the worker: `t` and `dt` are N x p, `tt` is N x p x p.
    """

    value: Array
    d: Array
    dd: Array
    t: Array
    dt: Array
    tt: Array


Likelihood = Callable[[Array, Array, Array, Array], Derivatives]


def _scaled(link: Callable[[Array, Array], tuple[Array, Array, Array]], scale: float) -> Likelihood:
    """ℓ = link(scale·t·d)."""

    def likelihood(d: Array, theta: Array, x: Array, outcome: Array) -> Derivatives:
        t = theta[:, 0]
        value, first, second = link(scale * t * d, outcome)
        first, second = scale * first, scale**2 * second
        mixed = first + second * t * d
        return Derivatives(
            value, first * t, second * t**2, (first * d)[:, None], mixed[:, None], (second * d**2)[:, None, None]
        )

    return likelihood


def _shifted_logit(d: Array, theta: Array, x: Array, outcome: Array) -> Derivatives:
    """P = σ(d + t·x)."""
    value, first, second = logistic(d + (theta * x).sum(axis=1), outcome)
    outer = x[:, :, None] * x[:, None, :]
    return Derivatives(value, first, second, first[:, None] * x, second[:, None] * x, second[:, None, None] * outer)


def _flipped_logit(d: Array, theta: Array, x: Array, outcome: Array) -> Derivatives:
    """P = t·σ(d) + (1 - t)·σ(-d)."""
    t, up, down = theta[:, 0], sigmoid(d), sigmoid(-d)
    bump = up * down
    return _of_probability(
        outcome,
        t * up + (1 - t) * down,
        t * down + (1 - t) * up,
        d=(2 * t - 1) * bump,
        dd=(2 * t - 1) * bump * (down - up),
        t=(up - down)[:, None],
        dt=(2 * bump)[:, None],
        tt=np.zeros((len(d), 1, 1)),
    )


def _led_logit(d: Array, theta: Array, x: Array, outcome: Array) -> Derivatives:
    """P = σ(t₀)·σ(d) + σ(-t₀)·σ(t₁·x)."""
    skill, lapse = sigmoid(theta[:, 0]), sigmoid(-theta[:, 0])
    lead = (theta[:, 1:] * x).sum(axis=1)
    up, down, left, right = sigmoid(d), sigmoid(-d), sigmoid(lead), sigmoid(-lead)
    bump, skill1, left1 = up * down, skill * lapse, left * right
    skill2, left2 = skill1 * (lapse - skill), left1 * (right - left)
    tt = np.empty((len(d), theta.shape[1], theta.shape[1]))
    tt[:, 0, 0] = skill2 * (up - left)
    tt[:, 0, 1:] = tt[:, 1:, 0] = -(skill1 * left1)[:, None] * x
    tt[:, 1:, 1:] = (lapse * left2)[:, None, None] * x[:, :, None] * x[:, None, :]
    zero = np.zeros_like(x, dtype=np.float64)
    return _of_probability(
        outcome,
        skill * up + lapse * left,
        skill * down + lapse * right,
        d=skill * bump,
        dd=skill * bump * (down - up),
        t=np.column_stack([skill1 * (up - left), (lapse * left1)[:, None] * x]),
        dt=np.column_stack([skill1 * bump, zero]),
        tt=tt,
    )


def _of_probability(
    outcome: Array, p: Array, q: Array, *, d: Array, dd: Array, t: Array, dt: Array, tt: Array
) -> Derivatives:
    """y·log P + (1 - y)·log Q, Q = 1 - P, from the derivatives of P, by the chain rule."""
    first = outcome / p - (1 - outcome) / q
    second = -outcome / p**2 - (1 - outcome) / q**2
    return Derivatives(
        value=outcome * np.log(p) + (1 - outcome) * np.log(q),
        d=first * d,
        dd=first * dd + second * d**2,
        t=first[:, None] * t,
        dt=first[:, None] * dt + (second * d)[:, None] * t,
        tt=first[:, None, None] * tt + second[:, None, None] * t[:, :, None] * t[:, None, :],
    )


#: The likelihoods with parameters of workers, by the names that engines know them by.
LIKELIHOODS: dict[str, Likelihood] = {
    "scaled-logit": _scaled(logistic, 1.0),
    "scaled-probit": _scaled(probit, 1.0 / math.sqrt(2.0)),
    "shifted-logit": _shifted_logit,
    "flipped-logit": _flipped_logit,
    "led-logit": _led_logit,
}
