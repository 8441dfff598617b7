"""Passes over votes with covariates and the types of their workers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift import _core
from crowdsift.numeric import Indices, Mask, Vector
from crowdsift.numeric.threads import thread_count

MIN_TYPE_MASS = 1e-9  # posterior probability of a type below which it is left out


class CovariateVotes(NamedTuple):
    """Votes ordered by worker: covariates of the winner less the loser, weight, ties, sides."""

    worker: NDArray[np.integer]
    starts: Indices  # the first vote of each worker, and the end of the last
    C: Vector
    n: Vector
    tied: Mask
    side: Vector  # for side-only types
    winner: Indices
    loser: Indices


class TypeValues(NamedTuple):
    """The types: β (a row per worker), tie width, side of side-only types, and whether a type is regular."""

    beta: Vector
    width: Vector
    only: Vector
    regular: Vector


class CovariatePasses:
    """Passes over votes and types, by the compiled core; a fit with covariates uses one process."""

    def __init__(self, votes: CovariateVotes, threads: int | None = None) -> None:
        self._core = _core.CovariatePasses(
            votes.starts, votes.C, votes.n, votes.side, votes.tied.astype(np.uint8), thread_count(threads)
        )

    def messages(
        self, types: TypeValues, m: Vector, v: Vector, gamma: Vector, wanted: Mask
    ) -> tuple[Vector, Vector, Vector]:
        """Return Σ n log Z of workers and wanted types, its gradient and minus its Hessian in γ.

        `m` and `v` are the cavities of d, integrated over; `gamma` are coefficients, workers x types x covariates.
        Side-only types have no derivatives.
        """
        regular = types.regular.astype(np.uint8)
        return self._core.messages(*types[:3], regular, m, v, gamma, wanted.astype(np.uint8))

    def moments(self, types: TypeValues, m: Vector, V: Vector, shift: Vector, q: Vector) -> tuple[Vector, Vector]:
        """Return α and λ of every vote in the means of (d, η), averaged over types of mass q.

        `m` and `V` are the joint cavities; a type's η is c·`shift` beside their mean.
        """
        return self._core.moments(*types[:3], types.regular.astype(np.uint8), m, V, shift, q, MIN_TYPE_MASS)
