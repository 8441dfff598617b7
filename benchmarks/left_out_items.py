"""Items that nobody compared: their order by features, ours and by ridge reward models.

Run with ``python -m benchmarks.left_out_items FILE [--rows KIND-PERCENT ...] [--seeds N] [--parts N] [--oracle] [--data
FOLDER]``. A seed divides the passages of `passage.csv` into five parts; one, or each in turn, has no votes, the others
may have spammers of that seed. Every fit is a line of FILE, written as it comes: what is there already is not run
again, so that a run can be cut short, and several may share the work with files of their own. ``--table`` prints the
means over seeds of all files given, with standard errors, and those of the paired differences. Penalties of the rivals
are chosen by left-out votes, shares by evidence, nothing by the truth.

What could be had at most: an oracle who leaves out all votes of spammers has the fits of the row none on the same
splits, since spammers are added to the votes that are there (checked in every run); one who turns their answers round
is the ridge of ``--oracle``, run by itself.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import crowdsift
from benchmarks.features import fit, mean, passages, spammed
from crowdsift.io.items import block_values, read_features_table, with_item_features
from crowdsift.numeric.metrics import measure
from crowdsift.votes.comparisons import Comparisons

ROWS = ("none-0", "adversarial-40", "adversarial-80", "random-40", "random-80", "opposed-40", "opposed-80")
PARTS = 5
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
RIVALS = ("ridge", "ridge, votes weighted")
TURNED = "ridge, spammers turned"


def ridge(
    votes: Comparisons, beta: np.ndarray, gram: np.ndarray, penalty: float, start: np.ndarray, tolerance: float = 1e-6
) -> np.ndarray:
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


def tuned_ridge(votes: Comparisons, beta: np.ndarray, gram: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Return the ridge whose penalty predicts a fifth of the votes best, and that penalty."""
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
        given.items[given.first],
        given.items[given.second],
        outcome=outcome,
        weight=given.weight,
        worker=given.workers[given.worker_codes()],
    )


class Texts:
    """Features of the passages, made once for all rows of a seed and a part."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts, self._key = texts, ("",)
        self._made: tuple[Any, np.ndarray, np.ndarray] | None = None

    def of(self, known: Comparisons, away: dict[str, list[str]]) -> tuple[Comparisons, np.ndarray, np.ndarray]:
        """Return the votes with features, products of those of all items, and with those of others."""
        key = (*known.items, "", *away["item"])
        if self._made is None or key != self._key:
            features = with_item_features(known, text=self._texts).item_features
            assert features is not None
            new = read_features_table(features.blocks, away)
            gram = sum(0.5 * g.values.astype(float) @ g.values.T.astype(float) for g in features.blocks)
            cross = sum(0.5 * block_values(g, new) @ g.values.T for g in features.blocks)
            self._key, self._made = key, (features, np.asarray(gram), np.asarray(cross))
        return replace(known, item_features=self._made[0]), *self._made[1:]


class Split(NamedTuple):
    """Votes on four fifths of the items, and the other items with their grades."""

    known: Comparisons
    spam: np.ndarray  # whether a vote is a spammer's
    away: dict[str, list[str]]
    grades: np.ndarray


def split(votes: Comparisons, texts: dict[str, str], truth: dict[str, float], row: str, seed: int, part: int) -> Split:
    """One part left out, under the spammers of one seed."""
    kind, percent = row.split("-")
    hidden = np.random.default_rng(seed).permutation(votes.n_items) % PARTS == part
    seen = votes.select(~hidden[votes.first] & ~hidden[votes.second])
    if kind == "opposed":
        given = opposed(seen, truth, int(percent), seed)
    else:
        given = spammed(seen, kind, int(percent), seed)
    worker = given.workers[given.worker_codes()]
    known = Comparisons.from_arrays(
        given.items[given.first], given.items[given.second], outcome=given.outcome, weight=given.weight, worker=worker
    )
    spam = ~np.isin(worker, seen.workers)
    if _votes_of(given, ~spam) != _votes_of(seen, np.full(len(seen), True)):
        raise RuntimeError("without spammers the votes are not those of the row none")
    away = [str(item) for item in votes.items[hidden]]
    y = np.array([truth[item] for item in away])
    return Split(known, spam, {"item": away, "text": [texts[item] for item in away]}, y)


def _votes_of(votes: Comparisons, chosen: np.ndarray) -> Counter[tuple[str, str, str]]:
    """How often a worker preferred an item to another."""
    won = votes.outcome > 0.5
    rows = zip(
        votes.items[np.where(won, votes.first, votes.second)][chosen],
        votes.items[np.where(won, votes.second, votes.first)][chosen],
        votes.workers[votes.worker_codes()][chosen],
        votes.weight[chosen],
        strict=True,
    )
    found = Counter[tuple[str, str, str]]()
    for best, worst, worker, weight in rows:
        found[str(best), str(worst), str(worker)] += int(weight)
    return found


def one(given: Split, made: Texts, seed: int) -> dict[str, Any]:
    """Accuracies of one part left out."""
    known, y = given.known, given.grades
    featured, gram, cross = made.of(known, given.away)
    started = time.process_time()
    ours = fit(featured)
    found: dict[str, Any] = {"sift": measure(ours.score(given.away)["score"], y).accuracy}
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
        **found,
        "used": about["used"],
        "own_share": about.get("own_share"),
        "converged": ours.converged,
        "iterations": ours.summary["iterations"],
        "seconds": round(seconds, 2),
    }


def oracle(given: Split, made: Texts, seed: int) -> dict[str, Any]:
    """Accuracy of the ridge on votes whose spammers' answers are turned round."""
    _, gram, cross = made.of(given.known, given.away)
    a, penalty = tuned_ridge(given.known, np.where(given.spam, -1.0, 1.0), gram, seed)
    return {TURNED: measure(cross @ a, given.grades).accuracy, f"penalty of {TURNED}": penalty}


def read(files: list[Path]) -> dict[tuple[str, int, int], dict[str, Any]]:
    """All lines of the files that there are, those of one split together."""
    lines = [json.loads(line) for file in files if file.exists() for line in file.open()]
    known: dict[tuple[str, int, int], dict[str, Any]] = {}
    for each in lines:
        known.setdefault((each["row"], each["seed"], each["part"]), {}).update(each)
    return known


def table(files: list[Path]) -> None:
    """Return a line per row: means over seeds of the mean over the five parts.

    The last columns are what an oracle would have on the same splits, and sift without those fits whose scores are
    upside down, where which end is up is not settled.
    """
    known = read(files)
    heads = (
        "spammers",
        "seeds (fits)",
        "sift",
        *RIVALS,
        *(f"sift - {name}" for name in RIVALS),
        "sift, spammers left out",
        "ridge, spammers left out",
        TURNED,
        "spammers left out: sift - ridge on all",
        "upside down",
        "sift right side up",
    )
    print(f"| {' | '.join(heads)} |")
    print("|" + "---|" * len(heads))
    for row in ROWS:
        seeds = sorted({seed for each, seed, _ in known if each == row})
        if not seeds:
            continue
        fits = {s: [known[key] for key in known if key[:2] == (row, s)] for s in seeds}
        clean = {s: [known.get(("none-0", s, each["part"]), {}) for each in fits[s]] for s in seeds}

        def means(name: str, of: dict[int, list[dict[str, Any]]]) -> np.ndarray:
            return np.array([np.mean([each.get(name, np.nan) for each in of[s]]) for s in of])

        up = {s: [each for each in fits[s] if each["sift"] > 0.5] for s in seeds}
        by_name = {name: means(name, fits) for name in ("sift", *RIVALS)}
        cells = [*by_name.values(), *(by_name["sift"] - by_name[name] for name in RIVALS)]
        cells += [means("sift", clean), means("ridge", clean), means(TURNED, fits)]
        cells.append(means("sift", clean) - by_name["ridge"])
        shown = [mean(list(values)).split(" (")[0] for values in cells]
        number = sum(map(len, fits.values()))
        shown += [str(number - sum(map(len, up.values()))), mean(list(means("sift", up)))]
        print(f"| {row.replace('-', ' ')} % | {len(seeds)} ({number}) | {' | '.join(shown)} |")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--parts", type=int, default=PARTS, help="of each seed")
    parser.add_argument("--data")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--oracle", action="store_true", help="run what an oracle would have")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.table:
        table(options.files)
        return
    votes, texts, truth = passages(options)
    known, made = read(options.files), Texts(texts)
    name, run = (TURNED, oracle) if options.oracle else ("sift", one)
    for shift in range(options.parts):
        for seed in range(options.first, options.seeds):
            part = (seed + shift) % PARTS
            for row in options.rows:
                if name not in known.get((row, seed, part), {}):
                    found = run(split(votes, texts, truth, row, seed, part), made, seed)
                    line = {"row": row, "seed": seed, "part": part, **found}
                    with options.files[0].open("a") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
