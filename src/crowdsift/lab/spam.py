"""Add spammers to real votes, to test a method."""

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.numeric import Indices
from crowdsift.votes.comparisons import Comparisons, encoded_again
from crowdsift.votes.graph import pair_codes

# The answers of a spammer: random for every vote, always one side, or the opposite of another worker's; "combined" is a
# quarter of each.
KINDS = ("random", "left", "right", "adversarial", "combined")


def add_spammers(votes: Comparisons, kind: str, percent: float, seed: int = 0) -> Comparisons:
    """Add workers who spam, as a percentage of the present workers.

    Each casts as many votes as the mean worker (rounded down), on pairs drawn with replacement from the votes. If sides
    are unknown, every pair first gets one random side for all workers (`with_sides`); side spammers then agree with
    each other.

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
    votes = with_sides(votes, rng)
    each = max(int(votes.total_weight / votes.n_workers), 1)
    rows = rng.choice(len(votes), size=spammers * each, p=votes.weight / votes.weight.sum(dtype=np.float64))
    kinds = _kinds(kind, spammers)
    outcome = votes.outcome[rows]
    by_row = np.repeat(kinds, each)
    coin = rng.integers(0, 2, size=len(rows)).astype(np.float32)
    for name, answer in (
        ("random", coin),
        ("left", np.ones(len(rows), np.float32)),
        ("right", np.zeros(len(rows), np.float32)),
        ("adversarial", 1.0 - outcome),
    ):
        outcome = np.where(by_row == name, answer, outcome)
    return _joined(votes, rows, outcome.astype(np.float32), kinds, each)


def with_sides(votes: Comparisons, rng: np.random.Generator) -> Comparisons:
    """Return the votes with sides; if they are unknown, every pair gets one random side."""
    if votes.sides_known:
        return votes
    _, pair = pair_codes(votes.first, votes.second, votes.n_items)
    low_is_left = rng.integers(0, 2, size=int(pair.max()) + 1).astype(bool)[pair]
    swap = (votes.first < votes.second) != low_is_left
    return encoded_again(
        votes.with_features(None),
        first=np.where(swap, votes.second, votes.first),
        second=np.where(swap, votes.first, votes.second),
        outcome=np.where(swap, 1.0 - votes.outcome, votes.outcome).astype(np.float32),
        sides_known=True,
    )


def write_votes(votes: Comparisons, path: str | os.PathLike[str]) -> None:
    """Write votes with sides as left,right,winner,worker: one row per vote."""
    # Votes with fractional weight are written once, with a further column weight.
    import csv
    from pathlib import Path

    from crowdsift.io.files import replace_file

    whole = bool((votes.weight == np.floor(votes.weight)).all())
    with replace_file(Path(path)) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["left", "right", "winner", "worker", *([] if whole else ["weight"])])
        writer.writerows(_rows(votes, whole))


def _rows(votes: Comparisons, whole: bool) -> Iterator[tuple[object, ...]]:
    answer = {1.0: "left", 0.0: "right", 0.5: "tie"}
    codes = zip(
        votes.first, votes.second, votes.outcome.tolist(), votes.worker_codes(), votes.weight.tolist(), strict=True
    )
    for first, second, outcome, worker, weight in codes:
        row = (votes.items[first], votes.items[second], answer[outcome], votes.workers[worker])
        if whole:
            yield from [row] * int(weight)
        else:
            yield (*row, weight)


def _kinds(kind: str, spammers: int) -> NDArray[np.str_]:
    if kind != "combined":
        return np.full(spammers, kind)
    return np.sort(np.arange(spammers) % 4).astype(int).choose(KINDS[:4])


def _joined(
    votes: Comparisons, rows: Indices, outcome: NDArray[np.float32], kinds: NDArray[np.str_], each: int
) -> Comparisons:
    width = len(str(len(kinds)))
    names = [f"spam-{kind}-{number + 1:0{width}d}" for number, kind in enumerate(kinds)]
    taken = {str(label) for label in votes.workers}
    while taken & set(names):
        names = [f"{name}'" for name in names]
    labels = np.empty(votes.n_workers + len(names), dtype=object)
    labels[:] = [*votes.workers, *names]
    order = sorted(range(len(labels)), key=lambda code: (type(labels[code]).__name__, labels[code]))
    code = np.empty(len(labels), np.uint32)
    code[order] = np.arange(len(labels), dtype=np.uint32)
    spammer = np.repeat(np.arange(votes.n_workers, len(labels), dtype=np.uint32), each)
    return encoded_again(
        votes.with_features(None),
        first=np.concatenate([votes.first, votes.first[rows]]),
        second=np.concatenate([votes.second, votes.second[rows]]),
        worker=code[np.concatenate([votes.worker_codes(), spammer])],
        outcome=np.concatenate([votes.outcome, outcome]),
        weight=np.concatenate([votes.weight, np.ones(len(rows), np.float32)]),
        workers=labels[order],
    )
