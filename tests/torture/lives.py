"""Lives of fits: votes arrive, are fitted, saved, loaded, updated and shown in any order.

After every step the fit holds the votes that came in, no more and no less, and what shaped the first fit: gold, sides,
ties, meanings of answers, conditions, contexts, pseudonyms, dimensions, trusted panels, grades, rankings. A fit that
went on from an earlier one agrees with one of all votes at once, or the step was refused.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from crowdsift import Comparisons, InputError, RequestError
from crowdsift.models import MODELS

WORDS = {"left": "A is better", "right": "B is better", "tie": "same"}
# What a folder does not keep: an update must refuse these, and may refuse nothing else.
NOT_KEPT = ("items", "classes", "covariates", "dependent_by")


def case(seed: int, folder: Path) -> None:
    """Up to seven steps of one life of any kind, or up to six of one of `sift` alone."""
    rng = random.Random(seed)
    if rng.random() < 0.3:
        sift_life(seed, folder)
        return
    life = Life(rng, folder, *drawn_kind(rng, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdsift.SignWarning)
        warnings.simplefilter("ignore", crowdsift.ConvergenceWarning)
        life.begin()
        for _ in range(rng.randrange(3, 8)):
            rng.choice((life.save, life.update, life.update, life.start, life.show, life.again))()


def drawn_kind(rng: random.Random, seed: int) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Rows of votes, and the options of their fit."""
    if rng.random() < 0.1:
        return drawn_rankings(rng, seed)
    lies = rng.random() < 0.3
    reliability = rng.choice(((0.7, 2.0), (0.7, 2.0), (0.0, 0.3)))
    drawn = crowdsift.simulate(rng.choice((6, 20)), rng.choice((3, 10)), 1500, reliability=reliability, seed=seed)
    votes, n = drawn.comparisons(), 700
    chosen = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(votes)), votes.weight.astype(int)))[:n]
    answers = ["left" if y else "right" for y in (votes.outcome[chosen] > 0.5) != lies]
    if rng.random() < 0.3:
        answers = ["tie" if rng.random() < 0.2 else answer for answer in answers]
    rows: dict[str, list[Any]] = {
        "left": votes.items[votes.first[chosen]].tolist(),
        "right": votes.items[votes.second[chosen]].tolist(),
        "winner": answers,
        "worker": votes.workers[votes.worker_codes()[chosen]].tolist(),
        "id": [f"row {number}" for number in range(n)],
    }
    method = rng.choice(["sift"] * 6 + [name for name in MODELS if name != "sift"])
    options: dict[str, Any] = {"method": method, "threads": 1, "unique": "id"}
    if lies or rng.random() < 0.2:
        options["gold"] = gold_of(drawn)
    if rng.random() < 0.3:
        number = {"left": 1.0, "right": 0.0, "tie": 0.5}
        rows["first"], rows["second"] = rows.pop("left"), rows.pop("right")
        rows["outcome"] = [number[answer] for answer in rows.pop("winner")]
        options["sides"] = method == "factor-bt" or rng.choice((None, True, False))
    elif method in ("sift", "bt", "hbtl") and rng.random() < 0.2:
        steps = {"left": (1, 2), "tie": (3,), "right": (4, 5)}
        rows["rating"] = [rng.choice(steps[answer]) for answer in rows.pop("winner")]
    elif rng.random() < 0.4:
        rows["winner"] = [WORDS[answer] for answer in answers]
        options["values"] = {word: meaning for meaning, word in WORDS.items()}
    if rng.random() < 0.2:
        rows["state"] = [rng.choice(("kept", "kept", "not")) for _ in range(n)]
        options["where"] = "state = 'kept'"
    _with_more(rng, rows, options, drawn, n)
    if rng.random() < 0.15:
        options["hide_workers"] = True
    return rows, options


def drawn_rankings(rng: random.Random, seed: int) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Rows of rankings, of a few items each, and the options of their fit."""
    drawn = crowdsift.simulate(20, 8, 100, reliability=(0.5, 3.0), seed=seed)
    score, workers = dict(zip(drawn.items, drawn.scores, strict=True)), [f"w{k}" for k in range(8)]
    beta = {worker: rng.choice((0.0, 1.0, 3.0)) for worker in workers}
    rows: dict[str, list[Any]] = {"worker": rng.choices(workers, k=700), "ranking": [], "id": list(range(700))}
    for worker in rows["worker"]:
        some = rng.sample(list(score), rng.choice((2, 3, 5)))
        some.sort(key=lambda item: -beta[worker] * score[item] + np.log(rng.expovariate(1.0)))
        rows["ranking"].append("".join(item + rng.choice(">>>=") for item in some)[:-1])
    options = {"method": rng.choice(("sift", "sift", "bt", "hbtl")), "threads": 1, "unique": "id"}
    return rows, options | ({"gold": gold_of(drawn)} if rng.random() < 0.3 else {})


def gold_of(drawn: Any) -> dict[str, list[Any]]:
    """The best three items, each above one of the worst three."""
    order = np.asarray(drawn.items)[np.argsort(-np.asarray(drawn.scores))].tolist()
    return {"winner": order[:3], "loser": order[::-1][:3]}


def _with_more(rng: random.Random, rows: dict[str, list[Any]], options: dict[str, Any], drawn: Any, n: int) -> None:
    """Add contexts, or one thing that a folder does not keep, to some lives."""
    kind, method = rng.random(), options["method"]
    if method == "barp":
        options["classes"] = {item: item[-1] for item in drawn.items}
    elif kind < 0.15:
        rows["topic"] = [rng.choice(("law", "art")) for _ in range(n)]
        options |= {"by": "topic", "gold": None}
    elif kind < 0.3 and method in ("sift", "bora-map"):
        noise = np.random.default_rng(n).normal(size=len(drawn.items))
        values = np.asarray(drawn.scores) * rng.choice((0.0, 1.0)) + noise
        options["items"] = {"item": list(drawn.items), "x": values.tolist()}
    elif kind < 0.4 and method in ("sift", "factor-bt"):
        rows["chars"] = np.random.default_rng(n).normal(size=n).tolist()
        options["covariates"] = ["chars"]
    elif kind < 0.5 and method == "bt":
        rows["prompt"] = [f"p{rng.randrange(40)}" for _ in range(n)]
        options["dependent_by"] = "prompt"
    elif kind < 0.5 and method == "sift":
        rows["panel"] = [("human", "llm", "llm")[int(worker[1:]) % 3] for worker in rows["worker"]]
        options["trusted"] = {"panel": "human"}
    elif kind < 0.7 and method == "sift":
        options["dimensions"] = rng.choice((1, 2, 2, 3))


@dataclass
class Life:
    """A fit, the rows that it should hold, and the fit of these at once."""

    rng: random.Random
    folder: Path
    rows: dict[str, list[Any]]
    options: dict[str, Any]
    count: int = 0
    fit: Any = field(default=None, repr=False)

    def begin(self) -> None:
        self.count = self.rng.choice((200, 300, 400))
        self.fit = self.at_once(self.count)
        if self.options.get("hide_workers"):
            assert not set(self.fit.worker_table["worker"]) & set(self.rows["worker"])

    def part(self, begin: int, end: int) -> Any:
        """Rows as a file or as columns."""
        some = {name: column[begin:end] for name, column in self.rows.items()}
        if self.rng.random() < 0.5:
            return some
        path = self.folder / "rows.csv"
        lines = [",".join(map(str, row)) for row in zip(*some.values(), strict=True)]
        path.write_text("\n".join([",".join(some), *lines]) + "\n")
        return path

    def at_once(self, count: int) -> Any:
        """The fit of the first rows, with all options."""
        return crowdsift.fit(self.part(0, count), **self.options)

    def save(self) -> None:
        self.fit.save(self.folder / "fit")
        loaded = crowdsift.load(self.folder / "fit")
        assert loaded.item_table.to_csv() == self.fit.item_table.to_csv()
        assert loaded.worker_table.to_csv() == self.fit.worker_table.to_csv()
        self.fit = loaded

    def update(self) -> None:
        """New rows, some of which the fit has already."""
        more, before = self.rng.choice((1, 30, 100)), self.rng.choice((0, 0, 15))
        if self.count + more > len(self.rows["worker"]):
            return
        new = self.part(self.count - before, self.count + more)
        refused = any(self.options.get(name) is not None for name in NOT_KEPT)
        try:
            found = self.fit.update(new, threads=1)
        except RequestError:
            if not refused:
                raise
            return
        except InputError:  # the condition leaves out all of a few rows
            assert "where" in self.options
            return
        assert not refused, "an update without what it does not keep"
        self.go_on(found, self.count + more)
        if before and not self.options.get("where"):
            assert found.summary["intake"]["known"] >= before

    def start(self) -> None:
        """All rows from where the fit ended; gold comes with the fit."""
        if self.options["method"] != "sift" or self.options.get("covariates"):
            return
        more = self.rng.choice((1, 30))
        if self.count + more > len(self.rows["worker"]):
            return
        options = {name: value for name, value in self.options.items() if name != "gold"}
        start: Any = self.fit
        if self.rng.random() < 0.5:
            self.fit.save(self.folder / "start")
            start = self.folder / "start"
        found = crowdsift.fit(self.part(0, self.count + more), start=start, **options)
        self.go_on(found, self.count + more)

    def go_on(self, found: Any, count: int) -> None:
        """Compare with the fit of all rows at once."""
        whole = self.at_once(count)
        assert abs(found.summary["votes"] - whole.summary["votes"]) <= 1e-6 * count  # pairs of rankings weigh 2/n
        for name in ("items", "workers", "sides_known", "by", "components", "dimensions"):
            assert found.summary.get(name) == whole.summary.get(name), name
        for name in ("gold_agree", "gold_disagree"):
            assert (found.summary.get(name) is None) == (whole.summary.get(name) is None), name
        assert found.parameters == whole.parameters
        agree(found, whole)
        ours, theirs = found.worker_table, whole.worker_table
        assert ours["worker"].tolist() == theirs["worker"].tolist()
        np.testing.assert_allclose(ours["comparisons"], theirs["comparisons"], 1e-6 if "ranking" in self.rows else 0.0)
        if found.method == "sift":
            np.testing.assert_allclose(ours["reliability"], theirs["reliability"], 0.01, 0.02)
        elif "ranking" in self.rows:  # sums over rankings, in the order in which they came
            np.testing.assert_allclose(found.item_table["upper"], whole.item_table["upper"], 1e-9)
        else:
            assert found.item_table.to_csv() == whole.item_table.to_csv()
            assert ours.to_csv() == theirs.to_csv()
        self.fit, self.count = found, count

    def show(self) -> None:
        """Reports and exports leave the fit as it is."""
        before = self.fit.item_table.to_csv(), self.fit.worker_table.to_csv()
        self.fit.report(self.folder / "page.html", refit=False, threads=1)
        self.fit.to_json(), self.fit.leaderboard(), self.fit.decisions(), str(self.fit)
        assert (self.fit.item_table.to_csv(), self.fit.worker_table.to_csv()) == before

    def again(self) -> None:
        """Rows that the fit has, and no other, are refused."""
        count = self.rng.choice((1, 40))
        try:
            self.fit.update(self.part(self.count - count, self.count), threads=1)
        except crowdsift.CrowdsiftError:
            return
        raise AssertionError("votes were taken twice")


def sift_life(seed: int, folder: Path) -> None:
    """Up to six steps of one life of `sift` with sides, from votes that are read already."""
    rng = random.Random(seed)
    weak = rng.random() < 0.4
    size, reliability = (rng.choice((8, 20)), (0.0, 0.4)) if weak else (20, (0.5, 2.0))
    drawn = crowdsift.simulate(size, rng.choice((1, 3, 10)) if weak else 10, 1500, reliability=reliability, seed=seed)
    votes = drawn.comparisons()
    count = min(rng.choice((30, 100, 300) if weak else (200, 300, 400)), len(votes))
    held = part(votes, 0, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdsift.SignWarning)
        fit = crowdsift.fit(held, threads=1)
        for step in range(rng.randrange(2, 6)):
            kind = rng.choice(("save", "update", "start"))
            if kind == "save":
                fit.save(folder / "fit")
                loaded = crowdsift.load(folder / "fit")
                assert loaded.item_table.to_csv() == fit.item_table.to_csv()
                assert loaded.summary["votes"] == fit.summary["votes"]
                continue
            more = rng.choice((1, 30, 100))
            if count + more > len(votes):
                return
            new = part(votes, count, count + more)
            count += more
            held = held.extended(new)
            if kind == "update":
                fit = fit.update(new, threads=1)
            else:
                fit.save(folder / f"start-{step}")
                fit = crowdsift.fit(held, start=folder / f"start-{step}", threads=1)
            assert fit.summary["votes"] == count
            assert fit.converged
            agree(fit, crowdsift.fit(held, threads=1))


def part(votes: Comparisons, start: int, end: int) -> Comparisons:
    """Rows of the votes by a random but fixed order."""
    order = np.random.default_rng(0).permutation(len(votes))[start:end]
    chosen = np.zeros(len(votes), bool)
    chosen[order] = True
    kept = votes.select(chosen)
    return Comparisons.from_codes(
        kept.first,
        kept.second,
        worker=kept.worker_codes(),
        outcome=kept.outcome,
        weight=np.ones(len(kept), np.float32),
        items=kept.items,
        workers=kept.workers,
        sides_known=True,
    )


def agree(one: crowdsift.Fit, two: crowdsift.Fit) -> None:
    """The scores are the same to what a warm start leaves to go."""
    labels = sorted(one.labels)
    assert labels == sorted(two.labels)
    ours, theirs = one.scores_of(labels), two.scores_of(labels)
    np.testing.assert_allclose(ours, theirs, atol=5e-3 * max(1.0, float(np.abs(theirs).max())))
