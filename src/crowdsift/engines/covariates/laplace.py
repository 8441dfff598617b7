"""Coefficients of every worker for every type: Laplace's approximation, a Newton step a pass.

Given a type (β, δ) the votes of a worker have the likelihood Π Z(βm + c·γ), scores integrated
over their cavities. With γ = g + T^½u, u ~ N(0, I), a step from u has the gradient
G = T^½Σ n·e·k·c - u and the precision H = I + T^½(Σ n·w·k²·ccᵀ)T^½, and the type the message
log ∫ = Σ n log Z - ½u² + ½GᵀH⁻¹G - ½log|H|, exact to second order about u + H⁻¹G.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from crowdsift.engines.reference.moments import outcome_terms
from crowdsift.numeric.likelihoods import PROBIT_SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = [
    "LEAST",
    "NumpyPasses",
    "Passes",
    "TypeVotes",
    "Types",
    "WorkerLaplace",
    "start",
    "worker_messages",
]

_NUMBERS = 400_000  # of an array over votes and types at a time
_LONGEST = 1.0  # a Newton step in γ, covariates being of unit mean square
LEAST = 1e-9  # posterior probability of a type that counts


class TypeVotes(NamedTuple):
    """Votes ordered by worker: covariates of the winner less the loser, weight, ties, sides."""

    worker: NDArray[np.integer]
    starts: NDArray[np.int64]  # of workers' votes, and the end of the last
    C: Vector
    n: Vector
    tied: NDArray[np.bool_]
    side: Vector  # for side-only types


class WorkerLaplace(NamedTuple):
    """Per worker and type: log message, mean and covariance of γ. Side-only types have γ = g."""

    messages: Vector
    mean: Vector
    covariance: Vector
    gamma: Vector  # from where the next step goes


class Types(NamedTuple):
    """β (a row per worker), tie width, side of side-only types, and whether a type is regular."""

    beta: Vector
    width: Vector
    only: Vector
    regular: Vector


def _blocks(starts: NDArray[np.int64], n_types: int) -> Iterator[tuple[int, int]]:
    """Ranges of workers of so many votes that arrays over votes and types stay small."""
    most, begin, count = max(_NUMBERS // n_types, 1), 0, len(starts) - 1
    while begin < count:
        end = int(np.searchsorted(starts, starts[begin] + most, side="right")) - 1
        end = min(max(end, begin + 1), count)
        yield begin, end
        begin = end


def _sums(values: Vector, starts: NDArray[np.int64]) -> Vector:
    """Sums over the votes of every worker of a block; 0 for one without votes."""
    padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
    found = np.add.reduceat(padded, np.minimum(starts[:-1], len(values)), axis=0)
    found[starts[1:] == starts[:-1]] = 0.0
    return np.asarray(found)


def start(workers: int, n_types: int, g: Vector) -> WorkerLaplace:
    """Before any pass: γ = g."""
    P = len(g)
    gamma = np.tile(g, (workers, n_types, 1))
    return WorkerLaplace(
        np.zeros((workers, n_types)), gamma, np.zeros((workers, n_types, P, P)), gamma
    )


class Passes(Protocol):
    """Passes over votes and types; what an engine may offer in place of `NumpyPasses`."""

    def messages(
        self, types: Types, m: Vector, v: Vector, gamma: Vector, wanted: NDArray[np.bool_]
    ) -> tuple[Vector, Vector, Vector]:
        """Σ n log Z of workers and wanted types, its gradient and minus its Hessian in γ.

        `m` and `v` are the cavities of d, integrated over; `gamma` are coefficients, workers x
        types x covariates. Side-only types have no derivatives.
        """

    def moments(
        self, types: Types, m: Vector, V: Vector, shift: Vector, q: Vector
    ) -> tuple[Vector, Vector]:
        """α and κ of every vote in the means of (d, η), averaged over types of mass q.

        `m` and `V` are the joint cavities; a type's η is c·`shift` beside their mean.
        """


class NumpyPasses:
    """The specification."""

    def __init__(self, votes: TypeVotes) -> None:
        self._votes = votes

    def messages(
        self, types: Types, m: Vector, v: Vector, gamma: Vector, wanted: NDArray[np.bool_]
    ) -> tuple[Vector, Vector, Vector]:
        """See the protocol."""
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
            k = 1.0 / np.sqrt(1.0 + PROBIT_SMOOTHING * beta**2 * v[rows, None])
            logs, e, f = outcome_terms(k * z, k * types.width[kept], votes.tied[rows, None])
            log_z[there] = _sums(n * logs, part)
            slope, bend = n * e * k * regular, n * (e**2 - f) * k**2 * regular
            G[there] = _sums(slope[..., None] * C[:, None], part)
            square = C[:, :, None] * C[:, None]
            H[there] = _sums(bend[..., None, None] * square[:, None], part)
        return log_z, G, H

    def moments(
        self, types: Types, m: Vector, V: Vector, shift: Vector, q: Vector
    ) -> tuple[Vector, Vector]:
        """See the protocol."""
        votes = self._votes
        alpha, kappa = np.empty((len(votes.n), 2)), np.empty((len(votes.n), 3))
        for begin, end in _blocks(votes.starts, q.shape[1]):
            kept = np.flatnonzero((q[begin:end].max(axis=0) > LEAST) & (types.regular > 0.0))
            rows = slice(votes.starts[begin], votes.starts[end])
            at = votes.worker[rows] - begin
            beta, mass = types.beta[begin:end, kept][at], q[begin:end, kept][at]
            Vd, Vc, Ve = (V[rows, each, None] for each in range(3))
            z = beta * m[rows, :1] + m[rows, 1:]
            for p in range(shift.shape[2]):
                z += votes.C[rows, p, None] * shift[begin:end, kept, p][at]
            variance = np.maximum(beta * (beta * Vd + 2.0 * Vc) + Ve, 0.0)
            k = 1.0 / np.sqrt(1.0 + PROBIT_SMOOTHING * variance)
            _, e, f = outcome_terms(k * z, k * types.width[kept], votes.tied[rows, None])
            first, second = mass * e * k, mass * f * k**2
            a, b = np.sum(first * beta, axis=1), np.sum(first, axis=1)
            alpha[rows] = np.stack([a, b], axis=1)
            kappa[rows] = np.stack([
                a * a - np.sum(second * beta**2, axis=1), a * b - np.sum(second * beta, axis=1),
                b * b - np.sum(second, axis=1)], axis=1)  # fmt: skip
        return alpha, kappa


def worker_messages(
    passes: Passes, types: Types, m: Vector, v: Vector, g: Vector, root: Vector,
    before: WorkerLaplace, wanted: NDArray[np.bool_],
) -> WorkerLaplace:  # fmt: skip
    """A Newton step of workers and wanted types from where they were; the others stay."""
    log_z, G, H = passes.messages(types, m, v, before.gamma, wanted)
    messages, mean, covariance, gamma = (each.copy() for each in before)
    chosen = wanted & (types.regular > 0.0)
    u = (gamma[chosen] - g) / root
    G = root * G[chosen] - u
    H = root[:, None] * H[chosen] * root + np.eye(len(g))
    inverse = np.linalg.inv(H)
    step = np.einsum("ipq,iq->ip", inverse, G)
    size = np.sqrt(np.sum((root * step) ** 2, axis=1, keepdims=True))
    part = np.minimum(1.0, _LONGEST / np.maximum(size, 1e-12))
    step = part * step
    messages[wanted] = log_z[wanted]
    # What a part of the step gains; the whole has (1 - ½)GᵀH⁻¹G.
    gain = (1.0 - 0.5 * part[:, 0]) * np.sum(G * step, axis=1)
    messages[chosen] += gain - 0.5 * np.sum(u**2, axis=1) - 0.5 * np.linalg.slogdet(H)[1]
    gamma[chosen] = mean[chosen] = g + root * (u + step)
    covariance[chosen] = root[:, None] * inverse * root
    return WorkerLaplace(messages, mean, covariance, gamma)
