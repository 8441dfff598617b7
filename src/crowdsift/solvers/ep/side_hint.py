"""Whether votes hint at side biases at all: a test that needs no fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.numeric import Vector

__all__ = ["hints_at_sides", "side_scores"]

# Standard deviations, far below those at which the evidence of a bias passes 3 nats.
_CROWD, _DISPERSION = 2.0, 1.5


def hints_at_sides(engine: Engine) -> bool:
    """Whether a side bias is worth a fit: all workers lean to one side, or some do to either.

    Without biases and with sides drawn at random, the answers for the first item less those for
    the second, S of n decided votes of a worker, have mean 0 and variance n. Where sides were not
    drawn at random, S spreads more, and the fit decides.
    """
    counted = engine.counts.tally(np.zeros(engine.facts.n_items))
    workers = slice(engine.facts.n_workers - engine.facts.n_gold)
    crowd, dispersion = side_scores(counted.decided[workers], counted.leaning[workers])
    return abs(crowd) > _CROWD or dispersion > _DISPERSION


def side_scores(decided: Vector, leaning: Vector) -> tuple[float, float]:
    """ΣS/√Σn, and Σ(S²/n - 1) over its standard deviation √Σ(2 - 2/n).

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.solvers.ep.side_hint import side_scores
    >>> crowd, dispersion = side_scores(np.array([100.0, 100.0]), np.array([60.0, -60.0]))
    >>> crowd, round(dispersion, 1)
    (0.0, 35.2)
    """
    n, s = decided[decided > 0], leaning[decided > 0]
    if not len(n):
        return 0.0, 0.0
    spread = float(np.sum(2.0 - 2.0 / np.maximum(n, 1.0)))
    dispersion = float(np.sum(s**2 / n - 1.0) / np.sqrt(spread)) if spread > 0 else 0.0
    return float(s.sum() / np.sqrt(n.sum())), dispersion
