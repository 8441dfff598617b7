"""Partial pooling and trusted votes: every figure of docs/guides/llm-judges.md and docs/islands.md.

python -m benchmarks.pooling contexts [SEEDS]    drawn contexts with planted deviations
python -m benchmarks.pooling boards [SEEDS]      left-out votes of other drawn contexts choose the prior of deviations
python -m benchmarks.pooling arena FOLDER...     arena.jsonl by language, a folder per seed
python -m benchmarks.pooling panel FOLDER...     panel.csv against models.csv, a folder per seed
python -m benchmarks.pooling ppr FILE [DRAWS [COUNT...]]    human votes beside three LLM judges
python -m benchmarks.pooling prior [SEEDS]       left-out trusted votes choose the prior of biases
"""

from __future__ import annotations

import csv
import gzip
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from unittest import mock

import numpy as np

import crowdsift
from crowdsift.fitting.estimate import Resources, estimate_votes, open_votes
from crowdsift.solvers.ep import panels
from crowdsift.solvers.ep.terms import boards as boards_module
from crowdsift.votes.graph import folds

ITEMS, CONTEXTS, WORKERS = 12, 10, 40
KINDS = ("auto", "none", "complete")
FIRST_SEED = 100  # of the table; the prior was chosen on other cells and seeds
PRIORS = [(0.003, 1.0), (0.01, 1.0), (0.03, 1.0), (0.1, 1.0), (0.01, 2.0), (0.03, 2.0)]  # _TYPICAL, _UNKNOWN


def drawn_contexts(
    deviation: float, votes: int, seed: int, items: int = ITEMS, contexts: int = CONTEXTS
) -> tuple[crowdsift.Comparisons, crowdsift.Comparisons]:
    """Votes in contexts with planted deviations, and every pair with its true probability."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, items) + rng.normal(0, deviation, (contexts, items))
    rows = []
    for context in range(contexts):
        for _ in range(votes):
            i, j = rng.choice(items, 2, replace=False)
            p = 1 / (1 + np.exp(scores[context, j] - scores[context, i]))
            rows.append((i, j, float(rng.random() < p), rng.integers(WORKERS), context))
        for i in range(items):
            for j in range(i):
                p = 1 / (1 + np.exp(scores[context, j] - scores[context, i]))
                rows.append((i, j, p, rng.integers(WORKERS), context))
    names = ("first", "second", "outcome", "worker", "context")
    table = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    both = crowdsift.read(table, by="context")
    known = (both.outcome > 0) & (both.outcome < 1)
    return both.select(~known), both.select(known)


def left_out(train: crowdsift.Comparisons, test: crowdsift.Comparisons, kind: str) -> tuple[float, float]:
    """Return the log loss of other votes, and the deviation that was found, in logits."""
    model = crowdsift.Sift(pooling=kind)
    if kind == "complete":
        model = replace(model, contexts=False)
    found = estimate_votes(model, train, Resources(threads=1))
    with open_votes(model, test, Resources(threads=1)) as others:
        loss = -model.left_out(others.engine, found) / test.total_weight
    assert found.workers.reliability is not None
    typical = float(np.median(found.workers.reliability))
    return loss, typical * float(found.details.get("context_deviation") or 0.0)


def contexts(seeds: int) -> None:
    """Drawn contexts: pooling against the better of none and complete."""
    print("deviation votes   auto    none   complete  auto-better  found (median)")
    for deviation in (0.0, 0.1, 0.3, 1.0):
        for votes in (20, 200, 2000):
            table, found = [], []
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                train, test = drawn_contexts(deviation, votes, seed)
                results = [left_out(train, test, kind) for kind in KINDS]
                table.append([loss for loss, _ in results])
                found.append(results[0][1])
            auto, none, complete = np.mean(table, axis=0)
            print(
                f"{deviation:9.1f} {votes:5d} {auto:.4f}  {none:.4f}  {complete:.4f}"
                f"   {auto - min(none, complete):+.4f}     {np.median(found):.3f}"
                f"  {np.min(found):.3f} to {np.max(found):.3f}",
                flush=True,
            )


def boards(seeds: int) -> None:
    """Left-out loss of drawn contexts with every prior of deviations, on cells that the table does not have."""
    print("deviation votes   loss with each of", *PRIORS)
    total = []
    for deviation, votes in itertools.product((0.0, 0.05, 0.2, 0.6, 2.0), (40, 400)):
        losses = []
        for seed in range(seeds):
            train, test = drawn_contexts(deviation, votes, seed, items=8, contexts=6)
            row = []
            for typical, unknown in PRIORS:
                with mock.patch.multiple(boards_module, _TYPICAL=typical, _UNKNOWN=unknown):
                    row.append(left_out(train, test, "auto")[0])
            losses.append(row)
        total += losses
        print(f"{deviation:9.2f} {votes:5d}  ", *np.mean(losses, axis=0).round(5), flush=True)
    above = np.array(total) - np.array(total)[:, [1]]
    error = above.std(axis=0) / np.sqrt(len(above))
    print(
        "all, loss beside the second prior:",
        *(f"{m:+.5f} ({e:.5f})" for m, e in zip(above.mean(0), error, strict=True)),
    )


def arena(folders: list[str]) -> None:
    """Measure the arena sample by language: five folds of every seed."""
    for folder in folders:
        votes = crowdsift.read(f"{folder}/arena.jsonl", by="language")
        losses = {
            kind: sum(left_out(kept, out, kind)[0] * out.total_weight for kept, out in folds(votes, 5))
            / votes.total_weight
            for kind in KINDS
        }
        found = left_out(votes, votes, "auto")[1]
        print(folder, {kind: round(loss, 5) for kind, loss in losses.items()}, f"{found:.3f}")


def logits(fit: crowdsift.Fit, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Centred scores in logits of the items by name, and half of their 90 % intervals."""
    found = fit.on_scale("logit")
    place = {item: row for row, item in enumerate(found.labels)}
    rows = [place[name] for name in names]
    table = found.shown_items
    half = 0.5 * (table["upper"][rows] - table["lower"][rows])
    score = table["score"][rows]
    return score - score.mean(), half


def read_table(path: str) -> dict[str, np.ndarray]:
    """Return a CSV file, also compressed, by column."""
    opened = gzip.open if path.endswith("gz") else open
    with opened(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows], object) for name in rows[0]}


def panel(folders: list[str]) -> None:
    """Planted quality and biases: people alone, all votes as one crowd, and trusted votes."""
    rows = []
    for folder in folders:
        votes, models = read_table(f"{folder}/panel.csv"), read_table(f"{folder}/models.csv")
        names = models["model"].tolist()
        truth = models["quality"].astype(float)
        truth = truth - truth.mean()
        bias = models["panel_bias"].astype(float)
        people = {name: column[votes["panel"] == "human"] for name, column in votes.items()}
        alone, _ = logits(crowdsift.fit(people, dimensions=1, threads=1), names)
        pooled, _ = logits(crowdsift.fit(votes, dimensions=1, threads=1), names)
        fit = crowdsift.fit(votes, trusted={"panel": "human"}, threads=1)
        both, half = logits(fit, names)
        table = fit.panel_biases
        assert table is not None
        place = {item: row for row, item in enumerate(table["item"])}
        at = [place[name] for name in names]
        planted = bias - bias.mean()
        held = (table["lower"][at] <= planted) & (planted <= table["upper"][at])
        errors = [float(np.sqrt(np.mean((x - truth) ** 2))) for x in (alone, pooled, both)]
        rows.append([*errors, np.mean(np.abs(both - truth) <= half), np.mean(held)])
        print(folder, np.round(rows[-1], 3), flush=True)
    found = np.array(rows)
    better = ((found[:, 2] < found[:, 0]) & (found[:, 2] < found[:, 1])).sum()
    print(
        "mean rmse: people alone, all votes, trusted; coverage of scores, of biases:",
        found.mean(axis=0).round(3),
        f"better than both in {better} of {len(found)}",
    )


def tau(one: np.ndarray, two: np.ndarray) -> float:
    """Kendall's tau."""
    n = len(one)
    return float((np.sign(one[:, None] - one) * np.sign(two[:, None] - two)).sum() / (n * (n - 1)))


def ppr(path: str, draws: int, counts: list[int]) -> None:
    """Few human votes and all votes of LLM judges, on the 12 models with most votes."""
    table = read_table(path)
    names, votes_on = np.unique(np.concatenate([table["left"], table["right"]]), return_counts=True)
    chosen = sorted(names[np.argsort(-votes_on, kind="stable")[:12]].tolist())
    kept = np.isin(table["left"], chosen) & np.isin(table["right"], chosen)
    columns = ("left", "right", "winner", "worker", "panel")
    votes = {name: table[name][kept] for name in columns}
    human = np.flatnonzero(votes["panel"] == "human")
    judges = np.flatnonzero(votes["panel"] == "llm")

    def part(rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: column[rows] for name, column in votes.items()}

    truth, _ = logits(crowdsift.fit(part(human), dimensions=1, threads=1), chosen)
    only, _ = logits(crowdsift.fit(part(judges), dimensions=1, threads=1), chosen)
    print(f"LLM judges alone: tau {tau(only, truth):.3f}")
    for count in counts:
        found = []
        for seed in range(draws):
            some = np.random.default_rng(seed).choice(human, count, replace=False)
            people, wide = logits(crowdsift.fit(part(some), dimensions=1, threads=1), chosen)
            both = crowdsift.fit(part(np.concatenate([some, judges])), threads=1, trusted={"panel": "human"})
            scores, half = logits(both, chosen)
            found.append(
                [
                    tau(people, truth),
                    np.mean(np.abs(people - truth) <= wide),
                    tau(scores, truth),
                    np.mean(np.abs(scores - truth) <= half),
                    both.summary["trusted"]["worth"],
                ]
            )
            if seed + 1 == draws or seed % 20 == 19:
                means = np.mean(found, axis=0)
                print(
                    f"{count} human votes, {seed + 1} draws: people alone tau {means[0]:.3f}, coverage {means[1]:.3f}; "
                    f"trusted tau {means[2]:.3f}, coverage {means[3]:.3f}; the judges are worth {means[4]:.0f} votes",
                    flush=True,
                )


# Scale of shared biases, that of judges as a share of it, degrees of freedom.
STUDENT, GAUSSIAN = [2.0, 4.0, 1e6], [1e6]
GRID = [(scale, 0.5, STUDENT) for scale in (0.1, 0.2, 0.3, 0.5, 1.0)]
GRID += [(0.3, 1.0, STUDENT), (0.3, 0.5, GAUSSIAN), (0.5, 0.5, GAUSSIAN)]
CROWDS = [
    each
    for each in itertools.product((0.0, 0.1, 0.3, 0.6, 1.0), (False, True), (1, 4), (60, 240, 960))
    if each[0] or not each[1]
]


def prior_scores(crowd: tuple[float, bool, int, int], seed: int) -> np.ndarray:
    """Return a row per prior of GRID: expected log loss of trusted votes, coverage of scores and of biases."""
    size, heavy, judges, count = crowd
    rng, K = np.random.default_rng([seed, CROWDS.index(crowd)]), 10

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_t(2, shape) if heavy else rng.normal(size=shape)

    quality, shared = rng.normal(size=K), size * draw(K)
    own = size * rng.choice([0.0, 0.5, 1.0]) * draw(judges, K)
    rows: list[tuple[str, ...]] = []
    for judge, total in [(-1, count)] + [(judge, 1000) for judge in range(judges)]:
        seen = quality if judge < 0 else rng.uniform(0.6, 1.6) * (quality + shared + own[judge])
        i = rng.integers(K, size=total)
        j = (i + rng.integers(1, K, total)) % K
        won = rng.random(total) < 1 / (1 + np.exp(seen[j] - seen[i]))
        who = [f"j{judge}" if judge >= 0 else f"p{row % 8}" for row in range(total)]
        panel = ["llm" if judge >= 0 else "human"] * total
        rows += zip(i.astype(str), j.astype(str), np.where(won, i, j).astype(str), who, panel, strict=True)
    names = ("left", "right", "winner", "worker", "panel")
    votes = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    with mock.patch.object(panels, "panel_posterior", wraps=panels.panel_posterior) as called:
        fit = crowdsift.fit(votes, trusted={"panel": "human"}, threads=1)
    sites = called.call_args.args
    assert fit.votes is not None
    found = fit.on_scale("logit")
    order = [found.labels.index(label) for label in fit.votes.items]
    mean = panels.panel_posterior(*sites).mean
    unit = float(found.items["score"][order] @ mean / (mean @ mean))  # logits of a score of 1
    item = fit.votes.items.astype(int)
    truth, bias = quality[item] - quality[item].mean(), shared[item] - shared[item].mean()
    first, second = np.triu_indices(K, 1)
    p = 1 / (1 + np.exp(truth[second] - truth[first]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    scores = []
    for scale, ratio, freedom in GRID:
        work = 16.0 * judges * K**3  # for 16 chains
        with mock.patch.multiple(
            panels,
            _SHARED=scale,
            _OWN=ratio * scale,
            _FREEDOM=np.array(freedom),
            _HEIGHT=panels._HEIGHT[-len(freedom) :],
            _WORK=work,
        ):
            mean, C, draws, _ = panels.panel_posterior(*sites)
        sd = np.sqrt(np.maximum(C[first, first] + C[second, second] - 2 * C[first, second], 0.0))
        d = unit * (mean[first] - mean[second] + nodes[:, None] * sd)
        q = weights @ (1 / (1 + np.exp(-d))) / weights.sum()
        loss = -np.mean(p * np.log(q / p) + (1 - p) * np.log((1 - q) / (1 - p)))  # above that of the truth
        lower, upper = np.quantile(unit * draws[:, 0], [0.05, 0.95], axis=0)
        held = np.abs(unit * mean - truth) < 1.645 * unit * np.sqrt(np.diag(C))
        scores.append([loss, held.mean(), np.mean((lower < bias) & (bias < upper))])
    return np.array(scores)


def prior(seeds: int) -> None:
    """Which prior of biases predicts left-out trusted votes, and holds what was planted, over all drawn crowds."""
    tasks = [(crowd, seed) for seed in range(104, 104 + seeds) for crowd in CROWDS]
    with ProcessPoolExecutor(2) as pool:
        table = np.array(list(pool.map(prior_scores, *zip(*tasks, strict=True))))
    count = np.array([crowd[3] for crowd, _ in tasks])
    print(f"{len(tasks)} crowds; loss above that of the truth and beside the second prior (standard error), in 1e-4;")
    print("for 60, 240, 960 trusted votes; coverage of scores, of biases")
    above = 1e4 * (table[:, :, 0] - table[:, [1], 0])
    for k, each in enumerate(GRID):
        error = above[:, k].std() / np.sqrt(len(above))
        cells = " ".join(f"{above[count == n, k].mean():+.1f}" for n in (60, 240, 960))
        covers = table[:, k, 1:].mean(axis=0).round(3)
        print(*each, f"{1e4 * table[:, k, 0].mean():.0f} {above[:, k].mean():+.1f} ({error:.1f}); {cells};", *covers)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "contexts":
        contexts(int(rest[0]) if rest else 5)
    elif what == "boards":
        boards(int(rest[0]) if rest else 5)
    elif what == "arena":
        arena(rest)
    elif what == "panel":
        panel(rest)
    elif what == "ppr":
        ppr(rest[0], int(rest[1]) if len(rest) > 1 else 100, list(map(int, rest[2:])) or [200, 1000, 4000])
    elif what == "prior":
        prior(int(rest[0]) if rest else 2)
