"""Experiments: runs that can be killed and resumed, refusals, the command."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from small_experiment import Fatal, Small
from typer.testing import CliRunner

import crowdsift
from crowdsift import cli
from crowdsift.errors import RequestError
from crowdsift.lab import datasets
from crowdsift.paper import EXPERIMENTS, Options, experiment, store
from crowdsift.paper.base import EIGHT
from crowdsift.paper.runner import perform, reproduce, write_results

SCRIPT = Path(__file__).resolve().parents[1] / "small_experiment.py"
ONE, TWO = Options(seeds=1), Options(seeds=2)


def contents(folder: Path) -> dict[str, bytes]:
    """Everything that a run writes and that must not depend on how it went."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.suffix in (".csv", ".svg", ".png", ".md") and "seconds" not in path.name
    }


def lines_of(folder: Path) -> list[str]:
    path = folder / "finished.jsonl"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    perform(Small(TWO), folder, jobs=2)
    return folder


OneSeed = namedtuple("OneSeed", "folder progress threads")


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory) -> OneSeed:
    """A run of one seed, what its progress said, and the environment after it."""
    folder, seen = tmp_path_factory.mktemp("one") / "run", []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "7")
        perform(Small(ONE), folder, jobs=1, progress=lambda *result: seen.append(result))
        return OneSeed(folder, seen, os.environ.get("OPENBLAS_NUM_THREADS"))


# --- runs ------------------------------------------------------------------------------------


def test_killed_at_random_moments_and_resumed_gives_the_same_files(whole, tmp_path):
    out = tmp_path / "killed"
    moments = random.Random(os.getpid())  # any moment must do
    total = len(lines_of(whole))
    stops = sorted(moments.sample(range(3, total - 20), 2))
    for stop in stops:
        run = subprocess.Popen([sys.executable, SCRIPT, out], stderr=subprocess.DEVNULL)
        while len(lines_of(out)) < stop and run.poll() is None:
            time.sleep(0.01)
        assert run.poll() is None, "the run was over before it could be killed"
        run.kill()
        run.wait()
        assert stop <= len(lines_of(out)) < total
        assert not (out / "synthetic.csv").exists()
    subprocess.run([sys.executable, SCRIPT, out], check=True)
    assert contents(out) == contents(whole)
    assert {"synthetic.csv", "synthetic-means.csv", "synthetic.md"} <= set(contents(out))


def test_the_number_of_processes_does_not_matter(whole, tmp_path):
    perform(Small(TWO), tmp_path / "one", jobs=1)
    assert contents(tmp_path / "one") == contents(whole)


def test_a_line_that_was_cut_off_is_done_again(whole, tmp_path, in_process):
    out = tmp_path / "cut"
    out.mkdir()
    (out / "run.json").write_bytes((whole / "run.json").read_bytes())
    content = (whole / "finished.jsonl").read_bytes()
    (out / "finished.jsonl").write_bytes(content[: len(content) // 2])
    perform(Small(TWO), out, jobs=1)
    assert contents(out) == contents(whole)
    assert len(lines_of(out)) == len(lines_of(whole))


def test_more_seeds_go_on_and_what_is_finished_is_kept(whole, one_seed, tmp_path, in_process):
    out = copytree(one_seed.folder, tmp_path / "run")
    first = lines_of(out)
    assert len(first) == len(lines_of(whole)) // 2
    perform(Small(TWO), out, jobs=1)
    assert lines_of(out)[: len(first)] == first
    assert contents(out) == contents(whole)


def test_one_method_can_be_done_again(whole, tmp_path, in_process):
    (tmp_path / "run.json").write_bytes((whole / "run.json").read_bytes())
    records = [json.loads(line) for line in lines_of(whole)]
    for record in records:
        record["figures"]["accuracy"] = 0.0625
    text = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "finished.jsonl").write_text(text)
    perform(Small(TWO), tmp_path, jobs=1, redo=("sift",))
    with (tmp_path / "synthetic.csv").open() as file:
        found = list(csv.DictReader(file))
    with (whole / "synthetic.csv").open() as file:
        true = list(csv.DictReader(file))
    for row, right in zip(found, true, strict=True):
        expected = right["accuracy"] if row["method"] == "sift" else "0.0625"
        assert row["accuracy"] == expected


def test_workers_have_one_thread_and_the_environment_is_put_back(one_seed):
    with (one_seed.folder / "synthetic-seconds.csv").open() as file:
        assert {row["note"] for row in csv.DictReader(file)} == {"1"}
    assert one_seed.threads == "7"


def test_a_process_that_dies_is_said(tmp_path):
    with pytest.raises(RequestError, match=r"killed.*start the same command again"):
        perform(Fatal(TWO), tmp_path, jobs=1)


def test_progress_ends_with_everything_done(one_seed):
    seen = one_seed.progress
    assert seen[0] == (0.0, pytest.approx(seen[-1][1]), 0, 12)
    assert seen[-1][0] == pytest.approx(seen[-1][1])
    assert seen[-1][2:] == (12, 12)


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [(ONE, "seeds 2 there, 1 now"), (Options(seeds=2, quick=True), "quick false there, true now")],
)
def test_other_options_are_refused(whole, options, message):
    before = contents(whole)
    with pytest.raises(RequestError, match=f"cannot be mixed.*{message}.*--out.*--redo all"):
        perform(Small(options), whole)
    assert contents(whole) == before


def test_another_version_is_refused_and_can_be_started_anew(one_seed, tmp_path, monkeypatch, in_process):
    out = copytree(one_seed.folder, tmp_path / "run")
    before = contents(out)
    monkeypatch.setattr(store, "__version__", "99.0")
    with pytest.raises(RequestError, match=r'version "0.*there, "99\.0" now'):
        perform(Small(ONE), out)
    with pytest.raises(RequestError, match="cannot be mixed"):
        perform(Small(ONE), out, redo=("sift",))
    (out / "synthetic.csv").unlink()
    perform(Small(ONE), out, jobs=1, redo=("all",))
    assert contents(out) == before
    assert json.loads((out / "run.json").read_text())["version"] == "99.0"


def test_another_experiment_is_refused_even_anew(whole, data_like):
    for redo in ((), ("all",)):
        with pytest.raises(RequestError, match='experiment "synthetic" there, "real" now'):
            reproduce("real", whole, Options(data=data_like), redo=redo)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"no run\.json"):
        perform(Small(TWO), tmp_path, redo=("all",))
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["precious.txt"]


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    pytest.importorskip("fcntl")
    with store.Store(tmp_path, Small(TWO)).opened(), pytest.raises(RequestError, match="another run is writing"):
        perform(Small(TWO), tmp_path)


def test_unknown_things_are_refused(tmp_path):
    with pytest.raises(RequestError, match=r"unknown experiment 'sinthetic'.*did you mean"):
        experiment("sinthetic", Options())
    with pytest.raises(RequestError, match="seeds must be at least 1"):
        Options(seeds=0)
    with pytest.raises(RequestError, match="cannot redo 'elo'"):
        reproduce("synthetic", tmp_path, redo=("elo",))
    with pytest.raises(RequestError, match="penalties"):
        experiment("synthetic", Options(tune=True))


# --- the experiments -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data_like(tmp_path_factory) -> Path:
    """Files as Passage and the FaceAge subset have them, of a few simulated votes."""
    folder = tmp_path_factory.mktemp("data")
    for seed, (votes, items) in enumerate((("passage", "passage"), ("faceage_subset", "faceage"))):
        drawn = crowdsift.simulate(12, 20, 600, reliability=(0.2, 1.5), seed=seed)
        left, right = drawn.items[drawn.first], drawn.items[drawn.second]
        won = drawn.outcome == 1
        rows = zip(np.where(won, left, right), np.where(won, right, left), drawn.workers[drawn.worker], strict=True)
        text = "winner,loser,worker\n" + "".join(",".join(row) + "\n" for row in rows)
        (folder / f"{votes}.csv").write_text(text)
        known = enumerate(zip(drawn.items, drawn.scores, strict=True))
        text = "".join(f"{item},{score:.6f},{place % 2}\n" for place, (item, score) in known)
        (folder / f"{items}_items.csv").write_text("item,score,gender\n" + text)
    return folder


def test_the_grids_are_those_of_the_paper(data_dir):
    rows = datasets.published("synthetic", data_dir)
    assert rows is not None
    full = experiment("synthetic", Options()).settings()
    sweeps = {(s["beta"], s["sweep"], s["items"], s["workers"], s["comparisons"]) for s in full}
    assert sweeps == {(r["beta"], r["sweep"], int(r["items"]), int(r["workers"]), int(r["comparisons"])) for r in rows}
    assert len(full) == 580
    spam = datasets.published("spammers", data_dir)
    assert spam is not None
    mine = experiment("spammers", Options()).settings()
    assert {(s["kind"], s["percent"]) for s in mine} == {(r["kind"], int(r["added_percent"])) for r in spam}
    assert len(mine) == 2 * 5 * 10 * 10


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_settings_are_distinct_and_survive_json(name, data_like):
    for options in (Options(data=data_like), Options(quick=True, seeds=2, data=data_like)):
        settings = experiment(name, options).settings()
        texts = [json.dumps(setting) for setting in settings]
        assert len(set(texts)) == len(texts)
        assert [json.loads(text) for text in texts] == settings


def test_real_runs_from_its_data_to_its_page(data_like, tmp_path, in_process):
    options = Options(data=data_like, tune=True)
    files = reproduce("real", tmp_path / "run", options, jobs=1)
    assert {"real.csv", "real.md", "real-seconds.csv"} <= set(files)
    with (tmp_path / "run" / "real.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (9 + 8)
    votes, truth = data_like / "passage.csv", data_like / "passage_items.csv"
    direct = {row["method"]: row for row in crowdsift.evaluate(votes, truth, threads=1)}
    for row in rows:
        if (row["data"], row["penalty"]) == ("passage", "default"):
            expected = direct[row["method"]]["accuracy"]
            assert float(row["accuracy"]) == pytest.approx(expected, abs=1e-6)
    (data_like / "passage.csv").touch()  # the same content: goes on
    reproduce("real", tmp_path / "run", options)
    other = tmp_path / "data"
    other.mkdir()
    for path in data_like.iterdir():
        (other / path.name).write_bytes(path.read_bytes() + b"\n" * (path.name == "passage.csv"))
    with pytest.raises(RequestError, match="inputs"):
        reproduce("real", tmp_path / "run", Options(data=other, tune=True))


def test_spammers_and_ablations_run_and_the_results_page_tells_the_counts(
    data_like, one_seed, tmp_path, sketched, in_process
):
    runs = tmp_path / "runs"
    options = Options(quick=True, seeds=1, data=data_like)
    reproduce("spammers", runs / "spammers", options, jobs=1)
    reproduce("ablations", runs / "ablations", options, jobs=1)
    copytree(one_seed.folder, runs / "synthetic")
    with (runs / "ablations" / "ablations.csv").open() as file:
        rows = list(csv.DictReader(file))
    gaps = [float(row["mirror_gap"]) for row in rows if row["mirror_gap"]]
    assert len(gaps) == 2 * 3  # two methods, -1, -.6 and -.2
    assert max(gaps) <= 1e-6
    assert {row["parameter"] for row in rows} == {"start", "tolerance", "reliability_sd", "item_ridge", "alternations"}
    write_results(runs, tmp_path / "docs", data_like)
    head = (tmp_path / "docs" / "results.md").read_text().splitlines()[:10]
    result = "\n".join(head)
    with (runs / "spammers" / "spammers.csv").open() as file:
        spam = list(csv.DictReader(file))
    beats = ties = 0
    cases = {(r["kind"], r["percent"]) for r in spam if r["data"] == "passage"}
    for case in cases:
        found = {
            r["method"]: float(r["accuracy"])
            for r in spam
            if r["data"] == "passage" and (r["kind"], r["percent"]) == case
        }
        gain = found["sift"] - max(found[name] for name in EIGHT)
        beats += gain > 0.001
        ties += abs(gain) <= 0.001
    loses = len(cases) - beats - ties
    assert f"Passage: beats {beats}, ties {ties}, loses {loses}" in result
    assert "Not run: Real votes." in (tmp_path / "docs" / "results.md").read_text()
    assert (tmp_path / "docs" / "results" / "spammers-passage-accuracy.png").exists()


def test_a_run_that_is_not_finished_says_so_on_the_page(whole, tmp_path, sketched):
    folder = tmp_path / "runs" / "synthetic"
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes((whole / "run.json").read_bytes())
    (folder / "finished.jsonl").write_text("")
    write_results(tmp_path / "runs", tmp_path / "docs")
    result = f"Only 0 of {10 * 2 * 58} fits are done."
    page = (tmp_path / "docs" / "results.md").read_text()
    assert result in page, [line for line in page.splitlines() if "fits are done" in line]


# --- the command -----------------------------------------------------------------------------


def test_the_command_refuses_clearly(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def refused(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["crowdsift", "reproduce", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 1
        out, err = capsys.readouterr()
        assert out == ""
        return err

    assert "unknown experiment 'everything'" in refused("everything")
    (tmp_path / "empty").mkdir()
    with monkeypatch.context() as patch:
        patch.setenv("CROWDSIFT_DATA", str(tmp_path / "empty"))
        result = refused("real")
    assert "passage.csv" in result
    assert "CROWDSIFT_DATA" in result
    assert "--data" in result
    assert "is not a folder" in refused("real", "--data", "nowhere")
    assert "holds no run" in refused("results", "--runs", "nowhere")
    assert not (tmp_path / "reproduce-output").exists()


def test_help_documents_every_option():
    text = CliRunner().invoke(cli.app, ["reproduce", "--help"], env={"COLUMNS": "200"}).output
    options = ("--quick", "--data", "--out", "--seeds", "--tune", "--download", "--redo", "--jobs")
    for option in options:
        assert option in text


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    out = tmp_path / "run"
    run = subprocess.Popen(
        [sys.executable, "-m", "crowdsift", "reproduce", "synthetic", "--out", out, "--jobs", "1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not lines_of(out) and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    result = run.communicate(timeout=60)[1]
    assert run.returncode == 130
    assert "the same command goes on from there" in result
    assert "Traceback" not in result
    assert len(lines_of(out)) >= 9
    assert not (out / "synthetic.csv").exists()
