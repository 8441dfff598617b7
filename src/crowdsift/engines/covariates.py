"""Passes over votes with covariates and the types of their workers: what an engine may offer.

A solver asks with `isinstance` and makes the passes in NumPy where an engine does not offer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

MIN_TYPE_MASS = 1e-9  # posterior probability of a type, below which it is left out


class CovariateVotes(NamedTuple):
    """Votes ordered by worker: covariates of the winner less the loser, weight, ties, sides."""

    worker: NDArray[np.integer]
    starts: NDArray[np.int64]  # of workers' votes, and the end of the last
    C: Vector
    n: Vector
    tied: NDArray[np.bool_]
    side: Vector  # for side-only types


class TypeValues(NamedTuple):
    """β (a row per worker), tie width, side of side-only types, and whether a type is regular."""

    beta: Vector
    width: Vector
    only: Vector
    regular: Vector


class CovariatePasses(Protocol):
    """CovariatePasses over votes and types; what an engine may offer in place of `NumpyPasses`."""

    def messages(
        self, types: TypeValues, m: Vector, v: Vector, gamma: Vector, wanted: NDArray[np.bool_]
    ) -> tuple[Vector, Vector, Vector]:
        """Σ n log Z of workers and wanted types, its gradient and minus its Hessian in γ.

        `m` and `v` are the cavities of d, integrated over; `gamma` are coefficients, workers x types x covariates.
        Side-only types have no derivatives.
        """

    def moments(self, types: TypeValues, m: Vector, V: Vector, shift: Vector, q: Vector) -> tuple[Vector, Vector]:
        """α and λ of every vote in the means of (d, η), averaged over types of mass q.

        `m` and `V` are the joint cavities; a type's η is c·`shift` beside their mean.
        """


@runtime_checkable
class OffersCovariatePasses(Protocol):
    """An `Engine` with passes over votes with covariates; without it they are made in NumPy."""

    def covariate_passes(self, votes: CovariateVotes) -> CovariatePasses:
        """Return the passes over these votes."""
