"""Faults that changed votes in silence, or ended in errors that were not ours (issue of faults).

What each of them did on the code before: tests/torture/CASES.md.
"""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError, RequestError
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.sql import Database
from crowdsift.io.text import count_records, read_header

HEADER = "winner,loser,worker\n"
ROWS = "a,b,x\nb,c,y\na,c,x\n"


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_folders_named_like_columns_change_nothing(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "weight=5" / "worker=bob"
    folder.mkdir(parents=True)
    path = folder / f"votes.{suffix}"
    rows = [dict(zip(("winner", "loser", "worker"), row.split(","), strict=True)) for row in ROWS.split()]
    if suffix == "csv":
        path.write_text(HEADER + ROWS)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    votes = crowdsift.read(path)
    assert votes.workers.tolist() == ["x", "y"]
    assert votes.total_weight == 3
    asked = crowdsift.read(path, partitions=True)
    assert asked.total_weight == 15  # the file's own worker goes before that of the folder
    assert asked.workers.tolist() == ["x", "y"]


def test_a_flipped_bit_far_inside_a_gzip_is_noticed(tmp_path: Path) -> None:
    text = HEADER + "".join(f"item{i % 97},item{97 + i % 89},w{i % 50}\n" for i in range(200_000))
    packed = bytearray(gzip.compress(text.encode(), compresslevel=1, mtime=0))
    path = tmp_path / "votes.csv.gz"
    path.write_bytes(packed)
    assert crowdsift.read(path).rows == 200_000
    missed = 0
    for place in range(8):
        broken = bytearray(packed)
        broken[len(packed) * (place + 6) // 16] ^= 1 << place
        path.write_bytes(broken)
        try:
            crowdsift.read(path)
            missed += 1
        except InputError:
            continue
    assert missed == 0


AWKWARD = {
    "line feed in the header of a CRLF file": '"win\nner",winner,loser,worker\r\n1,a,b,x\r\n2,b,c,y\r\n3,a,c,x\r\n',
    "blank line before such a header": '\r\n"win\nner",winner,loser,worker\r\n1,a,b,x\r\n2,b,c,y\r\n3,a,c,x\r\n',
    "blank lines between": "winner,loser,worker\n\na,b,x\n  \nb,c,y\n\na,c,x\n\n",
    "line breaks in cells": 'winner,loser,worker,note\na,b,x,"1\r\n2\n3"\nb,c,y,""\na,c,x,"\n"',
    "mixed line ends": "winner,loser,worker\r\na,b,x\nb,c,y\r\na,c,x",
    "old line ends": "winner,loser,worker\ra,b,x\rb,c,y\ra,c,x\r",
    "byte order mark": "\ufeffwinner,loser,worker\r\na,b,x\r\nb,c,y\r\na,c,x\r\n",
}


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("zipped", [False, True])
def test_no_row_of_an_awkward_file_vanishes(tmp_path: Path, case: str, zipped: bool) -> None:
    text = AWKWARD[case].encode()
    path = tmp_path / ("v.csv.gz" if zipped else "v.csv")
    path.write_bytes(gzip.compress(text) if zipped else text)
    votes = crowdsift.read(path)
    assert votes.rows == 3
    assert votes.items.tolist() == ["a", "b", "c"]
    assert votes.intake is not None
    assert votes.intake.rows == 3
    (tmp_path / "a.csv").write_text("winner,loser,worker\nx,y,z\n")
    if not zipped:
        assert crowdsift.read(str(tmp_path / "*.csv")).rows == 4


def test_a_last_line_beyond_every_buffer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(f"winner,loser,worker,note\na,b,x,1\nb,c,y,{'n' * 33_000_000}")
    assert crowdsift.read(path).rows == 2


@pytest.mark.parametrize("seed", range(30))
def test_records_are_counted_as_the_csv_module_does(tmp_path: Path, seed: int) -> None:
    import csv

    random = np.random.default_rng(seed)
    cells = ["a", "", '"q"', '"x\ny"', '"x\r\ny"', '"a ""b"" c"', " ", "é", '""']
    end = ["\n", "\r\n"][seed % 2]
    text = "".join(
        "" if random.random() < 0.1 else ",".join(random.choice(cells, 3)) + end * random.integers(1, 3)
        for _ in range(50)
    )
    path = tmp_path / "v.csv"
    path.write_bytes(text.encode())
    with path.open(newline="", encoding="utf-8") as file:
        expected = sum(len(row) > 1 or any(cell.strip() for cell in row) for row in csv.reader(file))
    assert count_records(str(path), False, "v.csv", quotes=True) == expected


def test_distinct_labels_of_wide_types_stay_distinct() -> None:
    duckdb = pytest.importorskip("duckdb")
    wide = 170141183460469231731687303715884105727
    relation = duckdb.sql(
        f"SELECT * FROM (VALUES ({wide}::HUGEINT, {wide - 1}::HUGEINT, 0.10::DECIMAL(38,2)), "
        f"({wide - 1}, {wide - 2}, 12345678901234567890123456789012345.67)) "
        "t(winner, loser, worker)"
    )
    votes = crowdsift.read(relation)
    assert votes.items.tolist() == [wide - 2, wide - 1, wide]
    assert votes.workers.tolist() == [
        decimal.Decimal("0.10"),
        decimal.Decimal("12345678901234567890123456789012345.67"),
    ]


def test_nanoseconds_are_refused_not_cut(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    stamp = "'2024-01-01 00:00:00.00000000{}'::TIMESTAMP_NS"
    path = tmp_path / "v.parquet"
    duckdb.sql(
        f"COPY (SELECT {stamp.format(1)} AS winner, {stamp.format(2)} AS loser, 'x' AS worker) "
        f"TO '{path}' (FORMAT parquet)"
    )
    frame = pl.DataFrame({"winner": [1], "loser": [2], "worker": ["x"]}).with_columns(
        pl.col("winner", "loser").cast(pl.Datetime("ns"))
    )
    for source in (path, frame):
        with pytest.raises(InputError, match="finer than microseconds"):
            crowdsift.read(source)


def test_times_with_a_zone_are_labels(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "v.parquet"
    duckdb.sql(
        "COPY (SELECT '2024-01-01 00:00:00+00'::TIMESTAMPTZ AS winner, "
        f"'2024-01-02 00:00:00+00'::TIMESTAMPTZ AS loser, 'x' AS worker) TO '{path}'"
    )
    first = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert crowdsift.read(path).items.tolist() == [first, first + dt.timedelta(days=1)]


def test_text_views_of_arrow_are_read() -> None:
    pa = pytest.importorskip("pyarrow")
    column = pa.array(["a", "b"], pa.string_view())
    table = pa.table({"winner": column, "loser": pa.array(["b", "c"]), "worker": ["x", "y"]})
    assert crowdsift.read(table).items.tolist() == ["a", "b", "c"]


class Stream:
    """What any library may give: columns by the Arrow C interface and nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class Batch:
    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


def test_any_object_with_an_arrow_interface_is_read() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"winner": ["a", "b"], "loser": ["b", "c"], "worker": [1, 2]})
    for source in (Stream(table), Batch(table.to_batches()[0]), table.to_reader()):
        votes = crowdsift.read(source)
        assert votes.items.tolist() == ["a", "b", "c"]
        assert votes.workers.tolist() == [1, 2]


def test_odd_names_of_files_mislead_nobody(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    folder = tmp_path / "x?"
    folder.mkdir()
    (tmp_path / "xy").mkdir()
    (tmp_path / "xy" / "v[1].csv").write_text(HEADER + "WRONG,b,x\n")
    (folder / "v[1].csv").write_text(HEADER + ROWS)
    assert crowdsift.read(folder / "v[1].csv").items.tolist() == ["a", "b", "c"]
    path = tmp_path / "binary_as_x.parquet"
    duckdb.sql(
        f"COPY (SELECT 'a' AS winner, 'b' AS loser, 7 AS file_row_number, 'x' AS worker) TO '{path}' (FORMAT parquet)"
    )
    assert crowdsift.read(path).workers.tolist() == ["x"]
    votes = crowdsift.read(path, columns={"worker": "file_row_number"})
    assert votes.workers.tolist() == [7]
    odd = os.path.join(os.fsencode(tmp_path), b"caf\xe9.csv")
    with open(odd, "w") as file:
        file.write(HEADER + ROWS)
    assert crowdsift.read(os.fsdecode(odd)).rows == 3
    with open(odd, "w") as file:
        file.write(HEADER + "a,a,x\nb,b,x\n")
    with pytest.raises(InputError, match=r"caf\\xe9.csv"):
        crowdsift.read(os.fsdecode(odd))


def test_wide_and_long_headers_are_quick(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    names = [f"column_{i:06d}" for i in range(100_000)]
    path.write_text(",".join([*names, "winner", "loser", "worker"]) + "\n")
    assert path.stat().st_size > 1 << 20
    started = time.perf_counter()
    header = read_header(str(path), False, "v.csv")
    assert time.perf_counter() - started < 5
    assert header.names[-3:] == ("winner", "loser", "worker")
    path.write_text(",".join([*names, "winner", "winner"]) + "\n")
    with pytest.raises(InputError, match="'winner' twice"):
        read_header(str(path), False, "v.csv")


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 2000 + "]" * 2000], ids=["digits", "brackets"])
def test_values_beyond_python_are_errors_of_ours(tmp_path: Path, value: str) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text(f'{{"winner": {value}, "loser": "b", "worker": "x"}}\n')
    with pytest.raises(InputError) as caught:
        crowdsift.read(path)
    assert len(str(caught.value)) < 600


def test_corrupt_deflate_is_a_broken_gzip(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress((HEADER + ROWS * 50).encode()))
    packed[12:20] = b"\xff" * 8
    path = tmp_path / "v.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(InputError, match="broken gzip"):
        crowdsift.read(path)


def test_messages_are_never_longer_than_a_screen(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + f"{'long ' * 9000},{'long ' * 9000},x\n")
    with pytest.raises(InputError) as caught:
        crowdsift.read(path)
    assert len(str(caught.value)) < 500
    path.write_text(HEADER + "a\x1b[31m,a\x1b[31m,x\nb,c,x\n")
    with pytest.raises(InputError) as caught:
        crowdsift.read(path)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("amount", ["1e400GB", "9" * 400 + "GB", "0.0000001B", "-5GB", "nanGB"])
def test_absurd_amounts_of_memory_are_refused(amount: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + ROWS)
    monkeypatch.setenv("CROWDSIFT_MEMORY", amount)
    with pytest.raises((RequestError, crowdsift.ResourceError), match="CROWDSIFT_MEMORY"):
        crowdsift.read(path)


HOLDS = """
from pathlib import Path
from crowdsift.io.files import TemporaryFolder
folder = TemporaryFolder()
Path(folder.file(".csv")).write_text("votes")
print(folder.path, flush=True)
input()
"""


def test_temporary_folders_are_private_and_those_of_killed_runs_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    places = {"TMPDIR": str(tmp_path)}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDS],
            env=os.environ | places,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    killed, alive = (Path(run.stdout.readline().strip()) for run in runs)
    # Where containers share the folder the number of a process is nobody's, or another's here.
    there = tmp_path / f"crowdsift-tmp-0-{runs[0].pid}-other"
    alive = alive.rename(tmp_path / "crowdsift-tmp-0-999999999-abc")
    killed = killed.rename(tmp_path / f"crowdsift-tmp-0-{os.getpid()}-abc")
    not_ours = tmp_path / "crowdsift-pg"
    not_ours.mkdir(), there.symlink_to(not_ours)
    runs[0].kill(), runs[0].communicate()
    folder = TemporaryFolder()
    assert Path(folder.path).stat().st_mode & 0o777 == 0o700
    assert not killed.exists()
    assert (alive / "1.csv").read_text() == "votes"
    folder.close()
    assert set(tmp_path.iterdir()) == {alive, not_ours, there}
    runs[1].communicate("\n")


def test_no_room_for_temporary_files_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + ROWS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(crowdsift.ResourceError, match="TMPDIR"):
        crowdsift.read(path)


def test_the_database_reaches_nothing_else(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "other.csv").write_text("a\n1\n")
    folder = TemporaryFolder()
    database = Database(1, (), folder)
    try:
        for query in (
            f"SELECT * FROM read_csv('{tmp_path / 'other.csv'}')",
            f"COPY (SELECT 1) TO '{tmp_path / 'new.csv'}'",
            "INSTALL httpfs",
            "LOAD httpfs",
            f"ATTACH '{tmp_path / 'x.db'}'",
            "SELECT * FROM read_csv('https://example.com/x.csv')",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                database.execute(query)
    finally:
        database.close()
        folder.close()
