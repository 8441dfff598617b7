"""Passes over votes with covariates in NumPy: the specification of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.covariates import MIN_TYPE_MASS, CovariateVotes, TypeValues
from crowdsift.numeric.likelihoods import smoothing
from reference_engine.building_blocks import outcome_terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

_NUMBERS = 400_000  # of an array over votes and types at a time


def _blocks(starts: NDArray[np.int64], n_types: int) -> Iterator[tuple[int, int]]:
    """Ranges of workers of so many votes that arrays over votes and types stay small."""
    most, begin, count = max(_NUMBERS // n_types, 1), 0, len(starts) - 1
    while begin < count:
        end = int(np.searchsorted(starts, starts[begin] + most, side="right")) - 1
        end = min(max(end, begin + 1), count)
        yield begin, end
        begin = end


def _sums(values: Vector, starts: NDArray[np.int64]) -> Vector:
    """Return sums over the votes of every worker of a block; 0 for one without votes."""
    padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
    found = np.add.reduceat(padded, np.minimum(starts[:-1], len(values)), axis=0)
    found[starts[1:] == starts[:-1]] = 0.0
    return np.asarray(found)


class NumpyPasses:
    """The passes of `crowdsift.engines.covariates` in NumPy: the specification."""

    def __init__(self, votes: CovariateVotes) -> None:
        self._votes = votes

    def messages(
        self, types: TypeValues, m: Vector, v: Vector, gamma: Vector, wanted: NDArray[np.bool_]
    ) -> tuple[Vector, Vector, Vector]:
        votes, (workers, T, P) = self._votes, gamma.shape
        log_z, G, H = np.zeros((workers, T)), np.zeros(gamma.shape), np.zeros((workers, T, P, P))
        for begin, end in _blocks(votes.starts, T):
            kept = np.flatnonzero(wanted[begin:end].any(axis=0))
            rows, some = slice(votes.starts[begin], votes.starts[end]), np.arange(begin, end)
            part, there = votes.starts[begin : end + 1] - votes.starts[begin], np.ix_(some, kept)
            at, regular, C = votes.worker[rows] - begin, types.regular[kept], votes.C[rows]
            beta, own, n = types.beta[there][at], gamma[there], votes.n[rows, None]
            eta = sum(C[:, p, None] * own[:, :, p][at] for p in range(P))
            z = beta * m[rows, None] + eta * regular + votes.side[rows, None] * types.only[kept]
            k = smoothing(beta**2 * v[rows, None])
            logs, e, f = outcome_terms(k * z, k * types.width[kept], votes.tied[rows, None])
            log_z[there] = _sums(n * logs, part)
            slope, bend = n * e * k * regular, n * (e**2 - f) * k**2 * regular
            G[there] = _sums(slope[..., None] * C[:, None], part)
            square = C[:, :, None] * C[:, None]
            H[there] = _sums(bend[..., None, None] * square[:, None], part)
        return log_z, G, H

    def moments(self, types: TypeValues, m: Vector, V: Vector, shift: Vector, q: Vector) -> tuple[Vector, Vector]:
        votes = self._votes
        alpha, curvature = np.empty((len(votes.n), 2)), np.empty((len(votes.n), 3))
        for begin, end in _blocks(votes.starts, q.shape[1]):
            likely = q[begin:end].max(axis=0) > MIN_TYPE_MASS
            kept = np.flatnonzero(likely & (types.regular > 0.0))
            rows = slice(votes.starts[begin], votes.starts[end])
            at = votes.worker[rows] - begin
            beta, mass = types.beta[begin:end, kept][at], q[begin:end, kept][at]
            Vd, Vc, Ve = (V[rows, each, None] for each in range(3))
            z = beta * m[rows, :1] + m[rows, 1:]
            for p in range(shift.shape[2]):
                z += votes.C[rows, p, None] * shift[begin:end, kept, p][at]
            variance = np.maximum(beta * (beta * Vd + 2.0 * Vc) + Ve, 0.0)
            k = smoothing(variance)
            _, e, f = outcome_terms(k * z, k * types.width[kept], votes.tied[rows, None])
            first, second = mass * e * k, mass * f * k**2
            a, b = np.sum(first * beta, axis=1), np.sum(first, axis=1)
            alpha[rows] = np.stack([a, b], axis=1)
            curvature[rows] = np.stack(
                [
                    a * a - np.sum(second * beta**2, axis=1),
                    a * b - np.sum(second * beta, axis=1),
                    b * b - np.sum(second, axis=1),
                ],
                axis=1,
            )
        return alpha, curvature
