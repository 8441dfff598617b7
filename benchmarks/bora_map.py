"""How the prior of bora-map was settled, and how far it is from bora-em.

Run with ``python -m benchmarks.bora_map prior|differences``. The prior is chosen by the mean log-likelihood of votes
left out of five folds, averaged over five of the data sets; the truth about items is used nowhere.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from crowdsift.fitting.holdout import left_out_log_likelihood

OUTPUT = Path("bench-output")
SETS = ("passage", "faceage_subset", "lightfield", "llmfao", "musicsim")
MEANS = (0.5, 1.0, 1.25, 1.5, 2.0, 3.0)
SDS = (0.25, 0.5, 0.7, 1.0, 2.0)


def prior() -> None:
    """Left-out log-likelihood of every prior on every data set, and bora-em's beside it."""
    rows: list[dict[str, object]] = []
    mean_of: dict[tuple[float, float], list[float]] = {}
    for name in SETS:
        votes = crowdsift.read(data_folder() / f"{name}.csv")
        for mean in MEANS:
            for sd in SDS:
                model = crowdsift.BoraMAP(reliability_mean=mean, reliability_sd=sd)
                value = left_out_log_likelihood(votes, model)
                rows.append({"data": name, "mean": mean, "sd": sd, "left_out": value})
                mean_of.setdefault((mean, sd), []).append(value)
        rows.append({"data": name, "bora-em": left_out_log_likelihood(votes, crowdsift.BoraEM())})
        best = max((r for r in rows if r["data"] == name and "sd" in r), key=_left_out)
        print(name, best, rows[-1], flush=True)
    print(f"{'mean':>6s}{'sd':>6s}{'average':>10s}" + "".join(f"{name:>16s}" for name in SETS))
    for (mean, sd), values in sorted(mean_of.items(), key=lambda pair: -np.mean(pair[1])):
        figures = "".join(f"{value:16.4f}" for value in values)
        print(f"{mean:6.2f}{sd:6.2f}{np.mean(values):10.4f}{figures}")
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "bora-map-prior.json").write_text(json.dumps(rows, indent=2))


def _left_out(row: dict[str, object]) -> float:
    return float(str(row["left_out"]))


def differences() -> None:
    """Correlations of scores and reliabilities with bora-em's, likelihoods, and left-out votes."""
    heads = ("LL em", "LL map", "out em", "out map", "cor r", "cor beta", "max |dr|")
    print(f"{'data':16s}" + "".join(f"{head:>10s}" for head in heads))
    for name in SETS:
        votes = crowdsift.read(data_folder() / f"{name}.csv")
        em, found = crowdsift.fit(votes, "bora-em"), crowdsift.fit(votes, "bora-map")
        one, two = em.scores_of(votes.items), found.scores_of(votes.items)
        beta = [np.asarray(fit.workers["reliability"], dtype=float) for fit in (em, found)]
        figures = (
            em.summary["mean_log_likelihood"],
            found.summary["mean_log_likelihood"],
            left_out_log_likelihood(votes, crowdsift.BoraEM()),
            left_out_log_likelihood(votes, crowdsift.BoraMAP()),
            np.corrcoef(one, two)[0, 1],
            np.corrcoef(beta[0], beta[1])[0, 1],
            np.abs(one - two).max(),
        )
        print(f"{name:16s}" + "".join(f"{figure:10.4f}" for figure in figures), flush=True)


def main() -> None:
    """Run the measurement that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["prior", "differences"])
    {"prior": prior, "differences": differences}[parser.parse_args().name]()


if __name__ == "__main__":
    main()
