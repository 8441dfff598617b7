"""Votes by context: what a worker voted in one context as the votes of a worker of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.votes.arrays import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["ContextVotes", "by_context"]


@dataclass(frozen=True)
class ContextVotes:
    """Votes in which every worker in a context is a worker: who that is, and in which context.

    Gold, the last worker, is one in all contexts: it has no entry here.
    """

    votes: Comparisons
    worker: NDArray[np.int64]
    context: NDArray[np.int64]


def by_context(votes: Comparisons) -> ContextVotes | None:
    """The votes with a worker for each worker in each context; None where there is one context.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.votes.contexts import by_context
    >>> rows = {"left": ["a", "c"], "right": ["b", "d"], "winner": ["left", "left"],
    ...         "worker": ["x", "x"], "topic": [1, 2]}
    >>> by_context(crowdsift.read(rows, by="topic")).worker.tolist()
    [0, 0]
    """
    contexts = votes.item_contexts
    if contexts.max(initial=0) == 0:
        return None
    count = int(contexts.max()) + 1
    worker, crowd = votes.worker_codes().astype(np.int64), votes.n_workers - votes.n_gold
    key = worker * count + np.where(worker < crowd, contexts[votes.first], 0)
    order = np.argsort(key, kind="stable")
    keys, sizes = np.unique(key[order], return_counts=True)
    voters = keys // count < crowd
    apart = replace(
        votes,
        first=frozen(votes.first[order]),
        second=frozen(votes.second[order]),
        outcome=frozen(votes.outcome[order]),
        weight=frozen(votes.weight[order]),
        offsets=frozen(np.concatenate([[0], np.cumsum(sizes)])),
        workers=frozen(np.arange(len(keys)).astype(object)),
        features=None if votes.features is None else frozen(votes.features[order]),
        n_gold=int((~voters).sum()),
    )
    return ContextVotes(apart, keys[voters] // count, keys[voters] % count)
