"""The paper's experiments on a GPU: the methods by the torch engine, on a machine with a card.

``python -m benchmarks.paper_gpu prepare FOLDER`` here writes the encoded votes and the truth; ``python
benchmarks/paper_gpu.py run FOLDER OUT --processes 8 --seconds 500`` on the machine with the card needs torch, Triton
and NumPy alone, draws crowds and spammers there as the experiments do, and writes one line a fit to OUT/records.jsonl
(processes share a card well only under the driver's MPS); what a file ``*.jsonl`` in FOLDER or OUT holds is not done
again; ``python -m benchmarks.paper_gpu keep OUT/records.jsonl --revision R`` here puts them among the finished fits of
`crowdsift reproduce`, as if they had been made here: the torch engine's scores are those of the CPU to 1e-5 standard
deviations (docs/gpu.md).

``--experiments spammers-tuned`` chooses penalties of three rivals by left-out votes, on the votes of `spammers`;
``table FILES`` writes its fits to docs/research/results/spammers-tuned.csv. Its small fits are faster on a CPU:
``--engine cpu --data passage``.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("src", ".")]

from benchmarks.gpu_bench import ARRAYS, bare  # noqa: E402
from crowdsift.engines import choose_engine  # noqa: E402
from crowdsift.fitting.holdout import tune  # noqa: E402
from crowdsift.models import MODELS, model  # noqa: E402
from crowdsift.paper.base import DEFAULT, EIGHT, Record, Setting, judged  # noqa: E402
from crowdsift.votes.comparisons import Comparisons  # noqa: E402

REAL = ("passage", "faceage_subset")
SEEDS = 10
TUNED = "spammers-tuned"
RIVALS = ("bora-em", "crowd-bt", "bt")
COLUMNS = ("data", "kind", "percent", "seed", "method", "accuracy", "penalty")
Task = tuple[str, Setting, str]  # experiment, setting, method

# --- here ------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Write the votes of the real data sets with the truth of every item, one file each."""
    import crowdsift
    from crowdsift.io.items import with_classes

    folder.mkdir(parents=True, exist_ok=True)
    for name in REAL:
        found = crowdsift.lab.datasets.find(name, None)
        votes, truth = found.read(), found.truth()
        known = with_classes(votes, found.classes)
        names = np.array(known.class_names)
        np.savez_compressed(
            folder / f"{name}.npz",
            **{array: getattr(votes, array) for array in ARRAYS},
            workers=np.array(list(votes.workers)),
            sides=np.array(votes.sides_known),
            truth=np.array([truth[item] for item in votes.items], np.float64),
            classes=names[known.item_class] if found.classes else np.zeros(0),
        )


def keep(files: list[Path], runs: Path, revision: str) -> None:
    """Store records made elsewhere among the finished ones; those already there are skipped."""
    from crowdsift.paper import Options, experiment
    from crowdsift.paper.store import Store

    made: dict[str, list[Record]] = {}
    for name, record in lines(files):
        if name != TUNED:
            made.setdefault(name, []).append({**record, "revision": revision})
    for name, records in made.items():
        chosen = experiment(name, Options(seeds=SEEDS))
        with Store(runs / name, chosen).opened() as store:
            new = [each for each in records if each["method"] in store.missing(each["setting"])]
            store.add(new)
        print(f"{name}: {len(new)} of {len(records)} fits added")


def table(files: list[Path], path: Path) -> None:
    """Write the fits with tuned penalties as a small table; of a fit made twice, the first."""
    rows: dict[tuple[Any, ...], tuple[str, str]] = {}
    for name, record in lines(files):
        if name == TUNED:
            key = (*(record["setting"][each] for each in COLUMNS[:4]), record["method"])
            value = f"{record['figures']['accuracy']:.6g}", f"{record['penalty']:.4g}"
            rows.setdefault(key, value)
    order = sorted(rows, key=lambda key: (REAL.index(key[0]), *key[1:]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*key, *rows[key]) for key in order)
    print(f"{len(rows)} fits in {path}")


def lines(files: Iterable[Path]) -> list[tuple[str, Record]]:
    """Return what files of records hold; a last line that was cut off counts for nothing."""
    found = []
    for path in files:
        whole = path.read_text().rpartition("\n")[0]
        found += [tuple(json.loads(line)) for line in whole.splitlines()]
    return found


# --- there -----------------------------------------------------------------------------------


def settings(name: str) -> list[Setting]:
    """Every setting of an experiment, whole seeds first."""
    if name == "synthetic":
        from crowdsift.paper.base import Options
        from crowdsift.paper.synthetic import Synthetic

        return Synthetic(Options(seeds=SEEDS)).settings()
    from crowdsift.lab.spam import KINDS
    from crowdsift.paper.spammers import PERCENTS

    few = name == TUNED
    return [
        {"data": data, "kind": kind, "percent": percent, "seed": seed}
        for seed in range(SEEDS)
        for data in REAL
        for percent in ((10, 40, 80) if few else PERCENTS)
        for kind in (("random", "adversarial") if few else KINDS)
    ]


def simulated(setting: Setting) -> tuple[Comparisons, Any]:
    """Return a crowd of the synthetic experiment, and its true scores."""
    from crowdsift.lab.simulation import simulate
    from crowdsift.paper.synthetic import RANGES

    drawn = simulate(
        setting["items"],
        setting["workers"],
        setting["comparisons"],
        reliability=RANGES[setting["beta"]],
        seed=setting["seed"],
    )
    return drawn.comparisons(), drawn.scores


@cache
def loaded(path: Path) -> tuple[Comparisons, dict[str, Any]]:
    """Return the votes of a data set and what belongs to them.

    Workers have their own labels: those of spammers are sorted among them, and the order of rows decides which votes
    are left out.
    """
    stored = dict(np.load(path))
    votes = bare(stored, len(stored["truth"]), bool(stored["sides"]))
    return replace(votes, workers=stored["workers"].astype(object)), stored


def spammed(folder: Path, setting: Setting) -> tuple[Comparisons, Any]:
    """Real votes with spammers, and the truth."""
    from crowdsift.lab.spam import add_spammers

    votes, stored = loaded(folder / f"{setting['data']}.npz")
    result = add_spammers(votes, setting["kind"], setting["percent"], setting["seed"])
    if len(stored["classes"]):
        result = result.with_classes(stored["classes"].tolist())
    return result, stored["truth"]


def fitted(folder: Path, engine: str, until: float, task: Task) -> Record | None:
    """One method on votes, its scores held against the truth; nothing once the time is over."""
    if time.time() > until:
        return None
    warnings.simplefilter("ignore")
    experiment, setting, name = task
    votes, truth = simulated(setting) if experiment == "synthetic" else spammed(folder, setting)
    chosen, note = model(name).relax(votes)
    begun = time.perf_counter()
    if experiment == TUNED:
        chosen = tune(votes, chosen, engine=engine, threads=1).model
    machine = choose_engine(engine, chosen.prepare(votes), 1, needs=chosen.needs)
    estimate = chosen.estimate(machine)
    took = time.perf_counter() - begun
    notes = [note] if note else []
    if not estimate.rule.converged:
        notes.append(f"not converged after {estimate.rule.iterations} iterations")
    record = judged(setting, name, estimate.scores, truth, took, "; ".join(notes))
    return {**record, "penalty": getattr(chosen, chosen.tuned)} if experiment == TUNED else record


def tasks(options: argparse.Namespace) -> list[Task]:
    """Return the fits that were asked for and are in no file yet, one by one."""
    folders = {options.folder, options.out}
    done = {
        json.dumps([name, record["setting"], record["method"]])
        for name, record in lines(path for each in folders for path in each.glob("*.jsonl"))
    }
    found = []
    for name in options.experiments.split(","):
        usual = RIVALS if name == TUNED else (*EIGHT, DEFAULT)
        for setting in settings(name):
            if options.data not in ("", setting.get("data")):
                continue
            if setting["seed"] in range(*options.seeds):
                methods = options.methods.split(",") if options.methods else usual
                found += [(name, setting, method) for method in methods]
    return [task for task in found if json.dumps(task) not in done]


def run(options: argparse.Namespace) -> None:
    """All fits, and how many were made in what time."""
    begun = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    seconds: dict[tuple[str, str], list[float]] = {}
    work = partial(fitted, options.folder, options.engine, begun + options.seconds)
    left = tasks(options)
    pool = ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn"))
    with pool, (options.out / "records.jsonl").open("a") as file:
        jobs = {pool.submit(work, task): task for task in left}
        for job in as_completed(jobs):
            task = jobs[job]
            if error := job.exception():
                print(*task, f"{type(error).__name__}: {error}"[:300], flush=True)
            elif record := job.result():
                file.write(json.dumps([task[0], record]) + "\n")
                file.flush()
                what = str(task[1].get("data", task[0]))
                seconds.setdefault((what, task[2]), []).append(record["seconds"])
    for key, took in sorted(seconds.items()):
        print(*key, len(took), f"fits, {np.mean(took):.3f} s each, longest {max(took):.2f}")
    made = sum(map(len, seconds.values()))
    print(f"{made} fits of {len(left)} in {time.time() - begun:.0f} s")


def main() -> None:
    """Prepare, run, keep or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare").add_argument("folder", type=Path)
    going = verbs.add_parser("run")
    going.add_argument("folder", type=Path)
    going.add_argument("out", type=Path)
    going.add_argument("--experiments", default="spammers,synthetic", help=f"or {TUNED}")
    going.add_argument("--methods", default="", help=f"of {list(MODELS)}; else the usual ones")
    going.add_argument("--data", default="", help="of this data set alone")
    going.add_argument("--seeds", type=int, nargs=2, default=(0, SEEDS), help="from, below")
    going.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    going.add_argument("--seconds", type=float, default=500.0)
    going.add_argument("--engine", default="torch", help="torch: the card where there is one")
    kept = verbs.add_parser("keep")
    kept.add_argument("files", type=Path, nargs="+")
    kept.add_argument("--runs", type=Path, default=Path("reproduce-output"))
    kept.add_argument("--revision", default="")
    shown = verbs.add_parser("table")
    shown.add_argument("files", type=Path, nargs="+")
    default = ROOT / "docs" / "research" / "results" / f"{TUNED}.csv"
    shown.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    if options.verb == "prepare":
        prepare(options.folder)
    elif options.verb == "keep":
        keep(options.files, options.runs, options.revision)
    elif options.verb == "table":
        table(options.files, options.out)
    else:
        run(options)


if __name__ == "__main__":
    main()
