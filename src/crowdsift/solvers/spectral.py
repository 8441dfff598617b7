"""A start from the correlations of votes: needs no guess of who is reliable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.engines.kinds import Operator
    from crowdsift.numeric import Vector


def spectral_scores(
    votes: Operator, n_items: int, *, steps: int = 60, tolerance: float = 1e-2
) -> Vector | None:
    """D^-½ times the leading eigenvector of D^-½ (XᵀX - L(e²)) D^-½, centred, RMS 1.

    The answers of one worker to different pairs are products of its reliability and the two
    differences, so the mean of XᵀX less its diagonal part is a quadratic form of r. By Lanczos
    with full orthogonalisation, to a residual of `tolerance` times the eigenvalue; a start needs
    no more. None where votes are not correlated at all.
    """
    degrees = votes.diagonal()
    scale = (degrees > 0) / np.sqrt(np.maximum(degrees, 1e-300))
    first = arbitrary(n_items) * (scale > 0)
    norm = float(np.linalg.norm(first))
    if norm == 0.0:
        return None
    basis, alphas, betas = [first / norm], [], []
    for step in range(min(steps, n_items)):
        w = scale * votes.multiply(scale * basis[-1])
        alphas.append(float(w @ basis[-1]))
        for q in basis + basis:  # twice: once leaves what rounding brings back
            w = w - float(q @ w) * q
        betas.append(float(np.linalg.norm(w)))
        if betas[-1] < 1e-10 or step + 1 == min(steps, n_items):
            break
        if step % 5 == 4:
            values, vectors = _tridiagonal(alphas, betas)
            if betas[-1] * abs(vectors[-1, -1]) < tolerance * max(values[-1], 1e-12):
                break
        basis.append(w / betas[-1])
    values, vectors = _tridiagonal(alphas, betas)
    if values[-1] <= 1e-10:
        return None
    scores = scale * sum(part * q for part, q in zip(vectors[:, -1], basis, strict=False))
    scores = scores - scores.mean()
    size = float(np.sqrt(np.mean(scores**2)))
    return None if size < 1e-12 else scores / size


def _tridiagonal(alphas: list[float], betas: list[float]) -> tuple[Vector, Vector]:
    off = betas[: len(alphas) - 1]
    values, vectors = np.linalg.eigh(np.diag(alphas) + np.diag(off, 1) + np.diag(off, -1))
    return values, vectors


def arbitrary(n: int) -> Vector:
    """Return a fixed vector without structure: fractions of multiples of the golden ratio."""
    return np.asarray(np.modf(np.arange(1, n + 1) * 0.6180339887498949)[0] - 0.5, np.float64)
