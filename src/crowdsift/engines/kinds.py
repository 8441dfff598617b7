"""Kinds of arguments and results of passes, so that one engine can be made of others.

Every pass has one form: it takes arrays over items (whole), arrays over workers (a row each) and plain numbers; what is
per vote stays inside; it returns sums over items, rows of workers and numbers to be added. Each argument and each
result names its kind once, in its annotation. An engine made of shards, each with some of the workers, then knows how
to distribute arguments and how to join results for any pass.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

_Method = TypeVar("_Method")


class Kind(Enum):
    """How an argument is split among shards, and how results are joined."""

    SAME = "sent to all; of results, that of the first"  # the default of arguments without an annotation
    ITEMS = "an entry per item: sent whole; results are added"
    WORKERS = "a row per worker: split among shards; results are joined"
    ROWS = "a range of workers: each shard gets its part; results are joined"
    PAIRS = "an entry per pair compared in a shard: split and joined, shard by shard"
    SHARED = "an entry per pair compared in several shards: each its own; results are added"
    TOTAL = "a number or table: sent to all; results are added"
    VOTES = "an entry per vote, only where few: split and joined, shard by shard"


# Type checkers see arrays and numbers; at run time the annotation is the kind.
if TYPE_CHECKING:
    Items = Vector
    Workers = Vector
    Pairs = Vector
    PairCodes = NDArray[np.uint32]
    Shared = Vector
    Total = float
    Totals = Vector
    Votes = NDArray[Any]
    VoteCodes = NDArray[np.uint32]
    WorkerCounts = NDArray[np.int64]
    WorkerMask = NDArray[np.bool_]
    Rows = slice
else:
    Items = Annotated[Any, Kind.ITEMS]
    Workers = Annotated[Any, Kind.WORKERS]
    Pairs = Annotated[Any, Kind.PAIRS]
    PairCodes = Annotated[Any, Kind.PAIRS]
    Shared = Annotated[Any, Kind.SHARED]
    Total = Annotated[Any, Kind.TOTAL]
    Totals = Annotated[Any, Kind.TOTAL]
    WorkerCounts = WorkerMask = Workers
    Votes = Annotated[Any, Kind.VOTES]
    VoteCodes = Annotated[Any, Kind.VOTES]
    Rows = Annotated[Any, Kind.ROWS]


def first_shard(method: Any) -> Any:
    """Mark a pass that needs no votes: only the first shard performs it."""
    method.first_shard = True
    return method


def changes(method: _Method) -> _Method:
    """Mark a pass that changes its object; it is repeated when a lost shard is rebuilt."""
    vars(method)["changes"] = True
    return method


class Solution(NamedTuple):
    """The result of a linear solve."""

    x: Vector
    iterations: int
    residual: float
    converged: bool


class WeightedPairs(NamedTuple):
    """Pairs of items and their weights; the weights of a repeated pair add up."""

    low: PairCodes
    high: PairCodes
    weight: Pairs


class Operator(Protocol):
    """A matrix over items, usually symmetric; later passes do not change it.

    It is no array, since on a cluster no machine holds all of it. Some have no pairs or no solve.
    """

    def multiply(self, v: Items) -> Items:
        """Return the product with v."""

    def diagonal(self) -> Items:
        """Return the diagonal."""

    def pairs(self) -> WeightedPairs:
        """Return the pairs of a Laplacian: its entries off the diagonal, with opposite sign."""

    def solve(self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000) -> Solution:
        """Solve (A + shift I) x = rhs to a residual of `tolerance` times the norm of rhs.

        By conjugate gradients with the diagonal as preconditioner, from `start`.
        """
