"""Trusted votes: the scores of one panel, learned from its votes and from biased panels.

The trusted panel has the scores r ~ N(0, τ²). A judge j of another panel p has y_j = c_j (r + u_p + w_j). The panel
shares the bias u_p, the judge alone has w_j ~ N(0, s_j), and c_j corrects its reliability. u_p/σ_p has Student's t
distribution with one of the degrees of freedom in _FREEDOM, all equally probable before any votes: tails are as heavy
as the evidence says. Votes are given by their Gaussian sites, exp(-yᵀLy/2 + bᵀy). All variances are integrated over by
Gibbs sampling in parallel chains; moments of r are averages of its exact conditional ones.

Many votes of judges determine c_j (r + u_p + w_j), and only trusted votes determine the scale of r. So each sweep also
draws one factor by which r, u, w and their standard deviations are divided and c is multiplied: Gibbs steps of single
variables would hardly change the scale.
"""

from math import lgamma, log
from typing import NamedTuple

import numpy as np

from crowdsift.numeric import Indices, Vector

# Priors: τ is half-Cauchy of scale 1, σ_p/τ of scale _SHARED, m √s_j of scale _OWN; c ~ N(m, (m _SLOPE)²),
# log m ~ N(0, _LEVEL²).
_SHARED, _OWN, _SLOPE, _LEVEL = 0.5, 0.25, 0.5, 1.0
_FREEDOM = np.array([2.0, 4.0, 1e6])  # the last for the Gaussian
_HEIGHT = np.array([lgamma(0.5 * f + 0.5) - lgamma(0.5 * f) - 0.5 * log(0.5 * f) for f in _FREEDOM])  # of densities
_STEPS = 0.05 * np.arange(-40.0, 41.0)[:, None]  # of the logarithms of τ, m and the common factor
# sweeps before draws are kept; sweeps that are kept; most multiplications of one sweep
_BURN_IN, _SWEEPS, _WORK = 40, 80, 2e7


class PanelPosterior(NamedTuple):
    """Mean and covariance of the trusted scores, centred, and draws of the panels' biases.

    `bias` has an entry per draw, panel and item; `alone` is the covariance of the scores by the trusted votes alone.
    """

    mean: Vector
    covariance: Vector
    bias: Vector
    alone: Vector


def panel_posterior(L: Vector, b: Vector, panel: Indices, seed: int = 0) -> PanelPosterior:
    """Return the posterior of trusted scores and of biases."""
    # `L` and `b` are the sites of the trusted panel, then those of each judge; `panel` is the panel of each judge.
    # Sites of few votes may have negative precisions, which no Gaussian allows: they say nothing in those directions.
    values, vectors = np.linalg.eigh(L)
    values = np.where(values > 1e-9 * values.max(), values, 0.0)
    linear = (values > 0.0) * np.einsum("jik,ji->jk", vectors, b)  # coordinates along eigenvectors
    L, b = values[:, None] * vectors @ vectors.swapaxes(1, 2), _combine(vectors, linear)
    V, values, linear = vectors[1:], values[1:], linear[1:]
    rng, (judges, K) = np.random.default_rng(seed), (len(panel), L.shape[1])
    n = int(np.clip(_WORK / (max(judges, 1) * K**3), 8, 64))
    panels, eye = int(panel.max(initial=-1)) + 1, np.eye(K)
    member = (panel == np.arange(panels)[:, None]).astype(np.float64)
    c, own, m, tau = np.ones((n, judges)), np.full((n, judges), _OWN**2), np.ones(n), np.ones(n)
    shared, spread = np.full((n, panels), _SHARED**2), np.ones((n, panels, K))
    found: list[tuple[Vector, ...]] = []
    for sweep in range(_BURN_IN + _SWEEPS):
        cL, cb, own_variance = c[:, :, None] ** 2 * values, c[:, :, None] * linear, own[:, :, None]
        integrated = 1.0 + own_variance * cL  # with w integrated out
        A = np.einsum("pj,njik->npik", member, V * (cL / integrated)[:, :, None] @ V.swapaxes(1, 2))
        a = np.einsum("pj,nji->npi", member, _combine(V, cb / integrated))
        D = shared[:, :, None] * spread
        R = np.linalg.inv(eye + A * D[:, :, None, :])  # with u integrated out
        to_items = np.einsum("npik,npk->ni", R, a)
        mean, covariance, r = _draw(rng, eye / tau[:, None, None] ** 2 + L[0] + (R @ A).sum(axis=1), b[0] + to_items)
        u = _draw(rng, A + eye / D[:, :, None, :], a - np.einsum("npik,nk->npi", A, r))[2]
        q = np.einsum("jik,nji->njk", V, r[:, None] + u[:, panel])
        inverse = own_variance / integrated
        w = inverse * (cb - cL * q) + np.sqrt(inverse) * rng.normal(size=q.shape)
        q = q + w
        slopes = (m[:, None] * _SLOPE) ** -2  # precisions
        strength = slopes + np.einsum("jk,njk->nj", values, q**2)
        c = (slopes * m[:, None] + np.einsum("jk,njk->nj", linear, q)) / strength
        c = np.maximum(c + rng.normal(size=c.shape) / np.sqrt(strength), 0.05 * m[:, None])
        spread = _spread(rng, u**2 / shared[:, :, None])
        shared = _variance(rng, shared, (u**2 / spread).sum(axis=2), K, (_SHARED * tau)[:, None])
        own = _variance(rng, own, (w**2).sum(axis=2), K, (_OWN / m)[:, None])
        # m and τ are drawn, then the common factor: votes of judges, c/m, u/σ, w/√s and m√s do not change with it.
        ratio = np.exp(-_STEPS)
        away = (ratio[:, :, None] * c / m[:, None] - 1.0) / _SLOPE
        log = -0.5 * ((np.log(m) + _STEPS) / _LEVEL) ** 2 - 0.5 * (away**2).sum(axis=2)
        m = m / _factor(rng, log - np.log1p(own * (m / ratio)[:, :, None] ** 2 / _OWN**2).sum(axis=2))
        log = -0.5 * ratio**2 * (r**2).sum(axis=1) / tau**2 - (K + panels) * _STEPS
        log = log - np.log1p(shared * (ratio / tau)[:, :, None] ** 2 / _SHARED**2).sum(axis=2)
        tau = tau / _factor(rng, log - np.log1p((tau / ratio) ** 2) + _STEPS)
        log = ratio * (r @ b[0]) - 0.5 * ratio**2 * np.einsum("ni,ik,nk->n", r, L[0], r)
        log = log - 0.5 * ((np.log(m) + _STEPS) / _LEVEL) ** 2
        scale = _factor(rng, log - np.log1p((ratio * tau) ** 2) - _STEPS)
        r, tau, c, m = r * scale[:, None], tau * scale, c / scale[:, None], m / scale
        u, shared, own = u * scale[:, None, None], shared * scale[:, None] ** 2, own * scale[:, None] ** 2
        if sweep >= _BURN_IN:
            found.append((mean, covariance, u, tau))
    means, covariances, bias, tau = (np.concatenate(x) for x in zip(*found, strict=True))
    centring = eye - 1.0 / K
    means = means @ centring
    apart = means - means.mean(axis=0)
    covariance = centring @ covariances.mean(axis=0) @ centring + apart.T @ apart / len(apart)
    alone = centring @ np.linalg.inv(L[0] + eye / np.median(tau) ** 2) @ centring
    return PanelPosterior(means.mean(axis=0), covariance, bias @ centring, alone)


def _combine(vectors: Vector, coordinates: Vector) -> Vector:
    """Return the sums of eigenvectors times coordinates."""
    return np.asarray((vectors @ coordinates[..., None])[..., 0])


def _draw(rng: np.random.Generator, precision: Vector, linear: Vector) -> tuple[Vector, ...]:
    """Return mean and covariance of every Gaussian, and a draw from each."""
    covariance = np.linalg.inv(precision)
    covariance = 0.5 * (covariance + covariance.swapaxes(-1, -2))
    mean = np.einsum("...ij,...j->...i", covariance, linear)
    noise = rng.normal(size=mean.shape)
    return (mean, covariance, mean + np.einsum("...ij,...j->...i", np.linalg.cholesky(covariance), noise))


def _factor(rng: np.random.Generator, log_density: Vector) -> Vector:
    """Draw a step in every column of `log_density`; return the factor exp(-step)."""
    drawn = (log_density + rng.gumbel(size=log_density.shape)).argmax(axis=0)
    return np.asarray(np.exp(-_STEPS[drawn, 0]))


def _variance(rng: np.random.Generator, before: Vector, squares: Vector, count: int, scale: Vector) -> Vector:
    """Draw variances given sums of squares; their square roots have a half-Cauchy prior."""
    # Given a second variable, drawn first, the variance has an inverse gamma distribution.
    rate = rng.exponential(size=before.shape) / (scale**-2.0 + 1.0 / before)
    return np.asarray((0.5 * squares + rate) / rng.gamma(0.5 * (count + 1), size=before.shape))


def _spread(rng: np.random.Generator, squares: Vector) -> Vector:
    """Draw a variance for every bias, so that the biases of a panel have Student's t distribution."""
    # `squares` are (u/σ)². The degrees of freedom of a panel are drawn first, given the biases of all its items.
    density = (_HEIGHT - 0.5 * (_FREEDOM + 1.0) * np.log1p(squares[..., None] / _FREEDOM)).sum(axis=-2)
    freedom = _FREEDOM[(density + rng.gumbel(size=density.shape)).argmax(axis=-1)][..., None]
    return np.asarray((freedom + squares) / rng.chisquare(freedom + 1.0, squares.shape))
