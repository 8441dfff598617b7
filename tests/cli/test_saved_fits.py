"""Commands that go on from a saved fit: update, predict, the head of features, the engine."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

import crowdsift
from crowdsift import engines
from crowdsift.engines import fastest_engine
from crowdsift.errors import RequestError
from crowdsift.io.items import read_capacities, read_pair_queries
from crowdsift.votes.replies import reply_label


@pytest.fixture
def parts(tmp_path):
    """Votes in a file, the same in two halves, and the fit of the first half in a folder."""
    crowdsift.simulate(items=8, workers=6, comparisons=900, seed=4).write(tmp_path)
    head, *rows = (tmp_path / "votes.csv").read_text().splitlines(keepends=True)
    for name, half in (("one.csv", rows[:600]), ("two.csv", rows[600:])):
        (tmp_path / name).write_text(head + "".join(half))
    crowdsift.fit(tmp_path / "one.csv").save(tmp_path / "fit")
    return tmp_path


def test_update_is_the_fit_of_all_votes(run, parts):
    status, out, err = run("update", parts / "fit", parts / "two.csv")
    assert status == 0
    assert "sift: 8 items, 6 workers, 900 votes" in " ".join(out.split())
    assert f"Written: {parts / 'fit'} (600 votes before, 900 now)" in err
    whole = crowdsift.fit(parts / "votes.csv")
    gone_on = crowdsift.load(parts / "fit")
    assert gone_on.scores_of(whole.labels) == pytest.approx(whole.items["score"], abs=2e-3)
    status, _, err = run("update", parts / "fit", parts / "two.csv")
    assert status == 1  # the same file twice
    assert "already" in err


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_updates_at_the_same_time_are_all_kept(parts):
    head, *rows = (parts / "two.csv").read_text().splitlines(keepends=True)
    for number in range(3):
        rows_of_one = rows[100 * number : 100 * (number + 1)]
        (parts / f"new-{number}.csv").write_text(head + "".join(rows_of_one))
    words = [sys.executable, "-m", "crowdsift", "update", str(parts / "fit")]
    running = [
        subprocess.Popen(
            [*words, str(parts / f"new-{number}.csv")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for number in range(3)
    ]
    messages = [each.communicate(timeout=120)[1] for each in running]
    assert [each.returncode for each in running] == [0, 0, 0], messages
    assert any("another run is writing there; waiting for it" in text for text in messages)
    later, whole = crowdsift.load(parts / "fit"), crowdsift.fit(parts / "votes.csv")
    assert later.summary["votes"] == 900
    assert [entry["votes"] for entry in later.summary["history"]] == [600, 700, 800, 900]
    assert later.scores_of(whole.labels) == pytest.approx(whole.items["score"], abs=2e-3)


def test_an_update_takes_the_options_that_errors_recommend(run, parts):
    lines = (parts / "two.csv").read_text().splitlines()
    head = lines[0].split(",")
    at = head.index("winner")
    changed = [line.split(",") for line in lines]
    for row in changed[1:]:
        row[at] = {"left": "A", "right": "B"}.get(row[at], row[at])
    (parts / "two.csv").write_text("\n".join(map(",".join, changed)) + "\n")
    status, _, err = run("update", parts / "fit", parts / "two.csv", "--values", "A=left,B=right")
    assert status == 0, err
    (parts / "three.csv").write_text("winner,loser\ni0,i1\n")
    status, _, err = run("update", parts / "fit", parts / "three.csv")
    assert status == 1
    assert "crowdsift fit --no-workers" in err  # which update itself has not


def test_update_leaves_the_folder_alone_with_out_and_prints_json(run, parts):
    before = (parts / "fit" / "items.csv").read_bytes()
    words = ("--out", parts / "new", "--json", "--quiet")
    status, out, err = run("update", parts / "fit", parts / "two.csv", *words)
    assert (status, err) == (0, "")
    assert json.loads(out)["summary"]["votes"] == 900
    assert (parts / "fit" / "items.csv").read_bytes() == before
    assert crowdsift.load(parts / "new").summary["votes"] == 900


def test_predictions_of_a_file_are_those_of_the_fit(run, parts):
    (parts / "pairs.csv").write_text("left,right,worker\ni0,i1,w2\ni5,i3,\n")
    fit = crowdsift.load(parts / "fit")
    expected = [fit.predict("i0", "i1", worker="w2"), fit.predict("i5", "i3")]
    status, out, _ = run("predict", parts / "fit", parts / "pairs.csv")
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [float(row["probability"]) for row in rows] == pytest.approx(expected, rel=1e-12)
    for row in rows:
        assert sum(float(row[name]) for name in ("win", "tie", "loss")) == pytest.approx(1.0)
    status, out, _ = run("predict", parts / "fit", parts / "pairs.csv", "--json")
    assert [row["probability"] for row in json.loads(out)] == pytest.approx(expected, rel=1e-12)
    status, out, err = run("predict", parts / "fit", parts / "pairs.csv", "--out", parts / "p.csv")
    assert (status, out) == (0, "")
    assert "(2 rows)" in err
    assert len(list(csv.DictReader((parts / "p.csv").open()))) == 2


def test_unknown_items_are_refused_by_name_or_have_the_prior(run, parts):
    (parts / "pairs.csv").write_text("first,second\ni0,nobody\n")
    status, _, err = run("predict", parts / "fit", parts / "pairs.csv")
    assert status == 1
    assert "nobody" in err
    status, out, _ = run("predict", parts / "fit", parts / "pairs.csv", "--unknown", "prior")
    (row,) = csv.DictReader(io.StringIO(out))
    fit = crowdsift.load(parts / "fit")
    assert float(row["probability"]) == pytest.approx(fit.predict("i0", "nobody", unknown="prior"))
    (parts / "pairs.csv").write_text("here,there\ni0,i1\n")
    status, _, err = run("predict", parts / "fit", parts / "pairs.csv")
    assert status == 1
    assert "no columns first and second" in err


def test_pairs_are_asked_within_their_context():
    labels = [("q1", "a"), ("q1", "b"), ("q2", "a")]
    rows = {"first": ["a", "a"], "second": ["b", "c"], "topic": ["q1", "q2"], "worker": ["7", ""]}
    asked = read_pair_queries(rows, labels, [7], "topic")
    assert asked.first == [("q1", "a"), ("q2", "a")]
    assert asked.second == [("q1", "b"), ("q2", "c")]  # unknown: kept as it is
    assert asked.worker == [7, None]
    long = "A reply of more than sixty characters, which a fit knows by its beginning and a hash."
    assert read_pair_queries({"chosen": [long], "rejected": ["b"]}, [reply_label(long), "b"], []).first == [
        reply_label(long)
    ]


def test_workers_without_capacities_are_a_list():
    assert read_capacities({"worker": ["bob", "ann"]}) == ["ann", "bob"]


def test_an_export_says_where_to(run, parts):
    status, _, err = run("export", parts / "fit")
    assert status == 1
    assert "--out FILE, or --head FILE.safetensors" in err
    for words in (("--method", "bt"), ("--set", "sides=false"), ("--no-workers",)):
        status, _, err = run("export", parts / "fit", "--out", parts / "x.jsonl", *words)
        assert status == 1
        assert "is the folder of a fit, which is taken as it is" in err
    assert not (parts / "x.jsonl").exists()


def test_the_head_of_features_is_written(run, tmp_path):
    drawn = crowdsift.simulate(items=20, workers=6, comparisons=900, seed=4)
    drawn.write(tmp_path)
    features = {"item": list(drawn.items), "size": drawn.scores.tolist()}
    crowdsift.fit(tmp_path / "votes.csv", items=features).save(tmp_path / "fit")
    head = tmp_path / "head.safetensors"
    status, _, err = run("export", tmp_path / "fit", "--head", head)
    assert status == 0
    assert "Written" in err
    length = int.from_bytes(head.read_bytes()[:8], "little")
    names = json.loads(head.read_bytes()[8 : 8 + length])
    assert {"weight", "weight_sd", "mean", "scale"} <= set(names)
    (tmp_path / "new.csv").write_text("item,size\nn1,5.0\nn2,-5.0\n")
    status, out, _ = run("predict", tmp_path / "fit", tmp_path / "new.csv")
    assert status == 0
    big, small = csv.DictReader(io.StringIO(out))
    assert float(big["score"]) > 0 > float(small["score"])


MANY = 10**9, 2, "grid"  # votes, threads, and what is needed of the engine


def test_the_engine_without_a_choice(monkeypatch):
    """The compiled core for few votes; with many it says what a GPU would need."""
    assert fastest_engine(1000, 2, "grid").name == "cpu"
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "triton" else name)
    assert fastest_engine(*MANY) == ("cpu", "Triton is not installed")
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert fastest_engine(*MANY) == ("cpu", "PyTorch is not installed")


def test_the_engine_beside_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = fastest_engine(*MANY)
    assert found.name == "cpu"
    assert f"PyTorch {torch.__version__} finds no CUDA device" in found.reason
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    found = fastest_engine(*MANY)
    assert found.name == "torch"
    assert found.reason.startswith("there is a GPU, a card, expected to be faster")


def test_pytorch_is_not_imported_where_no_gpu_can_be(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(engines, "_has_driver", lambda: False)
    assert fastest_engine(*MANY) == ("cpu", "there is no driver of a GPU")
    assert "torch" not in sys.modules


def test_an_engine_is_chosen_by_a_name_that_can_be():
    votes = crowdsift.simulate(5, 3, 50, seed=1).comparisons()
    with pytest.raises(RequestError, match="chosen by its name"), engines.opened_engine(7, votes, 1, "grid"):
        pass
    with pytest.raises(RequestError, match="can only run complete fits"):
        engines.choose_engine("dask", votes)
