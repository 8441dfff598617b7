"""The next questions in one call: new comparisons, or second opinions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from crowdsift.active.select import Selector
from crowdsift.errors import RequestError
from crowdsift.fitting import Fit, fit
from crowdsift.io.ingest import read_votes
from crowdsift.io.options import ReadOptions
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results.tables import Table
from crowdsift.votes.graph import pair_codes
from crowdsift.votes.labels import as_column, context_names, context_parts, key_of
from crowdsift.votes.pseudonyms import is_pseudonym


def next_pairs(
    votes: Any,
    pairs: int = 10,
    *,
    workers: Sequence[Any] | Mapping[Any, int] | str | None = None,
    items: Iterable[Any] = (),
    islands: str = "connect",
    goal: str = "ranking",
    columns: Mapping[str, str] | None = None,
    prices: Mapping[Any, float] | None = None,
    set_size: int = 2,
    seed: int = 0,
    threads: int | None = None,
) -> Any:
    """Return the comparisons worth asking next; see `Selector.choose`.

    Parameters
    ----------
    votes, items, islands, goal, columns, seed, threads
        As for `Selector`.
    pairs
        The number of pairs; with `set_size` above 2 the number of sets.
    workers
        The workers who may be asked, perhaps with capacities; "all" means all who have voted.
    prices
        The price of each worker's vote, if money matters.
    set_size
        How many items to show at once, for rankings and the best of several: a set is a pair worth asking and the items
        that add most information to it, in columns ``item_1``, ``item_2``, ...

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"winner": ["a", "c"], "loser": ["b", "d"], "worker": ["ann", "bob"]}
    >>> query = crowdsift.next_pairs(votes, 1)
    >>> query["reason"].tolist()
    ['connects']
    """
    named = () if workers is None or isinstance(workers, str) else list(workers)
    hidden = isinstance(votes, Fit) and votes.summary.get("workers_hidden")
    if hidden and not all(map(is_pseudonym, named)):
        raise RequestError(
            "the workers of this fit are hidden, and whoever is named would count as somebody new: name them by the "
            "pseudonyms of its workers.csv, or use a fit without --hide-workers"
        )
    selector = Selector(
        votes, items=items, workers=named, islands=islands, goal=goal, columns=columns, seed=seed, threads=threads
    )
    if isinstance(workers, str):
        if workers != "all":
            raise RequestError(f"workers are labels or 'all', not {workers!r}")
        workers = list(selector.workers)
    asked = selector.choose(pairs, workers=workers, prices=prices)
    if set_size != 2:
        if selector.by:
            raise RequestError("sets are of one context, and these votes have several; ask for pairs (--set-size 2)")
        asked = _sets(asked, selector, set_size)
    return _by_context(asked, selector.by).in_backend(selector.backend)


def _sets(asked: Table, selector: Selector, size: int) -> Table:
    """Return the pairs as sets of items that add most information; pairs asked before count less."""
    belief = selector.belief
    if not 2 < size <= len(selector.items):
        raise RequestError(f"set_size (--set-size) is 2 to the {len(selector.items)} items, not {size!r}")
    code = {key_of(label): place for place, label in enumerate(selector.items)}
    times, every, rows = np.ones((len(code), len(code))), np.arange(len(code)), []
    for pair in zip(asked["first"], asked["second"], strict=True):
        chosen = [code[key_of(label)] for label in pair]
        worth = np.zeros(len(code))
        while len(chosen) < size:
            for each in [chosen[-1]] if len(chosen) > 2 else chosen:
                p = sigmoid(belief.mean - belief.mean[each])
                worth += belief.variance(every, np.full(len(every), each)) * p * (1.0 - p) / times[each]
            free = ~np.isin(every, chosen)
            chosen.append(int(np.where(free, worth, -np.inf).argmax()))
        times[np.ix_(chosen, chosen)] += 1.0
        rows.append(sorted(chosen))
    items = selector.items[np.array(rows, np.int64).reshape(-1, size)]
    kept = {name: asked[name] for name in ("worker", "reason") if name in asked}
    return Table({**{f"item_{place + 1}": items[:, place] for place in range(size)}, **kept})


def _by_context(asked: Table, by: Any) -> Table:
    """Return the questions with a column for each context, as in tables of items."""
    if not by:
        return asked
    *contexts, first = map(as_column, context_parts(asked["first"], by))
    second = as_column(context_parts(asked["second"], by)[-1])
    values = dict(zip(context_names(by), contexts, strict=True))
    return Table({**values, **asked, "first": first, "second": second})


def second_opinions(votes: Any, pairs: int = 10, *, threads: int | None = None) -> Any:
    """Return judged pairs that deserve another worker's opinion, on the order and on the worker.

    The worth of a pair is the probability that its order is wrong, plus the doubt about the least certain worker who
    judged it. The doubt is 1 for undecided workers, 0 for random and one-sided ones, and for the others the entropy in
    bits of whether they are better than guessing. Every pair chosen for a worker makes the next one for the same worker
    worth less.

    Parameters
    ----------
    votes
        Anything that `crowdsift.fit` takes, or a `Fit`.
    pairs
        The number of pairs; no pair is repeated.
    threads
        How many threads may fit.

    Returns
    -------
    Table
        ``first, second`` (the item that is more probably better comes first), ``worker`` (whose answer is checked;
        another worker should answer), ``votes`` (so far), ``probability`` and ``worth``.

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"winner": ["a", "c"], "loser": ["b", "d"], "worker": ["ann", "bob"]}
    >>> query = crowdsift.second_opinions(votes, 2)
    >>> sorted(query["worker"].tolist())
    ['ann', 'bob']
    """
    if not isinstance(pairs, int | np.integer) or pairs < 1:
        raise RequestError(f"pairs must be a whole number above 0, not {pairs!r}")
    found = votes
    if not isinstance(votes, Fit):
        found = fit(read_votes(votes, ReadOptions(threads=threads)), threads=threads, overall=False)
    data = found.votes
    if data is None or not data.has_workers:
        raise RequestError("second opinions need votes with workers, and a fit that kept them")
    n = data.n_items
    keys, place = pair_codes(data.first, data.second, n)
    count = np.bincount(place, data.weight)
    labels = data.items
    wrong = 1.0 - _more_probable(found, labels[keys // n].tolist(), labels[keys % n].tolist())
    doubt, worker = _doubt(found), data.worker_codes().astype(np.int64)
    # One row per pair and worker: the same worker may have judged a pair in both ways.
    rows = np.unique(place * data.n_workers + worker)
    pair, who = rows // data.n_workers, rows % data.n_workers
    queries, open_, chosen, worth = np.zeros(data.n_workers), np.ones(len(keys), bool), [], []
    for _ in range(min(int(pairs), len(keys))):
        value = np.where(open_[pair], wrong[pair] + doubt[who] / (1.0 + queries[who]), -1.0)
        best = int(value.argmax())
        chosen.append(best)
        worth.append(float(value[best]))
        open_[pair[best]] = False
        queries[who[best]] += 1
    one, two = labels[keys[pair[chosen]] // n], labels[keys[pair[chosen]] % n]
    ahead = found.scores_of(one.tolist()) >= found.scores_of(two.tolist())
    columns = {"first": np.where(ahead, one, two), "second": np.where(ahead, two, one)}
    columns |= {"worker": data.workers[who[chosen]], "votes": count[pair[chosen]]}
    columns |= {"probability": 1.0 - wrong[pair[chosen]], "worth": np.array(worth)}
    return _by_context(Table(columns), data.by).in_backend(found.backend)


def _more_probable(found: Fit, one: list[Any], two: list[Any]) -> np.ndarray:
    p = np.asarray(found.better(one, two))
    return np.asarray(np.maximum(p, 1.0 - p))


def _doubt(found: Fit) -> np.ndarray:
    """Return how uncertain the value of each worker's answers is, from 0 to 1."""
    table = found.worker_table
    if "p_above_random" not in table:
        return np.ones(table.height)
    p = np.clip(table["p_above_random"].astype(np.float64), 1e-12, 1.0 - 1e-12)
    entropy = -(p * np.log2(p) + (1.0 - p) * np.log2(1.0 - p))
    entropy[np.isin(table["verdict"].astype(str), ("random", "one-sided"))] = 0.0
    return np.where(table["verdict"] == "undecided", 1.0, entropy)
