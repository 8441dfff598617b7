"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import crowdsift

GOOD = "winner,loser,worker\na,b,x\nb,c,y\na,c,x\n"


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(GOOD)
    return path


@pytest.fixture
def crowd(tmp_path):
    crowdsift.simulate(items=20, workers=10, comparisons=1500, seed=1).write(tmp_path / "crowd")
    return tmp_path / "crowd"


def test_fit_prints_tables(run, crowd):
    status, out, err = run("fit", crowd / "votes.csv")
    assert status == 0
    assert "the best 10 of 20" in out
    assert "sift: 20 items, 10 workers, 1,500 votes; converged" in " ".join(out.split())
    assert err == "plain: 1,500 rows read, 1,500 used, 0 empty, 0 duplicates, 0 set aside\n"


def test_quiet_prints_warnings_and_what_no_file_has(run, crowd, tmp_path):
    votes, out = crowd / "votes.csv", tmp_path / "fit"
    status, printed, err = run("fit", votes, "--quiet")
    assert (status, err) == (0, "")
    assert "the best 10 of 20" in printed
    for words in (("--out", out), ("--table", tmp_path / "t.md"), ("--excel-safe", tmp_path / "x")):
        assert run("fit", votes, *words, "--quiet") == (0, "", "")
    assert crowdsift.load(out).summary["votes"] == 1500
    assert run("report", out, "--out", tmp_path / "page.html", "--quiet") == (0, "", "")
    assert run("next", out, "--out", tmp_path / "next.csv", "--quiet") == (0, "", "")
    more = tmp_path / "more.csv"
    head, _, last = votes.read_text().splitlines()[:3]
    more.write_text(f"{head}\n{last}\n")
    assert run("update", out, more, "--quiet") == (0, "", "")
    assert crowdsift.load(out).summary["votes"] == 1501
    hasty = ("--method", "crowd-bt", "--set", "most_iterations=2", "--out", tmp_path / "hasty")
    status, printed, err = run("fit", votes, *hasty, "--quiet")
    assert (status, printed) == (0, "")
    assert err.startswith("crowdsift: warning: crowd-bt did not converge")


def test_fit_json_is_the_contract(run, crowd):
    status, out, _ = run("fit", crowd / "votes.csv", "--method", "bora-em", "--json")
    assert status == 0
    result = json.loads(out)
    assert set(result) == {"summary", "items", "workers"}
    assert list(result["items"][0]) == [
        "item",
        "score",
        "lower",
        "upper",
        "rank",
        "rank_lower",
        "rank_upper",
        "comparisons",
        "component",
        "se",
    ]
    assert list(result["workers"][0])[:10] == [
        "worker",
        "reliability",
        "lower",
        "upper",
        "side_bias",
        "side_lower",
        "side_upper",
        "comparisons",
        "agreement",
        "verdict",
    ]
    for key in (
        "method",
        "version",
        "converged",
        "iterations",
        "passes",
        "log_likelihood",
        "mean_log_likelihood",
        "evidence",
        "seconds",
        "sign_margin",
        "warnings",
    ):
        assert key in result["summary"]


def test_fit_writes_a_folder(run, crowd, tmp_path):
    status, _, _ = run("fit", crowd / "votes.csv", "--out", tmp_path / "fit", "--json")
    assert status == 0
    written = {path.name for path in (tmp_path / "fit").iterdir()}
    assert {"decisions.csv", "items.csv", "summary.json", "workers.csv"} <= written
    with (tmp_path / "fit" / "items.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 20
    assert crowdsift.load(tmp_path / "fit").converged


def test_fit_takes_parameters(run, crowd):
    few = ("--method", "bora-em", "--set", "most_iterations=2")
    _, out, _ = run("fit", crowd / "votes.csv", *few, "--json")
    result = json.loads(out)
    assert result["summary"]["iterations"] == 2
    assert not result["summary"]["converged"]
    status, _, err = run("fit", crowd / "votes.csv", *few)
    assert status == 0
    assert "warning: bora-em did not converge" in err


def test_fit_reads_standard_input(run, votes, monkeypatch):
    with votes.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        status, out, _ = run("fit", "-", "--method", "bt", "--json")
    assert status == 0
    assert [row["item"] for row in json.loads(out)["items"]] == ["a", "b", "c"]


def test_columns_are_mapped(run, tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("chosen,rejected,annotator\na,b,x\nb,c,y\n")
    status, out, _ = run("fit", path, "--columns", "winner=chosen,loser=rejected,worker=annotator", "--json")
    assert status == 0
    assert json.loads(out)["summary"]["workers"] == 2


def test_evaluate(run, crowd):
    truth = crowd / "items.csv"
    status, out, _ = run("evaluate", crowd / "votes.csv", "--truth", truth, "--json")
    assert status == 0
    records = json.loads(out)
    assert {"bt", "bora-em"} <= {record["method"] for record in records}
    assert list(records[0]) == [
        "method",
        "accuracy",
        "weighted_accuracy",
        "kendall_tau",
        "accuracy_up_to_sign",
        "weighted_accuracy_up_to_sign",
        "kendall_tau_up_to_sign",
        "seconds",
        "note",
    ]
    assert all(record["accuracy"] > 0.8 for record in records)
    status, out, _ = run("evaluate", crowd / "votes.csv", "--truth", truth, "--methods", "bt")
    assert status == 0
    assert "tau ±" in out


def test_simulate_like(run, crowd, tmp_path):
    status, _, _ = run(
        "simulate",
        "--items",
        30,
        "--comparisons",
        3000,
        "--like",
        crowd / "votes.csv",
        "--out",
        tmp_path / "like",
        "--reliability",
        "-1,1",
    )
    assert status == 0
    drawn = crowdsift.read(tmp_path / "like" / "votes.csv")
    assert (drawn.rows, drawn.n_items, drawn.n_workers) == (3000, 30, 10)
    loads = crowdsift.read(crowd / "votes.csv").worker_loads()
    assert drawn.worker_loads() == pytest.approx(2 * loads, abs=1)


def test_demo_flags_the_spammers(run, tmp_path):
    status, out, _ = run("demo", "--out", tmp_path / "demo")
    assert status == 0
    assert "the best 10 of 40" in out
    assert "10 opposite  10 adversarial" in out
    assert (tmp_path / "demo" / "fit" / "items.csv").exists()


BAD = {
    "no such file": (None, "no such file"),
    "empty file": ("", "empty"),
    "header only": ("winner,loser,worker\n", "no votes"),
    "missing column": ("winner,other,worker\na,b,x\n", "--columns"),
    "same item": (GOOD + "a,a,x\n", "row 4"),
    "empty label": (GOOD + ",b,x\n", "row 4"),
    "negative weight": ("winner,loser,worker,weight\na,b,x,-1\n", "row 1"),
    "weight not a number": ("winner,loser,worker,weight\na,b,x,1\na,b,x,heavy\n", "row 2"),
    "outcome above one": ("first,second,outcome,worker\na,b,1.5,x\n", "row 1"),
    "winner of neither side": ("left,right,winner,worker\na,b,c,x\n", "row 1"),
    "ragged row": (GOOD + "a,b\n", "row 4"),
    "not text": (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe\x00", "text"),
    "single item": ("winner,loser,worker\na,a,x\n", "only one item"),
    "no worker column": ("winner,loser\na,b\n", "--no-workers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_votes_fail_cleanly(case, run, tmp_path):
    content, message = BAD[case]
    path = tmp_path / "votes.csv"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    status, out, err = run("fit", path, "--out", tmp_path / "fit", "--json")
    assert status == 1
    assert out == ""
    assert err.startswith("crowdsift: error: ")
    assert "votes.csv" in err
    assert message in err
    assert "Traceback" not in err
    assert "internal error" not in err
    assert not (tmp_path / "fit").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "elo"], "unknown method 'elo'; the methods are"),
        (["--set", "speed"], "--set takes NAME=VALUE"),
        (["--set", "alternations=many"], "not a number"),
        (["--method", "bora-em", "--set", "alternations=0"], "alternations must be above 0"),
        (["--columns", "winner"], "--columns takes"),
        (["--engine", "abacus"], "unknown engine 'abacus'"),
        (["--threads", "0"], "threads must be at least 1"),
    ],
)
def test_bad_requests_fail_cleanly(arguments, message, run, votes):
    status, out, err = run("fit", votes, *arguments)
    assert (status, out) == (1, "")
    assert message in err
    assert "internal error" not in err


def test_no_workers_pools_all(run, tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("winner,loser\na,b\nb,c\n")
    status, out, _ = run("fit", path, "--no-workers", "--method", "bt", "--json")
    assert status == 0
    assert json.loads(out)["workers"] == []
    status, _, err = run("fit", path, "--no-workers", "--method", "bora-em")
    assert status == 1
    assert "use method 'bt'" in err


def test_truth_of_other_items(run, votes, tmp_path):
    truth = tmp_path / "items.csv"
    truth.write_text("item,score\nz,1\n")
    status, _, err = run("evaluate", votes, "--truth", truth)
    assert status == 1
    assert "use the same names" in err


def test_simulate_requests(run, tmp_path):
    common = ["simulate", "--items", 5, "--comparisons", 10, "--out", tmp_path / "s"]
    assert "--workers" in run(*common)[2]
    assert "LOW,HIGH" in run(*common, "--workers", 3, "--reliability", "high")[2]
    assert not (tmp_path / "s").exists()


def test_usage_is_status_two(run):
    assert run("fit")[0] == 2
    assert run("evaluate", "votes.csv", "--truth")[0] == 2


def test_interrupt_writes_nothing(run, votes, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(crowdsift, "fit", interrupted)
    before = signal.getsignal(signal.SIGINT)
    status, _, err = run("fit", votes, "--out", tmp_path / "fit")
    signal.signal(signal.SIGINT, before)
    assert status == 130
    assert "nothing was written" in err
    assert not (tmp_path / "fit").exists()


def test_faults_of_ours_show_no_traceback(run, votes, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(crowdsift, "fit", broken)
    status, _, err = run("fit", votes)
    assert status == 1
    assert "internal error (ZeroDivisionError: oops)" in err


def test_labels_are_shown_as_text(run, tmp_path):
    path = tmp_path / "v.csv"
    path.write_text('winner,loser,worker\n"[bold]x[/bold]","a\nb",w\n' + f"a,{'y' * 500},w\n")
    status, out, _ = run("fit", path, "--method", "bt")
    assert status == 0
    assert "[bold]x[/bold]" in out
    assert "a b" in out
    assert "y" * 100 not in out


def test_installed_command_and_closed_pipe(votes):
    """The real command, its output cut off by the reader."""
    command = [sys.executable, "-m", "crowdsift", "fit", str(votes), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["summary"]["converged"]
    shell = f"'{sys.executable}' -m crowdsift fit '{votes}' | true"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert "error" not in done.stderr.lower()


def test_json_of_figures_that_do_not_exist(run, tmp_path):
    """All ties: accuracy 0, tau undefined; still one whole JSON value."""
    (tmp_path / "v.csv").write_text("first,second,outcome,worker\na,b,0.5,x\nb,c,0.5,y\n")
    (tmp_path / "t.csv").write_text("item,score\na,1\nb,2\nc,3\n")
    status, out, _ = run("evaluate", tmp_path / "v.csv", "--truth", tmp_path / "t.csv", "--json")
    assert status == 0
    assert {row["kendall_tau"] for row in json.loads(out)} == {None}


def test_evaluate_without_workers_runs_what_it_can(run, tmp_path):
    (tmp_path / "v.csv").write_text("winner,loser\na,b\nb,c\n")
    (tmp_path / "t.csv").write_text("item,score\na,3\nb,2\n")
    status, out, _ = run("evaluate", tmp_path / "v.csv", "--truth", tmp_path / "t.csv", "--no-workers", "--json")
    assert status == 0
    rows = {row["method"]: row for row in json.loads(out)}
    assert rows["bt"]["accuracy"] == 1.0
    assert "1 items without truth" in rows["bt"]["note"]
    assert rows["bora-em"]["accuracy"] is None
    assert "needs workers" in rows["bora-em"]["note"]


def test_classes(run, crowd, tmp_path):
    items = crowdsift.read(crowd / "votes.csv").items
    (tmp_path / "c.csv").write_text("item,kind\n" + "".join(f"{item},{i % 2}\n" for i, item in enumerate(items)))
    votes = crowd / "votes.csv"
    status, out, _ = run("fit", votes, "--method", "barp", "--classes", f"{tmp_path / 'c.csv'}:kind", "--json")
    assert status == 0
    assert "class_bias_1" in json.loads(out)["workers"][0]
    assert "--classes" in run("fit", votes, "--method", "barp")[2]
    assert "ITEMS.csv:COLUMN" in run("fit", votes, "--method", "barp", "--classes", "c.csv")[2]
    (tmp_path / "c.csv").write_text(f"item,kind\n{items[0]},1\n")
    err = run("fit", votes, "--method", "barp", "--classes", f"{tmp_path / 'c.csv'}:kind")[2]
    assert "19 of the 20 items of the votes have no class" in err


def test_features(run, tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("winner,loser,worker,longer\na,b,x,1\nb,c,y,-1\na,c,x,0\n")
    status, out, _ = run("fit", path, "--method", "factor-bt", "--covariates", "longer", "--json")
    assert status == 0
    assert json.loads(out)["summary"]["converged"]
    assert "--covariates" in run("fit", path, "--method", "factor-bt")[2]


def test_tune(run, crowd):
    status, out, _ = run(
        "evaluate", crowd / "votes.csv", "--truth", crowd / "items.csv", "--methods", "bt", "--tune", "--json"
    )
    assert status == 0
    assert json.loads(out)[0]["note"].startswith("penalty ")


def test_spam(run, votes, tmp_path):
    out = tmp_path / "spam.csv"
    status, _, err = run("spam", votes, "--kind", "left", "--percent", 50, "--out", out)
    assert status == 0
    assert "one fixed random side" in err
    assert "1 spammers added" in err
    assert out.read_text().startswith("left,right,winner,worker")
    status, _, err = run("spam", votes, "--kind", "left", "--percent", 5, "--out", tmp_path / "n")
    assert status == 1
    assert "adds no one" in err
    assert not (tmp_path / "n").exists()


def test_places_that_cannot_be_written(run, votes, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = run("fit", votes, "--out", tmp_path / "file")
    assert status == 1
    assert "give a folder" in err


def test_version(run):
    assert run("--version")[1].strip() == f"crowdsift {crowdsift.__version__}"


def test_other_encodings_of_the_terminal(tmp_path):
    """JSON is UTF-8 whatever the locale says."""
    path = tmp_path / "v.csv"
    path.write_text("winner,loser,worker\né,b,x\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "crowdsift", "fit", str(path), "--json"],
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout.decode())["items"][0]["item"] == "é"
