"""Votes by context are the same votes."""

from __future__ import annotations

import numpy as np
from context_votes import draw_votes
from reference_engine import ReferenceEngine

import crowdsift
from crowdsift.engines.cpu import CpuEngine
from crowdsift.votes.contexts import by_context

# --- votes ------------------------------------------------------------------------------------


def test_votes_by_context_are_the_same_votes():
    votes = draw_votes(0.2, 0.5, seed=1, each=3)
    result = votes.with_gold(votes.first[:2], votes.second[:2])
    for mine, known in ((votes, 0), (result, 1)):
        apart = by_context(mine)
        assert apart is not None
        assert apart.votes.n_gold == known
        assert apart.votes.n_workers == len(apart.worker) + known
        whose = np.append(apart.worker, np.full(known, mine.n_workers - 1))
        rows = [
            sorted(
                zip(
                    x.first.tolist(),
                    x.second.tolist(),
                    x.outcome.tolist(),
                    x.weight.tolist(),
                    who.tolist(),
                    strict=True,
                )
            )
            for x, who in ((mine, mine.worker_codes()), (apart.votes, whose[apart.votes.worker_codes()]))
        ]
        assert rows[0] == rows[1]
        context = mine.item_contexts[apart.votes.first]
        leaf = apart.votes.worker_codes()
        crowd = leaf < len(apart.worker)
        np.testing.assert_array_equal(context[crowd], apart.context[leaf[crowd]])


def test_without_contexts_there_is_nothing_to_tell_apart():
    plain = crowdsift.simulate(9, 5, 100, seed=1).comparisons()
    one = draw_votes(0.2, 0.5, seed=1, each=3, contexts=1)
    for votes in (plain, one):
        assert by_context(votes) is None
        assert CpuEngine(votes, 1).by_context() is None
        assert ReferenceEngine(votes).by_context() is None
