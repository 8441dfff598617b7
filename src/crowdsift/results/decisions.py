"""What to do about every worker: pay, review or block, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.results.query import model_of
from crowdsift.results.reasons import random_level, reasons
from crowdsift.results.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.results.fit import Fit

SURE, ENOUGH = 0.99, 20  # probability of a verdict, and votes, from which on to block
_SHARE = {"random": "p_random", "one-sided": "p_one_sided", "adversarial": "p_adversarial"}


def decisions(fit: Fit) -> Table:
    """Return a row per worker: worker, verdict, reason, votes, median_seconds, suggestion.

    Votes that are random, one-sided or adversarial suggest a review; to block takes that verdict
    with 99 % and at least 20 votes. All others are paid: reliable, weak and undecided workers.
    Whether to invite weak workers again is up to you.

    Parameters
    ----------
    fit
        A fit whose method judges workers. The median time of answers is taken from its table of
        workers, where it is known; it changes no suggestion.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.results.decisions import decisions
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> list(decisions(crowdsift.fit(votes)))
    ['worker', 'verdict', 'reason', 'votes', 'median_seconds', 'suggestion']
    """
    table = fit.worker_table
    verdict, votes = table["verdict"], table["comparisons"].astype(np.float64)
    suggestion = np.full(table.height, "pay", dtype=object)
    for word, name in _SHARE.items():
        mine = verdict == word
        sure = table.get(name, np.zeros(table.height)) >= SURE
        suggestion[mine] = np.where(sure & (votes >= ENOUGH), "block", "review")[mine]
    return Table(
        {
            "worker": table["worker"],
            "verdict": verdict,
            "reason": reason_texts(fit),
            "votes": table["comparisons"],
            "median_seconds": table.get("median_seconds", np.full(table.height, np.nan)),
            "suggestion": suggestion,
        }
    )


def reason_texts(fit: Fit) -> NDArray[np.object_]:
    """Return why every worker has its verdict, in sentences that can be sent to the worker."""
    found = reasons(fit.worker_table, random_level(model_of(fit)))
    texts = np.empty(len(found), dtype=object)
    texts[:] = [" ".join(map(str, each)).replace("\u00a0", " ") for each in found]
    return texts
