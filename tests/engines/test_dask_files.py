"""Parquet read by the workers of a cluster: the codes and the answers of one machine."""

from __future__ import annotations

import os
import signal
import threading

import duckdb
import numpy as np
import pytest

import crowdsift
from crowdsift.engines import opened_engine, read_by_engine
from crowdsift.errors import InputError, RequestError
from crowdsift.io.options import ReadOptions

pytest.importorskip("distributed")

from crowdsift import fitting
from crowdsift.engines.dask import reading

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """6,000 votes of awkward labels in four files; one empty, one worker with a third of all."""
    folder = tmp_path_factory.mktemp("votes")
    random = np.random.default_rng(5)
    one, two = random.integers(0, 25, 6000), random.integers(1, 25, 6000)
    two = (one + two) % 25
    wins = random.random(6000) < 1.0 / (1.0 + np.exp(-(one - two) / 8.0))
    names = np.array([f"naïve '{j}'\n" if j % 2 else f"项目 {j}" for j in range(25)], object)
    busy = random.random(6000) < 1 / 3
    crowd = np.where(busy, "busy", [f"w;{s}" for s in random.integers(0, 40, 6000)]).astype(object)
    rows = {"winner": names[np.where(wins, one, two)], "loser": names[np.where(wins, two, one)], "worker": crowd}
    for at, part in enumerate((slice(0, 100), slice(100, 4000), slice(4000, 6000), slice(0, 0))):
        with duckdb.connect() as connection:
            connection.register("given", {name: values[part] for name, values in rows.items()})
            path = folder / f"part-{at}.parquet"
            limit = "LIMIT 0" if at == 3 else ""
            select = "winner::VARCHAR AS winner, loser::VARCHAR AS loser, worker::VARCHAR AS worker"
            connection.register("one", {name: values[:1] for name, values in rows.items()})
            table = "one" if at == 3 else "given"
            connection.execute(f"COPY (SELECT {select} FROM {table} {limit}) TO '{path}' (FORMAT parquet)")
    return str(folder)


def options(cluster, shards=3):
    return {"scheduler": cluster.scheduler_address, "shards": shards}


def read(address, cluster, **given):
    return read_by_engine("dask", address, ReadOptions(), {**options(cluster), **given})


@pytest.mark.parametrize("shards", [3, 60])
def test_codes_are_those_of_one_machine(folder, cluster, shards):
    expected = crowdsift.read(f"{folder}/*.parquet")
    found = read(folder, cluster, shards=shards)
    assert len(found.first) == 0
    assert len(found) == len(expected)
    assert repr(found) == repr(expected)
    assert str(found.intake) == str(expected.intake)
    assert found.worker_loads().tolist() == expected.worker_loads().tolist()
    with opened_engine("dask", found, None, "slopes", options(cluster)) as machine:
        here = machine.gathered(found)
    for name in ("first", "second", "outcome", "weight", "offsets", "items", "workers"):
        np.testing.assert_array_equal(getattr(here, name), getattr(expected, name))


@pytest.mark.parametrize(("method", "kept"), [("bora-map", True), ("sift", False), ("bt", False)])
def test_fits_are_those_of_one_machine(folder, cluster, method, kept, monkeypatch):
    """Also where votes are too many to be gathered for the tables."""
    if not kept:
        monkeypatch.setattr(fitting, "MOST_VOTES", 0)
    address = f"file://{folder}/part-*.parquet" if kept else folder
    expected = crowdsift.fit(f"{folder}/*.parquet", method)
    found = crowdsift.fit(address, method, engine="dask", engine_options=options(cluster))
    assert (found.votes is not None) == kept
    for name in ("item", "rank", "comparisons", "component"):
        assert found.item_table[name].tolist() == expected.item_table[name].tolist()
    close = 1e-6 if method == "sift" else 1e-8
    for table, names in (("item_table", ("score", "lower")), ("worker_table", ("comparisons",))):
        for name in names:
            np.testing.assert_allclose(
                getattr(found, table)[name].astype(float), getattr(expected, table)[name].astype(float), atol=10 * close
            )
    assert found.summary["votes"] == expected.summary["votes"]
    if kept:
        np.testing.assert_array_equal(found.worker_table["agreement"], expected.worker_table["agreement"])


def test_a_worker_killed_while_reading_and_in_mid_fit(folder, cluster, monkeypatch):
    """Its shards are made of the files again, on others."""
    expected = crowdsift.fit(f"{folder}/*.parquet", "bora-map")
    plain, killed = reading.FileShards._hold, []

    async def hold(self, at, worker, blocks):
        if not killed:
            killed.append(kill(cluster, worker))
        return await plain(self, at, worker, blocks)

    monkeypatch.setattr(reading.FileShards, "_hold", hold)
    votes = read(folder, cluster, shards=4)
    assert killed
    killed.clear()
    monkeypatch.setattr(reading.FileShards, "_hold", plain)
    wait_for_workers(cluster)
    again = []
    blocks = reading.FileShards._blocks

    def only(self, shards, listed):
        again.append(([self.ranges[at] for at in shards], list(listed)))
        return blocks(self, shards, listed)

    monkeypatch.setattr(reading.FileShards, "_blocks", only)

    def progress(number, measure):
        if not killed:
            killed.append(kill(cluster, votes.elsewhere.workers[0]))

    found = crowdsift.fit(votes, "bora-map", engine="dask", engine_options=options(cluster), progress=progress)
    assert killed
    np.testing.assert_allclose(found.item_table["score"], expected.item_table["score"], atol=1e-8)
    # No file is read again that has no vote of the shard: the empty one, and some the first.
    assert again
    for (own,), listed in again:
        mine = set(votes.workers[own.begin : own.end])
        with duckdb.connect() as connection:
            rows = connection.execute(
                f"SELECT filename, worker FROM read_parquet('{folder}/*', filename=true)"
            ).fetchall()
        wanted = sorted({file for file, worker in rows if worker in mine})
        assert [file.removeprefix("file://") for file in listed] == wanted
        assert len(listed) < 4
    wait_for_workers(cluster)


def kill(cluster, worker):
    processes = {nanny.worker_address: nanny.process.pid for nanny in cluster.workers.values()}
    os.kill(processes.get(worker, next(iter(processes.values()))), signal.SIGKILL)
    return worker


def wait_for_workers(cluster):
    from distributed import Client

    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=90)


def test_bad_input(folder, cluster, tmp_path):
    def write(name, select):
        duckdb.sql(select).write_parquet(str(tmp_path / name))

    good = "SELECT 'a' AS winner, 'b' AS loser, 'w' AS worker"
    write("a.parquet", good)
    write("b.parquet", good)
    content = bytearray((tmp_path / "b.parquet").read_bytes())
    content[-20:-8] = b"x" * 12
    (tmp_path / "b.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"b\.parquet.*cannot be read as PARQUET"):
        read(str(tmp_path), cluster)
    write("b.parquet", "SELECT 'a' AS winner, 'a' AS loser, 'w' AS worker")
    with pytest.raises(InputError, match=r"b\.parquet.*1 rows compare an item with itself"):
        read(str(tmp_path), cluster)
    write("b.parquet", "SELECT 1 AS winner, 2 AS loser, 3 AS worker")
    with pytest.raises(InputError, match="text in some files and integers in others"):
        read(str(tmp_path), cluster)
    write("b.parquet", "SELECT 'a' AS winner, 'b' AS loser, ' ' AS worker")
    with pytest.raises(InputError, match=r"b\.parquet.*1 rows have an empty label"):
        read(str(tmp_path), cluster)
    write("b.parquet", "SELECT 'a' AS chosen, 'b' AS loser, 'w' AS worker")
    with pytest.raises(InputError, match=r"b\.parquet"):
        read(f"file://{tmp_path}", cluster)
    with pytest.raises(InputError, match="workers see no Parquet file"):
        read(str(tmp_path / "none-*.parquet"), cluster)
    with pytest.raises(RequestError, match="without where"):
        read_by_engine("dask", "s3://bucket/x.parquet", ReadOptions(where="a > 1"), options(cluster))
    with pytest.raises(RequestError, match="cannot be opened by the workers"):
        read("nosuch://bucket/x.parquet", cluster)
    with pytest.raises(RequestError, match="needs all votes in one place"):
        crowdsift.fit(read(folder, cluster), "rank-centrality", engine="dask", engine_options=options(cluster))


def test_files_that_are_no_files_here(folder):
    """An address that fsspec opens: a file is copied first; the functions are those of workers."""
    import fsspec

    store = fsspec.filesystem("memory")
    names = sorted(os.listdir(folder))
    for name in names:
        with open(f"{folder}/{name}", "rb") as file:
            store.pipe(f"/bucket/{name}", file.read())
    store.pipe("/bucket/notes.txt", b"no votes")
    found = reading.files_at("memory://bucket")
    assert found == [f"memory:///bucket/{name}" for name in names]
    parts = [reading.labels_of(some, {}) for some in (found[:2], found[2:])]
    labels = reading.united_labels(parts)
    expected = crowdsift.read(f"{folder}/*.parquet")
    np.testing.assert_array_equal(labels.items, expected.items)
    np.testing.assert_array_equal(labels.workers, expected.workers)
    half = reading.Range(10, len(labels.workers))
    (rows,) = reading.coded_blocks(found[1], {}, labels, [half])
    (all_rows,) = reading.coded_blocks(found[1], {}, labels, [reading.Range(0, half.end)])
    assert len(all_rows) == 3900
    assert sorted(rows.tolist()) == sorted(all_rows[all_rows[:, 2] >= 10].tolist())
    store.pipe("/bucket/part-9.parquet", b"PAR1 and nothing else PAR1")
    with pytest.raises(InputError, match=r"memory:///bucket/part-9\.parquet.*cannot be read"):
        reading.labels_of(["memory:///bucket/part-9.parquet"], {})
    with pytest.raises(InputError, match="--engine dask"):
        crowdsift.read("memory://bucket/part-9.parquet")
    store.rm("/bucket", recursive=True)


def test_two_readings_at_once(folder, cluster):
    found = {}

    def one(at):
        found[at] = read(folder, cluster, shards=at)

    threads = [threading.Thread(target=one, args=[at]) for at in (2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    expected = len(crowdsift.read(f"{folder}/*.parquet"))
    assert [len(found[at]) for at in (2, 3)] == [expected, expected]


def test_other_votes_are_read_here(folder, cluster, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\na,b,x\nb,c,y\n")
    assert read(path, cluster) is None
    assert read("-", cluster) is None
    duckdb.sql("SELECT 'a' AS winner, 'b' AS loser, 'w' AS worker, 2 AS weight").write_parquet(
        str(tmp_path / "weighted.parquet")
    )
    assert read(tmp_path / "weighted.parquet", cluster) is None
    assert read_by_engine("cpu", folder, ReadOptions()) is None
