"""Trusted votes: the scores of one panel, learned from its votes and from biased panels.

The trusted panel has the scores r ~ N(0, v). A judge j of another panel p has y_j = c_j (r + u_p + w_j): u_p ~ N(0,
σ_p²) is the bias that the panel shares, w_j ~ N(0, s_j) that of the judge, and c_j corrects its reliability. An item
may be an outlier, whose u has 16 times the variance. Votes are given by their Gaussian sites, exp(-yᵀLy/2 + bᵀy). All
variances are integrated over by Gibbs sampling in parallel chains; moments of r are averages of its exact conditional
ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

# Priors for scores of variance 1. All variances have scaled inverse χ² priors of _FREEDOM degrees, about _SHARED² for
# the biases of panels and about _OWN² for those of judges. c ~ N(1, _SLOPE²), and the share of outliers is Beta(1, 9).
_FREEDOM, _SHARED, _OWN, _SLOPE, _OUTLIER, _SHARES = 4.0, 0.2, 0.1, 0.5, 16.0, (1.0, 9.0)
# sweeps before draws are kept; sweeps that are kept; most multiplications of one sweep
_BURN_IN, _SWEEPS, _WORK = 40, 80, 2e7


class PanelPosterior(NamedTuple):
    """Mean and covariance of the trusted scores, centred, and draws of the panels' biases.

    `bias` has an entry per draw, panel and item, `deviation` the σ_p of every draw, `alone` the covariance of the
    scores by the trusted votes alone.
    """

    mean: Vector
    covariance: Vector
    bias: Vector
    deviation: Vector
    alone: Vector


def panel_posterior(L: Vector, b: Vector, panel: NDArray[np.int64], seed: int = 0) -> PanelPosterior:
    """Return the posterior of trusted scores and of biases."""
    # `L` and `b` are the sites of the trusted panel, then those of each judge; `panel` is the panel of each judge.
    # Sites of few votes may have negative precisions, which no Gaussian allows; these are raised to 0.
    values, vectors = np.linalg.eigh(L)
    L = np.maximum(values, 0.0)[:, None] * vectors @ vectors.swapaxes(1, 2)
    rng, (judges, K) = np.random.default_rng(seed), (len(panel), L.shape[1])
    n = int(np.clip(_WORK / (max(judges, 1) * K**3), 8, 64))
    panels, eye = int(panel.max(initial=-1)) + 1, np.eye(K)
    member = (panel == np.arange(panels)[:, None]).astype(np.float64)
    c, own = np.ones((n, judges)), np.full((n, judges), _OWN**2)
    shared, v = np.full((n, panels), _SHARED**2), np.ones(n)
    outlier, odds = np.ones((n, panels, K)), np.full((n, panels), 0.1)
    found: list[tuple[Vector, ...]] = []
    for sweep in range(_BURN_IN + _SWEEPS):
        cL, cb = c[:, :, None, None] ** 2 * L[1:], c[:, :, None] * b[1:]
        B = np.linalg.inv(eye + own[:, :, None, None] * cL)  # with w integrated out
        A = np.einsum("pj,njik->npik", member, cL @ B)
        a = np.einsum("pj,njki,njk->npi", member, B, cb)
        D = shared[:, :, None] * outlier
        R = np.linalg.inv(eye + A * D[:, :, None, :])  # with u integrated out
        to_items = np.einsum("npik,npk->ni", R, a)
        precision = eye / v[:, None, None] + L[0] + (R @ A).sum(axis=1)
        mean, covariance, r = _draw(rng, precision, b[0] + to_items)
        u = _draw(rng, A + eye / D[:, :, None, :], a - np.einsum("npik,nk->npi", A, r))[2]
        q = r[:, None] + u[:, panel]
        w = _draw(rng, cL + eye / own[:, :, None, None], cb - np.einsum("njik,njk->nji", cL, q))[2]
        q = q + w
        strength = _SLOPE**-2 + np.einsum("nji,jik,njk->nj", q, L[1:], q)
        c = (_SLOPE**-2 + np.einsum("ji,nji->nj", b[1:], q)) / strength
        c = np.maximum(c + rng.normal(size=c.shape) / np.sqrt(strength), 0.05)
        v = (_FREEDOM + (r**2).sum(axis=1)) / rng.chisquare(_FREEDOM + K, n)
        shared = _FREEDOM * _SHARED**2 + (u**2 / outlier).sum(axis=2)
        shared /= rng.chisquare(_FREEDOM + K, shared.shape)
        own = (_FREEDOM * _OWN**2 + (w**2).sum(axis=2)) / rng.chisquare(_FREEDOM + K, own.shape)
        log_odds = np.log(odds / (1.0 - odds) / np.sqrt(_OUTLIER))[:, :, None]
        log_odds = log_odds + 0.5 * (1.0 - 1.0 / _OUTLIER) * u**2 / shared[:, :, None]
        is_outlier = np.log(rng.random(u.shape)) < -np.logaddexp(0.0, -log_odds)
        outlier, count = np.where(is_outlier, _OUTLIER, 1.0), is_outlier.sum(axis=2)
        odds = rng.beta(_SHARES[0] + count, _SHARES[1] + K - count).clip(1e-6, 1.0 - 1e-6)
        if sweep >= _BURN_IN:
            found.append((mean, covariance, u, np.sqrt(shared), v))
    means, covariances, bias, deviation, v = (np.concatenate(x) for x in zip(*found, strict=True))
    centring = eye - 1.0 / K
    means = means @ centring
    apart = means - means.mean(axis=0)
    covariance = centring @ covariances.mean(axis=0) @ centring + apart.T @ apart / len(apart)
    alone = centring @ np.linalg.inv(L[0] + eye / v.mean()) @ centring
    return PanelPosterior(means.mean(axis=0), covariance, bias @ centring, deviation, alone)


def _draw(rng: np.random.Generator, precision: Vector, linear: Vector) -> tuple[Vector, ...]:
    """Return mean, covariance and a draw of every Gaussian."""
    covariance = np.linalg.inv(precision)
    covariance = 0.5 * (covariance + covariance.swapaxes(-1, -2))
    mean = np.einsum("...ij,...j->...i", covariance, linear)
    noise = rng.normal(size=mean.shape)
    return (mean, covariance, mean + np.einsum("...ij,...j->...i", np.linalg.cholesky(covariance), noise))
