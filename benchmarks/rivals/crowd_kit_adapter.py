"""crowd-kit: NoisyBradleyTerry, its counterpart of factor-bt; its gradient is wrong as shipped."""

import sys
import time

import numpy as np
import pandas as pd
from crowdkit.aggregation import NoisyBradleyTerry

votes = np.load(sys.argv[1])
swap = ~votes["winner_left"]
frame = pd.DataFrame(
    {
        "worker": votes["worker"],
        "left": np.where(swap, votes["loser"], votes["winner"]),
        "right": np.where(swap, votes["winner"], votes["loser"]),
        "label": votes["winner"],
    }
)
started = time.perf_counter()
result = NoisyBradleyTerry().fit_predict(frame)
seconds = time.perf_counter() - started
scores = np.zeros(int(votes["items"]))
strength = np.clip(result.to_numpy(), 1e-12, 1 - 1e-12)
scores[result.index.to_numpy(dtype=int)] = np.log(strength / (1 - strength))
np.savez(sys.argv[2], scores=scores, seconds=seconds)
