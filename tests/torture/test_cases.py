"""Faults that were found once and had no test elsewhere; CASES.md says where each of them is.

Commands and public names only, so that the same file runs on older code.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import crowdsift
from crowdsift import CrowdsiftError, cli
from torture import AREAS
from torture.words import result

Run = Callable[..., tuple[int, str, str]]
CSV = "winner,loser,worker\na,b,x\nb,c,y\na,c,x\n"


def command(*words: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "crowdsift", *map(os.fspath, map(str_or_path, words))], capture_output=True, timeout=100
    )


def str_or_path(word: object) -> str | bytes:
    return word if isinstance(word, bytes) else str(word)


def ours(done: subprocess.CompletedProcess[bytes]) -> None:
    """An answer, or an error of ours in a few lines."""
    is_ours(done.returncode, done.stderr.decode("utf-8", "replace"))


def is_ours(status: int, err: str) -> None:
    assert status in (0, 1, 2), err
    assert "internal error" not in err
    assert "Traceback" not in err
    assert len(err) < 4000


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_name_that_is_not_utf_8(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"v\xff\xfe.csv")
    with open(path, "wb") as file:
        file.write(CSV.encode())
    done = command("fit", path, "--method", "bt", "--json")
    assert done.returncode == 0, done.stderr
    assert crowdsift.read(os.fsdecode(path)).total_weight == 3
    ours(command("fit", os.path.join(os.fsencode(tmp_path), b"none\xff.csv")))


@pytest.mark.parametrize("seed", [-1, 2**70, 1.5, "x", None, True])
def test_seeds_of_any_kind(seed: object) -> None:
    for call in (
        lambda: crowdsift.simulate(4, 3, 20, seed=seed),
        lambda: crowdsift.fit({"winner": ["a"], "loser": ["b"], "worker": ["x"]}, "bt", seed=seed),
    ):
        try:
            call()
        except CrowdsiftError as error:
            result(error)


def test_a_negative_seed_on_the_command_line(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "v.csv"
    path.write_text(CSV)
    for words in (("simulate", "--seed", "-1", "--out", tmp_path / "s"), ("fit", path, "--seed", "-1")):
        status, _, err = run(*words)
        is_ours(status, err)


@pytest.mark.parametrize(
    "setting",
    [
        "tolerance=x",
        "tolerance=",
        "tolerance=[1]",
        "tolerance=nan",
        "tolerance=1e999",
        "most_iterations=1.5",
        "most_iterations=9" + "9" * 5000,
        "accelerate=3",
        "levels={}",
    ],
)
def test_settings_of_wrong_types(tmp_path: Path, setting: str, monkeypatch, capsys) -> None:
    path = tmp_path / "v.csv"
    path.write_text(CSV)
    words = ["crowdsift", "fit", str(path), "--method", "sift", "--set", setting]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    errors = capsys.readouterr().err
    assert stop.value.code == 1
    assert "internal error" not in errors
    assert len(errors) < 4000


@pytest.mark.parametrize("name", ["file_row_number", "filename", "rowid", "column0"])
def test_columns_named_like_those_of_the_reader(tmp_path: Path, name: str) -> None:
    path = tmp_path / "v.csv"
    path.write_text(CSV.replace("worker", name))
    votes = crowdsift.read(path, columns={"worker": name})
    assert votes.workers.tolist() == ["x", "y"]
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    table = pa.table({"winner": ["a", "b"], "loser": ["b", "c"], name: ["x", "y"]})
    pq.write_table(table, tmp_path / "v.parquet")
    votes = crowdsift.read(tmp_path / "v.parquet", columns={"worker": name})
    assert votes.workers.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    "call",
    [
        lambda votes: crowdsift.fit(votes, crowdsift.model("bora-em", accelerate=False)),
        lambda votes: crowdsift.fit(votes, crowdsift.model("bora-em", tolerance=0.0)),
        lambda votes: crowdsift.fit(votes, crowdsift.model("bora-map", reliability_mean=2.0**70)),
        lambda votes: crowdsift.fit(votes, crowdsift.model("bora-em", alternations=2**70)),
        lambda votes: crowdsift.fit(votes, "bt", engine=np.array([1])),
        lambda votes: crowdsift.fit(votes, "bt", engine_options=3),
        lambda votes: crowdsift.fit(votes, "bt", scale=np.array([])),
        lambda votes: crowdsift.fit(votes, "bt", anchor=[1]),
        lambda votes: crowdsift.fit(votes, "bt", dependent_by=np.array([])),
        lambda votes: crowdsift.fit(votes, crowdsift.model("sift", dimensions=np.array([]))),
        lambda votes: crowdsift.fit(votes, crowdsift.model("sift", pooling=np.array([]))),
        lambda votes: crowdsift.fit(votes, "bt").predict(np.array([[1]]), ["b"]),
        lambda votes: crowdsift.read(votes, columns=np.array([])),
        lambda votes: crowdsift.read(votes, covariates=np.array(1.0)),
        lambda votes: crowdsift.evaluate(votes, truth={}, methods="bt"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_arguments_that_ended_in_errors_of_others(call) -> None:
    votes = {"winner": list("abac"), "loser": list("bcca"), "worker": list("xxyy")}
    try:
        call(votes)
    except CrowdsiftError as error:
        result(error)


def test_settings_of_the_process_are_left_alone(tmp_path: Path) -> None:
    """The umask and the limit of csv, also where other threads look meanwhile."""
    before, seen, stop = csv.field_size_limit(), set(), threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add((csv.field_size_limit(), umask()))

    looking = threading.Thread(target=watch)
    looking.start()
    try:
        long = "x" * 200_000
        votes = crowdsift.Comparisons.from_arrays(["a", long], [long, "c"], worker=["w", "v"])
        fit = crowdsift.fit(votes, "bt", threads=1)
        for _ in range(5):
            fit.save(tmp_path / "fit")
            crowdsift.load(tmp_path / "fit")
    finally:
        stop.set()
        looking.join()
    assert seen == {(before, umask())}


def umask() -> str:
    """Of this process, from the system: asking for it by os.umask would change it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return ""
    return next((line for line in status.read_text().splitlines() if line.startswith("Umask")), "")


def test_a_context_column_called_worker_with_text(tmp_path: Path) -> None:
    rows = {
        "winner": ["a", "b", "a", "c"] * 3,
        "loser": ["b", "c", "c", "b"] * 3,
        "rater": ["x", "y"] * 6,
        "worker": ["morning", "evening", "evening"] * 4,
    }
    fit = crowdsift.fit(crowdsift.read(rows, columns={"worker": "rater"}, by="worker"))
    fit.save(tmp_path)
    assert crowdsift.load(tmp_path).item_table.to_csv() == fit.item_table.to_csv()


def test_where_all_votes_went_to_the_first_item(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner,worker\na,b,left,x\na,c,left,y\nb,c,left,x\n")
    status, _, err = run("next", path, "--pairs", "3")
    assert status == 0, err


def test_where_every_weight_is_below_one_half(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "v.csv"
    path.write_text("winner,loser,worker,weight\na,b,x,.2\nb,c,y,.1\na,c,x,.2\n")
    status, _, err = run("next", path, "--pairs", "3")
    assert status == 0, err


def test_a_report_into_a_device_leaves_the_device(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(CSV)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = command("fit", path, "--method", "bt", "--report", pipe)
    assert done.returncode == 0, done.stderr
    assert pipe.is_fifo()
    reader.join(10)
    assert read[0].startswith(b"<!doctype html>")


def test_calls_of_the_core_that_read_outside_its_arrays() -> None:
    """Each crashed, or read what was not there, before its arguments were checked."""
    core = pytest.importorskip("crowdsift._core")
    first, second = np.array([0, 1], np.uint32), np.array([1, 2], np.uint32)
    with pytest.raises((ValueError, TypeError)):  # the offsets of 2^64 workers are none
        core.collapse(first, second, None, None, None, None, 3, 2**64 - 1, True, 1)
    with pytest.raises((ValueError, TypeError, MemoryError)):
        core.components(first, second, 2**62)
    whole = core.Core(first, second, np.ones(2, np.float32), np.ones(2, np.float32), np.array([0, 1, 2]), None, 3, 1)
    sites = whole.sites([0.0], [], [], False, 0, 1.0)
    for early in (sites.refine, lambda: sites.posteriors(np.ones(5), 0, 2)):
        with pytest.raises(ValueError, match="no update yet"):
            early()
    levels, prior, none = np.array([1.0, 2.0, 3.0]), np.full(7, 1 / 7), np.full(2, np.nan)
    with pytest.raises(ValueError, match="three arrays"):
        sites.update(levels, prior, np.zeros(3), 1.0, True, 0.0, 1.0, (None, None, None))
    sites.update(levels, prior, np.zeros(3), 1.0, True, 0.0, 1.0)
    zeros, ends = np.zeros(2, np.float32), np.ones(2)
    sites.set_vote_sites(zeros, zeros, zeros, zeros, 0.5 * ends, ends, 40)
    with pytest.raises(ValueError, match="no update yet"):  # likelihoods were on other levels
        sites.refine()
    sites.set_vote_sites(zeros, zeros, zeros, zeros, none, none, 3)
    with pytest.raises(ValueError, match="before there are sites"):
        whole.set_shared(first[:1], second[:1], np.array([True]))


def test_every_fault_has_tests_that_exist() -> None:
    """The names in the tables of CASES.md; `::name` is in the file named last."""
    tests = Path(__file__).parents[1]
    rows = [
        re.split(r" \| ", line.strip("| "))
        for line in (tests / "torture" / "CASES.md").read_text().splitlines()
        if re.match(r"\| \d", line)
    ]
    source = ""
    for fault, column, _ in rows:
        found = re.findall(r"torture `(\w+)`|`([\w/]+\.py)?(?:::(\w+))?(?:\[[^`]*)?`", column)
        for area, file, name in found:
            assert not area or area in AREAS, fault
            if file:
                path = tests / file
                source = (path if path.exists() else tests.parent / file).read_text()
            assert not name or f"def {name}(" in source, f"{fault}: {name}"
        assert found or "cpp/tests/" in column, fault
    last = next(at for at, (fault, _, _) in enumerate(rows) if fault.startswith("1 weak"))
    assert {int(re.match(r"\d+", fault)[0]) for fault, _, _ in rows[last:]} == set(range(1, 31))
