"""Comparisons: what collapsing, order and orientation promise to everything built on them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import crowdsift
from crowdsift import Comparisons, InputError, RequestError
from crowdsift.io.ingest import read

ARRAYS = ("first", "second", "outcome", "weight", "offsets")


def bytes_of(votes: Comparisons) -> list[bytes]:
    arrays = [getattr(votes, name) for name in ARRAYS]
    if votes.features is not None:
        arrays.append(votes.features)
    return [array.tobytes() for array in arrays]


def rows_of(votes: Comparisons) -> list[tuple[Any, ...]]:
    """(worker, first, second, outcome, weight) with labels."""
    return [
        (votes.workers[s], votes.items[i], votes.items[j], float(y), float(w))
        for s, i, j, y, w in zip(
            votes.worker_codes(), votes.first, votes.second, votes.outcome, votes.weight, strict=True
        )
    ]


@st.composite
def vote_lists(draw: st.DrawFn) -> list[tuple[str, str, str, float, float]]:
    label = st.sampled_from(["a", "b", "c", "é", "Z", "10", "9"])
    vote = st.tuples(
        label,
        label,
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0]),
        st.sampled_from([1.0, 2.0, 0.1, 1e-3, 1e6]),
    )
    return draw(st.lists(vote.filter(lambda v: v[0] != v[1]), min_size=1, max_size=40))


def build(votes: list[tuple[str, str, str, float, float]], **options: Any) -> Comparisons:
    first, second, worker, outcome, weight = (list(column) for column in zip(*votes, strict=True))
    return Comparisons.from_arrays(first, second, worker=worker, outcome=outcome, weight=weight, **options)


def test_types_and_sizes() -> None:
    votes = Comparisons.from_arrays(["b", "a", "b"], ["a", "c", "a"], worker=[2, 1, 2])
    assert [getattr(votes, name).dtype for name in ARRAYS] == [np.uint32, np.uint32, np.float32, np.float32, np.int64]
    row = sum(getattr(votes, name).itemsize for name in ARRAYS[:4])
    assert row == 16
    assert votes.items.tolist() == ["a", "b", "c"]
    assert votes.workers.tolist() == [1, 2]
    assert votes.offsets.tolist() == [0, 1, 2]
    assert votes.rows == 3
    assert votes.total_weight == 3.0
    assert (len(votes), votes.n_items, votes.n_workers) == (2, 3, 2)


def test_equal_rows_collapse_but_a_win_and_a_loss_do_not() -> None:
    votes = Comparisons.from_arrays(["a", "b", "a", "a"], ["b", "a", "b", "b"], worker=[1, 1, 1, 2])
    assert rows_of(votes) == [(1, "a", "b", 1, 2), (1, "b", "a", 1, 1), (2, "a", "b", 1, 1)]


@given(vote_lists(), st.booleans())
def test_weight_of_three_equals_three_rows(votes: list[tuple[str, str, str, float, float]], sides: bool) -> None:
    once = build([(*vote[:4], 3.0) for vote in votes], sides_known=sides)
    thrice = build([(*vote[:4], 1.0) for vote in votes for _ in range(3)], sides_known=sides)
    assert bytes_of(once) == bytes_of(thrice)


@given(vote_lists(), st.booleans(), st.randoms(use_true_random=False))
def test_order_of_rows_changes_no_byte(
    votes: list[tuple[str, str, str, float, float]], sides: bool, random: Any
) -> None:
    shuffled = random.sample(votes, len(votes))
    one, two = build(votes, sides_known=sides), build(shuffled, sides_known=sides)
    assert bytes_of(one) == bytes_of(two)
    assert one.items.tolist() == two.items.tolist()
    assert one.workers.tolist() == two.workers.tolist()


@given(vote_lists())
def test_unknown_sides_forget_the_orientation(votes: list[tuple[str, str, str, float, float]]) -> None:
    exact = [vote for vote in votes if vote[3] != 0.7] or [("a", "b", "x", 0.5, 1.0)]
    turned = [(b, a, w, 1 - y, c) for a, b, w, y, c in exact]
    assert bytes_of(build(exact)) == bytes_of(build(turned))
    assert (build(exact).outcome >= 0.5).all()


@given(vote_lists())
def test_nothing_is_lost(votes: list[tuple[str, str, str, float, float]]) -> None:
    found = build(votes, sides_known=True)
    assert found.total_weight == pytest.approx(sum(vote[4] for vote in votes), rel=1e-5)
    totals: dict[tuple[Any, ...], float] = {}
    for first, second, worker, outcome, weight in votes:
        key = (worker, first, second, float(np.float32(outcome)))
        totals[key] = totals.get(key, 0.0) + weight
    assert {row[:4] for row in rows_of(found)} == set(totals)
    for row in rows_of(found):
        assert row[4] == pytest.approx(totals[row[:4]], rel=1e-5)


def test_sides_known_keeps_both_orientations() -> None:
    given_votes: dict[str, Any] = {"outcome": [1, 0, 0.5, 0.5], "worker": ["x"] * 4}
    first, second = ["a", "b", "a", "b"], ["b", "a", "b", "a"]
    known = Comparisons.from_arrays(first, second, sides_known=True, **given_votes)
    unknown = Comparisons.from_arrays(first, second, **given_votes)
    assert rows_of(known) == [
        ("x", "a", "b", 0.5, 1),
        ("x", "a", "b", 1, 1),
        ("x", "b", "a", 0, 1),
        ("x", "b", "a", 0.5, 1),
    ]
    assert rows_of(unknown) == [("x", "a", "b", 0.5, 2), ("x", "a", "b", 1, 2)]
    assert known.has_ties
    assert unknown.has_ties


def test_labels_of_mixed_type_stay_apart() -> None:
    first: Any = np.array([7, "7", "007"], dtype=object)
    second: Any = np.array(["7", "007", 7.5], dtype=object)
    votes = Comparisons.from_arrays(first, second, worker=np.array([1, "1", None == 1], object))
    assert votes.items.tolist() == [7, 7.5, "007", "7"]
    assert [type(label) for label in votes.items] == [int, float, str, str]
    assert votes.n_workers == 3


def test_without_workers() -> None:
    votes = Comparisons.from_arrays(["a", "a"], ["b", "b"])
    assert not votes.has_workers
    assert votes.workers.tolist() == [None]
    assert votes.offsets.tolist() == [0, 1]
    assert votes.weight.tolist() == [2.0]


def test_immutable() -> None:
    votes = Comparisons.from_arrays(["a"], ["b"], worker=["x"], features=[[1.0]])
    for name in (*ARRAYS, "items", "workers", "features"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(votes, name)[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        votes.rows = 3  # type: ignore[misc]


def test_weight_zero_is_dropped() -> None:
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], weight=[0, 2])
    assert rows_of(votes) == [(None, "b", "c", 1, 2)]
    assert votes.n_items == 3


def test_select_keeps_codes() -> None:
    votes = Comparisons.from_arrays(
        ["a", "b", "c"], ["b", "c", "a"], worker=[1, 2, 3], features=[[1.0], [2.0], [3.0]], feature_names=["length"]
    )
    kept = votes.select(votes.worker_codes() != 1)
    assert rows_of(kept) == [(1, "a", "b", 1, 1), (3, "c", "a", 1, 1)]
    assert kept.items.tolist() == votes.items.tolist()
    assert kept.offsets.tolist() == [0, 1, 1, 2]
    assert kept.features is not None
    assert kept.features.tolist() == [[1.0], [3.0]]
    assert kept.feature_names == ("length",)
    assert bytes_of(votes.select(np.ones(3, dtype=bool))) == bytes_of(votes)


@given(vote_lists(), st.booleans())
@example([("a", "c", "x", 0.5, 1e6), ("c", "a", "x", 0.7, 0.1)], False)  # a tie in float32
def test_pooled_keeps_the_sums(votes: list[tuple[str, str, str, float, float]], sides: bool) -> None:
    found = build(votes, sides_known=sides)
    pooled = found.pooled()
    assert not pooled.has_workers
    assert not pooled.sides_known
    rows = list(zip(pooled.first, pooled.second, pooled.outcome, strict=True))
    assert rows == sorted(rows)
    assert all(y > 0.5 or (y == 0.5 and i < j) for i, j, y in rows)
    pairs = {frozenset(pair) for pair in zip(pooled.first, pooled.second, strict=True)}
    assert len(pairs) == len(pooled)

    def wins(each: Comparisons) -> np.ndarray[Any, Any]:
        total = np.zeros((each.n_items, each.n_items))
        won = each.weight.astype(float) * each.outcome
        np.add.at(total, (each.first, each.second), won)
        np.add.at(total, (each.second, each.first), each.weight - won)
        return total

    np.testing.assert_allclose(wins(pooled), wins(found), rtol=1e-4, atol=1e-6 * found.total_weight)


def test_features_turn_with_the_row() -> None:
    columns: dict[str, Any] = {
        "outcome": [0.0, 1.0],
        "worker": ["x", "y"],
        "features": [[2.0, 0.0], [3.0, -1.0]],
        "feature_names": ("length", "tone"),
    }
    turned = Comparisons.from_arrays(["a", "a"], ["b", "b"], **columns)
    assert turned.features is not None
    assert rows_of(turned) == [("x", "b", "a", 1, 1), ("y", "a", "b", 1, 1)]
    assert turned.features.tolist() == [[-2.0, 0.0], [3.0, -1.0]]
    assert not np.signbit(turned.features[0, 1])
    kept = Comparisons.from_arrays(["a", "a"], ["b", "b"], sides_known=True, **columns)
    assert kept.features is not None
    assert kept.features.tolist() == [[2.0, 0.0], [3.0, -1.0]]


def test_rows_with_other_features_do_not_collapse() -> None:
    votes = Comparisons.from_arrays(["a"] * 3, ["b"] * 3, features=[[1.0], [2.0], [1.0]])
    assert votes.weight.tolist() == [2.0, 1.0]
    assert votes.features is not None
    assert votes.features.tolist() == [[1.0], [2.0]]


@given(vote_lists(), st.booleans(), st.randoms(use_true_random=False))
def test_order_of_rows_with_features_changes_no_byte(
    votes: list[tuple[str, str, str, float, float]], sides: bool, random: Any
) -> None:
    values = [[float(random.randrange(3) - 1)] for _ in votes]
    order = random.sample(range(len(votes)), len(votes))
    one = build(votes, sides_known=sides, features=values)
    two = build([votes[i] for i in order], sides_known=sides, features=[values[i] for i in order])
    assert bytes_of(one) == bytes_of(two)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first": ["a", "b"], "second": ["b", "b"]}, "row 2: the item 'b' is compared with"),
        ({"first": ["a", ""], "second": ["b", "c"]}, "row 2, column 'first': empty item label"),
        ({"first": ["a", " \t"]}, "row 2, column 'first': empty item label"),
        ({"first": [b"a", b""]}, "row 2, column 'first': empty item label"),
        ({"second": [None, "c"]}, "row 1, column 'second': empty item label"),
        ({"first": [1.0, 2.0], "second": [2.0, float("nan")]}, "row 2, column 'second': empty"),
        ({"worker": ["x", None]}, "row 2, column 'worker': empty worker label"),
        ({"outcome": [1, 1.01]}, r"row 2, column 'outcome': the outcome 1.01 is outside \[0, 1\]"),
        ({"outcome": [1, 1.00000001]}, r"row 2, column 'outcome': .* is outside \[0, 1\]"),
        ({"outcome": [float("nan"), 1]}, "row 1, column 'outcome'"),
        ({"outcome": ["left", "right"]}, "row 1, column 'outcome': .*'left' is not a number"),
        ({"weight": [1, -1]}, "row 2, column 'weight': the weight -1 is negative"),
        ({"weight": [1, 1e39]}, r"row 2, column 'weight': .*1e\+39 is too large, at most 1e\+09"),
        ({"weight": [10**400, 1]}, "row 1, column 'weight': .* is infinite"),
        ({"features": [[1.0], [1e39]]}, "row 2: a feature that is not a finite number"),
        ({"weight": [1, float("nan")]}, "row 2, column 'weight'"),
        ({"weight": [float("inf"), 1]}, "row 1, column 'weight'"),
        ({"weight": [0, 0]}, "all weights are 0"),
        ({"worker": ["x"]}, "one entry per vote"),
        ({"first": np.array([["a", "b"]])}, "one entry per vote"),
        ({"features": [[1.0]]}, "one row per vote"),
        ({"features": [["x"], ["y"]]}, "not a table of numbers"),
        ({"features": [[1.0], [float("inf")]]}, "row 2: a feature that is not a finite number"),
        ({"first": [], "second": []}, "a comparison needs two"),
    ],
)
def test_faults(arguments: dict[str, Any], message: str) -> None:
    columns = {"first": ["a", "b"], "second": ["b", "c"]} | arguments
    with pytest.raises(InputError, match=message):
        Comparisons.from_arrays(**columns)


def test_labels_that_are_lists() -> None:
    with pytest.raises(InputError, match=r"row 1, column 'first': the label .* is not a text"):
        Comparisons.from_arrays([["a", "b"]], [["b", "c"]])
    with pytest.raises(InputError, match=r"row 2, column 'second': the label .* is not a text"):
        Comparisons.from_arrays(["a", "b"], ["b", ["c"]])
    with pytest.raises(InputError, match="classes, row 2, column 'class': empty class"):
        Comparisons.from_arrays(["a"], ["b"]).with_classes(["x", " "])


def test_arrays_and_read_agree() -> None:
    """Two doors, one room."""
    columns: list[tuple[Any, Any, Any]] = [
        ([7, "7", True, b"x"], [7.5, "007", 1, b"y"], [1, 1.0, True, "1"]),
        (np.array([1, 2, 3]), np.array([2.0, 3.0, 1.0]), ["x", "x", "y"]),
        (np.array(["a", "b"]), ["b", "c"], np.array(["2024-01-01", "2024-01-02"], "M8[ns]")),
        ([dt.date(2024, 1, 1), 2], [dt.datetime(2024, 1, 1), 2.5], [None == 1, 0]),
    ]
    for first, second, worker in columns:
        one = Comparisons.from_arrays(first, second, worker=worker)
        two = read({"winner": first, "loser": second, "worker": worker})
        assert bytes_of(one) == bytes_of(two)
        for mine, other in ((one.items, two.items), (one.workers, two.workers)):
            assert [(type(x), x) for x in mine] == [(type(x), x) for x in other]


def test_given_arrays_stay_writable() -> None:
    items: Any = np.array(["a", "b"], object)
    workers: Any = np.array(["x"], object)
    codes = np.array([0], np.uint32), np.array([1], np.uint32)
    votes = Comparisons.from_codes(*codes, items=items, workers=workers)
    features = np.ones((1, 1), np.float32)
    with_features = votes.with_features(features, ("f",))
    items[0], workers[0], features[0, 0] = "c", "y", 2.0
    assert votes.items.tolist() == ["a", "b"]
    assert votes.workers.tolist() == ["x"]
    assert with_features.features is not None
    assert with_features.features.tolist() == [[1.0]]


def test_codes_are_checked_before_rounding() -> None:
    labels: Any = np.array(["a", "b"], object)
    codes = np.array([0], np.uint32), np.array([1], np.uint32)
    for name, value in (("outcome", 1.00000001), ("weight", 1e39), ("weight", -1e-60)):
        wrong: Any = {name: np.array([value])}
        with pytest.raises(InputError, match=f"row 1, column '{name}': an? {name}"):
            Comparisons.from_codes(*codes, items=labels, workers=labels, **wrong)
    heavy = np.array([2e9], np.float32)
    with pytest.raises(InputError, match=r"row 1, column 'weight': .* above 1e"):
        Comparisons.from_codes(*codes, items=labels, workers=labels, weight=heavy)


def test_largest_and_smallest_weights() -> None:
    n = 1000
    votes = Comparisons.from_arrays(["a"] * n, ["b"] * n, worker=["x"] * n, weight=[1e9] * n)
    assert votes.weight.tolist() == [np.float32(1e12)]
    assert len(votes.select(np.array([True]))) == 1  # sums may pass the limit of a row
    assert votes.pooled().weight.tolist() == [np.float32(1e12)]
    tiny = Comparisons.from_arrays(["a", "b"], ["b", "c"], weight=[1, 1e-50])
    assert tiny.weight.tolist() == [1.0]


def test_minus_zero_is_zero() -> None:
    votes = Comparisons.from_arrays(["a", "a"], ["b", "b"], outcome=[-0.0, 0.0], sides_known=True)
    assert len(votes) == 1
    assert not np.signbit(votes.outcome[0])
    for labels in ([0.0, -0.0], [-0.0, 0.0]):
        assert str(Comparisons.from_arrays(labels, [1.0, 1.0]).items[0]) == "0.0"


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(3)
    first = rng.integers(0, 50, 30_000)
    second = (first + rng.integers(1, 50, 30_000)) % 50
    worker = rng.integers(0, 40, 30_000)
    one = Comparisons.from_arrays(first, second, worker=worker, threads=1)
    assert bytes_of(one) == bytes_of(Comparisons.from_arrays(first, second, worker=worker))
    assert bytes_of(one) == bytes_of(Comparisons.from_arrays(first, second, worker=worker, threads=5))
    with pytest.raises(RequestError, match="threads must be at least 1, not 0"):
        Comparisons.from_arrays(["a"], ["b"], threads=0)


def test_nothing_selected() -> None:
    votes = Comparisons.from_arrays(["a"], ["b"])
    with pytest.raises(InputError, match="no votes are left"):
        votes.select(np.array([False]))


def test_codes_outside_the_labels() -> None:
    codes = np.array([0], np.uint32), np.array([2], np.uint32)
    labels: Any = np.array(["a", "b"], object)
    with pytest.raises(InputError, match="row 1: an item code outside"):
        Comparisons.from_codes(*codes, items=labels, workers=labels)
    with pytest.raises(InputError, match="row 1: a worker code outside"):
        Comparisons.from_codes(
            np.array([0], np.uint32),
            np.array([1], np.uint32),
            items=labels,
            workers=labels[:1],
            worker=np.array([1], np.uint32),
        )


def test_sums_above_the_limit_of_a_row_live_on() -> None:
    """Equal rows may add up to more than one may weigh; else a fit could be saved, not updated."""
    votes = Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "c"], worker=["w", "w", "x"], weight=[6e8, 6e8, 1.0])
    assert votes.weight.max() == np.float32(1.2e9)
    twice = votes.extended(votes)
    assert twice.weight.max() == np.float32(2.4e9)
    fit = crowdsift.fit(votes, "bt")
    again = fit.update({"winner": ["a"], "loser": ["c"], "worker": ["x"]})
    assert again.summary["votes"] == fit.summary["votes"] + 1
    with pytest.raises(InputError, match="column 'weight'"):
        Comparisons.from_codes(
            votes.first,
            votes.second,
            items=votes.items,
            workers=votes.workers,
            worker=votes.worker_codes(),
            outcome=votes.outcome,
            weight=np.full(len(votes), np.nan, np.float32),
            summed=True,
        )
