"""Quality of the estimators against each other, on simulated crowds and real votes.

Run with ``python -m benchmarks.quality synthetic|left-out|coverage [--seeds N]``. Every finished piece of work is kept
in bench-output/quality/NAME.jsonl: a run that was stopped goes on where it was, and the tables are made of what is
there. All methods see the same votes. Nothing here is used to choose a hyper-parameter.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from crowdsift.fitting.estimate import Resources
from crowdsift.fitting.holdout import left_out_log_likelihood
from crowdsift.numeric.metrics import measure, measure_up_to_sign
from crowdsift.paper.base import EIGHT
from crowdsift.paper.synthetic import RANGES, SWEEPS
from crowdsift.votes.graph import folds

OUTPUT = Path("bench-output") / "quality"
Task = tuple[Any, ...]
Record = dict[str, Any]


def work(name: str, run: Callable[[Task], list[Record]], tasks: Iterable[Task]) -> list[Record]:
    """Run the tasks that are not done yet on all cores, keeping every result at once."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / f"{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    done = {json.dumps(record["task"]) for record in records}
    left = [task for task in tasks if json.dumps(task) not in done]
    quiet = multiprocessing.get_context("spawn").Pool(initializer=_quiet)
    with quiet as pool, path.open("a") as file:
        for count, results in enumerate(pool.imap_unordered(run, left), 1):
            for record in results:
                file.write(json.dumps(record) + "\n")
            file.flush()
            records.extend(results)
            if sys.stderr.isatty():
                print(f"\r{name}: {count} of {len(left)}", end="", file=sys.stderr)
    return records


def _quiet() -> None:
    """Ignore warnings of an unsettled sign, which crowds of both signs give; figures are up to the sign."""
    warnings.simplefilter("ignore", crowdsift.SignWarning)


# --- the 58 synthetic settings of the paper --------------------------------------------------


def synthetic_task(task: Task) -> list[Record]:
    """Methods on one simulated crowd; with tune, at penalties chosen by left-out votes."""
    beta, items, workers, comparisons, seed, tune, methods = task
    low, high = RANGES[beta]
    drawn = crowdsift.simulate(items, workers, comparisons, reliability=(low, high), seed=seed)
    votes = drawn.comparisons()
    records = []
    for name in methods:
        chosen = crowdsift.model(name).relax(votes)[0]
        fit = crowdsift.fit(votes, chosen, threads=1, tune=tune)
        judge = measure_up_to_sign if low < 0 else measure
        result = judge(fit.scores_of(drawn.items), drawn.scores)
        records.append(
            {
                "task": task,
                "method": name,
                "accuracy": result.accuracy,
                "tau": result.kendall_tau,
                "seconds": fit.summary["seconds"],
                "converged": fit.converged,
            }
        )
    return records


def _settings() -> list[tuple[str, int, int, int]]:
    """Return range of reliabilities, items, workers and comparisons of every point, sorted."""
    points = {point for sweep in SWEEPS.values() for point in sweep}
    return sorted((beta, *point) for beta in RANGES for point in points)


def synthetic(seeds: int, tune: bool, rivals: tuple[str, ...] = EIGHT) -> None:
    """One row a setting: the best of the eight, sift, and the difference."""
    grid = [(*setting, seed) for seed in range(seeds) for setting in _settings()]
    records = work("eight-tuned" if tune else "eight", synthetic_task, [(*point, tune, rivals) for point in grid])
    records += work("sift", synthetic_task, [(*point, False, ("sift",)) for point in grid])
    if tune:
        _keep(records)
    print(f"mean accuracy over {seeds} seeds; {'left-out votes chose' if tune else 'default'} λ")
    print(f"{'beta':8s}{'K':>6s}{'M':>7s}{'N':>8s}  {'best rival':26s}{'sift':>8s}{'gain':>9s}")
    gains = []
    for setting in _settings():
        means: dict[str, list[float]] = {}
        for record in records:
            if tuple(record["task"][:4]) == setting and record["task"][4] < seeds:
                means.setdefault(record["method"], []).append(record["accuracy"])
        average = {name: float(np.mean(values)) for name, values in means.items()}
        best = max(rivals, key=lambda name: average[name])
        gains.append(average["sift"] - average[best])
        beta, k, m, n = setting
        print(f"{beta:8s}{k:6d}{m:7d}{n:8d}  {best:18s}{average[best]:8.4f}{average['sift']:8.4f}{gains[-1]:+9.4f}")
    result = np.array(gains)
    print(
        f"at least the best - .001 in {(result >= -0.001).sum()} of {len(result)}, "
        f"better by .005 in {(result >= 0.005).sum()}; smallest gain {result.min():+.4f}"
    )


def _keep(records: list[Record]) -> None:
    """Write the rivals' fits as a table for docs/research/results."""
    with (OUTPUT / "synthetic-tuned.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("beta", "items", "workers", "comparisons", "seed", "method", "accuracy"))
        for record in records:
            if record["method"] != "sift":
                table.writerow((*record["task"][:5], record["method"], f"{record['accuracy']:.6g}"))


# --- left-out votes --------------------------------------------------------------------------

LEFT_OUT = ("passage.csv", "faceage_subset.csv", "lightfield.csv", "wmt13_fren.csv.gz", "llmfao.csv")


def decided(name: str) -> crowdsift.Comparisons:
    """Return a real data set without its ties."""
    votes = crowdsift.read(data_folder() / name)
    return votes.select(votes.outcome != 0.5)


def left_out_task(task: Task) -> list[Record]:
    """Predict left-out votes of one data set."""
    data, name = task
    votes = decided(data)
    model = crowdsift.model(name)
    if name == "bt":  # its penalty by cross-validation inside each part that is kept
        losses = []
        for kept, left_out in folds(votes, 5, seed=0):
            tuned = crowdsift.tune(kept, model, seed=1, threads=1).model
            fit = crowdsift.fit(kept, tuned, threads=1)
            score = fit.scores_of(votes.items)
            d = score[left_out.first] - score[left_out.second]
            y, n = left_out.outcome.astype(float), left_out.weight.astype(float)
            losses.append(np.sum(n * (np.logaddexp(0, d) - y * d)))
        loss = float(np.sum(losses)) / votes.total_weight
    else:
        loss = -left_out_log_likelihood(votes, model, Resources(threads=1))
    return [{"task": task, "data": data, "method": name, "log_loss": loss}]


def left_out() -> None:
    """One row a data set: log loss of 20 % of the votes, each part left out once."""
    methods = ("sift", "bt", "bora-em", "crowd-bt", "hbtl")
    tasks = [(data, name) for data in LEFT_OUT for name in methods]
    records = work("left-out", left_out_task, tasks)
    print(f"{'data':20s}" + "".join(f"{name:>10s}" for name in methods))
    for data in LEFT_OUT:
        found = {r["method"]: r["log_loss"] for r in records if r["data"] == data}
        print(f"{data:20s}" + "".join(f"{found[name]:10.4f}" for name in methods))


# --- coverage of intervals -------------------------------------------------------------------

COVERAGE = ((100, 500, 2000), (100, 500, 5000), (200, 8000, 25000), (1000, 1000, 20000), (2500, 1000, 20000))


def coverage_task(task: Task) -> list[Record]:
    """Shares of 90 % intervals of sift that hold the truth, and calibration of P(i better)."""
    low, items, workers, comparisons, seed = task
    drawn = crowdsift.simulate(items, workers, comparisons, reliability=(low, 1.0), seed=seed)
    fit = crowdsift.fit(drawn.comparisons(), "sift", threads=1)
    place = {item: i for i, item in enumerate(fit.items["item"])}
    order = [place[item] for item in drawn.items]
    score, lower, upper = (fit.items[name][order] for name in ("score", "lower", "upper"))
    truth = drawn.scores / np.sqrt(3.0)
    truth = truth - truth.mean()
    if score @ truth < 0:
        score, lower, upper, sign = -score, -upper, -lower, -1.0
    else:
        sign = 1.0
    rng = np.random.default_rng(seed)
    one = rng.integers(items, size=20_000)
    two = (one + rng.integers(1, items, size=20_000)) % items
    sd = np.asarray(fit.posterior and fit.posterior.difference_sd(one, two))
    gap, found = truth[one] - truth[two], score[one] - score[two]
    chance = np.asarray(fit.better(list(drawn.items[one]), list(drawn.items[two])))
    chance = chance if sign > 0 else 1.0 - chance
    surer, right = np.maximum(chance, 1 - chance), (chance > 0.5) == (gap > 0)
    bins = np.minimum(((surer - 0.5) * 20).astype(int), 9)
    sums = [[int((bins == b).sum()), float(surer[bins == b].sum()), float(right[bins == b].sum())] for b in range(10)]
    beta = sign * drawn.reliability * np.sqrt(3.0)
    voted = fit.workers["comparisons"] > 0
    inside = (fit.workers["lower"] <= beta) & (beta <= fit.workers["upper"])
    return [
        {
            "task": task,
            "differences": float((np.abs(gap - found) <= 1.6448536 * sd).mean()),
            "scores": float(((lower <= truth) & (truth <= upper)).mean()),
            "reliabilities": float(inside[voted].mean()),
            "bins": sums,
            "converged": fit.converged,
        }
    ]


def coverage(seeds: int) -> None:
    """One row a setting."""
    grid = [(low, *setting) for low in (0.0, -1.0) for setting in COVERAGE]
    tasks = [(*setting, 1000 + seed) for seed in range(seeds) for setting in grid]
    records = work("coverage", coverage_task, tasks)
    names = ("differences", "scores", "reliabilities")
    heads = "".join(f"{name:>15s}" for name in (*names, "pooled", "per crowd"))
    print(f"{'beta':>8s}{'K':>6s}{'M':>6s}{'N':>7s}{heads}")
    for setting in grid:
        mine = [r for r in records if tuple(r["task"][:4]) == setting]
        figures = "".join(f"{np.mean([r[name] for r in mine]):15.3f}" for name in names)
        # Calibration both ways: pairs of one crowd share its items, so that within a crowd the bins are noisy and the
        # error is biased upwards; pooled over crowds that averages out.
        count, chance, right = np.sum([r["bins"] for r in mine], axis=0).T
        figures += f"{np.abs(chance - right).sum() / count.sum():15.3f}"
        each = [np.abs(np.subtract(*np.array(r["bins"])[:, 1:].T)).sum() / 20_000 for r in mine]
        figures += f"{np.mean(each):15.3f}"
        print(f"[{setting[0]:g},1]".rjust(8) + "{:6d}{:6d}{:7d}".format(*setting[1:]) + figures)


def main() -> None:
    """Run the measurement that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["synthetic", "left-out", "coverage"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tune", action="store_true", help="penalties chosen by left-out votes")
    parser.add_argument("--rivals", default=",".join(EIGHT), help="the methods beside sift")
    options = parser.parse_args()
    if options.name == "left-out":
        left_out()
    elif options.name == "coverage":
        coverage(options.seeds)
    else:
        synthetic(options.seeds, options.tune, tuple(options.rivals.split(",")))


if __name__ == "__main__":
    main()
