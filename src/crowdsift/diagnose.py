"""What can be said about the votes and the workers beyond the estimate itself."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from crowdsift import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.comparisons import Comparisons
    from crowdsift.engines import Vector

__all__ = ["Z90", "components", "rank_limits", "ranks", "sign_margin", "verdicts"]

# Half-width of a 90 % interval in standard deviations.
Z90 = 1.6448536269514722


def components(comparisons: Comparisons) -> NDArray[np.uint32]:
    """The connected component of every item, numbered from 0 by its first item.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.diagnose import components
    >>> components(Comparisons.from_arrays(["a", "c"], ["b", "d"], worker=[1, 1]))
    array([0, 0, 1, 1], dtype=uint32)
    """
    return _core.components(comparisons.first, comparisons.second, comparisons.n_items)


def ranks(scores: Vector, component: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Ranks from 1 (the best) within every component; equal scores share the better rank.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import ranks
    >>> ranks(np.array([0.5, 2.0, 0.5]), np.zeros(3, np.uint32))
    array([2, 1, 2])
    """
    order = np.lexsort((-scores, component))
    position = np.arange(len(scores))
    fresh = np.ones(len(scores), bool)  # the first of its component
    fresh[1:] = np.diff(component[order]) != 0
    begins = np.maximum.accumulate(np.where(fresh, position, 0))
    fresh[1:] |= np.diff(scores[order]) != 0
    shared = np.maximum.accumulate(np.where(fresh, position, 0))
    result = np.empty(len(scores), np.int64)
    result[order] = shared - begins + 1
    return result


def rank_limits(
    lower: Vector, upper: Vector, component: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Best and worst rank of every item within its component by its interval of scores.

    An item is surely worse than those whose lower limit lies above its upper one, and surely
    better than those whose upper limit lies below its lower one.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import rank_limits
    >>> rank_limits(np.array([2.0, 0.0, 0.5]), np.array([3.0, 1.0, 1.5]), np.zeros(3, np.uint32))
    (array([1, 2, 2]), array([1, 3, 3]))
    """
    best, worst = np.empty(len(lower), np.int64), np.empty(len(lower), np.int64)
    order = np.argsort(component, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        low, high = np.sort(lower[group]), np.sort(upper[group])
        best[group] = 1 + len(group) - np.searchsorted(low, upper[group], side="right")
        worst[group] = len(group) - np.searchsorted(high, lower[group], side="left")
    return best, worst


def sign_margin(reliability: Vector, sd: Vector) -> float:
    """Mean over workers of P(β > 0) - P(β < 0): how clearly the crowd settles the sign.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import sign_margin
    >>> round(sign_margin(np.array([1.0, 1.0, -1.0]), np.array([0.1, 0.1, 0.1])), 3)
    0.333
    """
    from math import erf

    return float(np.mean([erf(b / (s * sqrt(2.0))) for b, s in zip(reliability, sd, strict=True)]))


def verdicts(reliability: Vector, lower: Vector, upper: Vector) -> NDArray[np.object_]:
    """A word for every worker, from the reliability and its 90 % interval.

    The yardstick is the typical worker: the median reliability of those whose interval lies
    above 0. An interval above 0 is `reliable`, or `weak` where the reliability is under half the
    typical one. Any other interval that stays within half the typical reliability on both sides
    is `random`. What remains is `adversarial` if it lies below 0, and otherwise the votes are
    too few to say: `undecided`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import verdicts
    >>> beta = np.array([1.0, 0.9, 0.2, 0.0, -0.8, 0.3])
    >>> half = np.array([0.2, 0.2, 0.1, 0.1, 0.3, 2.0])
    >>> verdicts(beta, beta - half, beta + half).tolist()
    ['reliable', 'reliable', 'weak', 'random', 'adversarial', 'undecided']
    """
    positive = reliability[lower > 0]
    half = 0.5 * float(np.median(positive)) if len(positive) else 0.0
    result = np.full(len(reliability), "undecided", dtype=object)
    result[(lower > 0) & (reliability >= half)] = "reliable"
    result[(lower > 0) & (reliability < half)] = "weak"
    result[upper < 0] = "adversarial"
    result[(lower <= 0) & (upper < half) & (lower > -half)] = "random"
    return result
