"""Votes in files: the arrays and the scores of votes in memory, in a fraction of it."""

from __future__ import annotations

import gc
import gzip
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdsift
from crowdsift.engines import cpu, opened_engine
from crowdsift.engines.cpu.engine import evict
from crowdsift.engines.out_of_core import engine
from crowdsift.errors import InputError, RequestError, ResourceError
from crowdsift.io import streamed
from crowdsift.io.streamed import mapped_votes
from crowdsift.models import MODELS
from crowdsift.votes import comparisons
from crowdsift.votes.comparisons import advise, tally


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """40,000 votes of text labels in three Parquet files, one of them empty."""
    folder = tmp_path_factory.mktemp("parquet")
    votes = crowdsift.simulate(50, 70, 40_000, seed=2).comparisons()
    times = votes.weight.astype(int)
    left = np.repeat(votes.outcome, times) == 1.0
    one, two = (np.repeat(each, times) for each in (votes.first, votes.second))
    names = np.array([f"naïve {j}" for j in range(50)], object)
    crowd = np.array([f"w'{s}" for s in range(70)], object)
    rows = {
        "winner": names[np.where(left, one, two)],
        "loser": names[np.where(left, two, one)],
        "worker": crowd[np.repeat(votes.worker_codes(), times)],
    }
    order = np.random.default_rng(1).permutation(len(one))
    for at, part in enumerate((order[:25_000], order[25_000:], order[:1])):
        limit = " LIMIT 0" if at == 2 else ""
        path = folder / f"part-{at}.parquet"
        with duckdb.connect() as connection:
            connection.register("given", {name: values[part] for name, values in rows.items()})
            connection.execute(f"COPY (SELECT * FROM given{limit}) TO '{path}' (FORMAT parquet)")
    return str(folder / "*.parquet")


def test_streamed_votes_are_those_of_memory(files):
    expected = crowdsift.read(files)
    found = crowdsift.read(files, memory="1MB")
    assert found.on_disk
    assert not expected.on_disk
    for name in ("first", "second", "outcome", "weight", "offsets", "items", "workers"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert str(found.intake) == str(expected.intake)
    assert not crowdsift.read(files, memory="1GB").on_disk  # what fits stays in memory


@pytest.mark.parametrize("method", [name for name in MODELS if name != "barp"])
def test_scores_are_those_of_memory(method, files):
    votes = crowdsift.read(files)
    few = {"most_iterations": 4}  # equal after so many, equal in the end
    model = crowdsift.model(method, **few).relax(votes)[0]
    prepared = model.prepare(votes)
    expected = model.estimate(cpu.engine(prepared, 1)).scores
    made = engine(prepared, 1, memory="600kB", needs=model.needs)
    try:
        assert prepared.n_workers == 1 or len(made._shards) > 5
        found = model.estimate(made).scores
    finally:
        made.close()
    np.testing.assert_allclose(found, expected, atol=1e-6 if method == "sift" else 1e-8)


@pytest.fixture(scope="module")
def many():
    return crowdsift.simulate(2000, 50, 2_400_000, seed=1).comparisons()


def test_large_arrays_are_in_files(many):
    """Of what passes keep nothing large stays in memory between them."""
    scores, slopes = np.linspace(-1, 1, 2000), np.ones(50)
    made = engine(many, 1, memory="800MB", needs="slopes")
    at = made.slopes.profile(scores, slopes)
    assert evict() >= 4 * len(many)
    expected = cpu.engine(many, 1).slopes.profile(scores, slopes)
    vector = np.sin(np.arange(2000.0))
    np.testing.assert_allclose(at.hessian.multiply(vector), expected.hessian.multiply(vector), rtol=1e-6, atol=1e-6)
    made.close()
    del at, made, expected
    gc.collect()
    assert evict() == 0


def resident(votes):
    """Bytes of the votes' files that are in the memory of this process."""
    begins = {
        column.__array_interface__["data"][0] for column in (votes.first, votes.second, votes.outcome, votes.weight)
    }
    found = 0
    for part in Path("/proc/self/smaps").read_text().split("\nVmFlags")[:-1]:
        lines = part.splitlines()
        here = next(line for line in lines if "-" in line.split()[0])
        if int(here.split("-")[0].split()[-1], 16) in begins:
            held = next(line for line in lines if line.startswith("Rss:"))
            found += 1024 * int(held.split()[1])
    return found


def test_pages_leave_after_what_is_counted_of_votes(many, tmp_path, monkeypatch):
    """Tables count votes in parts, of which one is in memory at a time."""
    held = mapped_votes(tmp_path, many)
    rank = np.random.default_rng(1).permutation(many.n_items)
    advise(held.columns, ahead=False)
    assert resident(held) == 0
    float(held.weight.sum())
    assert resident(held) >= held.weight.nbytes  # the measure sees what stays
    advise(held.columns, ahead=False)
    monkeypatch.setattr(comparisons, "_ROWS", 1 << 18)
    expected, found = tally(many, rank), tally(held, rank)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert held.total_weight == many.total_weight
    assert held.has_ties == many.has_ties
    assert resident(held) <= held.first.nbytes // 8


def test_two_fits_at_once(files):
    """Each spills into a folder of its own, and the end of one is not that of the other."""
    votes = crowdsift.read(files)
    expected = crowdsift.fit(votes, "bora-map").item_table["score"]
    found = {}

    def one(at):
        found[at] = crowdsift.fit(votes, "bora-map", memory="600kB").item_table["score"]

    threads = [threading.Thread(target=one, args=[at]) for at in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for at in range(2):
        np.testing.assert_allclose(found[at], expected, atol=1e-8)


def test_a_full_disk_is_an_error(many, files, tmp_path, monkeypatch):
    made = engine(many, 1, memory="800MB", needs="slopes")
    made._plan.map._folder = str(tmp_path / "no-such-folder")  # no file can be made there
    with pytest.raises(ResourceError, match="no room for what a pass keeps"):
        made.slopes.profile(np.linspace(-1, 1, 2000), np.ones(50))
    made.close()

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(streamed, "_sorted", full)
    with pytest.raises(ResourceError, match="disk is full"):
        crowdsift.read(files, memory="1MB")


def test_bad_input(files, tmp_path):
    bad = tmp_path / "bad.parquet"
    duckdb.sql("SELECT 'a' AS winner, 'a' AS loser, 'w' AS worker FROM range(100)").write_parquet(str(bad))
    with pytest.raises(InputError, match=r"bad\.parquet.*100 rows compare an item with itself"):
        crowdsift.read(bad, memory="1kB")
    duckdb.sql("SELECT NULL::VARCHAR AS winner, 'a' AS loser, 'w' AS worker").write_parquet(str(bad))
    with pytest.raises(InputError, match="1 rows have an empty label"):
        crowdsift.read(bad, memory="1B")
    content = bytearray(bad.read_bytes())
    content[-20:-8] = b"x" * 12
    bad.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.parquet"):
        crowdsift.read(str(tmp_path / "*.parquet"), memory="1kB")
    with pytest.raises(RequestError, match="such as 8GB"):
        crowdsift.read(files, memory="much")


def test_by_the_command_line(files, tmp_path):
    page = tmp_path / "report.html"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "crowdsift",
            "fit",
            files,
            "--method",
            "bora-map",
            "--memory",
            "2MB",
            "--json",
            "--report",
            str(page),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "stay in files" in page.read_text()  # what would need all votes at once is left out
    fit = crowdsift.fit(files, method="bora-map")
    assert f'"{fit.item_table["item"][0]}"' in done.stdout
    with opened_engine("auto", fit.votes, 1, "slopes", {"memory": "1GB"}) as made:
        assert type(made).__name__ != "DiskEngine"


def peak_of(*arguments: str) -> tuple[int, str, float]:
    """Return the exit status, standard error and peak memory in MB of a command."""
    script = (
        "import resource, subprocess, sys; "
        "done = subprocess.run([sys.executable, '-m', 'crowdsift', *sys.argv[1:]], "
        "capture_output=True, text=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); "
        "sys.stderr.write(done.stderr); sys.exit(done.returncode)"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, int(done.stdout) * 1024 / 1e6


PROGRAM = 300.0  # MB of the interpreter, its libraries and the reader, beside --memory


def test_memory_counts_arrays_over_pairs(tmp_path: Path) -> None:
    """Issue 32, fault 20, a tenth of its size: --memory 50MB took 472 MB, no limit took 323."""
    rng = np.random.default_rng(0)
    one = rng.integers(0, 20_000, 2_000_000)
    two = (one + rng.integers(1, 20_000, len(one))) % 20_000
    who = rng.integers(0, 10_000, len(one))
    path = str(tmp_path / "votes.parquet")
    pq.write_table(pa.table({"winner": one, "loser": two, "worker": who}), path)
    status, said, peak = peak_of("fit", path, "--memory", "50MB", "--quiet")
    assert status == 1
    assert "--memory allows 50 MB. Give --memory 161MB" in said
    assert peak < 50 + PROGRAM
    status, _, peak = peak_of(
        "fit", path, "--memory", "50MB", "--method", "bora-map", "--quiet", "--set", "most_iterations=2"
    )
    assert status == 0
    assert peak < 50 + PROGRAM


def test_memory_counts_the_rows_of_gzip_files(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"winner,loser,worker\n")
        for _ in range(80):
            file.write(b"a,b,w\nb,a,x\n" * 25_000)
    assert path.stat().st_size < 100_000
    with pytest.raises(crowdsift.ResourceError, match="4,000,001 votes takes about 256 MB"):
        crowdsift.read(str(path), memory="50MB")
    assert crowdsift.read(str(path), memory="300MB").n_items == 2
