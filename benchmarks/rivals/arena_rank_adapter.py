"""arena-rank: Bradley-Terry by L-BFGS in JAX, without a penalty."""

import sys
import time

import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset

votes = np.load(sys.argv[1])
items = int(votes["items"])
width = len(str(items))
frame = pd.DataFrame(
    {
        "model_a": [f"{code:0{width}d}" for code in votes["winner"]],
        "model_b": [f"{code:0{width}d}" for code in votes["loser"]],
        "winner": np.where(votes["tie"], "tie", "model_a") if "tie" in votes else "model_a",
    }
)
started = time.perf_counter()
dataset = PairDataset.from_pandas(frame)
model = BradleyTerry(len(dataset.competitors))
model.fit(dataset)
if "intervals" in votes:
    model.compute_ratings_and_cis(dataset, significance_level=0.1)
ratings = np.asarray(model.params["ratings"])
seconds = time.perf_counter() - started
scores = np.zeros(items)
scores[np.array([int(label) for label in dataset.competitors])] = ratings - ratings.mean()
np.savez(sys.argv[2], scores=scores, seconds=seconds)
