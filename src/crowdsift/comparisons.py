"""The votes as every model sees them: validated, encoded, sorted by worker, collapsed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdsift import _core
from crowdsift.errors import InputError
from crowdsift.tables import Backend

__all__ = ["Comparisons", "encode_labels"]

_FAULTS = {
    1: "an item code outside the list of items",
    2: "a worker code outside the list of workers",
    3: "an item compared with itself; remove the row",
    4: "an outcome outside [0, 1] (1: the first item is better, 0: the second, 0.5: a tie)",
    5: "a weight that is negative, infinite or not a number; weights count votes",
}
_FAULT_COLUMN = {4: "outcome", 5: "weight"}


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Pairwise votes, encoded once and immutable.

    Comparison i says that its worker preferred item ``first[i]`` to item ``second[i]`` to the
    degree ``outcome[i]`` (1: certainly, 0: the opposite, 0.5: a tie), ``weight[i]`` times. The
    comparisons of worker s are those from ``offsets[s]`` to ``offsets[s + 1]``. Rows equal in
    worker, order and outcome are one comparison of larger weight. Codes follow the sorted labels
    and the order is canonical, so the same votes make the same arrays whatever their order was.

    Use `crowdsift.read` for files and frames, `Comparisons.from_arrays` for arrays.

    Attributes
    ----------
    first, second
        Item codes, of type uint32. Where sides are unknown the preferred item is first.
    outcome, weight
        Of type float32.
    offsets
        The runs of the workers, of length ``n_workers + 1``.
    items, workers
        The labels, as they were given, by code.
    sides_known
        Whether ``first`` was shown on the left (or first) and ``second`` on the right.
    has_workers
        False where all votes were pooled because no worker is known.
    rows
        The number of rows before collapsing.
    features
        Nuisance features of every comparison, in favour of ``first``, or None.
    feature_names
        Their names.
    item_class, class_names
        The class of every item as a code into the names, or None.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> votes = Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "c"], worker=[7, 7, 8])
    >>> votes
    Comparisons(3 votes in 2 distinct rows, 3 items, 2 workers, sides unknown)
    >>> votes.weight
    array([2., 1.], dtype=float32)
    """

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
    source: str = "votes"
    backend: Backend | None = None

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.items)

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        return len(self.workers)

    @property
    def total_weight(self) -> float:
        """The number of votes, counted with their weights."""
        return float(self.weight.sum(dtype=np.float64))

    @property
    def has_ties(self) -> bool:
        """Whether any vote is a tie (an outcome of exactly one half)."""
        return bool((self.outcome == 0.5).any())

    def __len__(self) -> int:
        return len(self.first)

    def __repr__(self) -> str:
        return (
            f"Comparisons({self.rows} votes in {len(self)} distinct rows, {self.n_items} items, "
            f"{self.n_workers} workers, sides {'known' if self.sides_known else 'unknown'})"
        )

    @classmethod
    def from_arrays(
        cls,
        first: ArrayLike,
        second: ArrayLike,
        *,
        worker: ArrayLike | None = None,
        outcome: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        sides_known: bool = False,
        features: ArrayLike | None = None,
        feature_names: Sequence[str] = (),
    ) -> Comparisons:
        """Comparisons from arrays of labels, one entry a vote.

        Parameters
        ----------
        first, second
            Labels of the two items; without `outcome` the first is the winner.
        worker
            Who voted; None pools all votes as of one unknown voter.
        outcome
            In [0, 1] for the first over the second; default 1.
        weight
            How often each vote counts; default 1.
        sides_known
            Whether `first` was shown on the left.
        features
            Nuisance features in favour of `first`, one row a vote.
        feature_names
            A name for each feature.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> Comparisons.from_arrays([0, 1], [1, 2], outcome=[1, 0.5], worker=["ann", "bob"])
        Comparisons(2 votes in 2 distinct rows, 3 items, 2 workers, sides unknown)
        """
        one, two = _column(first), _column(second)
        columns = {"second": two}
        columns |= {
            name: _column(values)
            for name, values in (("worker", worker), ("outcome", outcome), ("weight", weight))
            if values is not None
        }
        for name, values in (("first", one), *columns.items()):
            if values.ndim != 1 or len(values) != len(one):
                raise InputError(
                    f"every column needs one entry a vote; {name!r} has shape {values.shape}, "
                    f"'first' has {len(one)} entries"
                )
        items, (first_codes, second_codes) = encode_labels(one, two, name="item")
        workers: NDArray[np.object_] = np.array([None], dtype=object)
        worker_codes = None
        if worker is not None:
            workers, (worker_codes,) = encode_labels(columns["worker"], name="worker")
        return cls.from_codes(
            first_codes,
            second_codes,
            worker=worker_codes,
            outcome=None if outcome is None else _numbers(columns["outcome"], "outcome"),
            weight=None if weight is None else _numbers(columns["weight"], "weight"),
            items=items,
            workers=workers,
            sides_known=sides_known,
            features=None if features is None else np.asarray(features, dtype=np.float32),
            feature_names=tuple(feature_names),
        )

    @classmethod
    def from_codes(
        cls,
        first: NDArray[np.uint32],
        second: NDArray[np.uint32],
        *,
        items: NDArray[np.object_],
        workers: NDArray[np.object_],
        worker: NDArray[np.uint32] | None = None,
        outcome: NDArray[np.float32] | None = None,
        weight: NDArray[np.float32] | None = None,
        sides_known: bool = False,
        features: NDArray[np.float32] | None = None,
        feature_names: tuple[str, ...] = (),
        source: str = "votes",
        backend: Backend | None = None,
    ) -> Comparisons:
        """Comparisons from codes into sorted lists of labels; the way of every reader.

        Examples
        --------
        >>> import numpy as np
        >>> from crowdsift import Comparisons
        >>> Comparisons.from_codes(
        ...     np.array([0], np.uint32), np.array([1], np.uint32),
        ...     items=np.array(["a", "b"], object), workers=np.array(["w"], object))
        Comparisons(1 votes in 1 distinct rows, 2 items, 1 workers, sides unknown)
        """
        n_workers = len(workers) if worker is not None else 1
        fault, row = _core.find_fault(first, second, worker, outcome, weight, len(items), n_workers)
        if fault:
            raise InputError(
                _FAULTS[fault], source=source, row=row + 1, column=_FAULT_COLUMN.get(fault)
            )
        if len(items) < 2:
            raise InputError(
                f"{_count(len(items), 'item')} in {_count(len(first), 'vote')}; "
                "a comparison needs two",
                source=source,
            )
        context, table = _contexts(features, len(first))
        rows = _core.collapse(
            first, second, worker, outcome, weight, context,
            len(items), n_workers, sides_known, _threads(),
        )  # fmt: skip
        one, two, outcomes, weights, groups, turned, offsets = rows
        if len(one) == 0:
            raise InputError("no votes (all weights are 0)", source=source)
        if table is not None:  # a vote told the other way round has the opposite features
            table = table[groups] * (1.0 - 2.0 * turned[:, None]).astype(np.float32)
            table += np.float32(0.0)  # no negative zeros
        for array in (one, two, outcomes, weights, offsets, items, workers):
            array.setflags(write=False)
        if table is not None:
            table.setflags(write=False)
        return cls(
            first=one,
            second=two,
            outcome=outcomes,
            weight=weights,
            offsets=offsets,
            items=items,
            workers=workers,
            sides_known=sides_known,
            has_workers=worker is not None,
            rows=len(first),
            features=table,
            feature_names=feature_names,
            source=source,
            backend=backend,
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
    ) -> Comparisons:
        """The same comparisons with other features, one row a comparison.

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
        table = np.ascontiguousarray(features, dtype=np.float32)
        table.setflags(write=False)
        return replace(self, features=table, feature_names=names)

    def with_classes(self, classes: Sequence[Any]) -> Comparisons:
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
        names, (codes,) = encode_labels(_column(list(classes)), name="class")
        codes.setflags(write=False)
        return replace(self, item_class=codes, class_names=tuple(names))

    def select(self, keep: NDArray[np.bool_]) -> Comparisons:
        """The comparisons where `keep` is true, with the same items, workers and codes.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
        >>> votes.select(votes.first == 0)
        Comparisons(1 votes in 1 distinct rows, 3 items, 2 workers, sides unknown)
        """
        kept = Comparisons.from_codes(
            self.first[keep],
            self.second[keep],
            worker=self.worker_codes()[keep] if self.has_workers else None,
            outcome=self.outcome[keep],
            weight=self.weight[keep],
            items=self.items,
            workers=self.workers,
            sides_known=self.sides_known,
            features=None if self.features is None else self.features[keep],
            feature_names=self.feature_names,
            source=self.source,
            backend=self.backend,
        )
        return replace(kept, item_class=self.item_class, class_names=self.class_names)

    def pooled(self) -> Comparisons:
        """All votes as of one voter, one comparison a pair with the mean outcome.

        Sufficient for a logistic model without workers and sides, in which only the number of
        votes on a pair and their sum matter; for nothing else, since a win and a loss become a
        tie.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b", "a"], ["b", "a", "b"], worker=[1, 2, 3])
        >>> pooled = votes.pooled()
        >>> pooled.weight, pooled.outcome.round(3)
        (array([3.], dtype=float32), array([0.667], dtype=float32))
        """
        swap = self.first > self.second
        low = np.where(swap, self.second, self.first)
        high = np.where(swap, self.first, self.second)
        key = low.astype(np.uint64) * np.uint64(self.n_items) + high
        pairs, inverse = np.unique(key, return_inverse=True)
        wins = np.where(swap, 1.0 - self.outcome, self.outcome) * self.weight
        total = np.bincount(inverse, self.weight)
        return Comparisons.from_codes(
            (pairs // np.uint64(self.n_items)).astype(np.uint32),
            (pairs % np.uint64(self.n_items)).astype(np.uint32),
            outcome=np.minimum(np.bincount(inverse, wins) / total, 1.0).astype(np.float32),
            weight=total.astype(np.float32),
            items=self.items,
            workers=np.array([None], dtype=object),
            source=self.source,
            backend=self.backend,
        )


def encode_labels(
    *columns: NDArray[Any], name: str = "label"
) -> tuple[NDArray[np.object_], list[NDArray[np.uint32]]]:
    """Sorted distinct labels of all columns together, and the code of every entry.

    Labels keep their type: the number 7, the string "7" and the string "007" are three labels.
    """
    if all(np.issubdtype(column.dtype, np.integer) for column in columns) or all(
        column.dtype.kind in "US" for column in columns
    ):
        labels, codes = np.unique(np.concatenate(columns), return_inverse=True)
        table = np.array(labels.tolist(), dtype=object)
    else:
        values = [value for column in columns for value in column.tolist()]
        _refuse_missing(values, name, [len(column) for column in columns])
        table = np.empty(len(distinct := _sorted_labels(values)), dtype=object)
        table[:] = distinct
        code_of = {(type(label), label): code for code, label in enumerate(distinct)}
        codes = np.fromiter((code_of[type(v), v] for v in values), np.uint32, len(values))
    if any(isinstance(label, str) and not label for label in table):
        row = next(i for i, code in enumerate(codes) if table[code] == "")
        raise InputError(f"empty {name} label", row=row % max(len(columns[0]), 1) + 1)
    parts = np.split(codes.astype(np.uint32), np.cumsum([len(c) for c in columns])[:-1])
    return table, [np.ascontiguousarray(part) for part in parts]


def _column(values: ArrayLike) -> NDArray[Any]:
    """An array that keeps the type of every entry: NumPy alone makes text of [7, "7"]."""
    column = np.asarray(values)
    if isinstance(values, list | tuple) and column.dtype.kind in "US":
        entries: list[Any] = list(values)
        if not all(isinstance(entry, str | bytes) for entry in entries):
            column = np.empty(len(entries), dtype=object)
            column[:] = entries
    return column


def _sorted_labels(values: Iterable[Any]) -> list[Any]:
    try:
        distinct = {(type(value), value): value for value in values}.values()
    except TypeError:
        raise InputError("a label must be a text, a number or another fixed value") from None
    try:
        return sorted(distinct, key=lambda label: (type(label).__name__, label))
    except TypeError:  # labels of a type without an order
        return sorted(distinct, key=lambda label: (type(label).__name__, repr(label)))


def _refuse_missing(values: list[Any], name: str, lengths: list[int]) -> None:
    for place, value in enumerate(values):
        if value is None or value != value:  # NaN is not equal to itself
            raise InputError(f"empty {name} label", row=place % lengths[0] + 1)


def _numbers(values: NDArray[Any], name: str) -> NDArray[np.float32]:
    try:
        return np.ascontiguousarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError(f"the {name}s are not numbers", column=name) from None


def _contexts(
    features: NDArray[np.float32] | None, rows: int
) -> tuple[NDArray[np.uint32] | None, NDArray[np.float32] | None]:
    """Distinct rows of features, and the number of each vote's row."""
    if features is None:
        return None, None
    if features.ndim != 2 or len(features) != rows:
        raise InputError(f"features need one row a vote, not shape {features.shape}")
    if not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
        raise InputError("a feature that is not a finite number", row=row + 1)
    table, codes = np.unique(features, axis=0, return_inverse=True)
    return codes.reshape(-1).astype(np.uint32), table.astype(np.float32)


def _threads() -> int:
    return min(os.cpu_count() or 1, 8)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
