"""Mathematics without state: likelihoods, distributions, dense algebra, metrics."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Nats by which one explanation must have more evidence than another to be preferred.
MIN_LOG_BAYES_FACTOR = 3.0
