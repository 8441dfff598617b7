"""Mathematics without state: likelihoods, distributions, dense algebra, metrics."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Codes = NDArray[np.uint32]  # of items, workers or other labels
Mask = NDArray[np.bool_]
Labels = NDArray[np.object_]

# Nats of additional evidence that an explanation needs to be preferred to another.
MIN_LOG_BAYES_FACTOR = 3.0
