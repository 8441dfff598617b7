"""Our bt and factor-bt beside the libraries that people use, each in an environment of its own.

Run with ``python -m benchmarks.peers``. The environments are made on the first run, under bench-output/. Every peer
maximises the Bradley-Terry likelihood in its own way; all are then measured by one yardstick, computed here from the
scores that they return: the log-likelihood of the votes minus ½λ‖r‖² with λ = 0.01, after each peer's scores have been
given the scale that is best for them, so that nobody loses by a convention. factor-bt and its counterpart are measured
by the penalised likelihood of factor-bt in the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crowdsift
from benchmarks.data import data_folder, look_alike
from crowdsift.engines import choose_engine
from crowdsift.engines.base import required

PENALTY = 0.01
OUTPUT = Path("bench-output")
# The peer's package, as it is installed, and the adapter that runs in its environment.
PEERS = {
    "choix": ("choix", "choix_adapter.py"),
    "evalica": ("evalica", "evalica_adapter.py"),
    "arena-rank": ("arena-rank", "arena_rank_adapter.py"),
    "crowd-kit": ("crowd-kit", "crowd_kit_adapter.py"),
}
LONGEST = 900  # seconds that a peer may take


def environment(peer: str) -> Path:
    """Return the Python of an environment that holds the peer and nothing of ours."""
    folder = OUTPUT / "environments" / peer
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"installing {peer} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        quietly = ("--quiet", "--disable-pip-version-check")
        subprocess.run([python, "-m", "pip", "install", *quietly, PEERS[peer][0]], check=True)
        (folder / ".ready").touch()
    return python.absolute()


def run_peer(peer: str, votes: crowdsift.Comparisons, longest: int = LONGEST) -> dict[str, object]:
    """Scores and seconds of a peer, or the reason why there are none."""
    turned = votes.outcome < 0.5
    rng = np.random.default_rng(0)
    arrays = {
        "winner": np.where(turned, votes.second, votes.first).astype(np.int64),
        "loser": np.where(turned, votes.first, votes.second).astype(np.int64),
        "worker": votes.worker_codes().astype(np.int64),
        "winner_left": ~turned if votes.sides_known else rng.integers(0, 2, len(votes)) > 0,
        "items": np.array(votes.n_items),
    }
    return run_adapter(peer, arrays, longest)


def run_adapter(peer: str, arrays: Mapping[str, NDArray[Any]], longest: int = LONGEST) -> dict[str, object]:
    """Return what a peer's adapter makes of arrays (benchmarks/rivals/README.md), or a note."""
    adapter = Path(__file__).with_name("rivals") / PEERS[peer][1]
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "votes.npz", Path(name) / "scores.npz"
        np.savez(source, **arrays)  # type: ignore[arg-type]
        try:
            subprocess.run(
                [environment(peer), adapter, source, target],
                check=True,
                capture_output=True,
                text=True,
                timeout=longest,
                env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            )
        except subprocess.TimeoutExpired:
            return {"note": f"not done in {longest} s"}
        except subprocess.CalledProcessError as error:
            return {"note": error.stderr.strip().splitlines()[-1][:80] if error.stderr else "?"}
        with np.load(target) as result:
            return {"scores": result["scores"], "seconds": float(result["seconds"])}


def yardstick(votes: crowdsift.Comparisons, scores: NDArray[np.float64]) -> float:
    """Penalised log-likelihood of the best multiple of the scores."""
    d = scores[votes.first] - scores[votes.second]
    n, y = votes.weight.astype(float), votes.outcome.astype(float)
    square = float((scores - scores.mean()) @ (scores - scores.mean()))

    def value(scale: float) -> float:
        eta = scale * d
        likelihood = float(np.sum(n * (y * eta - np.logaddexp(0, eta))))
        return likelihood - 0.5 * PENALTY * scale**2 * square

    return _largest(value)


def factor_yardstick(votes: crowdsift.Comparisons, scores: NDArray[np.float64]) -> float:
    """Penalised log-likelihood of factor-bt, the workers' parameters at their best."""
    model = crowdsift.FactorBT(penalty=PENALTY, reduced=True)
    engine = choose_engine("cpu", model.prepare(votes), 2)
    centre = model.start(engine.facts.n_features)
    theta = np.tile(centre, (engine.facts.n_workers, 1))
    scores = scores - scores.mean()

    def value(scale: float) -> float:
        fitted = required(engine.likelihood).fit_workers(
            model.likelihood, scale * scores, theta, centre=centre, penalty=PENALTY, bounds=model.bounds
        )
        likelihood = required(engine.likelihood).derivatives(model.likelihood, scale * scores, fitted).value
        prior = scale**2 * float(scores @ scores) + float(np.sum((fitted - centre) ** 2))
        return likelihood - 0.5 * PENALTY * prior

    return _largest(value, steps=25)


def _largest(value: Callable[[float], float], steps: int = 60) -> float:
    """Return the largest value over scales, by golden section between generous ends."""
    low, high = 0.0, 20.0
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(steps):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if value(a) > value(b) else (a, high)
    return value(0.5 * (low + high))


def ours(votes: crowdsift.Comparisons, method: crowdsift.models.Model) -> dict[str, object]:
    """Fit the votes by our method."""
    started = time.perf_counter()
    fit = crowdsift.fit(votes, method, threads=2)
    return {"scores": fit.scores_of(votes.items), "seconds": time.perf_counter() - started}


def compare(name: str, votes: crowdsift.Comparisons) -> list[dict[str, object]]:
    """One row per library: seconds, yardstick, and how many times slower than ours."""
    pooled = votes.pooled()
    mine = crowdsift.BradleyTerry(penalty=PENALTY)
    ours(votes, mine)  # the first call loads libraries
    results = {"crowdsift bt": min((ours(votes, mine) for _ in range(3)), key=seconds_of)}
    results |= {peer: run_peer(peer, votes) for peer in PEERS if peer != "crowd-kit"}
    factor_bt = crowdsift.FactorBT(penalty=PENALTY, reduced=True)
    results["crowdsift factor-bt"] = ours(votes, factor_bt)
    results["crowd-kit"] = run_peer("crowd-kit", votes)
    rows = []
    for library, result in results.items():
        factor = library in ("crowd-kit", "crowdsift factor-bt")
        base = "crowdsift factor-bt" if factor else "crowdsift bt"
        row: dict[str, object] = {"data": name, "library": library, "note": result.get("note", "")}
        if "scores" in result:
            row["seconds"] = result["seconds"]
            scores = np.asarray(result["scores"], dtype=float)
            row["likelihood"] = factor_yardstick(votes, scores) if factor else yardstick(pooled, scores)
            row["times slower"] = seconds_of(result) / seconds_of(results[base])
        rows.append(row)
    return rows


def seconds_of(result: dict[str, object]) -> float:
    """Return the seconds of a result."""
    return float(str(result["seconds"]))


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="passage,faceage_subset,look-alike")
    wanted = parser.parse_args().data.split(",")
    OUTPUT.mkdir(exist_ok=True)
    rows = []
    print(f"{'data':16s}{'library':22s}{'seconds':>10s}{'yardstick':>14s}{'slower':>9s}")
    for name in wanted:
        is_file = name != "look-alike"
        votes = crowdsift.read(data_folder() / f"{name}.csv") if is_file else look_alike()
        for row in compare(name, votes):
            rows.append(row)
            figures = (
                f"{row['seconds']:10.3f}{row['likelihood']:14.2f}{row['times slower']:9.1f}"
                if "seconds" in row
                else f"  {row['note']}"
            )
            print(f"{row['data']:16s}{row['library']:22s}{figures}", flush=True)
    (OUTPUT / "peers.json").write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
