"""Mathematics without state: likelihoods, distributions, dense algebra, metrics."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
