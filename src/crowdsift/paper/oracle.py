"""Who knows every worker: the scores of a simulated crowd when its reliabilities are given.

No method can be expected to do better from the votes alone, so this is the limit beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.conjugate_gradient import conjugate_gradient
from crowdsift.numeric.likelihoods import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.lab.simulation import Simulation

#: Its name among the methods of an experiment; it is none of `crowdsift.models.MODELS`.
ORACLE = "oracle"

_VARIANCE = 3.0  # of scores that are uniform on [-3, 3], as simulations draw them
_STEPS = 50


def oracle_scores(drawn: Simulation) -> NDArray[np.float64]:
    """Return the most probable scores, given every worker's true β and the scores' variance."""
    # Maximises Σ log σ(±β_s (r_first - r_second)) - Σ r²/6 by Newton's method; it is concave.
    count = len(drawn.scores)
    first, second = drawn.first.astype(np.intp), drawn.second.astype(np.intp)
    slope = drawn.reliability[drawn.worker]
    pairs, pair = np.unique(first * count + second, return_inverse=True)
    one, two = np.divmod(pairs, count)
    scores = np.zeros(count)
    for _ in range(_STEPS):
        chance = sigmoid(slope * (scores[first] - scores[second]))
        residual = slope * (drawn.outcome - chance)
        gradient = np.bincount(first, residual, count) - np.bincount(second, residual, count) - scores / _VARIANCE
        weight = np.bincount(pair, slope**2 * chance * (1.0 - chance), len(pairs))
        step = _solved(one, two, np.asarray(weight, np.float64), gradient)
        scores += step
        if np.abs(step).max() < 1e-9:
            break
    return scores


def _solved(
    one: NDArray[np.intp], two: NDArray[np.intp], weight: NDArray[np.float64], rhs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Solve for minus the second derivatives: the Laplacian of weighted pairs plus the prior."""
    count = len(rhs)

    def multiply(x: NDArray[np.float64]) -> NDArray[np.float64]:
        flow = weight * (x[one] - x[two])
        return np.bincount(one, flow, count) - np.bincount(two, flow, count) + x / _VARIANCE

    ends = np.bincount(one, weight, count) + np.bincount(two, weight, count)
    diagonal = np.asarray(ends + 1.0 / _VARIANCE, np.float64)
    return conjugate_gradient(multiply, rhs, diagonal, tolerance=1e-10).x
