"""evalica: Bradley-Terry by fixed-point iteration on a dense matrix.

Where an item never won it returns equal scores for all, so every item is given a tie of small weight with one further
item, which makes its maximum exist.
"""

import sys
import time

import evalica
import numpy as np

votes = np.load(sys.argv[1])
items = int(votes["items"])
winner = [*votes["winner"].tolist(), *range(items)]
loser = [*votes["loser"].tolist(), *[items] * items]
tie = votes["tie"] if "tie" in votes else np.zeros(len(votes["winner"]), bool)
outcome = [evalica.Winner.Draw if tied else evalica.Winner.X for tied in tie]
outcome += [evalica.Winner.Draw] * items
weights = [1.0] * len(votes["winner"]) + [0.04] * items  # about the curvature of λ = 0.01
started = time.perf_counter()
result = evalica.bradley_terry(winner, loser, outcome, weights=weights, limit=1000)
seconds = time.perf_counter() - started
scores = np.empty(items + 1)
scores[np.asarray(result.scores.index, dtype=int)] = np.log(result.scores.to_numpy())
np.savez(sys.argv[2], scores=scores[:items], seconds=seconds)
