"""The numbers that votes may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ADVICE", "LIMITS", "MOST_WEIGHT", "first_outside"]

MOST_WEIGHT = 1e9  # so that sums of weights stay far from the limits of float32
LIMITS = {
    "outcome": (0.0, 1.0),
    "weight": (0.0, MOST_WEIGHT),
    "feature": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
    "covariate": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
    "number": (-np.inf, np.inf),
}
ADVICE = {
    "outcome": "1 says that the first item is better, 0 the second, 0.5 a tie",
    "weight": "a weight counts votes, and is 1 where the column is left out",
    "feature": "correct it or remove the row",
    "covariate": "correct it or remove the row",
    "number": "correct it or remove the row",
}


def first_outside(values: NDArray[Any], role: str) -> int | None:
    """Return the first row whose number is not finite or outside the limits of its role.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.votes.limits import first_outside
    >>> first_outside(np.array([0.0, 1.5]), "outcome")
    1
    """
    low, high = LIMITS[role]
    good = np.isfinite(values) & (values >= low) & (values <= high)
    return None if good.all() else int(np.argmin(good))
