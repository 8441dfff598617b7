"""Labels of any type come through as they were given."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowdsift import Comparisons, InputError
from crowdsift.io.ingest import read
from samples import assert_same, written

if TYPE_CHECKING:
    from pathlib import Path


def test_csv_labels_stay_as_written(tmp_path: Path) -> None:
    text = 'winner,loser,worker\n007,7,1.0\n"a ""b"", c"," lead",1\n"two\nlines",日本語,NULL\nnan,NA,true\nИ,é,#x\n'
    votes = read(written(tmp_path / "v.csv", text))
    items = ["007", "7", 'a "b", c', " lead", "two\nlines", "日本語", "nan", "NA", "И", "é"]
    assert votes.items.tolist() == sorted(items)
    assert votes.workers.tolist() == sorted(["1.0", "1", "NULL", "true", "#x"])


def labels_of(first: Any, second: Any) -> list[tuple[type, Any]]:
    items = read({"winner": first, "loser": second}, workers=False).items
    return [(type(label), label) for label in items]


def test_labels_of_lists_keep_their_type() -> None:
    assert labels_of(["a"], [7]) == [(int, 7), (str, "a")]
    assert labels_of(["a", 7], [7, "7"]) == [(int, 7), (str, "7"), (str, "a")]
    assert labels_of([True, 2], [2, 1]) == [(bool, True), (int, 1), (int, 2)]
    assert labels_of([1, 2.5], [2.5, 1]) == [(int, 1), (float, 2.5)]
    assert labels_of([1.0, 1], [2, 2]) == labels_of([1, 1.0], [2, 2]) == [(int, 1), (int, 2)]
    assert labels_of(["a\0"], ["a"]) == [(str, "a"), (str, "a\0")]
    assert labels_of([b"a"], ["a"]) == [(bytes, b"a"), (str, "a")]
    assert labels_of([10**30], [1.5]) == [(float, 1.5), (int, 10**30)]
    scalars: Any = np.array([np.int64(1), 1, np.str_("a")], object)
    assert labels_of(scalars, [2, 2, 2]) == [(int, 1), (int, 2), (str, "a")]
    masked: Any = np.ma.MaskedArray([1, 2, 3], [False, False, True])
    with pytest.raises(InputError, match="row 3, column 'winner': empty item label"):
        labels_of(masked, ["a", "a", "a"])


def test_dates_are_labels(tmp_path: Path) -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    day, noon = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 12)
    assert labels_of([day, day], [noon, "x"]) == [(dt.date, day), (dt.datetime, noon), (str, "x")]
    for unit in ("s", "ms", "us", "ns"):
        times = np.array([noon, noon], f"M8[{unit}]")
        assert labels_of(times, ["a", "b"])[0] == (dt.datetime, noon)
    assert labels_of(np.array([day], "M8[D]"), ["a"])[0] == (dt.date, day)
    with pytest.raises(InputError, match="row 2, column 'winner': empty item label"):
        labels_of(np.array(["2024-01-01", "NaT"], "M8[ns]"), ["a", "b"])
    fine = np.array(["2024-01-01T00:00:00.000000001"], "M8[ns]")
    with pytest.raises(InputError, match=r"row 1, column 'winner': .*finer than microseconds"):
        labels_of(fine, ["a"])
    columns = {"winner": [noon], "loser": [dt.datetime(2024, 1, 3)], "worker": [1]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        assert [type(label) for label in read(frame).items] == [dt.datetime] * 2
    zoned = pd.DataFrame({"winner": [pd.Timestamp(noon, tz="UTC")], "loser": ["a"], "worker": [1]})
    assert read(zoned).items[0] == noon.replace(tzinfo=dt.UTC)
    fine_frame = pd.DataFrame({"winner": fine, "loser": ["a"], "worker": ["x"]})
    with pytest.raises(InputError, match=r"row 1, column 'winner': .*finer than microseconds"):
        read(fine_frame)
    query = "SELECT DATE '2024-01-02' winner, TIMESTAMP '2024-01-02 12:00:00' loser, 1 worker"
    connection = duckdb.connect()
    connection.sql(query).write_parquet(str(tmp_path / "v.parquet"))
    for source in (connection.sql(query), tmp_path / "v.parquet"):
        assert read(source).items.tolist() == [day, noon]


def test_one_long_label_is_not_paid_for_in_every_row() -> None:
    long, n = "x" * 20_000, 10_000
    votes = {"winner": [long] + ["a"] * (n - 1), "loser": ["b"] * n, "worker": ["w"] * n}
    tracemalloc.start()
    try:
        assert read(votes).n_items == 3
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


LABEL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(lambda label: label.strip())


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(LABEL, LABEL, LABEL).filter(lambda v: v[0] != v[1]), min_size=1))
def test_any_text_survives_csv(tmp_path: Path, votes: list[tuple[str, str, str]]) -> None:
    quoted = [",".join('"' + x.replace('"', '""') + '"' for x in vote) for vote in votes]
    path = written(tmp_path / "v.csv", "winner,loser,worker\n" + "\n".join(quoted) + "\n")
    found = read(path)
    winner, loser, worker = (list(column) for column in zip(*votes, strict=True))
    assert_same(found, Comparisons.from_arrays(winner, loser, worker=worker))
