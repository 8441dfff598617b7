"""Passes over votes with covariates by the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift import _core
from crowdsift.engines.covariates.laplace import LEAST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.covariates.laplace import Types, TypeVotes
    from crowdsift.numeric import Vector

__all__ = ["CpuPasses"]


class CpuPasses:
    """`crowdsift.engines.covariates.laplace.Passes` on threads."""

    def __init__(self, votes: TypeVotes, threads: int) -> None:
        self._core = _core.CovariatePasses(
            votes.starts.astype(np.int64), np.ascontiguousarray(votes.C),
            np.ascontiguousarray(votes.n, np.float64),
            np.ascontiguousarray(votes.side, np.float64), votes.tied.astype(np.uint8), threads,
        )  # fmt: skip

    def messages(
        self, types: Types, m: Vector, v: Vector, gamma: Vector, wanted: NDArray[np.bool_]
    ) -> tuple[Vector, Vector, Vector]:
        """See the protocol."""
        return self._core.messages(
            *_types(types), np.ascontiguousarray(m), np.ascontiguousarray(v),
            np.ascontiguousarray(gamma), wanted.astype(np.uint8),
        )  # fmt: skip

    def moments(
        self, types: Types, m: Vector, V: Vector, shift: Vector, q: Vector
    ) -> tuple[Vector, Vector]:
        """See the protocol."""
        m, V, shift, q = (np.ascontiguousarray(each) for each in (m, V, shift, q))
        return self._core.moments(*_types(types), m, V, shift, q, LEAST)


def _types(types: Types) -> tuple[Vector, Vector, Vector, NDArray[np.uint8]]:
    beta, width, only = (np.ascontiguousarray(each, np.float64) for each in types[:3])
    return beta, width, only, types.regular.astype(np.uint8)
