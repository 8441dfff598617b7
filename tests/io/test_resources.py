"""What does not fit is said before work starts; what spills is read all the same."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import crowdsift
from crowdsift import RequestError, ResourceError
from crowdsift.io.resources import available_memory, require_disk
from crowdsift.numeric.threads import _libraries, available_threads, blas_threads, dense_algebra
from samples import assert_same

duckdb = pytest.importorskip("duckdb")


@pytest.fixture
def parquet(tmp_path):
    """Votes with text, numbers, a missing label or not, over several row groups."""

    def write(name="votes.parquet", rows=5000, where="TRUE", extra=""):
        path = tmp_path / name
        duckdb.sql(
            "COPY (SELECT 'item-' || (i * 7 % 40) AS winner, 'item-' || (i * 7 % 40 + 1 + i % 3) "
            f"AS loser, 'w' || (i % 30) AS worker, (i % 4 + 1) AS weight{extra} "
            f"FROM range({rows}) t(i) WHERE {where}) TO '{path}' (FORMAT parquet, "
            "ROW_GROUP_SIZE 2048)"
        )
        return path

    return write


def test_text_in_parquet_becomes_codes_on_the_way(parquet):
    path = parquet()
    table = duckdb.sql(f"SELECT * FROM '{path}'").fetchnumpy()
    assert_same(crowdsift.read(path), crowdsift.read({k: v.tolist() for k, v in table.items()}))


def test_several_files_share_their_labels(parquet):
    one, two = parquet("votes-1.parquet", 3000), parquet("votes-2.parquet", 5000, "i >= 3000")
    both = crowdsift.read(str(one.with_name("votes-*.parquet")))
    assert_same(both, crowdsift.read(parquet("all.parquet", 5000)))
    assert two.exists()


def test_the_place_of_a_fault_survives_the_joins(parquet):
    path = parquet(extra=", CASE WHEN i = 4321 THEN NULL ELSE 'v' || i % 9 END AS judge")
    with pytest.raises(crowdsift.InputError, match="row 4322, column 'judge': empty worker label"):
        crowdsift.read(path, columns={"worker": "judge"})
    path = parquet(extra=", CASE WHEN i = 3210 THEN 'much' ELSE '2' END AS code")
    with pytest.raises(crowdsift.InputError, match="row 3211, column 'code': the weight 'much'"):
        crowdsift.read(path, columns={"weight": "code"})


def test_columns_may_have_the_names_of_our_own(parquet):
    path = parquet(extra=", i % 5 AS label, 0.5 AS code, 1 AS place")
    votes = crowdsift.read(path, columns={"worker": "label", "weight": "code"})
    assert votes.workers.tolist() == [0, 1, 2, 3, 4]
    assert votes.total_weight == pytest.approx(2500)


def test_too_little_memory_is_said_before_reading(parquet, monkeypatch):
    monkeypatch.setenv("CROWDSIFT_MEMORY", "0.1MB")
    with pytest.raises(ResourceError, match=r"reading about 5,000 votes takes about 1 MB.*1GB"):
        crowdsift.read(parquet())


def test_too_little_memory_is_said_before_fitting(monkeypatch):
    votes = crowdsift.simulate(20, 10, 5000, seed=1).comparisons()
    monkeypatch.setenv("CROWDSIFT_MEMORY", "0.1MB")
    with pytest.raises(ResourceError, match=r"fitting bora-em to .* comparisons takes about 1 MB"):
        crowdsift.fit(votes, "bora-em")
    assert crowdsift.fit(votes, "bora-map").converged  # takes a quarter of it


def test_too_little_disk_is_said(monkeypatch):
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=10**6))
    with pytest.raises(ResourceError, match=r"spills about 5.0 GB to .*1 MB are free.*TMPDIR"):
        require_disk(5e9, "reading")


def test_a_csv_that_would_spill_needs_the_disk(tmp_path, monkeypatch):
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\n" + "aaaa,bbbb,cccc\n" * 10)
    monkeypatch.setattr("crowdsift.io.parts.memory_limit", lambda: 200)
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=10))
    with pytest.raises(ResourceError, match="spills about"):
        crowdsift.read(path)


def test_an_unreadable_amount_is_refused(monkeypatch):
    monkeypatch.setenv("CROWDSIFT_MEMORY", "plenty")
    with pytest.raises(RequestError, match="CROWDSIFT_MEMORY is 'plenty'"):
        available_memory()


def test_no_limit_is_known_without_a_system_that_tells(monkeypatch, tmp_path):
    monkeypatch.setattr("crowdsift.io.resources.Path", lambda name: tmp_path / "nothing")
    assert available_memory() is None


def test_more_threads_than_cores_are_capped_and_said():
    votes = crowdsift.simulate(20, 10, 500, seed=1).comparisons()
    many = crowdsift.fit(votes, "bora-map", threads=1000)
    assert any(note.startswith("1000 threads were asked for") for note in many.warnings)
    all_cores = crowdsift.fit(votes, "bora-map", threads=available_threads())
    assert many.item_table.to_csv() == all_cores.item_table.to_csv()
    assert not all_cores.warnings


def test_reading_spills_under_a_memory_limit(parquet, monkeypatch):
    """A limit far below the text: the answer is the same."""
    path = parquet("large.parquet", 400_000)
    free = crowdsift.read(path)
    monkeypatch.setattr("crowdsift.io.parts.memory_limit", lambda: 60 * 10**6)
    assert_same(crowdsift.read(path), free)
    assert np.isfinite(free.weight).all()


@pytest.fixture
def three_threads(monkeypatch):
    """Libraries of linear algebra as if they had begun with three threads."""
    found = _libraries()
    if not found:
        pytest.skip("NumPy runs on a library that has no number of threads")
    began = [(library, 3) for library, _ in found]
    monkeypatch.setattr("crowdsift.numeric.threads._libraries", lambda: began)
    for library, count in began:
        library.set_num_threads(count)
    yield [library for library, _ in found]
    for library, count in found:
        library.set_num_threads(count)


def test_linear_algebra_is_capped_inside_and_as_before_after(three_threads):
    def now():
        return [library.num_threads for library in three_threads]

    before = [3] * len(three_threads)
    assert now() == before
    with blas_threads(1, dense=2):
        assert now() == [1] * len(before)
        with dense_algebra():
            assert now() == [2] * len(before)
        assert now() == [1] * len(before)
    assert now() == before
    with pytest.raises(ZeroDivisionError), blas_threads(1):
        1 / 0  # noqa: B018
    with blas_threads(64):  # never more than the user allows
        assert now() == before
    one, two = blas_threads(1), blas_threads(1)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)  # calls of two threads may overlap
    assert now() == [1] * len(before)
    two.__exit__(None, None, None)
    assert now() == before
