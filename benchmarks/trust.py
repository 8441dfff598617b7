"""Whether what is said can be trusted: coverage of joint statements, robustness, copied answers.

Run with ``python -m benchmarks.trust NAME [--boards N] [--method bt]``. Every board has a seed of its own, counted from
0; shares are printed with their standard errors.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from math import sqrt

import numpy as np

import crowdsift
from crowdsift.lab.datasets import find

Run = Callable[[argparse.Namespace], None]
Votes = dict[str, list[str]]


def share(values: list[bool]) -> str:
    """Return a share in per cent with its standard error."""
    p, n = float(np.mean(values)), len(values)
    return f"{100 * p:5.1f} % ± {100 * sqrt(p * (1 - p) / n):.1f} ({n})"


def joint(options: argparse.Namespace) -> None:
    """Simulate boards, and check intervals, groups and separations.

    Scores of bt are log odds. Those of sift have a unit of their own, in which the mean of r² is 1, the unknown level
    of all items included: the truth is put to this unit, and beside it to that of the estimated typical reliability,
    which is what the scale `logit` claims.
    """
    held: dict[str, list[bool]] = {}
    sizes, apart = [], []
    low, high = options.reliability
    for seed in range(options.first, options.first + options.boards):
        drawn = crowdsift.simulate(options.items, 20, 100 * options.items, reliability=(low, high), seed=seed)
        fit = crowdsift.fit(drawn.comparisons(), options.method, threads=1)
        truth = dict(zip(drawn.items, drawn.scores - drawn.scores.mean(), strict=True))
        true = np.array([truth[item] for item in fit.items["item"]])
        table, found = fit.items, fit.joint()
        units = {"": 1.0}
        if options.method != "bt":
            logit, score = fit.on_scale("logit").items["score"], fit.items["score"]
            units[""] = sqrt((1.0 - 1.0 / len(true)) / np.mean(true**2))
            typical = float(np.median(drawn.worker_parameters["reliability"]))
            units[", unit of the typical reliability"] = typical * (score @ score) / (logit @ score)
        for unit, factor in units.items():
            for name, at in (("one by one", table), ("simultaneous", found)):
                inside = (at["lower"] <= factor * true) & (factor * true <= at["upper"])
                held.setdefault(name + unit, []).append(bool(inside.all()))
                if name == "one by one":
                    held.setdefault("each interval" + unit, []).extend(inside.tolist())
        held.setdefault("best in group", []).append(bool(found["shares_first"][true.argmax()]))
        separated = found["above_next"][:-1]
        held.setdefault("separations", []).append(bool((-np.diff(true)[separated] > 0).all()))
        sizes.append(int(found["shares_first"].sum()))
        apart.append(int(separated.sum()))
    print(
        f"{options.method}: {options.boards} boards of {options.items} items, 20 workers of "
        f"reliability {low:g} to {high:g}, {100 * options.items} votes"
    )
    for name, values in held.items():
        print(f"  {name:50s} {share(values)}")
    print(
        f"  group of {np.mean(sizes):.2f} items, {np.mean(apart):.2f} of {options.items - 1} neighbours separated",
        flush=True,
    )


def grouped_votes(seed: int, groups: int = 200, size: int = 4, copied: float = 0.7) -> Votes:
    """Votes in groups on one pair each; all but the first copy it with a probability."""
    rng = np.random.default_rng(seed)
    truth = np.linspace(1.0, -1.0, 6)
    rows: Votes = {name: [] for name in ("winner", "loser", "worker", "prompt")}
    for group in range(groups):
        a, b = rng.choice(6, 2, replace=False)
        wins = rng.random(size) < 1 / (1 + np.exp(truth[b] - truth[a]))
        wins[1:] = np.where(rng.random(size - 1) < copied, wins[0], wins[1:])
        for won in wins:
            rows["winner"].append(f"i{a if won else b}")
            rows["loser"].append(f"i{b if won else a}")
            rows["worker"].append(f"w{rng.integers(30)}")
            rows["prompt"].append(f"p{group}")
    return rows


def dependence(options: argparse.Namespace) -> None:
    """Coverage of 90 % intervals of scores with planted groups, without and with --dependent-by."""
    truth = {f"i{i}": value for i, value in enumerate(np.linspace(1.0, -1.0, 6))}
    print(f"{options.method}: {options.boards} boards of 6 items, 200 groups of 4 votes")
    for copied in (0.0, 0.3, 0.7, 1.0):
        coverage = []
        for column in (None, "prompt"):
            held, effects, found = [], [], 0
            for seed in range(options.first, options.first + options.boards):
                rows = grouped_votes(seed, copied=copied)
                fit = crowdsift.fit(rows, options.method, dependent_by=column, threads=1)
                true = np.array([truth[item] for item in fit.items["item"]])
                if options.method != "bt":  # whose scale is its own
                    true = true * (fit.items["score"] @ true) / (true @ true)
                inside = (fit.items["lower"] <= true) & (true <= fit.items["upper"])
                held.append(float(inside.mean()))
                effects.append(fit.summary.get("design_effect") or 1.0)
                found += bool(fit.summary.get("group_effect"))
            error = np.std(held, ddof=1) / sqrt(len(held))
            coverage.append(f"{100 * np.mean(held):5.1f} % ± {100 * error:.1f}")
        print(
            f"  copied {copied:.1f}: votes {coverage[0]}, groups {coverage[1]}, "
            f"design effect {np.mean(effects):.2f}, group effect in {found} of "
            f"{options.boards}",
            flush=True,
        )


def crowd_with(seed: int, copiers: int = 0, repeats: int = 1, pair_sd: float = 0.0) -> Votes:
    """15 workers on 10 items; some copy the first worker with 0.8, the last repeats itself."""
    rng = np.random.default_rng(seed)
    score, slope = rng.normal(size=10), rng.uniform(0.5, 2.0, 15)
    effect = pair_sd * rng.normal(size=(10, 10))
    answers: dict[tuple[int, int], bool] = {}
    repeated: dict[tuple[int, int], bool] = {}
    rows: Votes = {name: [] for name in ("winner", "loser", "worker")}
    for worker in range(15):
        for _ in range(100 * (repeats if worker == 14 else 1)):
            a, b = sorted(rng.choice(10, 2, replace=False).tolist())
            p = 1 / (1 + np.exp(-slope[worker] * (score[a] - score[b]) - effect[a, b]))
            first = bool(rng.random() < p)
            if 0 < worker <= copiers and (a, b) in answers and rng.random() < 0.8:
                first = answers[a, b]
            if worker == 0:
                answers[a, b] = first
            if worker == 14 and repeats > 1:
                first = repeated.setdefault((a, b), first)
            rows["winner"].append(f"i{a if first else b}")
            rows["loser"].append(f"i{b if first else a}")
            rows["worker"].append(f"w{worker:02d}")
    return rows


def copying(options: argparse.Namespace) -> None:
    """How often copied answers are noticed, and how often they are seen where there are none."""
    method = "bora-map" if options.method == "bt" else options.method
    print(f"{method}: {options.boards} crowds of 15 workers, 1,500 votes on 10 items")
    for pair_sd in (0.0, 0.7):
        for name, planted in (
            ("nothing planted", {}),
            ("three copy the first worker", {"copiers": 3}),
            ("a judge of 300 votes on 45 pairs repeats itself", {"repeats": 3}),
        ):
            noticed, wrong, again, wrong_again = [], [], [], []
            for seed in range(options.first, options.first + options.boards):
                votes = crowd_with(seed, pair_sd=pair_sd, **planted)
                found = crowdsift.fit(votes, method, threads=1).copying()
                guilty = {f"w{i:02d}" for i in range(planted.get("copiers", -1) + 1)}
                named = {label for group in found.groups for label in group}
                noticed.append(len(named & guilty) > 1)
                wrong.append(bool(named - guilty))
                repeating = set(found.repeats["worker"].tolist())
                again.append("w14" in repeating)
                wrong_again.append(bool(repeating - {"w14"}))
            print(
                f"  pair effects {pair_sd:.1f}, {name}: copies noticed {share(noticed)}, others "
                f"named {share(wrong)}; judge named as repeating {share(again)}, others "
                f"{share(wrong_again)}"
            )


def planted(options: argparse.Namespace) -> None:
    """Real votes (lightfield) in which two observers copy a third in 80 % of what it answered.

    The copied one is drawn at random among the 29, the two are those who share most pairs with it.
    """
    method = "bora-map" if options.method == "bt" else options.method
    with open(find("lightfield").votes, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ("left", "right", "winner", "worker")
    alone = crowdsift.fit({name: [row[name] for row in rows] for name in names}, method, threads=1)
    print(f"{method}, nothing planted: {alone.copying().groups}", flush=True)
    pairs: dict[str, dict[frozenset[str], str]] = {}
    for row in rows:
        chosen = row[row["winner"]]
        pairs.setdefault(row["worker"], {})[frozenset((row["left"], row["right"]))] = chosen
    noticed, wrong = [], []
    for seed in range(options.first, options.first + options.boards):
        rng = np.random.default_rng(seed)
        source = sorted(pairs)[rng.integers(len(pairs))]
        seen = pairs[source]
        others = sorted(pairs, key=lambda who: (-len(seen.keys() & pairs[who].keys()), who))
        copiers = [who for who in others if who != source][:2]
        votes: Votes = {name: [] for name in names}
        copied = 0
        for row in rows:
            answer = seen.get(frozenset((row["left"], row["right"])))
            vote = {name: row[name] for name in names}
            if row["worker"] in copiers and answer is not None and rng.random() < 0.8:
                vote["winner"] = "left" if answer == row["left"] else "right"
                copied += 1
            for name in names:
                votes[name].append(vote[name])
        found = crowdsift.fit(votes, method, threads=1).copying()
        named = {label for group in found.groups for label in group}
        noticed.append(len(named & {source, *copiers}))
        wrong.append(len(named - {source, *copiers}))
        print(
            f"  seed {seed}: {copied} answers of {', '.join(copiers)} copied from {source}; "
            f"named {', '.join(sorted(named)) or 'nobody'}",
            flush=True,
        )
    print(f"  noticed {share([n > 1 for n in noticed])}, others named {share([n > 0 for n in wrong])}")


RUNS: dict[str, Run] = {"joint": joint, "dependence": dependence, "copying": copying, "planted": planted}


def main() -> None:
    """Run the measurement that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(RUNS))
    parser.add_argument("--boards", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--items", type=int, default=8)
    parser.add_argument("--reliability", type=float, nargs=2, default=(1.0, 1.0))
    parser.add_argument("--method", default="bt")
    options = parser.parse_args()
    warnings.simplefilter("ignore", crowdsift.SignWarning)
    RUNS[options.name](options)


if __name__ == "__main__":
    main()
