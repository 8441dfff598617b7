"""The paper's experiments within a time budget: what is worth most first, fast methods first.

Run with ``python -m benchmarks.paper --minutes 30 [--runs reproduce-output]``. Every finished fit is kept in the
folders of `crowdsift reproduce`, so that another call goes on, `crowdsift reproduce NAME` does what is left, and
`crowdsift reproduce results` writes the page of what is there. One process, one thread: start several with different
--only.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from crowdsift.paper import Options, experiment
from crowdsift.paper.base import EARLIER, FIGURES, Experiment, Record, Setting
from crowdsift.paper.store import Store
from crowdsift.paper.synthetic import ORACLE

# By what a fit costs: the first are done on all seeds before the others begin.
FAST = ("sift", ORACLE, "bora-em", "bt", "rank-centrality", "barp")
MIDDLE = (*FAST, "crowd-bt", "hbtl")
ALL = (*MIDDLE, "factor-bt", "htcv")
SHOWN = ("sift", "bora-em", "bt", "crowd-bt")  # in the table of docs/research/quality.md
SEEDS = 10


@dataclass(frozen=True)
class Part:
    """Some methods on some settings of an experiment."""

    experiment: str
    methods: tuple[str, ...] = ALL
    data: str = ""  # of this data set alone
    seeds: int = SEEDS
    percent: tuple[int, int] = (0, 900)  # spammers: from and to

    def takes(self, setting: Setting) -> bool:
        """Whether a setting is of this part."""
        low, high = self.percent
        return (
            self.data in ("", setting.get("data", ""))
            and setting.get("seed", 0) < self.seeds
            and low <= setting.get("percent", low) <= high
        )


FACES = "faceage_subset"
PLAN = {
    "real": [Part("real")],
    "ablations": [Part("ablations", data="passage"), Part("ablations")],
    "synthetic": [
        Part("synthetic", FAST),
        Part("synthetic", MIDDLE),
        Part("synthetic", ALL, seeds=3),
        Part("synthetic"),
    ],
    "spammers": [
        *(Part("spammers", SHOWN, "passage", percent=(each, each)) for each in (10, 40, 80)),
        *(Part("spammers", SHOWN, FACES, percent=(each, each)) for each in (10, 40, 80)),
        Part("spammers", MIDDLE, "passage"),
        Part("spammers", FAST, FACES, 3),
        Part("spammers", ALL, "passage", 3),
        Part("spammers", MIDDLE, FACES, 3, (0, 100)),
        Part("spammers", ALL, FACES, 1, (0, 100)),
        Part("spammers", ALL, "passage"),
        Part("spammers", FAST, FACES),
        Part("spammers", MIDDLE, FACES),
        Part("spammers", ALL, FACES),
    ],
}


def missing(
    store: Store, parts: Collection[Part], methods: Collection[str]
) -> Iterator[tuple[Setting, tuple[str, ...]]]:
    """Yield what is left to be done by some methods, in order."""
    for part in parts:
        for setting in store.experiment.settings():
            if part.takes(setting):
                wanted = set(part.methods) & set(methods)
                left = tuple(each for each in store.missing(setting) if each in wanted)
                if left:
                    yield setting, left


def work(name: str, options: argparse.Namespace, until: float) -> int:
    """Go on with one entry of the plan; return how many fits were made."""
    parts = [part for part in PLAN[name] if options.data in ("", part.data)]
    chosen: Experiment = experiment(name, Options(seeds=SEEDS))
    folder = options.runs / chosen.name
    done = 0
    with Store(folder, chosen).opened() as store:
        for setting, methods in missing(store, parts, options.methods.split(",")):
            if time.monotonic() > until:
                break
            made = chosen.run(setting, methods)
            store.add([{**record, "revision": options.revision} for record in made])
            done += len(methods)
    return done


def adopt(name: str, runs: Path, tables: Path) -> int:
    """Take over figures of an earlier version where it has more seeds; return how many.

    Marked as such. Of a method in a setting all seeds are of one version, so that a mean is of one, and methods are
    compared on the same crowds.
    """
    chosen = experiment(name, Options(seeds=SEEDS))
    with (tables / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = {(_texts(row), row["method"]): row for row in csv.DictReader(file)}
    earlier = []
    for setting in chosen.settings():
        for method in chosen.methods(setting):
            row = rows.get((tuple(map(_text, setting.values())), method))
            if row is not None:
                record = {"setting": dict(setting), "method": method, "figures": _figures(row)}
                earlier.append({**record, "seconds": 0.0, "note": EARLIER})
    with Store(runs / name, chosen).opened() as store:
        ours = store.records()
        have, had = Counter(map(_cell, ours)), Counter(map(_cell, earlier))
        taken = [record for record in earlier if had[_cell(record)] > have[_cell(record)]]
        store.hold([record for record in ours if had[_cell(record)] <= have[_cell(record)]] + taken)
    return len(taken)


def _cell(record: Record) -> tuple[object, ...]:
    values = (value for each, value in record["setting"].items() if each != "seed")
    return (*values, record["method"])


def _text(value: object) -> str:
    """Return a value of a setting as the tables have it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _figures(row: dict[str, str]) -> dict[str, float | None]:
    """Return what stands behind the method; the empty ones of other methods left out."""
    words = {"": None, "true": 1.0, "false": 0.0}
    columns = list(row)[list(row).index("method") + 1 :]
    return {
        each: words[row[each]] if row[each] in words else float(row[each])
        for each in columns
        if row[each] or each in FIGURES
    }


def _texts(row: dict[str, str]) -> tuple[str, ...]:
    """Return the setting of a row: what stands before the method."""
    names = list(row)
    return tuple(row[each] for each in names[: names.index("method")])


def main() -> None:
    """Work through the plan until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--runs", type=Path, default=Path("reproduce-output"))
    parser.add_argument("--only", default=",".join(PLAN), help=f"of {', '.join(PLAN)}")
    parser.add_argument("--methods", default=",".join(ALL), help="these alone")
    parser.add_argument("--data", default="", help="the parts of this data set alone")
    parser.add_argument("--revision", default="", help="of the source, to be told on the page")
    parser.add_argument("--adopt", type=Path, help="tables of an earlier version, for what is not done")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # what fits warn of stands in their notes
    until = time.monotonic() + 60.0 * options.minutes
    for name in options.only.split(","):
        started = time.monotonic()
        done = work(name, options, until)
        if options.adopt and name != "real":
            print(f"{name}: {adopt(name, options.runs, options.adopt)} fits {EARLIER}")
        print(f"{name}: {done} fits in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
