"""choix: the same penalised maximum as ours, by scipy's Newton-CG."""

import sys
import time

import choix
import numpy as np

votes = np.load(sys.argv[1])
items = int(votes["items"])
pairs = list(zip(votes["winner"].tolist(), votes["loser"].tolist(), strict=True))
started = time.perf_counter()
scores = choix.opt_pairwise(items, pairs, alpha=0.01)
seconds = time.perf_counter() - started
np.savez(sys.argv[2], scores=scores, seconds=seconds)
