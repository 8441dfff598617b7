"""The paper's experiments on a GPU: the methods by the torch engine, on a machine with a card.

``python -m benchmarks.paper_gpu prepare FOLDER`` here writes the encoded votes and the truth;
``python benchmarks/paper_gpu.py run FOLDER OUT --processes 8 --seconds 500`` on the machine with
the card needs torch and NumPy alone, draws crowds and spammers there as the experiments do, and
writes one line a fit (processes share a card well only under the driver's MPS);
``python -m benchmarks.paper_gpu keep OUT/records.jsonl --revision R`` here puts them among the
finished fits of `crowdsift reproduce`, as if they had been made here: the torch engine's scores are
those of the CPU to 1e-5 standard deviations (docs/gpu.md).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("src", ".")]

from benchmarks.gpu_bench import ARRAYS, bare  # noqa: E402
from crowdsift.lab.experiments.base import judged  # noqa: E402
from crowdsift.lab.experiments.names import DEFAULT, EIGHT, Record, Setting  # noqa: E402
from crowdsift.models import MODELS, model  # noqa: E402
from crowdsift.votes.comparisons import Comparisons  # noqa: E402

REAL = ("passage", "faceage_subset")
SEEDS = 10
# The longest first of every experiment, so that no process is left with one at the end.
ORDER = (
    "htcv",
    "factor-bt",
    "hbtl",
    "crowd-bt",
    "sift",
    "bora-em",
    "barp",
    "rank-centrality",
    "bt",
)

# --- here ------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """The votes of the real data sets with the truth of every item, one file each."""
    import crowdsift
    from crowdsift.io.classes import with_classes

    folder.mkdir(parents=True, exist_ok=True)
    for name in REAL:
        found = crowdsift.lab.datasets.find(name, None)
        votes, truth = found.read(), found.truth()
        known = with_classes(votes, found.classes)
        names = np.array(known.class_names)
        np.savez_compressed(
            folder / f"{name}.npz",
            **{array: getattr(votes, array) for array in ARRAYS},
            sides=np.array(votes.sides_known),
            truth=np.array([truth[item] for item in votes.items], np.float64),
            classes=names[known.item_class] if found.classes else np.zeros(0),
        )


def keep(files: list[Path], runs: Path, revision: str) -> None:
    """Records made elsewhere among the finished ones; what is there is not done twice."""
    from crowdsift.lab.experiments import Options, experiment
    from crowdsift.lab.experiments.store import Store

    made: dict[str, list[Record]] = {}
    for path in files:
        for line in path.read_text().splitlines():
            name, record = json.loads(line)
            made.setdefault(name, []).append({**record, "revision": revision})
    for name, records in made.items():
        chosen = experiment(name, Options(seeds=SEEDS))
        with Store(runs / name, chosen).opened() as store:
            new = [each for each in records if each["method"] in store.missing(each["setting"])]
            store.add(new)
        print(f"{name}: {len(new)} of {len(records)} fits added")


# --- there -----------------------------------------------------------------------------------


def settings(
    name: str, folder: Path
) -> Iterator[tuple[Setting, Callable[[Setting], tuple[Comparisons, Any]]]]:
    """Every setting of an experiment, with what makes its votes and truth."""
    if name == "synthetic":
        from crowdsift.lab.experiments.base import Options
        from crowdsift.lab.experiments.synthetic import Synthetic

        for setting in Synthetic(Options(seeds=SEEDS)).settings():
            yield setting, simulated
        return
    from crowdsift.lab.experiments.spammers import PERCENTS
    from crowdsift.lab.spam import KINDS

    for data in REAL:
        stored = dict(np.load(folder / f"{data}.npz"))
        votes = bare(stored, len(stored["truth"]), bool(stored["sides"]))
        for seed in range(SEEDS):
            for percent in PERCENTS:
                for kind in KINDS:
                    setting = {"data": data, "kind": kind, "percent": percent, "seed": seed}
                    yield setting, partial(spammed, votes, stored)


def simulated(setting: Setting) -> tuple[Comparisons, Any]:
    """A crowd of the synthetic experiment, and its true scores."""
    from crowdsift.lab.experiments.synthetic import RANGES
    from crowdsift.lab.simulation import simulate

    drawn = simulate(
        setting["items"], setting["workers"], setting["comparisons"],
        reliability=RANGES[setting["beta"]], seed=setting["seed"],
    )  # fmt: skip
    return drawn.comparisons(), drawn.scores


def spammed(
    votes: Comparisons, stored: dict[str, Any], setting: Setting
) -> tuple[Comparisons, Any]:
    """Real votes with spammers, and the truth."""
    from crowdsift.lab.spam import add_spammers

    result = add_spammers(votes, setting["kind"], setting["percent"], setting["seed"])
    if len(stored["classes"]):
        result = result.with_classes(stored["classes"].tolist())
    return result, stored["truth"]


def fitted(
    setting: Setting, name: str, votes: Comparisons, truth: Any, options: argparse.Namespace
) -> Record:
    """One method on votes, its scores held against the truth."""
    from crowdsift.engines.torch import engine

    chosen, note = model(name).relax(votes)
    prepared = chosen.prepare(votes)
    begun = time.perf_counter()
    estimate = chosen.estimate(engine(prepared, 1, device=options.device, needs=chosen.needs))
    took = time.perf_counter() - begun
    notes = [note] if note else []
    if not estimate.rule.converged:
        notes.append(f"not converged after {estimate.rule.iterations} iterations")
    return judged(setting, name, estimate.scores, truth, took, "; ".join(notes))


def share(options: argparse.Namespace) -> None:
    """One process' part of the settings, until the time is over."""
    warnings.simplefilter("ignore")
    until = time.time() + options.seconds
    part, of = options.part
    methods = options.methods.split(",")
    with (options.out / f"records-{part}.jsonl").open("w") as file:
        for experiment in options.experiments.split(","):
            for number, (setting, make) in enumerate(settings(experiment, options.folder)):
                if number % of != part or options.data not in ("", setting.get("data")):
                    continue
                if time.time() > until:
                    return
                if setting["seed"] not in range(*options.seeds):
                    continue
                votes, truth = make(setting)
                for name in methods:
                    record = fitted(setting, name, votes, truth, options)
                    file.write(json.dumps([experiment, record]) + "\n")
                file.flush()


def run(options: argparse.Namespace) -> None:
    """All parts at once, and how many fits were made in what time."""
    begun = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    count = options.processes
    parts = [
        subprocess.Popen([sys.executable, *sys.argv, "--part", str(each), str(count)])
        for each in range(count)
    ]
    for process in parts:
        process.wait()
    seconds: dict[tuple[str, str], list[float]] = {}
    with (options.out / "records.jsonl").open("w") as whole:
        for each in range(count):
            path = options.out / f"records-{each}.jsonl"
            for line in path.read_text().splitlines():
                whole.write(line + "\n")
                name, record = json.loads(line)
                what = str(record["setting"].get("data", name))
                seconds.setdefault((what, record["method"]), []).append(record["seconds"])
            path.unlink()
    for key, took in sorted(seconds.items()):
        print(*key, len(took), f"fits, {np.mean(took):.3f} s each, longest {max(took):.2f}")
    print(f"{sum(map(len, seconds.values()))} fits in {time.time() - begun:.0f} s")


def main() -> None:
    """Prepare, run or keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare").add_argument("folder", type=Path)
    going = verbs.add_parser("run")
    going.add_argument("folder", type=Path)
    going.add_argument("out", type=Path)
    going.add_argument("--experiments", default="spammers,synthetic")
    going.add_argument("--methods", default=",".join((*EIGHT, DEFAULT)), help=f"of {list(MODELS)}")
    going.add_argument("--data", default="", help="of this data set alone")
    going.add_argument("--seeds", type=int, nargs=2, default=(0, SEEDS), help="from, below")
    going.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    going.add_argument("--seconds", type=float, default=500.0)
    going.add_argument("--device", default="cuda:0")
    going.add_argument("--part", type=int, nargs=2, help=argparse.SUPPRESS)
    kept = verbs.add_parser("keep")
    kept.add_argument("files", type=Path, nargs="+")
    kept.add_argument("--runs", type=Path, default=Path("reproduce-output"))
    kept.add_argument("--revision", default="")
    options = parser.parse_args()
    if options.verb == "prepare":
        prepare(options.folder)
    elif options.verb == "keep":
        keep(options.files, options.runs, options.revision)
    elif options.part:
        share(options)
    else:
        run(options)


if __name__ == "__main__":
    main()
