"""Partial pooling and trusted votes: every figure of docs/guides/llm-judges.md and docs/islands.md.

python -m benchmarks.pooling contexts [SEEDS]    drawn contexts with planted deviations
python -m benchmarks.pooling arena FOLDER...     arena.jsonl by language, a folder per seed
python -m benchmarks.pooling panel FOLDER...     panel.csv against models.csv, a folder per seed
python -m benchmarks.pooling ppr FILE [DRAWS]    human votes beside three LLM judges
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
from crowdsift.votes.graph import folds

ITEMS, CONTEXTS, WORKERS = 12, 10, 40
KINDS = ("auto", "none", "complete")


def drawn_contexts(deviation: float, votes: int, seed: int) -> tuple[crowdsift.Comparisons, crowdsift.Comparisons]:
    """Votes in contexts with planted deviations, and every pair with its true probability."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, ITEMS) + rng.normal(0, deviation, (CONTEXTS, ITEMS))
    rows = []
    for context in range(CONTEXTS):
        for _ in range(votes):
            i, j = rng.choice(ITEMS, 2, replace=False)
            p = 1 / (1 + np.exp(scores[context, j] - scores[context, i]))
            rows.append((i, j, float(rng.random() < p), rng.integers(WORKERS), context))
        for i in range(ITEMS):
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
            for seed in range(seeds):
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


def ppr(path: str, draws: int) -> None:
    """Few human votes and all votes of LLM judges, on the 12 models with most votes."""
    table = read_table(path)
    names, counts = np.unique(np.concatenate([table["left"], table["right"]]), return_counts=True)
    chosen = sorted(names[np.argsort(-counts, kind="stable")[:12]].tolist())
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
    for count in (200, 1000, 4000):
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
        means = np.mean(found, axis=0)
        print(
            f"{count} human votes: people alone tau {means[0]:.3f}, coverage {means[1]:.3f}; "
            f"trusted tau {means[2]:.3f}, coverage {means[3]:.3f}; the judges are worth "
            f"{means[4]:.0f} votes",
            flush=True,
        )


# Scale of shared biases, that of judges as a share of it, variance of outliers, freedom.
GRID = [(*each, 2.0) for each in itertools.product((0.1, 0.2, 0.5, 1.0), (0.5, 1.0), (1.0, 16.0))]
GRID += [(shared, 0.5, 16.0, freedom) for shared in (0.2, 0.5) for freedom in (1.0, 4.0)]
CROWDS = [
    each
    for each in itertools.product((0.0, 0.1, 0.3, 0.6, 1.0), (False, True), (1, 4), (60, 240, 960))
    if each[0] or not each[1]
]


def prior_losses(crowd: tuple[float, bool, int, int], seed: int) -> list[float]:
    """Return the log loss of 4,000 left-out trusted votes of one drawn crowd with every prior of GRID."""
    size, heavy, judges, count = crowd
    rng, K = np.random.default_rng([seed, CROWDS.index(crowd)]), 10

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_t(2, shape) if heavy else rng.normal(size=shape)

    quality, shared = rng.normal(size=K), size * draw(K)
    own = size * rng.choice([0.0, 0.5, 1.0]) * draw(judges, K)
    rows: list[tuple[int, int, int, str, str]] = []
    for judge, total in [(-1, count + 4000)] + [(judge, 1000) for judge in range(judges)]:
        seen = quality if judge < 0 else rng.uniform(0.6, 1.6) * (quality + shared + own[judge])
        for _ in range(total):
            i, j = rng.choice(K, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(seen[j] - seen[i]))
            worker, panel = (f"j{judge}", "llm") if judge >= 0 else (f"p{len(rows) % 8}", "human")
            rows.append((i, j, i if won else j, worker, panel))
    names = ("left", "right", "winner", "worker", "panel")
    test = np.array([row[:3] for row in rows[count : count + 4000]])
    kept = zip(*(rows[:count] + rows[count + 4000 :]), strict=True)
    votes = dict(zip(names, [[str(x) for x in column] for column in kept], strict=True))
    with mock.patch.object(panels, "panel_posterior", wraps=panels.panel_posterior) as called:
        fit = crowdsift.fit(votes, trusted={"panel": "human"}, threads=1)
    sites = called.call_args.args
    assert fit.votes is not None
    found = fit.on_scale("logit")
    order = [found.labels.index(label) for label in fit.votes.items]
    mean = panels.panel_posterior(*sites).mean
    unit = float(found.items["score"][order] @ mean / (mean @ mean))  # logits of a score of 1
    place = {int(label): row for row, label in enumerate(fit.votes.items)}
    won = np.array([place[k] for k in test[:, 2]])
    lost = np.array([place[k] for k in test[:, 0] + test[:, 1] - test[:, 2]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    losses = []
    for scale, ratio, outlier, freedom in GRID:
        with mock.patch.multiple(
            panels, _SHARED=scale, _OWN=ratio * scale, _OUTLIER=outlier, _FREEDOM=freedom, _WORK=16.0 * judges * K**3
        ):
            mean, C = panels.panel_posterior(*sites)[:2]
        sd = np.sqrt(C[won, won] + C[lost, lost] - 2 * C[won, lost])
        d = unit * (mean[won] - mean[lost] + nodes[:, None] * sd)
        losses.append(float(-np.log(weights @ (1 / (1 + np.exp(-d))) / weights.sum()).mean()))
    return [*losses, float(np.linalg.eigvalsh(sites[0][0])[0])]


def losses_or_nan(crowd: tuple[float, bool, int, int], seed: int) -> list[float]:
    """Return the losses and the least eigenvalue of trusted sites; NaN if there is no fit."""
    try:
        return prior_losses(crowd, seed)
    except np.linalg.LinAlgError:
        return [np.nan] * (len(GRID) + 1)


def prior(seeds: int) -> None:
    """Which prior of biases predicts left-out trusted votes best, over all drawn crowds."""
    tasks = [(crowd, seed) for seed in range(seeds) for crowd in CROWDS]
    with ProcessPoolExecutor(2) as pool:
        table = np.array(list(pool.map(losses_or_nan, *zip(*tasks, strict=True))))
    size = np.array([crowd[0] for crowd, _ in tasks])
    heavy = np.array([crowd[1] for crowd, _ in tasks])
    fitted = np.isfinite(table).all(axis=1)  # the same crowds for every prior
    print(f"{(~fitted).sum()} of {len(tasks)} crowds have no fit")
    for name, some in (("all", fitted), ("definite sites", fitted & (table[:, -1] > -1e-6))):
        losses = table[some, :-1]
        above = 1e4 * (losses - losses[:, losses.mean(axis=0).argmin(), None])
        parts = [size == x for x in (0.0, 0.1, 0.3, 0.6, 1.0)] + [~heavy, heavy]
        print(
            f"{name}: {len(losses)} crowds; loss, excess over the best in 1e-4 (s.e.), median; "
            "for biases of 0 .1 .3 .6 1, Gaussian, heavy-tailed"
        )
        for k, each in enumerate(GRID):
            error = above[:, k].std(ddof=1) / np.sqrt(len(losses))
            cells = " ".join(f"{above[part[some], k].mean():+.1f}" for part in parts)
            print(
                *each,
                f"{losses[:, k].mean():.5f} {above[:, k].mean():+.1f} ({error:.1f})",
                f"{np.median(above[:, k]):+.1f};",
                cells,
            )


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "contexts":
        contexts(int(rest[0]) if rest else 5)
    elif what == "arena":
        arena(rest)
    elif what == "panel":
        panel(rest)
    elif what == "ppr":
        ppr(rest[0], int(rest[1]) if len(rest) > 1 else 100)
    elif what == "prior":
        prior(int(rest[0]) if rest else 2)
