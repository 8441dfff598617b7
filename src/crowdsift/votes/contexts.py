"""Votes by context: a worker's votes in each context count as those of a separate worker."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Codes, Indices
from crowdsift.votes.comparisons import Comparisons, encoded_again, frozen
from crowdsift.votes.labels import as_column, factorize, merge


@dataclass(frozen=True)
class ContextVotes:
    """Votes in which a worker in a context is a separate worker, with the worker and the context of each.

    Gold, the last worker, is one in all contexts: it has no entry here. -1 stands for several contexts together, each
    with too few votes of the worker.
    """

    votes: Comparisons
    worker: Indices
    context: Indices


def by_context(votes: Comparisons, enough: float = 0.0) -> ContextVotes | None:
    """Return the votes with every worker split by context; None if there is one context."""
    # Only a worker with `enough` votes in two or more contexts is split, and its votes in contexts with fewer stay
    # together. Split workers come first, then the others.
    contexts = votes.item_contexts
    if contexts.max(initial=0) == 0:
        return None
    count = int(contexts.max()) + 1
    worker, n_voters = votes.worker_codes().astype(np.int64), votes.n_workers - votes.n_gold
    key = worker * count + np.where(worker < n_voters, contexts[votes.first], 0)
    if enough > 0.0:
        return _with_enough(votes, key, count, enough)
    order = np.argsort(key, kind="stable")
    keys, sizes = np.unique(key[order], return_counts=True)
    return _apart(votes, order, sizes, keys // count, keys % count)


def _with_enough(votes: Comparisons, key: Indices, count: int, enough: float) -> ContextVotes:
    """Return the keys of workers in contexts; contexts with too few votes of a worker are joined."""
    keys, which = np.unique(key, return_inverse=True)
    worker, context = keys // count, keys % count
    many = np.bincount(which, votes.weight, len(keys)) >= enough
    split = np.bincount(worker, many, votes.n_workers) > 1.0
    alone = np.bincount(worker, minlength=votes.n_workers) == 1
    own = many & split[worker]
    context = np.where(own | alone[worker], context, -1)
    last = worker >= votes.n_workers - votes.n_gold
    place = 2 * last + ~split[worker]  # gold comes last
    whose = (place * votes.n_workers + worker) * (count + 1) + context + 1
    apart, first, merged = np.unique(whose, return_index=True, return_inverse=True)
    of_vote = merged[which]
    order = np.argsort(of_vote, kind="stable")
    sizes = np.bincount(of_vote, minlength=len(apart))
    return _apart(votes, order, sizes, worker[first], context[first])


def _apart(
    votes: Comparisons, order: NDArray[np.intp], sizes: NDArray[np.intp], worker: Indices, context: Indices
) -> ContextVotes:
    """Return the votes in this order, with the number of votes of each worker in each context."""
    voters = worker < votes.n_workers - votes.n_gold
    apart = replace(
        votes,
        first=frozen(votes.first[order]),
        second=frozen(votes.second[order]),
        outcome=frozen(votes.outcome[order]),
        weight=frozen(votes.weight[order]),
        offsets=frozen(np.concatenate([[0], np.cumsum(sizes)])),
        workers=frozen(np.arange(len(sizes)).astype(object)),
        features=None if votes.features is None else frozen(votes.features[order]),
        n_gold=int((~voters).sum()),
    )
    return ContextVotes(apart, worker[voters], context[voters])


def shared_items(votes: Comparisons) -> tuple[Indices, Indices, int] | None:
    """Return which item and context each pair (context, item) consists of, and the number of distinct items."""
    # None if no item is in two contexts.
    if not votes.by or not votes.item_contexts.any():
        return None
    items, (place,) = merge([factorize(as_column([item for _, item in votes.items]))])
    if len(items) == votes.n_items:
        return None
    return place.astype(np.int64), votes.item_contexts, len(items)


def without_contexts(votes: Comparisons) -> tuple[Comparisons, Codes] | None:
    """Return the votes with the items of all contexts merged, and the new code of every old one."""
    # Returns None if most items are in one context only, as replies to one prompt are, except a few that occur
    # everywhere by chance: then nothing can be ranked across contexts.
    if not votes.by:
        return None
    labels = [item for _, item in votes.items]
    contexts = Counter(labels)
    if 2 * sum(count > 1 for count in contexts.values()) < len(contexts):
        return None
    items, (place,) = merge([factorize(as_column(labels))])
    classes = votes.item_class
    whole = encoded_again(votes, first=place[votes.first], second=place[votes.second], items=items, by="")
    if classes is not None:
        of_item = np.zeros(len(items), np.uint32)
        of_item[place[::-1]] = classes[::-1]  # that of its first context, if they differ
        whole = replace(whole, item_class=frozen(of_item), class_names=votes.class_names)
    choices = None if votes.choices is None else votes.choices.recoded(place)
    grades = None if votes.grades is None else votes.grades.recoded(place)
    return replace(whole, rows=votes.rows, intake=votes.intake, choices=choices, grades=grades), place
