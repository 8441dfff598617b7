"""Choose the next questions: the most valuable pairs and, if workers may be chosen, the best workers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.active.batches import TYPES, BatchSelection, Question, State, ThompsonSampler, neighbours
from crowdsift.active.beliefs import Belief, Independent, Joint
from crowdsift.active.stopping import Goal, Stopping, checked_confidence, stopping
from crowdsift.errors import ConvergenceWarning, RequestError, SignWarning
from crowdsift.fitting import Fit, fit
from crowdsift.io.ingest import read_votes
from crowdsift.io.options import ReadOptions
from crowdsift.models import BradleyTerry, Model, Sift
from crowdsift.numeric import Indices, Labels, Mask, Vector
from crowdsift.numeric.distributions import normal_quantiles
from crowdsift.numeric.likelihoods import normal_cdf
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import components, pair_keys
from crowdsift.votes.labels import key_of, merge, plain

_MOST_PAIRS = 1_000_000  # the pairs are chosen one after the other, each among all candidates


class Selector:
    """Choose the comparisons with the most expected information about the order of the items.

    A selector starts from a fit and keeps its posterior. Scores are jointly Gaussian, with covariances up to about a
    thousand items and with variances only beyond that. Every worker has a distribution of reliability. `add` updates
    this posterior by one rank-one step for each new vote. A new fit is made only when new votes exceed a share `refit`
    of all.

    Parameters
    ----------
    votes
        Anything that `crowdsift.fit` takes, or a `Fit`, whose posterior is used without another fit. None starts
        without votes; `items` is then needed.
    items, workers
        Labels that may have no votes yet.
    islands
        "connect" first asks pairs that join components. "keep" asks only within components; use it for components that
        need not be compared.
    goal
        What to find: "first", "top-3" (or another number) or "ranking". Pairs are chosen for this goal.
    refit
        Fit again when new votes exceed this share of the votes in the last fit; 0 never fits again.
    model
        The model to fit; `Sift` by default, and `bt` for votes without workers.
    columns
        As in `crowdsift.read`.
    seed
        The seed of the draws that decide who is asked.
    threads
        The number of threads of fits.

    Examples
    --------
    >>> import crowdsift
    >>> drawn = crowdsift.simulate(items=12, workers=6, comparisons=300, seed=1)
    >>> selector = crowdsift.Selector(drawn.comparisons())
    >>> query = selector.choose(2)
    >>> sorted(query)
    ['first', 'gain', 'probability', 'reason', 'second']
    >>> selector.add(query["first"], query["second"], ["w0", "w1"], outcome=[1, 0])
    >>> selector.pending
    2
    """

    def __init__(
        self,
        votes: Any = None,
        *,
        items: Iterable[Any] = (),
        workers: Iterable[Any] = (),
        islands: str = "connect",
        goal: str = "ranking",
        refit: float = 0.1,
        model: Model | None = None,
        columns: Mapping[str, str] | None = None,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        if islands not in ("connect", "keep"):
            raise RequestError(f"islands must be 'connect' or 'keep', not {islands!r}")
        if not refit >= 0:
            raise RequestError(f"refit must be at least 0, not {refit!r}")
        self._islands, self._refit, self._threads = islands, refit, threads
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._new: list[tuple[int, int, int, float]] = []
        self._pool: Selector | None = None
        self.fit: Fit | None = None
        if isinstance(votes, Fit):
            self.fit, votes = votes, _votes_of(votes)
        elif votes is not None:
            named = model is None or model.uses_workers
            votes = read_votes(votes, ReadOptions(columns or {}, workers=named, threads=threads))
        self.by = "" if votes is None else votes.by
        self._islands = "keep" if self.by else islands  # contexts are never asked together
        self.backend = None if votes is None else votes.backend
        self._votes = widened(votes, items, workers)
        self.items, self.workers = self._labels(items, workers)
        if len(self.items) < 2:
            raise RequestError("at least two items are needed; give votes, or items")
        self._goal = Goal.of(goal, len(self.items))
        self._has_workers = self.workers[0] is not None
        self._model: Model = model or (Sift() if self._has_workers else BradleyTerry(penalty=1.0))
        self._item_code = {key_of(label): i for i, label in enumerate(self.items)}
        self._worker_code = {key_of(label): i for i, label in enumerate(self.workers)}
        self._learn()

    @property
    def pending(self) -> int:
        """Return how many votes were added since the last fit."""
        return len(self._new)

    def choose(
        self,
        pairs: int = 1,
        *,
        workers: Sequence[Any] | Mapping[Any, int] | None = None,
        among: tuple[Sequence[Any], Sequence[Any]] | None = None,
        prices: Mapping[Any, float] | None = None,
    ) -> Table:
        """Return the comparisons worth asking next, best first, chosen together.

        Parameters
        ----------
        pairs
            The number of pairs. A pair is repeated only when every candidate has been chosen once.
        workers
            The workers who may be asked: labels, or labels with the most votes of each. Every row then names a worker
            who has not voted on that pair before. With None any worker may answer.
        among
            The pairs that may be asked, as two lists of items; any pair by default.
        prices
            The price of each worker's vote; workers with the most information per price are asked.

        Returns
        -------
        Table
            ``first, second``, with workers ``worker``, then ``gain`` (how many pairs of items the answer is expected to
            put in the right order, to first order), ``probability`` (that the first item is better) and ``reason``
            ("connects" islands or "orders" items). There are fewer rows than requested if capacities, or pairs that
            workers have not seen, run out.

        Examples
        --------
        >>> import crowdsift
        >>> drawn = crowdsift.simulate(items=12, workers=6, comparisons=300, seed=1)
        >>> selector = crowdsift.Selector(drawn.comparisons())
        >>> query = selector.choose(3, workers={"w0": 1, "w4": 2})
        >>> sorted(query["worker"].tolist())
        ['w0', 'w4', 'w4']
        """
        if not isinstance(pairs, int | np.integer) or pairs < 1:
            raise RequestError(f"pairs must be a whole number above 0, not {pairs!r}")
        if pairs > _MOST_PAIRS:
            raise RequestError(
                f"pairs must be at most {_MOST_PAIRS:,}, not {pairs:,}; ask in "
                "batches: answers change what is worth asking next"
            )
        self._refit_if_due()
        if self._goal.top and workers is None and self._has_workers:
            return self.pooled().choose(pairs, among=among)  # by the belief that settles the goal
        candidates = self._candidates(among)
        sampler = None if workers is None else self._sampler(workers, prices)
        keep = self._islands == "keep"
        top = self._goal.top
        batch = BatchSelection(self._state, *candidates, self._seen, int(pairs), keep, top)
        return self._table(batch.choose(int(pairs), sampler), workers is not None)

    def add(self, first: Any, second: Any, worker: Any = None, outcome: Any = 1.0) -> None:
        """Add new votes: labels, or sequences of labels, and outcomes for the first item.

        Examples
        --------
        >>> import crowdsift
        >>> selector = crowdsift.Selector(items=["a", "b", "c"], workers=["ann"])
        >>> selector.add("a", "b", "ann")
        >>> bool(selector.scores[0] > selector.scores[1])
        True
        """
        one, two = (self._codes(first, self._item_code, "item"), self._codes(second, self._item_code, "item"))
        who = self._codes([None] if worker is None else worker, self._worker_code, "worker")
        result = np.atleast_1d(np.asarray(outcome, dtype=np.float64))
        try:
            one, two, who, result = np.broadcast_arrays(one, two, who, result)
        except ValueError:
            raise RequestError("first, second, worker and outcome differ in length") from None
        if (one == two).any():
            raise RequestError("an item cannot be compared with itself")
        if not ((result >= 0) & (result <= 1)).all():
            raise RequestError("outcomes must be in [0, 1]: 1 where the first item was preferred")
        for a, b, s, y in zip(one.tolist(), two.tolist(), who.tolist(), result.tolist(), strict=True):
            self._state.absorb(a, b, s, y)
            self._new.append((a, b, s, y))
        if self._pool is not None:
            self._pool.add(self.items[one], self.items[two], outcome=result)

    @property
    def scores(self) -> Vector:
        """Return the present means of the scores, in the order of `items`."""
        return self._state.belief.mean.copy()

    @property
    def state(self) -> State:
        """Return the present belief about items and workers."""
        return self._state

    @property
    def belief(self) -> Belief:
        """Return the present Gaussian posterior of the scores."""
        return self._state.belief

    @property
    def votes_taken(self) -> float:
        """Return how many votes were given at the start and since then."""
        return (0.0 if self._votes is None else self._votes.total_weight) + len(self._new)

    def stopping(self, goal: str = "", confidence: float = 0.95) -> Stopping:
        """Return whether a goal, by default the selector's, is settled; valid however often it is checked.

        The evidence treats all workers alike, so that errors in their estimated reliabilities cannot make it too large.
        The claim follows from the scores of the selector; it is not settled if the scores behind that evidence
        contradict it.

        Examples
        --------
        >>> import crowdsift
        >>> selector = crowdsift.Selector(items=["a", "b"], workers=["ann"], goal="first")
        >>> selector.stopping().settled
        False
        """
        pool = self.pooled()
        pool._refit_if_due()
        wanted = Goal.of(goal, len(self.items)) if goal else self._goal
        found = stopping(pool.belief, wanted, checked_confidence(confidence))
        own = np.argsort(-self.belief.mean, kind="stable")[: len(found.claim)]
        order = np.sort if wanted.top else np.array  # the best items are a set
        if (order(own) == order(found.claim)).all():
            return replace(found, claim=own)
        return replace(found, claim=own, settled=False, confidence=0.0)

    def pooled(self) -> Selector:
        """Return a selector of the same votes without workers; it receives later votes as well."""
        if not self._has_workers:
            return self
        if self._pool is None:
            votes = self._with_new() if self._new else self._votes
            same: dict[str, Any] = {"islands": self._islands, "refit": self._refit, "threads": self._threads}
            if votes is None:
                self._pool = Selector(items=self.items, goal=self._goal.text, **same)
            else:
                self._pool = Selector(votes.pooled(), goal=self._goal.text, **same)
        return self._pool

    def _refit_if_due(self) -> None:
        if self._refit > 0 and self._new and len(self._new) > self._refit * self._fitted:
            self.refit()

    def refit(self) -> Fit:
        """Fit all votes again, and continue from that posterior.

        Examples
        --------
        >>> import crowdsift
        >>> selector = crowdsift.Selector(items=["a", "b", "c"], workers=["ann"])
        >>> selector.add(["a", "a"], ["b", "c"], "ann")
        >>> selector.refit().summary["votes"]
        2.0
        """
        if self._new:
            self._votes = self._with_new()
            self._new.clear()
        self._learn()
        if self.fit is None:
            raise RequestError("there are no votes to fit")
        return self.fit

    # --- the posterior ----------------------------------------------------------------------

    def _learn(self) -> None:
        self._fitted = 0.0
        if self._votes is None:
            self._state = prior_state(len(self.items), len(self.workers))
            if not self._has_workers:  # the model for votes without workers
                self._state.population, self._state.types = np.ones(TYPES), np.ones((1, TYPES))
            return
        if self.fit is None or self.fit.votes is not self._votes:
            with warnings.catch_warnings():  # the fit contains the warnings
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", SignWarning)
                self.fit = fit(self._votes, self._model, threads=self._threads, overall=False)
        self._fitted = self._votes.total_weight
        self._state = fitted_state(self.fit, self._votes)

    # --- votes ------------------------------------------------------------------------------

    def _labels(self, items: Iterable[Any], workers: Iterable[Any]) -> tuple[Labels, Labels]:
        if self._votes is not None:
            return self._votes.items, self._votes.workers
        names = list(workers) or [None]
        return sorted_labels(items), sorted_labels(names)

    def _codes(self, labels: Any, known: dict[Any, int], kind: str) -> Indices:
        many = hasattr(labels, "__iter__") and not isinstance(labels, str | bytes | tuple)
        listed = plain(labels if many else [labels])
        if kind == "worker" and not self._has_workers:
            listed = [None] * len(listed)
        codes = [known.get(key_of(label), -1) for label in listed]
        if -1 in codes:
            raise RequestError(
                f"the {kind} {listed[codes.index(-1)]!r} is unknown; {kind}s without votes are "
                f"named at the start: {kind}s=[...]"
            )
        return np.array(codes, dtype=np.int64)

    def _with_new(self) -> Comparisons:
        a, b, s, y = (np.array(column) for column in zip(*self._new, strict=True))
        old = self._votes
        new = Comparisons.from_codes(
            *(code.astype(np.uint32) for code in (a, b)),
            worker=s.astype(np.uint32) if self._has_workers else None,
            outcome=y.astype(np.float32),
            items=self.items,
            workers=self.workers,
            threads=self._threads,
            sides_known=old is not None and old.sides_known,
            by=self.by,
        )
        return new if old is None else old.with_features(None).extended(new)

    # --- questions --------------------------------------------------------------------------

    def _candidates(self, among: tuple[Sequence[Any], Sequence[Any]] | None) -> tuple[Indices, Indices]:
        k, component = len(self.items), self._state.component
        if among is not None:
            one, two = (self._codes(list(side), self._item_code, "item") for side in among)
            if len(one) != len(two):
                raise RequestError("among needs as many first items as second ones")
            keys = np.unique(pair_keys(one[one != two], two[one != two], k))
            a, b = keys // k, keys % k
        elif k <= ALL_PAIRS:
            a, b = np.triu_indices(k, 1)
        else:
            a, b = neighbours(self._state.belief.mean, component)
        if self._islands == "keep":
            inside = component[a] == component[b]
            a, b = a[inside], b[inside]
        if not len(a):
            raise RequestError("no pair may be asked: no two of the items are in one component")
        return a, b

    def _sampler(
        self, workers: Sequence[Any] | Mapping[Any, int], prices: Mapping[Any, float] | None = None
    ) -> ThompsonSampler:
        if not self._has_workers:
            raise RequestError("these votes have no workers to choose from")
        codes = self._codes(list(workers), self._worker_code, "worker")
        if not len(codes):
            raise RequestError("no worker may be asked; the list is empty")
        capacity = np.full(len(codes), np.iinfo(np.int64).max)
        if isinstance(workers, Mapping):
            given = list(workers.values())
            if not all(isinstance(most, int | np.integer) and most >= 0 for most in given):
                raise RequestError("capacities of workers must be whole numbers, at least 0")
            capacity[:] = given
        price = None
        if prices is not None:
            price = np.array([float(prices.get(each, np.nan)) for each in workers])
            if not (np.isfinite(price) & (price > 0)).all():
                raise RequestError("every worker needs a price above 0")
        return ThompsonSampler(self._state, codes, capacity, self._random, price)

    def _seen(self, s: int) -> Indices:
        new = np.array([(a, b) for a, b, who, _ in self._new if who == s]).reshape(-1, 2)
        one, two = new[:, 0].astype(np.int64), new[:, 1].astype(np.int64)
        if self._votes is not None:
            run = slice(int(self._votes.offsets[s]), int(self._votes.offsets[s + 1]))
            one = np.concatenate([one, self._votes.first[run]])
            two = np.concatenate([two, self._votes.second[run]])
        return pair_keys(one, two, len(self.items))

    def _table(self, questions: list[Question], named: bool) -> Table:
        a, b, who = (np.array([q[i] for q in questions], dtype=np.int64) for i in range(3))
        belief = self._state.belief
        ratio = (belief.mean[a] - belief.mean[b]) / np.sqrt(belief.variance(a, b))
        columns: dict[str, NDArray[Any]] = {"first": self.items[a], "second": self.items[b]}
        if named:
            columns["worker"] = self.workers[who]
        columns["gain"] = np.array([q.gain for q in questions])
        columns["probability"] = np.asarray(normal_cdf(ratio))
        reason = ["connects" if q.connects else "orders" for q in questions]
        columns["reason"] = np.array(reason, dtype=object)
        return Table(columns)


def _votes_of(found: Fit) -> Comparisons:
    if found.votes is None:
        raise RequestError(
            "the votes of this fit were not kept (too many, or with "
            "features), so what was asked is not known; give the votes"
        )
    return found.votes


def widened(votes: Comparisons | None, items: Iterable[Any], workers: Iterable[Any]) -> Comparisons | None:
    """Return the votes with further items and workers that have no votes."""
    items, workers = list(items), list(workers)
    if votes is None or not (items or workers):
        return votes
    labels, place = _joined(votes.items, items)
    names, who = votes.workers, np.arange(votes.n_workers)
    if workers and votes.has_workers:
        names, who = _joined(votes.workers, workers)
    if len(labels) == votes.n_items and len(names) == votes.n_workers:
        return votes  # a fit of them, perhaps with gold, still holds
    whole = Comparisons.from_codes(
        place[votes.first].astype(np.uint32),
        place[votes.second].astype(np.uint32),
        worker=who[votes.worker_codes()].astype(np.uint32) if votes.has_workers else None,
        outcome=votes.outcome,
        weight=votes.weight,
        items=labels,
        workers=names,
        sides_known=votes.sides_known,
        source=votes.source,
        backend=votes.backend,
        summed=True,
    )
    choices = None if votes.choices is None else votes.choices.recoded(place, who)
    grades = None if votes.grades is None else votes.grades.recoded(place, who)
    return replace(whole, choices=choices, grades=grades)


def sorted_labels(labels: Iterable[Any]) -> Labels:
    """Return distinct labels in the order of codes."""
    given = plain(labels)
    return merge([(given, np.zeros(0, np.uint32))])[0]


def _joined(labels: Labels, more: Sequence[Any]) -> tuple[Labels, Indices]:
    together = sorted_labels([*labels, *more])
    code = {key_of(label): i for i, label in enumerate(together)}
    return together, np.array([code[key_of(label)] for label in labels], dtype=np.int64)


ALL_PAIRS = 1_500  # most items for which every pair is a candidate


def prior_state(items: int, workers: int) -> State:
    """Return the beliefs about items and workers without votes."""
    component = np.arange(items)
    belief: Belief = Independent(np.zeros(items), np.ones(items), component.copy())
    on_pair = None
    if items <= ALL_PAIRS:
        on_pair = np.zeros((items, items))
        belief = Joint.of(np.zeros(items), on_pair, component)
    types = np.tile(_newcomer(), (workers, 1))
    return State(belief, component, _newcomer(), types, _even(workers), np.zeros(workers), on_pair=on_pair)


def fitted_state(found: Fit, votes: Comparisons) -> State:
    """Return the posterior of a fit, in the codes of its votes."""
    component = components(votes).astype(np.int64)
    mean, posterior = found.scores_of(votes.items), found.posterior
    if posterior is None or posterior.sd is None:
        raise RequestError(f"{found.method} has no posterior to choose by; use sift or bt")
    belief: Belief
    covariance, on_pair = posterior.covariance, None
    if covariance is not None:
        belief = Joint.of(mean, covariance, component)
        on_pair = np.zeros(covariance.shape)
        np.add.at(on_pair, (votes.first, votes.second), votes.weight)
        on_pair += on_pair.T
    else:
        belief = Independent(mean, posterior.sd**2, component.copy())
    loads = np.bincount(votes.worker_codes(), votes.weight, votes.n_workers)
    population, types = _reliabilities(found, loads > 0)
    if not population.any():  # no worker saw a difference: only a new one can add information
        population = _newcomer()
    dimensions = None if posterior.dimensions is None else posterior.dimensions.with_strangers()
    return State(belief, component, population, types, _even(len(types)), loads.astype(np.float64), dimensions, on_pair)


def _reliabilities(found: Fit, voted: Mask) -> tuple[Vector, Vector]:
    """Return types of the population and of every worker; a worker without votes is like the population."""
    quantiles = None if found.posterior is None else found.posterior.quantiles
    if quantiles is None:  # a model without a posterior of workers, or votes without workers
        result = found.worker_table["reliability"].astype(np.float64)
        known = np.where(np.isfinite(result), result, 1.0) if len(result) else np.ones(1)
        quantiles = np.repeat(known[:, None], TYPES, axis=1)
    population = np.quantile(quantiles[voted], (np.arange(TYPES) + 0.5) / TYPES)
    return population, np.where(voted[:, None], quantiles, population)


def _newcomer() -> Vector:
    """Return quantiles of the reliability of an unknown worker."""
    return np.asarray(normal_quantiles(np.ones(1), np.full(1, 0.5), TYPES)[0])


def _even(workers: int) -> Vector:
    return np.full((workers, TYPES), 1.0 / TYPES)
