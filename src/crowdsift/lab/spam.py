"""Add spammers to real votes, to test a method."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.numeric import Labels
from crowdsift.votes.choices import NOT_RANKED, Choices, votes_of_rankings
from crowdsift.votes.comparisons import Comparisons, Grades, encoded_again
from crowdsift.votes.graph import pair_codes

# The answers of a spammer: random for every vote, always one side, or the opposite of another worker's; "combined" is a
# quarter of each.
KINDS = ("random", "left", "right", "adversarial", "combined")


def add_spammers(votes: Comparisons, kind: str, percent: float, seed: int = 0) -> Comparisons:
    """Add workers who spam, as a percentage of the present workers.

    Each casts as many votes as the mean worker (rounded down), on pairs drawn with replacement from the votes. If sides
    are unknown, every pair first gets one random side for all workers (`with_sides`); side spammers then agree with
    each other. Among rankings they add ones of drawn sets, in random order or (adversarial) in the reverse order.

    Parameters
    ----------
    votes
        Decided votes and ties; soft outcomes cannot be spammed.
    kind
        One of `KINDS`.
    percent
        100 adds as many spammers as there are workers.
    seed
        The same seed adds the same spammers.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=9, workers=10, comparisons=100, seed=1).comparisons()
    >>> crowdsift.add_spammers(votes, "left", 50)
    Comparisons(150 votes in ... distinct rows, 9 items, 15 workers, sides known)
    """
    if kind not in KINDS:
        raise RequestError(f"unknown kind of spam {kind!r}; the kinds are {', '.join(KINDS)}")
    if not votes.has_workers:
        raise RequestError("spammers are added to workers, and these votes have none")
    if not np.isin(votes.outcome, (0.0, 0.5, 1.0)).all():
        raise RequestError("spammers are added to votes for one side or ties, not soft outcomes")
    if not np.isfinite(percent) or (spammers := int(votes.n_workers * percent / 100 + 1e-9)) < 1:
        raise RequestError(
            f"{percent:g} % of {votes.n_workers} workers adds no one; give at least {100 / votes.n_workers:.3g}"
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    kinds = _kinds(kind, spammers)
    names = _names(votes, kinds)
    if votes.choices is not None:
        return votes.extended(_rankings(votes, votes.choices, kinds, names, rng))
    votes = with_sides(votes.with_features(None), rng)
    rows = Grades.of_votes(votes)
    each = max(int(votes.total_weight / votes.n_workers), 1)
    chance = rows.weight / rows.weight.sum(dtype=np.float64)
    drawn = rows.select(rng.choice(len(chance), size=spammers * each, p=chance))
    outcome, by_row = drawn.outcome, np.repeat(kinds, each)
    coin = rng.integers(0, 2, size=len(outcome)).astype(np.float32)
    for name, answer in (
        ("random", coin),
        ("left", np.ones(len(outcome), np.float32)),
        ("right", np.zeros(len(outcome), np.float32)),
        ("adversarial", 1.0 - outcome),
    ):
        outcome = np.where(by_row == name, answer, outcome)
    spam = drawn._replace(
        outcome=outcome.astype(np.float32),
        worker=np.repeat(np.arange(spammers, dtype=np.uint32), each),
        weight=np.ones(len(outcome), np.float32),
        level=np.where(outcome == 0.5, 0, np.maximum(drawn.level, 1)),
    )
    return votes.extended(_of_rows(votes, spam, workers=names))


def _of_rows(votes: Comparisons, rows: Grades, **changed: object) -> Comparisons:
    """Return votes with these rows, and with their grades if the votes have grades."""
    columns = rows._asdict()
    level = columns.pop("level")
    made = encoded_again(votes, **columns, **changed)
    return made if votes.grades is None else replace(made, grades=rows.select(level > 0))


def _rankings(
    votes: Comparisons, choices: Choices, kinds: NDArray[np.str_], names: Labels, rng: np.random.Generator
) -> Comparisons:
    """Return rankings like those of the workers, with their items in random or in reverse order."""
    if not set(kinds) <= {"random", "adversarial"}:
        raise RequestError("rankings have no sides: spammers among them are random or adversarial")
    _, known, max_diff, often = zip(*choices.rankings(), strict=True)
    each = max(int(sum(often) / votes.n_workers), 1)
    drawn = rng.choice(len(known), size=len(kinds) * each, p=np.array(often) / sum(often))
    rankings = []
    for pick, own in zip(drawn.tolist(), np.repeat(kinds, each), strict=True):
        items, ranks = zip(*known[pick], strict=True)
        order = items[::-1] if own == "adversarial" else rng.permutation(items).tolist()
        rankings.append(tuple(zip(order, ranks, strict=True)))
    worker = np.repeat(np.arange(len(kinds)), each).tolist()
    return replace(votes_of_rankings(rankings, worker, (votes.items, names), any(max_diff)), by=votes.by)


def with_sides(votes: Comparisons, rng: np.random.Generator) -> Comparisons:
    """Return the votes with sides; if they are unknown, every pair gets one random side."""
    if votes.sides_known:
        return votes
    rows = Grades.of_votes(votes)
    _, pair = pair_codes(rows.first, rows.second, votes.n_items)
    low_is_left = rng.integers(0, 2, size=int(pair.max()) + 1).astype(bool)[pair]
    swap = (rows.first < rows.second) != low_is_left
    sided = rows._replace(
        first=np.where(swap, rows.second, rows.first),
        second=np.where(swap, rows.first, rows.second),
        outcome=np.where(swap, 1.0 - rows.outcome, rows.outcome).astype(np.float32),
    )
    return _of_rows(votes, sided, sides_known=True)


def write_votes(votes: Comparisons, path: str | os.PathLike[str]) -> None:
    """Write votes as left,right,winner,worker, one row per vote, or rankings."""
    # Votes with fractional weight are written once, with a further column weight.
    import csv
    from pathlib import Path

    from crowdsift.io.files import replace_file

    with replace_file(Path(path)) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(_rows(votes) if votes.choices is None else _ranking_rows(votes, votes.choices))


def _rows(votes: Comparisons) -> Iterator[tuple[object, ...]]:
    whole = bool((votes.weight == np.floor(votes.weight)).all())
    yield ("left", "right", "winner", "worker", *([] if whole else ["weight"]))
    plain = {1.0: "left", 0.0: "right", 0.5: "tie"} if votes.grades is None else {}
    for first, second, outcome, worker, weight, level in zip(
        *(x.tolist() for x in Grades.of_votes(votes)), strict=True
    ):
        answer = plain or {1.0: f"a{'>' * level}b", 0.0: f"b{'>' * level}a", 0.5: "a=b"}
        row = (votes.items[first], votes.items[second], answer[outcome], votes.workers[worker])
        yield from [row] * int(weight) if whole else [(*row, weight)]


def _ranking_rows(votes: Comparisons, choices: Choices) -> Iterator[tuple[object, ...]]:
    """Yield a header and rows: worker,task,item,rank, or worker,best,worst,items."""
    known = list(choices.rankings())
    if any(abs(often - round(often)) > 1e-6 for *_, often in known):
        raise RequestError("rankings with votes of fractional weight cannot be written: a ranking has no weight")
    max_diff = any(best_worst for _, _, best_worst, _ in known)
    yield ("worker", "best", "worst", "items") if max_diff else ("worker", "task", "item", "rank")
    task = 0
    for worker, ranking, _, often in known:
        labels = [votes.items[item] for item, _ in ranking]
        for task in range(task + 1, task + 1 + round(often)):  # noqa: B020
            if max_diff:
                yield votes.workers[worker], labels[0], labels[-1], json.dumps(labels)
                continue
            for label, (_, rank) in zip(labels, ranking, strict=True):
                yield votes.workers[worker], task, label, "" if rank == NOT_RANKED else int(rank) + 1


def _kinds(kind: str, spammers: int) -> NDArray[np.str_]:
    if kind != "combined":
        return np.full(spammers, kind)
    return np.sort(np.arange(spammers) % 4).astype(int).choose(KINDS[:4])


def _names(votes: Comparisons, kinds: NDArray[np.str_]) -> Labels:
    width = len(str(len(kinds)))
    names = [f"spam-{kind}-{number + 1:0{width}d}" for number, kind in enumerate(kinds)]
    taken = {str(label) for label in votes.workers}
    while taken & set(names):
        names = [f"{name}'" for name in names]
    return np.array(names, dtype=object)
