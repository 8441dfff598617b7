"""Votes from frames of any library and from arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdsift import Comparisons, InputError, RequestError
from crowdsift.io.ingest import read
from crowdsift.io.items import match_items
from samples import VOTES, assert_same, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def expected() -> Comparisons:
    return Comparisons.from_arrays(VOTES["winner"], VOTES["loser"], worker=VOTES["worker"])


# Frames and arrays


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(backend: str, expected: Comparisons) -> None:
    module = pytest.importorskip(backend)
    make = module.table if backend == "pyarrow" else module.DataFrame
    votes = read(make(VOTES))
    assert_same(votes, expected)
    assert (votes.backend, votes.source) == (backend, "votes")
    numbers = read(make({"first": [3, 1], "second": [1, 2], "outcome": [0.25, 1], "worker": [5, 4]}))
    assert numbers.items.tolist() == [1, 2, 3]
    assert all(type(label) is int for label in numbers.items)
    with pytest.raises(InputError, match="votes, row 2, column 'loser': empty item label"):
        read(make({"winner": ["a", "b"], "loser": ["b", None], "worker": ["x", "x"]}))


def test_lazy_and_categorical_frames(expected: Comparisons) -> None:
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    assert_same(read(pl.DataFrame(VOTES).lazy()), expected)
    assert_same(read(pl.DataFrame(VOTES, schema=dict.fromkeys(VOTES, pl.Categorical))), expected)
    assert_same(read(pd.DataFrame(VOTES).astype("category")), expected)
    assert_same(read(pd.DataFrame(VOTES, index=[5, 5, 1, 0])), expected)
    empty = pd.DataFrame(VOTES).assign(loser=pd.Categorical(["b", None, "a", "a"]))
    with pytest.raises(InputError, match="row 2, column 'loser': empty item label"):
        read(empty)
    mixed = pd.DataFrame({"winner": [7, "7"], "loser": ["7", "007"], "worker": [1, 1]}, dtype=object)
    assert read(mixed).items.tolist() == [7, "007", "7"]


def test_dictionaries_of_arrow(expected: Comparisons) -> None:
    """Their codes are used as they are, whatever else is in a dictionary, chunk by chunk."""
    pa = pytest.importorskip("pyarrow")
    plain = pa.table({name: pa.array(column).dictionary_encode() for name, column in VOTES.items()})
    assert_same(read(plain), expected)
    parts = [{name: column[half] for name, column in VOTES.items()} for half in (slice(2), slice(2, 4))]
    coded = [pa.table({name: pa.array(column).dictionary_encode() for name, column in part.items()}) for part in parts]
    assert_same(read(pa.concat_tables(coded)), expected)  # each chunk with a dictionary of its own
    more = pa.array(["unused", *VOTES["winner"], None, *VOTES["winner"]])
    again = pa.DictionaryArray.from_arrays(np.array([6, 2, 8, 4], np.int8), more)
    assert_same(read(plain.set_column(0, "winner", again)), expected)
    gap = pa.DictionaryArray.from_arrays([6, 5, 8, 4], more)
    with pytest.raises(InputError, match="row 2, column 'winner': empty item label"):
        read(plain.set_column(0, "winner", gap))


def test_frames_of_lists_and_gaps() -> None:
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    columns: dict[str, Any] = {"loser": ["c", "d"], "worker": ["x", "x"]}
    frames = [
        pl.DataFrame({"winner": [[1], [2]], **columns}),
        pl.DataFrame({"winner": [{"a": 1}, {"a": 2}], **columns}),
        pd.DataFrame({"winner": [[1], "b"], **columns}),
    ]
    for frame in frames:
        with pytest.raises(InputError, match=r"row 1, column 'winner': .* is not a text, a number"):
            read(frame)
    gap = pd.array([1, None], dtype="Float64")
    with pytest.raises(InputError, match="row 2, column 'weight': empty weight"):
        read(pd.DataFrame({"winner": ["a", "b"], **columns, "weight": gap}))


def test_large_frames_keep_rows_together() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 500, 20_000)
    second = (first + rng.integers(1, 500, 20_000)) % 500
    votes = {
        "first": np.char.add("i", first.astype(str)),
        "second": np.char.add("i", second.astype(str)),
        "outcome": rng.integers(0, 5, 20_000) / 4,
        "worker": rng.integers(0, 50, 20_000),
        "weight": rng.integers(1, 4, 20_000),
    }
    expected = read(votes)
    for backend in ("pandas", "polars", "pyarrow"):
        module = pytest.importorskip(backend)
        columns = {name: values.tolist() for name, values in votes.items()}
        assert_same(read((module.table if backend == "pyarrow" else module.DataFrame)(columns)), expected)


def test_arrays_relations_and_comparisons(expected: Comparisons) -> None:
    assert_same(read(VOTES), expected)
    assert_same(read(tuple(VOTES.values())), expected)
    assert_same(read(np.array(list(VOTES.values())).T), expected)
    records = np.array(list(zip(*VOTES.values(), strict=True)), [(n, "U1") for n in VOTES])
    assert_same(read(records), expected)
    assert read(expected) is expected
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT * FROM (VALUES ('a','b','x'),('b','c','x'),('a','b','x'),('c','a','y')) t"
    relation = duckdb.connect().sql(query + "(winner, loser, worker)")
    assert_same(read(relation), expected)
    assert read({"winner": [7, "7"], "loser": ["7", "007"]}, workers=False).n_items == 3


@pytest.mark.parametrize("source", [3, None, object(), [], ["a"], ["ab", "cd"], [["a"]] * 4])
def test_what_cannot_hold_votes(source: Any) -> None:
    with pytest.raises(RequestError, match=r"votes cannot be read from|list of arrays"):
        read(source)


@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_rows_are_not_taken_for_columns(rows: int) -> None:
    for row in (("a", "b", "x"), {"winner": "a", "loser": "b", "worker": "x"}):
        with pytest.raises(RequestError, match=r"a list of rows .* is not read; give columns"):
            read([row] * rows)


def test_arrays_of_unequal_length() -> None:
    with pytest.raises(InputError, match="one entry per vote"):
        read({"winner": ["a"], "loser": ["b", "c"], "worker": ["x"]})


def test_names_of_columns_in_frames(expected: Comparisons) -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    names = {"winner": "0", "loser": "1", "worker": "2"}
    frame = pd.DataFrame(list(zip(*VOTES.values(), strict=True)))
    assert frame.columns.tolist() == [0, 1, 2]
    assert_same(read(frame, columns=names), expected)
    assert_same(read(dict(enumerate(VOTES.values())), columns=names), expected)
    with pytest.raises(InputError, match="the columns are 0, 1, 2, and needed are"):
        read(frame)
    twice = [
        pd.DataFrame([["a", "b", "c", "x"]], columns=["winner", "loser", "loser", "worker"]),
        pa.table([["a"], ["b"], ["c"], ["x"]], ["winner", "loser", "loser", "worker"]),
        duckdb.connect().sql("SELECT 'a' winner, 'b' loser, 'c' loser, 'x' worker"),
    ]
    for source in twice:
        with pytest.raises(InputError, match="there are 2 columns named 'loser'; rename"):
            read(source)
    with pytest.raises(InputError, match="there are 2 columns named '0'"):
        read({0: ["a"], "0": ["b"]})


def test_whole_numbers_meet_integers(tmp_path: Path) -> None:
    """A column of integers becomes floats where pandas once saw a gap in it."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    votes: dict[str, Any] = {"winner": [1, 2, 3], "loser": [2.0, 3.0, 1.0], "worker": [1, 1, 1]}
    pq.write_table(pa.table(votes), tmp_path / "v.parquet")
    sides: dict[str, Any] = {"left": [1, 2], "right": [2.0, 3.0], "winner": [2.0, 2.0]}
    arrays = {name: np.array(values) for name, values in votes.items()}
    sources = [votes, arrays, pd.DataFrame(votes), pl.DataFrame(votes), pa.table(votes)]
    for source in (*sources, tmp_path / "v.parquet"):
        found = read(source)
        assert [(type(label), label) for label in found.items] == [(int, 1), (int, 2), (int, 3)]
    assert read(sides, workers=False).outcome.tolist() == [0.0, 1.0]
    lines = '{"winner": 1, "loser": 2, "worker": 1}\n{"winner": 2.0, "loser": 3, "worker": 1.0}\n'
    assert read(written(tmp_path / "v.jsonl", lines)).items.tolist() == [1, 2, 3]
    assert match_items(read(votes), [3.0, 1.0]).tolist() == [1, -1, 0]
    once: dict[str, Any] = {"winner": [1, 2], "loser": [3.0, 4.5]}  # 3 has no integer to meet
    assert [str(label) for label in read(once, workers=False).items] == ["1", "2", "3", "4.5"]
    floats = read({"winner": [1.0], "loser": [2.0]}, workers=False)
    assert match_items(floats, ["1", "2.0"]).tolist() == [0, 1]
    halves = read({"winner": [1.0, 2.5], "loser": [2.5, 3.0]}, workers=False)
    assert [type(label) for label in halves.items] == [float] * 3
