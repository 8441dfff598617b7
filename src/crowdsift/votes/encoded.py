"""The arrays of encoded votes, and what of them keeps items, workers and their codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError, RequestError
from crowdsift.votes.arrays import frozen, single_features, table_of_numbers
from crowdsift.votes.intake import Intake
from crowdsift.votes.item_features import ItemFeatures
from crowdsift.votes.labels import By, key_of
from crowdsift.votes.mapped import is_mapped, parts
from crowdsift.votes.source import ArraySource, Backend

__all__ = ["EncodedVotes"]


@dataclass(frozen=True, eq=False)
class EncodedVotes:
    """The fields of `crowdsift.Comparisons`, which documents them."""

    first: NDArray[np.uint32]
    second: NDArray[np.uint32]
    outcome: NDArray[np.float32]
    weight: NDArray[np.float32]
    offsets: NDArray[np.int64]
    items: NDArray[np.object_]
    workers: NDArray[np.object_]
    sides_known: bool = False
    has_workers: bool = True
    rows: int = 0
    features: NDArray[np.float32] | None = None
    feature_names: tuple[str, ...] = ()
    item_class: NDArray[np.uint32] | None = None
    class_names: tuple[Any, ...] = ()
    item_features: ItemFeatures | None = None
    by: By = ""
    n_gold: int = 0
    source: str = "votes"
    backend: Backend | None = None
    intake: Intake | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)  # options that an update uses again
    row_ids: NDArray[np.uint64] | None = None  # hashes of what names a row, sorted
    elsewhere: Any = None  # rows that other machines hold: `rows`, `total_weight`, `loads`

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.items)

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        return len(self.workers)

    @cached_property
    def item_contexts(self) -> NDArray[np.int64]:
        """The number of every item's context; all 0 where votes have no context column."""
        if not self.by:
            return np.zeros(self.n_items, np.int64)
        codes: dict[Any, int] = {}  # those of `context_codes`
        values = (key_of(label[0]) for label in self.items)
        found = (codes.setdefault(value, len(codes)) for value in values)
        return np.fromiter(found, np.int64, self.n_items)

    @cached_property
    def total_weight(self) -> float:
        """The number of votes, counted with their weights."""
        if self.elsewhere is not None:
            return float(self.elsewhere.total_weight)
        if not self.on_disk:
            return float(self.weight.sum(dtype=np.float64))
        return sum(float(self.weight[rows].sum(dtype=np.float64)) for rows in parts(self.weight))

    @cached_property
    def has_ties(self) -> bool:
        """Whether any vote is a tie (an outcome of exactly one half)."""
        return any(bool((self.outcome[rows] == 0.5).any()) for rows in parts(self.outcome))

    @cached_property
    def ties_are_outcomes(self) -> bool:
        """Whether one half means a tie: there are some, and no other outcome between 0 and 1.

        Beside soft outcomes, such as the probabilities of a judge, one half is one of them.
        """
        known = (0.0, 0.5, 1.0)
        return self.has_ties and all(
            bool(np.isin(self.outcome[rows], known).all()) for rows in parts(self.outcome)
        )

    @property
    def columns(
        self,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float32], NDArray[np.float32]]:
        """What there is of every row: first, second, outcome, weight.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"])
        >>> [len(column) for column in votes.columns]
        [2, 2, 2, 2]
        """
        return self.first, self.second, self.outcome, self.weight

    @property
    def on_disk(self) -> bool:
        """Whether the votes are in files, of which parts come to memory when they are used."""
        return is_mapped(self.first)

    def __len__(self) -> int:
        return len(self.first) if self.elsewhere is None else int(self.elsewhere.rows)

    def require_rows(self, what: str) -> None:
        """Refuse what needs every row here, for rows that other machines hold."""
        if self.elsewhere is not None:
            raise RequestError(
                f"{what} needs all votes in one place, and these are read by the workers of a "
                "cluster; read them first with crowdsift.read, or use another engine"
            )

    def __repr__(self) -> str:
        return (
            f"Comparisons({self.total_weight:g} votes in {len(self)} distinct rows, "
            f"{self.n_items} items, "
            f"{self.n_workers} workers, sides {'known' if self.sides_known else 'unknown'})"
        )

    def worker_loads(self) -> NDArray[np.int64]:
        """How often every worker voted, weights counted and rounded.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "c"], worker=[7, 7, 8])
        >>> votes.worker_loads()
        array([2, 1])
        """
        if self.elsewhere is not None:
            return np.asarray(np.rint(self.elsewhere.loads), np.int64)
        votes = np.bincount(self.worker_codes(), self.weight, self.n_workers)
        return np.rint(votes).astype(np.int64)

    def worker_codes(self) -> NDArray[np.uint32]:
        """The worker of every comparison; an array of length N, for slow paths only.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"]).worker_codes()
        array([0, 1], dtype=uint32)
        """
        codes = np.arange(self.n_workers, dtype=np.uint32)
        return np.repeat(codes, np.diff(self.offsets))

    def with_features(
        self, features: NDArray[np.float32] | None, names: tuple[str, ...] = ()
    ) -> Self:
        """The same comparisons with other features, one row per comparison.

        Examples
        --------
        >>> import numpy as np
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
        >>> votes.with_features(np.ones((2, 1)), ("left",)).feature_names
        ('left',)
        """
        if features is None:
            return self if self.features is None else replace(self, features=None, feature_names=())
        self.require_rows("a feature of every vote")
        table = single_features(table_of_numbers(features), len(self), self.source)
        return replace(self, features=frozen(table), feature_names=names)

    def with_classes(self, classes: Sequence[Any]) -> Self:
        """The same comparisons with a class for every item, in the order of `items`.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
        >>> votes.with_classes(["red", "blue", "red"]).class_names
        ('blue', 'red')
        """
        if len(classes) != self.n_items:
            raise InputError(f"{len(classes)} classes for {self.n_items} items; give one each")
        table = ArraySource({"class": list(classes)}, source="classes")
        names, (codes,) = table.labels(["class"], "class")
        return replace(self, item_class=frozen(codes), class_names=tuple(names))

    def with_gold(self, winner: NDArray[np.uint32], loser: NDArray[np.uint32]) -> Self:
        """The comparisons, and pairs known for certain as the votes of one more worker, the last.

        For methods that know what to do with a worker of known reliability; `n_gold` marks it.
        Its votes have the winner first, also where sides are known: they say nothing of a side.

        Examples
        --------
        >>> import numpy as np
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
        >>> result = votes.with_gold(np.array([0], np.uint32), np.array([2], np.uint32))
        >>> result.n_workers, result.n_gold, result.offsets.tolist()
        (3, 1, [0, 1, 2, 3])
        """
        if self.n_gold:
            raise InputError("these comparisons hold gold already", source=self.source)
        self.require_rows("gold")
        count = len(winner)
        labels = np.empty(self.n_workers + 1, dtype=object)
        labels[:-1], labels[-1] = self.workers, "gold"
        features = self.features
        if features is not None:
            empty = np.zeros((count, features.shape[1]), np.float32)
            features = frozen(np.concatenate([features, empty]))
        ones = np.ones(count, np.float32)
        return replace(
            self,
            first=frozen(np.concatenate([self.first, winner.astype(np.uint32)])),
            second=frozen(np.concatenate([self.second, loser.astype(np.uint32)])),
            outcome=frozen(np.concatenate([self.outcome, ones])),
            weight=frozen(np.concatenate([self.weight, ones])),
            offsets=frozen(np.append(self.offsets, self.offsets[-1] + count)),
            workers=frozen(labels),
            rows=self.rows + count,
            features=features,
            n_gold=1,
        )

    def select(self, keep: NDArray[np.bool_]) -> Self:
        """The comparisons where `keep` is true, with the same items, workers and codes.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
        >>> votes.select(votes.first == 0)
        Comparisons(1 votes in 1 distinct rows, 3 items, 2 workers, sides unknown)
        """
        self.require_rows("a choice of votes")
        runs = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])[self.offsets]
        if runs[-1] == 0:
            raise InputError("no votes are left", source=self.source)
        return replace(
            self,
            first=frozen(self.first[keep]),
            second=frozen(self.second[keep]),
            outcome=frozen(self.outcome[keep]),
            weight=frozen(self.weight[keep]),
            offsets=frozen(runs),
            rows=int(runs[-1]),
            features=None if self.features is None else frozen(self.features[keep]),
        )
