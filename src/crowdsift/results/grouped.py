"""The effect of groups of votes where a method can have one: tried after the fit without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.results.dependence import MIN_GROUPS, MOST_ITEMS
from crowdsift.results.fitted import centre
from crowdsift.results.sign import voters
from crowdsift.votes.groups import in_groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from crowdsift.engines.base import Engine
    from crowdsift.results.fitted import Fitted
    from crowdsift.results.rows import VoteRows
    from crowdsift.solvers.convergence import Progress
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["with_groups"]


def with_groups(
    fitted: Fitted,
    rows: VoteRows | None,
    engine: Engine,
    open_engine: Callable[[Comparisons], AbstractContextManager[Engine]],
    progress: Progress | None = None,
) -> Fitted:
    """What was fitted, with an effect of the groups of its rows where the method finds one.

    Votes with gold, of few groups or of many items are left to the sandwich.
    """
    model, votes = fitted.model, fitted.votes
    if rows is None or rows.group is None or not model.takes_groups or fitted.known is not None:
        return fitted
    model.refuse_votes(votes, dependent=True)
    if votes.item_features is not None:
        return fitted
    if votes.n_items > MOST_ITEMS or len(np.unique(rows.group)) < MIN_GROUPS:
        return fitted
    split = in_groups(votes, rows.first, rows.second, rows.worker, rows.outcome, rows.weight,
                      rows.group, fitted.threads)  # fmt: skip
    with open_engine(split.votes) as split_engine:
        found = model.estimate_in_groups(split_engine, split, engine, fitted.estimate, progress)
    if found is None:
        return fitted
    found = voters(found, votes.n_workers)
    found = replace(found, scores=centre(found.scores, fitted.component))
    return replace(fitted, estimate=found)
