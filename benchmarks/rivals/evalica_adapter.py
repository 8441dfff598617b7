"""evalica: Bradley-Terry by minorisation-maximisation."""

import sys
import time

import evalica
import numpy as np

votes = np.load(sys.argv[1])
winner, loser = votes["winner"].tolist(), votes["loser"].tolist()
started = time.perf_counter()
result = evalica.bradley_terry(winner, loser, [evalica.Winner.X] * len(winner))
seconds = time.perf_counter() - started
scores = np.full(int(votes["items"]), np.nan)
scores[np.asarray(result.scores.index, dtype=int)] = result.scores.to_numpy()
scores = np.log(np.maximum(scores, 1e-12))
scores[np.isnan(scores)] = np.nanmean(scores)
np.savez(sys.argv[2], scores=scores, seconds=seconds)
