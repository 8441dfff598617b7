"""The votes as every model uses them: validated, encoded, sorted by worker, collapsed."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, log2
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdsift._core import collapse, find_fault, pool_pairs
from crowdsift._core import tally as count_votes
from crowdsift.errors import InputError, RequestError
from crowdsift.numeric import Codes, Indices, Labels, Mask, Vector
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.intake import Intake
from crowdsift.votes.item_features import ItemFeatures
from crowdsift.votes.labels import By, key_of, merge
from crowdsift.votes.source import MOST_WEIGHT, ArraySource, Backend, first_outside

if TYPE_CHECKING:
    from crowdsift.votes.choices import Choices
    from crowdsift.votes.panels import Panels

Columns = Sequence[NDArray[np.generic]]

_ROWS = 1 << 22  # rows of a part: 64 MB of votes


def is_mapped(column: NDArray[np.generic]) -> bool:
    """Return whether an array is mapped from a file, whose parts are read when they are used."""
    return getattr(column, "_mmap", None) is not None


def advise(columns: Columns, *, ahead: bool) -> None:
    """Tell the system whether the pages of mapped arrays will be read soon, or are no longer needed."""
    if sys.platform != "linux":
        return
    advice = mmap.MADV_WILLNEED if ahead else mmap.MADV_DONTNEED
    for column in columns:
        held: Any = column
        if not len(column):
            continue
        whole: mmap.mmap = held._mmap
        start = held.__array_interface__["data"][0] - np.frombuffer(whole, np.uint8).ctypes.data
        aligned = start - start % mmap.PAGESIZE
        whole.madvise(advice, aligned, start + column.nbytes - aligned)


def parts(*columns: NDArray[np.generic]) -> Iterator[slice]:
    """Yield the rows of arrays in ranges; mapped rows leave memory when the next range is taken."""
    for start in range(0, len(columns[0]), _ROWS):
        rows = slice(start, min(start + _ROWS, len(columns[0])))
        yield rows
        if is_mapped(columns[0]):
            advise([column[rows] for column in columns], ahead=False)


Entries = TypeVar("Entries", bound=NDArray[Any])

FAULTS = {
    1: "an item code outside the list of items",
    2: "a worker code outside the list of workers",
    3: "an item compared with itself; remove the row",
    4: "an outcome outside [0, 1] (1: the first item is better, 0: the second, 0.5: a tie)",
    5: f"a weight that is negative, not a number or above {MOST_WEIGHT:.0e}; weights count votes",
}


def frozen(array: Entries) -> Entries:
    """Return the array, made read-only; the caller must hold the only reference."""
    array.setflags(write=False)
    return array


def single(values: NDArray[np.floating[Any]] | None, role: str, source: str) -> NDArray[np.float32] | None:
    """Return numbers in float32, checked before they are rounded; the core checks float32 arrays."""
    if values is None or values.dtype == np.float32:
        return values
    if (row := first_outside(values, role)) is not None:
        fault = FAULTS[{"outcome": 4, "weight": 5}[role]]
        raise InputError(fault, source=source, row=row + 1, column=role)
    return values.astype(np.float32)


def table_of_numbers(features: ArrayLike) -> Vector:
    """Return features as an array of numbers, one row per vote."""
    try:
        return np.array(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the features are not a table of numbers, one row per vote") from None


def single_features(features: NDArray[np.floating[Any]], rows: int, source: str) -> NDArray[np.float32]:
    """Return a copy of features in float32, checked before they are rounded."""
    if features.ndim != 2 or len(features) != rows:
        raise InputError(f"features need one row per vote, {rows} in all, not shape {features.shape}", source=source)
    if (place := first_outside(features, "feature")) is not None:
        row = place // features.shape[1] + 1
        raise InputError("a feature that is not a finite number", source=source, row=row)
    return np.array(features, dtype=np.float32, order="C")


def distinct_rows(features: NDArray[np.float32] | None) -> tuple[Codes | None, NDArray[np.float32] | None]:
    """Return the distinct rows of features, and the number of each vote's row."""
    if features is None:
        return None, None
    table, codes = np.unique(features, axis=0, return_inverse=True)
    return codes.reshape(-1).astype(np.uint32), table


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class Grades(NamedTuple):
    """Decided votes with their grade: 1 is better, 2 much better, ..."""

    first: Codes
    second: Codes
    outcome: NDArray[np.float32]
    worker: Codes
    weight: NDArray[np.float32]
    level: Indices

    def select(self, keep: NDArray[Any]) -> Grades:
        columns: tuple[Any, ...] = tuple(column[keep] for column in self)
        return Grades(*columns)

    @classmethod
    def of_votes(cls, votes: EncodedVotes) -> Grades:
        """Return all votes: ties with grade 0, and votes without a grade as "better", not "much better"."""
        level = (votes.outcome != 0.5).astype(np.int64)
        plain = cls(votes.first, votes.second, votes.outcome, votes.worker_codes(), votes.weight, level)
        return plain if votes.grades is None else votes.grades.joined(plain.select(level == 0))

    def joined(self, other: Grades) -> Grades:
        """Return these votes and others."""
        columns: tuple[Any, ...] = tuple(np.concatenate([a, b]) for a, b in zip(self, other, strict=True))
        return Grades(*columns)

    @classmethod
    def of_decided(cls, votes: EncodedVotes) -> Grades:
        """Return decided votes; raise an error for soft outcomes."""
        if not np.isin(votes.outcome, (0.0, 0.5, 1.0)).all():
            raise InputError("graded votes and soft outcomes cannot be combined", source=votes.source)
        found = cls.of_votes(votes)
        return found.select(found.level > 0)

    def recoded(self, items: NDArray[np.integer] | None = None, workers: NDArray[np.integer] | None = None) -> Grades:
        """Return the votes with other codes for items, or for workers."""
        found = self
        if items is not None:
            first, second = (items[column].astype(np.uint32) for column in (self.first, self.second))
            found = found._replace(first=first, second=second)
        return found if workers is None else found._replace(worker=workers[self.worker].astype(np.uint32))


@dataclass(frozen=True, eq=False)
class EncodedVotes:
    """The fields of `crowdsift.Comparisons`, where they are documented."""

    first: Codes
    second: Codes
    outcome: NDArray[np.float32]
    weight: NDArray[np.float32]
    offsets: Indices
    items: Labels
    workers: Labels
    sides_known: bool = False
    has_workers: bool = True
    rows: int = 0
    features: NDArray[np.float32] | None = None
    feature_names: tuple[str, ...] = ()
    item_class: Codes | None = None
    class_names: tuple[Any, ...] = ()
    item_features: ItemFeatures | None = None
    panels: Panels | None = None  # of judges, one of them trusted
    by: By = ""
    n_gold: int = 0
    source: str = "votes"
    backend: Backend | None = None
    intake: Intake | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)  # options that an update uses again
    row_ids: NDArray[np.uint64] | None = None  # sorted hashes of what identifies a row
    elsewhere: Any = None  # rows on other machines: `rows`, `total_weight`, `loads`
    choices: Choices | None = None  # if the pairs come from rankings
    grades: Grades | None = None  # if answers say by how much an item is better

    @property
    def n_items(self) -> int:
        """Return the number of items."""
        return len(self.items)

    @property
    def n_workers(self) -> int:
        """Return the number of workers."""
        return len(self.workers)

    @cached_property
    def item_contexts(self) -> Indices:
        """Return the number of every item's context; all 0 for votes without a context column."""
        if not self.by:
            return np.zeros(self.n_items, np.int64)
        codes: dict[Any, int] = {}  # the same numbers as `context_codes`
        values = (key_of(label[0]) for label in self.items)
        found = (codes.setdefault(value, len(codes)) for value in values)
        return np.fromiter(found, np.int64, self.n_items)

    @cached_property
    def total_weight(self) -> float:
        """Return the number of votes, counted with their weights."""
        if self.elsewhere is not None:
            return float(self.elsewhere.total_weight)
        if not self.on_disk:
            return float(self.weight.sum(dtype=np.float64))
        return sum(float(self.weight[rows].sum(dtype=np.float64)) for rows in parts(self.weight))

    @cached_property
    def loads(self) -> Vector:
        """Return the number of every worker's votes, counted with their weights."""
        if self.elsewhere is not None:
            return np.asarray(self.elsewhere.loads)
        if all(bool((self.weight[rows] == 1.0).all()) for rows in parts(self.weight)):
            return np.diff(self.offsets).astype(np.float64)
        starts = np.minimum(self.offsets[:-1], len(self) - 1)
        loads = np.add.reduceat(self.weight, starts, dtype=np.float64)
        return np.where(np.diff(self.offsets) > 0, loads, 0.0)

    @cached_property
    def has_ties(self) -> bool:
        """Return whether any vote is a tie (an outcome of exactly one half)."""
        return any(bool((self.outcome[rows] == 0.5).any()) for rows in parts(self.outcome))

    @cached_property
    def ties_are_outcomes(self) -> bool:
        """Return whether one half means a tie: some votes are 0.5, and no other is between 0 and 1."""
        # Among soft outcomes, such as the probabilities of a judge, one half is just one of them.
        known = (0.0, 0.5, 1.0)
        return self.has_ties and all(bool(np.isin(self.outcome[rows], known).all()) for rows in parts(self.outcome))

    @property
    def columns(self) -> tuple[Codes, Codes, NDArray[np.float32], NDArray[np.float32]]:
        """Return the columns of every row: first, second, outcome, weight."""
        return self.first, self.second, self.outcome, self.weight

    @property
    def on_disk(self) -> bool:
        """Return whether the votes are in files, whose parts are read when they are used."""
        return is_mapped(self.first)

    def __len__(self) -> int:
        return len(self.first) if self.elsewhere is None else int(self.elsewhere.rows)

    def require_rows(self, what: str) -> None:
        """Raise an error if other machines hold the rows, which `what` needs here."""
        if self.elsewhere is not None:
            raise RequestError(
                f"{what} needs all votes in one place, and these are read by the workers of a cluster; read them first "
                "with crowdsift.read, or use another engine"
            )

    def __repr__(self) -> str:
        return (
            f"Comparisons({self.total_weight:g} votes in {len(self)} distinct rows, {self.n_items} items, "
            f"{self.n_workers} workers, sides {'known' if self.sides_known else 'unknown'})"
        )

    def worker_loads(self) -> Indices:
        """Return how many votes every worker has, with weights counted and rounded."""
        return np.rint(self.loads).astype(np.int64)

    def worker_codes(self) -> Codes:
        """Return the worker of every comparison, as an array of length N; for slow paths only."""
        codes = np.arange(self.n_workers, dtype=np.uint32)
        return np.repeat(codes, np.diff(self.offsets))

    def with_features(self, features: NDArray[np.float32] | None, names: tuple[str, ...] = ()) -> Self:
        """Return the comparisons with other features, one row per comparison."""
        if features is None:
            return self if self.features is None else replace(self, features=None, feature_names=())
        self.require_rows("a feature of every vote")
        table = single_features(table_of_numbers(features), len(self), self.source)
        return replace(self, features=frozen(table), feature_names=names)

    def with_classes(self, classes: Sequence[Any]) -> Self:
        """Return the comparisons with a class for every item, in the order of `items`."""
        if len(classes) != self.n_items:
            raise InputError(f"{len(classes)} classes for {self.n_items} items; give one each")
        table = ArraySource({"class": list(classes)}, source="classes")
        names, (codes,) = table.labels(["class"], "class")
        return replace(self, item_class=frozen(codes), class_names=tuple(names))

    def with_gold(self, winner: Codes, loser: Codes) -> Self:
        """Return the votes with pairs of known order as the votes of one more worker, the last."""
        # Only for methods that support a worker of known reliability; `n_gold` counts it. Its votes have the winner
        # first even if sides are known, and do not affect side biases.
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

    def select(self, keep: Mask) -> Self:
        """Return the comparisons where `keep` is true, with the same items, workers and codes."""
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
            choices=self._of_kept_workers(self.choices, runs),
            grades=self._of_kept_workers(self.grades, runs),
        )

    def _of_kept_workers(self, answers: Any, runs: Indices) -> Any:
        # the rows that remain of a ranking are no ranking: they become weighted pairs
        before, after = np.diff(self.offsets), np.diff(runs)
        if answers is None or ((after > 0) & (after < before)).any():
            return None
        return answers.select((after > 0)[answers.worker])


_FAULT_COLUMN = {4: "outcome", 5: "weight"}


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(EncodedVotes):
    """Pairwise votes, encoded once and immutable.

    Comparison i says that its worker preferred item ``first[i]`` to item ``second[i]`` to the degree ``outcome[i]`` (1:
    certainly, 0: the opposite, 0.5: a tie), ``weight[i]`` times. The comparisons of worker s are those from
    ``offsets[s]`` to ``offsets[s + 1]``. Rows equal in worker, order and outcome are one comparison of larger weight.
    Codes follow the sorted labels and the order is canonical, so the same votes in any order make the same arrays.

    Use `crowdsift.read` for files and frames, `Comparisons.from_arrays` for arrays.

    Attributes
    ----------
    first, second
        Item codes, of type uint32. If sides are unknown the preferred item is first.
    outcome, weight
        Of type float32.
    offsets
        The runs of the workers, of length ``n_workers + 1``.
    items, workers
        The labels, as they were given, by code.
    sides_known
        Whether ``first`` was shown on the left (or first) and ``second`` on the right.
    has_workers
        False if all votes were pooled because no worker is known.
    rows
        The number of rows before collapsing.
    features
        Nuisance features of every comparison, in favour of ``first``, or None.
    feature_names
        Their names.
    item_class, class_names
        The class of every item as a code into the names, or None.
    item_features
        Features of items as numbers, or None; see `crowdsift.fit` and its `items`.
    by
        The name of the context column, a tuple of several names, or "". With a context an item is a pair (value, item),
        the value a tuple for several columns, so that items of different contexts are never compared.
    intake
        Counts of how the rows were used, if the votes were read; see `Intake`.
    reading
        The options of reading, if any, that an update uses again.
    row_ids
        Sorted hashes of the columns that identify a row, such as the assignment, if there are any: an update finds
        rows that it already has.
    choices
        The rankings or best-worst answers behind these pairs, if there are any.
    n_gold
        The number of gold workers, which come last; see `with_gold`.
    elsewhere
        The place of the rows if other machines hold them (docs/scale.md); the arrays above are then empty, except
        offsets and labels.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> votes = Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "c"], worker=[7, 7, 8])
    >>> votes
    Comparisons(3 votes in 2 distinct rows, 3 items, 2 workers, sides unknown)
    >>> votes.weight
    array([2., 1.], dtype=float32)
    """

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
        threads: int | None = None,
    ) -> Comparisons:
        """Make comparisons from arrays of labels, one entry per vote.

        Parameters
        ----------
        first, second
            Labels of the two items; without `outcome` the first is the winner.
        worker
            The voters; None pools all votes as those of one unknown voter.
        outcome
            In [0, 1] for the first over the second; default 1.
        weight
            How often each vote counts; default 1.
        sides_known
            Whether `first` was shown on the left.
        features
            Nuisance features in favour of `first`, one row per vote.
        feature_names
            A name for each feature.
        threads
            How many threads may sort; default: all cores that this process may use.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> Comparisons.from_arrays([0, 1], [1, 2], outcome=[1, 0.5], worker=["ann", "bob"])
        Comparisons(2 votes in 2 distinct rows, 3 items, 2 workers, sides unknown)
        """
        given = {"first": first, "second": second, "worker": worker, "outcome": outcome}
        given["weight"] = weight
        if first is None or second is None:
            raise RequestError("votes need two items each: give first and second")
        table = ArraySource({name: values for name, values in given.items() if values is not None})
        items, first_codes, second_codes = table.pairs("first", "second")
        workers: Labels = np.array([None], dtype=object)
        worker_codes = None
        if worker is not None:
            workers, (worker_codes,) = table.labels(["worker"], "worker label")
        return cls.from_codes(
            first_codes,
            second_codes,
            worker=worker_codes,
            outcome=None if outcome is None else table.quantities("outcome", "outcome"),
            weight=None if weight is None else table.quantities("weight", "weight"),
            items=items,
            workers=workers,
            sides_known=sides_known,
            features=None if features is None else table_of_numbers(features),
            feature_names=tuple(feature_names),
            threads=threads,
        )

    @classmethod
    def from_codes(
        cls,
        first: Codes,
        second: Codes,
        *,
        items: Labels,
        workers: Labels,
        worker: Codes | None = None,
        outcome: NDArray[np.floating[Any]] | None = None,
        weight: NDArray[np.floating[Any]] | None = None,
        sides_known: bool = False,
        features: NDArray[np.floating[Any]] | None = None,
        feature_names: tuple[str, ...] = (),
        threads: int | None = None,
        by: By = "",
        source: str = "votes",
        backend: Backend | None = None,
        summed: bool = False,
    ) -> Comparisons:
        """Make comparisons from codes into sorted lists of labels; every reader uses this.

        The parameters are those of `from_arrays`, but for codes and the labels they point to. Outcomes and weights are
        checked as given, then rounded to float32. With `summed` the rows are those of other comparisons, whose weights
        may be sums above the limit of a single vote.

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
        outcome = single(outcome, "outcome", source)
        weight = single(weight, "weight", source)
        unit = np.float32(1.0)
        if summed and weight is not None:
            unit = _unit_of(weight)
            weight = weight / unit
        _refuse_faults(first, second, worker, outcome, weight, items, n_workers, source)
        if features is not None:
            features = single_features(features, len(first), source)
        context, table = distinct_rows(features)
        rows = collapse(
            first, second, worker, outcome, weight, context, len(items), n_workers, sides_known, thread_count(threads)
        )
        one, two, outcomes, weights, groups, swapped, offsets = rows
        if len(one) == 0:
            raise InputError("no votes (all weights are 0)", source=source)
        if table is not None:  # if its items are swapped, a vote has the opposite features
            table = table[groups] * (1.0 - 2.0 * swapped[:, None]).astype(np.float32)
            table += np.float32(0.0)  # removes negative zeros
        return cls(
            first=frozen(one),
            second=frozen(two),
            outcome=frozen(outcomes),
            weight=frozen(weights if unit == 1.0 else weights * unit),
            offsets=frozen(offsets),
            items=frozen(items.copy()),
            workers=frozen(workers.copy()),
            sides_known=sides_known,
            has_workers=worker is not None,
            rows=len(first),
            features=None if table is None else frozen(table),
            feature_names=feature_names,
            by=by,
            source=source,
            backend=backend,
        )

    def extended(self, other: Comparisons) -> Comparisons:
        """Join these votes and others; equal labels are the same item or worker.

        Where the others know no sides, neither does the whole.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
        >>> votes.extended(Comparisons.from_arrays(["a"], ["d"], worker=["z"]))
        Comparisons(3 votes in 3 distinct rows, 4 items, 3 workers, sides unknown)
        """
        if self.features is not None or other.features is not None or self.by != other.by:
            raise InputError("votes with features or of other contexts cannot be combined")
        if self.has_workers != other.has_workers or self.n_gold or other.n_gold:
            raise InputError("votes with workers and votes without cannot be combined")
        both = (self, other)
        for each in both:
            each.require_rows("adding votes")
        items, codes = merge([(v.items, np.arange(v.n_items, dtype=np.uint32)) for v in both])
        workers, who = merge([(v.workers, np.arange(v.n_workers, dtype=np.uint32)) for v in both])
        pairs = list(zip(both, codes, strict=True))
        worker = [table[v.worker_codes()] for v, table in zip(both, who, strict=True)]
        whole = encoded_again(
            self,
            first=np.concatenate([table[v.first] for v, table in pairs]),
            second=np.concatenate([table[v.second] for v, table in pairs]),
            items=items,
            workers=workers,
            worker=np.concatenate(worker) if self.has_workers else None,
            outcome=np.concatenate([v.outcome for v in both]),
            weight=np.concatenate([v.weight for v in both]),
            sides_known=self.sides_known and other.sides_known,
            backend=self.backend or other.backend,
        )
        choices, grades = None, None
        if all(any(getattr(v, name) is not None for v in both) for name in ("choices", "grades")):
            raise InputError("rankings and graded votes cannot be combined; fit each alone", source=other.source)
        places = list(zip(codes, who if self.has_workers else (None, None), strict=True))
        if any(v.choices is not None for v in both):
            from crowdsift.votes.choices import Choices

            old, new = (
                (Choices.of_plain(v) if v.choices is None else v.choices).recoded(*place)
                for v, place in zip(both, places, strict=True)
            )
            choices = old.joined(new)
        if any(v.grades is not None for v in both):
            first, second = (Grades.of_decided(v).recoded(*place) for v, place in zip(both, places, strict=True))
            joined = first.joined(second)
            grades = joined.select(np.lexsort(joined))
        ids = [v.row_ids for v in both if v.row_ids is not None]
        known = self.intake is not None and other.intake is not None
        return replace(
            whole,
            intake=self.intake + other.intake if known else None,  # type: ignore[operator]
            reading=self.reading,
            choices=choices,
            grades=grades,
            panels=None if self.panels is None else self.panels.merged(other.panels),
            row_ids=frozen(np.unique(np.concatenate(ids))) if ids else None,
        )

    def pooled(self) -> Comparisons:
        """Return all votes as votes of one worker: one comparison per pair, with the mean outcome.

        This is sufficient only for a logistic model without workers and sides, which depends on the number of votes on
        a pair and their sum. For other models it is not, since a win and a loss become a tie.

        Examples
        --------
        >>> from crowdsift import Comparisons
        >>> votes = Comparisons.from_arrays(["a", "b", "a"], ["b", "a", "b"], worker=[1, 2, 3])
        >>> pooled = votes.pooled()
        >>> pooled.weight, pooled.outcome.round(3)
        (array([3.], dtype=float32), array([0.667], dtype=float32))
        """
        self.require_rows("counting pairs")
        one, two, outcome, weight = pool_pairs(self.first, self.second, self.outcome, self.weight, self.n_items)
        return Comparisons(
            first=frozen(one),
            second=frozen(two),
            outcome=frozen(outcome),
            weight=frozen(weight),
            offsets=frozen(np.array([0, len(one)])),
            items=self.items,
            workers=frozen(np.array([None], dtype=object)),
            has_workers=False,
            rows=len(one),
            by=self.by,
            source=self.source,
            backend=self.backend,
        )


def _unit_of(weight: NDArray[np.float32]) -> np.float32:
    """Return the smallest power of 2, at least 1, in which no finite weight exceeds its limit."""
    # Division by it, and multiplication, are exact.
    most = float(weight[np.isfinite(weight)].max(initial=0.0))
    return np.float32(2.0 ** max(ceil(log2(max(most, 1.0) / MOST_WEIGHT)), 0))


def _refuse_faults(
    first: Codes,
    second: Codes,
    worker: Codes | None,
    outcome: NDArray[np.float32] | None,
    weight: NDArray[np.float32] | None,
    items: Labels,
    n_workers: int,
    source: str,
) -> None:
    fault, row = find_fault(first, second, worker, outcome, weight, len(items), n_workers)
    if fault:
        column = _FAULT_COLUMN.get(fault)
        raise InputError(FAULTS[fault], source=source, row=row + 1, column=column)
    if len(items) < 2:
        raise InputError(
            f"{counted(len(items), 'item')} in {counted(len(first), 'vote')}; a comparison needs two", source=source
        )


def encoded_again(votes: Comparisons, **changed: Any) -> Comparisons:
    """Return votes with some columns or labels changed, sorted and added up again."""
    names = ("first", "second", "outcome", "weight", "items", "workers", "sides_known", "by", "source", "backend")
    given = {name: getattr(votes, name) for name in (*names, "features", "feature_names")}
    worker = votes.worker_codes() if votes.has_workers else None
    return Comparisons.from_codes(**{**given, "worker": worker, "summed": True, **changed})


_WAYS = np.array(["", "only won", "only lost", ""], dtype=object)


class Tally(NamedTuple):
    """Counts of votes.

    `agreement` is the share of every worker's decided votes that agree with the order of items, votes on equal ranks do
    not agree, and NaN means no decided votes; `appearances` how often every item was compared, weights counted; `flags`
    "only won" or "only lost" where all votes of an item go one way, else "": nothing in the votes bounds the score of
    such an item on that side, only the prior does.
    """

    agreement: Vector
    appearances: Vector
    flags: Labels


def tally(votes: Comparisons, rank: Indices, threads: int | None = None) -> Tally:
    """Count votes, in one pass over them; the ranks of the items give their order."""
    order, used = rank.astype(np.uint32), thread_count(threads)
    whole = [slice(0, len(votes))]
    agreed, decided = np.zeros(votes.n_workers), np.zeros(votes.n_workers)
    appearances, ways = np.zeros(votes.n_items), np.zeros(votes.n_items, np.uint8)
    for rows in parts(*votes.columns) if votes.on_disk else whole:
        offsets = np.clip(votes.offsets, rows.start, rows.stop) - rows.start
        first, second, outcome, weight = votes.columns
        found = count_votes(first[rows], second[rows], outcome[rows], weight[rows], offsets, order, used)
        agreed += found[0]
        decided += found[1]
        appearances += found[2]
        ways |= found[3]
    return Tally(_share(agreed, decided), appearances, _WAYS[ways])


def tally_of(counted: Any) -> Tally:
    """Return the tally from the counts of an engine (`crowdsift.engines.base.Tally`)."""
    ways = (counted.wins > 0).astype(int) + 2 * (counted.losses > 0)
    share = _share(counted.agreed, counted.decided)
    return Tally(share, counted.appearances, _WAYS[ways])


def _share(agreed: Vector, decided: Vector) -> Vector:
    share = np.full(len(agreed), np.nan)
    np.divide(agreed, decided, out=share, where=decided > 0)
    return share
