"""Items that nobody compared: their order by features, ours and by ridge reward models.

Run with ``python -m benchmarks.left_out_items FILE [--rows KIND-PERCENT ...] [--seeds N]
[--parts N] [--data FOLDER]``. A seed divides the passages of `passage.csv` into five parts; one,
or each in turn, has no votes, the others may have spammers of that seed. Every fit is a line of
FILE, written as it comes: what is there already is not run again, so that a run can be cut short,
and several may share the work with files of their own. ``--table`` prints the means over seeds of
all files given, with standard errors, and those of the paired differences. Penalties of the rivals
are chosen by left-out votes, shares by evidence, nothing by the truth.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from benchmarks.features import fit, mean, passages, spammed
from crowdsift.io.item_features import group_values, read_features_table, with_item_features
from crowdsift.numeric.metrics import measure
from crowdsift.votes.comparisons import Comparisons

ROWS = ("none-0", "adversarial-40", "adversarial-80", "random-40", "random-80", "opposed-40",
        "opposed-80")  # fmt: skip
PARTS = 5
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
RIVALS = ("ridge", "ridge, votes weighted")


def ridge(
    votes: Comparisons, beta: np.ndarray, gram: np.ndarray, penalty: float, start: np.ndarray,
    tolerance: float = 1e-6,
) -> np.ndarray:  # fmt: skip
    """Dual weights a, scores being gram·a: Σ -log σ(β d) + ½ penalty aᵀ gram a, by Newton."""
    a, n = start, len(gram)
    first, second = votes.first.astype(np.intp), votes.second.astype(np.intp)
    for _ in range(50):
        f = gram @ a
        p = 1.0 / (1.0 + np.exp(-beta * (f[first] - f[second])))
        slope = votes.weight * beta * (votes.outcome - p)
        w = votes.weight * beta**2 * p * (1.0 - p)
        b = np.bincount(first, slope, n) - np.bincount(second, slope, n)
        L = -np.bincount(first * n + second, w, n * n).reshape(n, n)
        L += L.T
        L[np.diag_indices(n)] -= L.sum(axis=1)
        before, a = a, np.linalg.solve(L @ gram + penalty * np.eye(n), L @ f + b)
        if np.linalg.norm(gram @ (a - before)) <= tolerance * np.linalg.norm(gram @ a):
            return a
    raise RuntimeError(f"Newton's method has not converged at penalty {penalty}")


def tuned_ridge(
    votes: Comparisons, beta: np.ndarray, gram: np.ndarray, seed: int
) -> tuple[np.ndarray, float]:
    """The ridge whose penalty foretells a fifth of the votes best, and that penalty."""
    part = np.random.default_rng(seed).integers(0, 5, len(votes))
    kept, left = votes.select(part > 0), votes.select(part == 0)
    loss, a = {}, np.zeros(len(gram))
    for penalty in reversed(PENALTIES):
        a = ridge(kept, beta[part > 0], gram, penalty, a, 1e-3)  # its square by Newton's pace
        f = gram @ a
        d = beta[part == 0] * (f[left.first] - f[left.second])
        loss[penalty] = float(np.mean(np.logaddexp(0.0, -np.where(left.outcome > 0.5, d, -d))))
    best = min(loss, key=lambda each: loss[each])
    return ridge(votes, beta, gram, best, np.zeros(len(gram))), best


def opposed(votes: Comparisons, truth: dict[str, float], percent: int, seed: int) -> Comparisons:
    """With spammers who know the grades and always answer the opposite; equal ones by a coin.

    Those of `add_spammers` answer the opposite of what another worker said, right or wrong.
    """
    given = crowdsift.add_spammers(votes, "random", percent, seed)
    y = np.array([truth[str(item)] for item in given.items])
    gap = y[given.second] - y[given.first]
    spam = ~np.isin(given.workers, votes.workers)[given.worker_codes()] & (gap != 0.0)
    outcome = np.where(spam, gap > 0.0, given.outcome)
    return Comparisons.from_arrays(
        given.items[given.first], given.items[given.second], outcome=outcome,
        weight=given.weight, worker=given.workers[given.worker_codes()],
    )  # fmt: skip


class Texts:
    """Features of the passages, made once for all rows of a seed and a part."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts, self._key = texts, ("",)
        self._made: tuple[Any, np.ndarray, np.ndarray] | None = None

    def of(
        self, known: Comparisons, away: dict[str, list[str]]
    ) -> tuple[Comparisons, np.ndarray, np.ndarray]:
        """The votes with features, products of those of all items, and with those of others."""
        key = (*known.items, "", *away["item"])
        if self._made is None or key != self._key:
            features = with_item_features(known, text=self._texts).item_features
            assert features is not None
            new = read_features_table(features.groups, away)
            gram = sum(
                0.5 * g.values.astype(float) @ g.values.T.astype(float) for g in features.groups
            )
            cross = sum(0.5 * group_values(g, new) @ g.values.T for g in features.groups)
            self._key, self._made = key, (features, np.asarray(gram), np.asarray(cross))
        return replace(known, item_features=self._made[0]), *self._made[1:]


def one(
    votes: Comparisons, texts: dict[str, str], truth: dict[str, float], made: Texts, row: str,
    seed: int, part: int,
) -> dict[str, Any]:  # fmt: skip
    """Accuracies of one part left out, under the spammers of one seed."""
    kind, percent = row.split("-")
    hidden = np.random.default_rng(seed).permutation(votes.n_items) % PARTS == part
    seen = votes.select(~hidden[votes.first] & ~hidden[votes.second])
    if kind == "opposed":
        given = opposed(seen, truth, int(percent), seed)
    else:
        given = spammed(seen, kind, int(percent), seed)
    known = Comparisons.from_arrays(
        given.items[given.first], given.items[given.second], outcome=given.outcome,
        weight=given.weight, worker=given.workers[given.worker_codes()],
    )  # fmt: skip
    away = [str(item) for item in votes.items[hidden]]
    y = np.array([truth[item] for item in away])
    table = {"item": away, "text": [texts[item] for item in away]}
    featured, gram, cross = made.of(known, table)
    started = time.process_time()
    ours = fit(featured)
    found: dict[str, Any] = {"sift": measure(ours.score(table)["score"], y).accuracy}
    seconds = time.process_time() - started
    plain = fit(known)
    place = {who: at for at, who in enumerate(plain.worker_table["worker"])}
    reliability = plain.worker_table["reliability"][[place[w] for w in known.workers]]
    trusted = reliability[known.worker_codes()]
    for name, beta in zip(RIVALS, (np.ones(len(known)), trusted), strict=True):
        a, penalty = tuned_ridge(known, beta, gram, seed)
        found[name] = measure(cross @ a, y).accuracy
        found[f"penalty of {name}"] = penalty
    about = ours.summary["item_features"]
    return {
        "row": row, "seed": seed, "part": part, **found, "used": about["used"],
        "own_share": about.get("own_share"), "converged": ours.converged,
        "iterations": ours.summary["iterations"], "seconds": round(seconds, 2),
    }  # fmt: skip


def read(files: list[Path]) -> dict[tuple[str, int, int], dict[str, Any]]:
    """All lines of the files that there are."""
    lines = [json.loads(line) for file in files if file.exists() for line in file.open()]
    return {(each["row"], each["seed"], each["part"]): each for each in lines}


def table(files: list[Path]) -> None:
    """A line a row: means over seeds of the mean over the five parts."""
    known = read(files)
    heads = ("spammers", "seeds (fits)", "sift", *RIVALS, *(f"sift - {name}" for name in RIVALS))
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|")
    for row in ROWS:
        seeds = sorted({seed for each, seed, _ in known if each == row})
        if not seeds:
            continue
        fits = {s: [known[key] for key in known if key[:2] == (row, s)] for s in seeds}
        by_name = {
            name: np.array([np.mean([each[name] for each in fits[s]]) for s in seeds])
            for name in ("sift", *RIVALS)
        }
        cells = [mean(list(values)) for values in by_name.values()]
        cells += [mean(list(by_name["sift"] - by_name[name])) for name in RIVALS]
        shown = " | ".join(cell.split(" (")[0] for cell in cells)
        count = f"{len(seeds)} ({sum(map(len, fits.values()))})"
        print(f"| {row.replace('-', ' ')} % | {count} | {shown} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--parts", type=int, default=PARTS, help="of each seed")
    parser.add_argument("--data")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.table:
        table(options.files)
        return
    votes, texts, truth = passages(options)
    known, made = read(options.files), Texts(texts)
    for shift in range(options.parts):
        for seed in range(options.first, options.seeds):
            part = (seed + shift) % PARTS
            for row in options.rows:
                if (row, seed, part) not in known:
                    found = one(votes, texts, truth, made, row, seed, part)
                    with options.files[0].open("a") as file:
                        file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
