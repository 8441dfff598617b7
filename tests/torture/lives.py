"""Lives of fits: votes arrive, are fitted, saved, loaded and extended in any order.

After every step the fit holds the votes that came in, no more and no less, and a fit that went
on from an earlier one agrees with one from nothing.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np

import crowdsift
from crowdsift import Comparisons


def case(seed: int, folder: Path) -> None:
    """Up to six steps of one life."""
    rng = random.Random(seed)
    drawn = crowdsift.simulate(20, 10, 1500, reliability=(0.5, 2.0), seed=seed)
    votes = drawn.comparisons()
    count = rng.choice((200, 300, 400))
    held = part(votes, 0, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdsift.SignWarning)
        fit = crowdsift.fit(held, threads=1)
        for step in range(rng.randrange(2, 6)):
            kind = rng.choice(("save", "update", "start"))
            if kind == "save":
                fit.save(folder / "fit")
                loaded = crowdsift.load(folder / "fit")
                assert loaded.item_table.to_csv() == fit.item_table.to_csv()
                assert loaded.summary["votes"] == fit.summary["votes"]
                continue
            more = rng.choice((1, 30, 100))
            new = part(votes, count, count + more)
            count += more
            held = held.extended(new)
            if kind == "update":
                fit = fit.update(new, threads=1)
            else:
                fit.save(folder / f"start-{step}")
                fit = crowdsift.fit(held, start=folder / f"start-{step}", threads=1)
            assert fit.summary["votes"] == count
            assert fit.converged
            agree(fit, crowdsift.fit(held, threads=1))


def part(votes: Comparisons, start: int, end: int) -> Comparisons:
    """Rows of the votes by a random but fixed order."""
    order = np.random.default_rng(0).permutation(len(votes))[start:end]
    chosen = np.zeros(len(votes), bool)
    chosen[order] = True
    kept = votes.select(chosen)
    return Comparisons.from_codes(
        kept.first, kept.second, worker=kept.worker_codes(), outcome=kept.outcome,
        weight=np.ones(len(kept), np.float32), items=kept.items, workers=kept.workers,
        sides_known=True,
    )  # fmt: skip


def agree(one: crowdsift.Fit, two: crowdsift.Fit) -> None:
    labels = sorted(one.items["item"])
    assert labels == sorted(two.items["item"])
    ours, theirs = one.scores_of(labels), two.scores_of(labels)
    np.testing.assert_allclose(ours, theirs, atol=5e-3 * max(1.0, float(np.abs(theirs).max())))
