"""Hidden workers: no label in anything that is written, and one worker stays one in updates."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tied_votes import drawn
from typer.testing import CliRunner

import crowdsift
from crowdsift import CrowdsiftError, InputError, RequestError
from crowdsift.cli import app
from crowdsift.results.predict import labels_of_workers
from crowdsift.votes.pseudonyms import Hiding, is_pseudonym

PEOPLE = [f"Anna-{name}" for name in "qwertyuiopasdfghjklz"]
COLUMNS = ("left", "right", "winner", "worker", "minute", "chars")


def table(seed: int, count: int = 600) -> list[list[str]]:
    """Rows of votes by people with names that can be found; one of them answers at random."""
    one, two, who, outcome, _ = drawn(seed, votes=count)
    rng = np.random.default_rng(seed)
    outcome = np.where(who == 3, rng.integers(0, 2, count), outcome)
    words = {1.0: "left", 0.5: "tie", 0.0: "right"}
    return [
        [f"i{a}", f"i{b}", words[y], PEOPLE[s], str(t), str(rng.integers(9))]
        for t, (a, b, s, y) in enumerate(zip(one, two, who, outcome, strict=True))
    ]


def write(path: Path, rows: list[list[str]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Votes with bad rows and labels that look alike, new votes, and a key."""
    rows = table(1)
    rows += [["i1", "i1", "left", "Anna-q", "7", "1"], ["i1", "", "left", "Anna-w", "7", "1"]]
    rows += [["i1", "i2", "left", " Anna-e", "8", "1"]]  # like another label but for a blank
    write(tmp_path / "votes.csv", rows)
    write(tmp_path / "new.csv", [*table(2, 60), ["i1", "i2", "left", "Anna-new", "9", "1"]])
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef\n")
    return SimpleNamespace(folder=tmp_path, votes=str(tmp_path / "votes.csv"))


def run(*arguments: str) -> str:
    """Run a command; return what it printed on both streams."""
    found = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def outputs(folder: Path) -> dict[str, str]:
    """All files but the inputs, Parquet as the text of its values too."""
    result = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("votes.csv", "new.csv", "key"):
            result[str(path)] = path.read_bytes().decode("latin-1")
            if path.suffix == ".parquet":
                import duckdb

                result[f"{path} rows"] = str(duckdb.sql(f"FROM '{path}'").fetchall())
    return result


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("method", ["sift", "bora-em"])
def test_no_output_has_the_label_of_a_worker(files, monkeypatch, key, method):
    monkeypatch.chdir(files.folder)
    hide = ["--hide-key", "key"] if key else ["--hide-workers"]
    printed = run(
        "fit",
        files.votes,
        *hide,
        "--method",
        method,
        "--out",
        "fit",
        "--report",
        "page.html",
        "--table",
        "table.md",
        "--excel-safe",
        "sheets",
        "--robustness",
        "--statistics",
        "--skip-bad",
        "--time",
        "minute",
        "--json",
    )
    printed += run("fit", files.votes, *hide, "--method", method, "--skip-bad")
    printed += run("update", "fit", "new.csv", *(hide if key else []))
    printed += run("report", "fit", "--out", "again.html")
    printed += run("export", "fit", "--out", "export.jsonl")
    printed += run("next", "fit", "--pairs", "3", "--out", "next.csv")
    found = {**outputs(files.folder), "printed": printed}
    assert {"bad-rows.csv", "summary.json", "page.html", "next.csv", "export.jsonl"} <= {
        Path(name).name for name in found
    }
    for name, text in found.items():
        for label in (*PEOPLE, "Anna"):
            assert label not in text, (name, label)
    assert "differ only in blanks" in printed  # the warning is there, with pseudonyms
    with open("bad-rows.csv") as file:
        assert all(is_pseudonym(row["worker"]) for row in csv.DictReader(file))


@pytest.mark.parametrize("key", [None, "key"])
def test_an_update_hides_new_votes_alike(files, key):
    key = None if key is None else files.folder / key
    options = {"skip_bad": True, "hide_workers": key or True}
    new = files.folder / "new.csv"
    crowdsift.fit(files.votes, **options).save(files.folder / "fit")
    later = crowdsift.load(files.folder / "fit").update(new, hide_workers=key or True)
    plain = crowdsift.fit(files.votes, skip_bad=True).update(new)
    assert later.worker_table.height == plain.worker_table.height
    assert all(map(is_pseudonym, later.worker_table["worker"]))
    hiding = Hiding.of(key or True)
    expected = {hiding.pseudonym(row["worker"]): row for row in plain.worker_table.records()}
    for row in later.worker_table.records():
        assert row["comparisons"] == expected[row["worker"]]["comparisons"]
        assert row["verdict"] == expected[row["worker"]]["verdict"]
        np.testing.assert_allclose(row["reliability"], expected[row["worker"]]["reliability"], atol=1e-3)


def test_workers_whose_short_digests_are_equal_stay_two():
    """At 0333b93 both were worker-3b58d0fd after an update, in which each came alone."""
    one, two = "worker81860", "worker110019"
    first = {"winner": ["a"] * 20, "loser": ["b"] * 20, "worker": [one] * 20}
    fit = crowdsift.fit(crowdsift.read(first), "bora-em").hide_workers()
    second = {"winner": ["b"] * 20, "loser": ["a"] * 20, "worker": [two] * 20}
    assert fit.update(second).worker_table.height == 2
    hiding = Hiding()
    assert len({hiding.pseudonym(f"worker{i}") for i in range(120_000)}) == 120_000


def test_a_fit_is_hidden_once_and_in_an_order_that_tells_nothing(files):
    fit = crowdsift.fit(files.votes, skip_bad=True).with_statistics()
    hidden = fit.hide_workers()
    names = hidden.worker_table["worker"].tolist()
    assert names == sorted(names)
    assert [Hiding().pseudonym(who) for who in fit.worker_table["worker"]] != names
    assert hidden.hide_workers().worker_table["worker"].tolist() == names
    assert hidden.votes.workers.tolist() == names
    for who in fit.worker_table["worker"].tolist()[:8]:
        known = Hiding().pseudonym(who)
        for one, two in zip(fit.labels, fit.labels[1:], strict=False):
            assert hidden.predict(one, two, known) == pytest.approx(fit.predict(one, two, who))
    again = crowdsift.fit(files.votes, skip_bad=True, hide_workers=True)
    np.testing.assert_allclose(again.worker_table["reliability"], hidden.worker_table["reliability"], atol=1e-3)
    hidden.save(files.folder / "fit")
    crowdsift.load(files.folder / "fit").update(files.folder / "new.csv")


def test_a_key_is_needed_and_must_be_the_same(files):
    new = files.folder / "new.csv"
    keyed = crowdsift.fit(files.votes, skip_bad=True, hide_workers=files.folder / "key")
    keyed.save(files.folder / "fit")
    text = "0123456789abcdef"
    assert not any(text in content for content in outputs(files.folder / "fit").values())
    loaded = crowdsift.load(files.folder / "fit")
    with pytest.raises(RequestError, match=r"hidden with a key.*--hide-key FILE"):
        loaded.update(new)
    (files.folder / "other").write_text("another key of enough characters")
    with pytest.raises(RequestError, match="another one was given"):
        loaded.update(new, hide_workers=files.folder / "other")
    with pytest.raises(RequestError, match="the workers of the fit are not hidden"):
        crowdsift.fit(files.votes, skip_bad=True).update(new, hide_workers=True)
    (files.folder / "short").write_text("12345")
    for name, message in (("short", "at least 16 characters"), ("none", "cannot be read")):
        with pytest.raises(InputError, match=message):
            crowdsift.fit(files.votes, hide_workers=files.folder / name)


def test_outputs_that_need_labels_are_refused(files):
    fit = crowdsift.fit(files.votes, skip_bad=True, hide_workers=True)
    with pytest.raises(CrowdsiftError, match="hidden, and these votes have their labels"):
        crowdsift.export_votes(files.votes, files.folder / "x.jsonl", fitted=fit, skip_bad=True)
    assert not (files.folder / "x.jsonl").exists()
    with pytest.raises(RequestError, match="would count as somebody new"):
        crowdsift.next_pairs(fit, 2, workers=PEOPLE[:3])
    assert crowdsift.next_pairs(fit, 2, workers=fit.worker_table["worker"].tolist()).height == 2
    arguments = ["fit", files.votes, "--hide-workers", "--mturk-review", str(files.folder / "r.csv")]
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, RequestError)
    assert "--hide-workers forbids" in str(found.exception)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Votes in one folder per worker, each with a bad row and repeated rows."""
    for number in range(5):
        folder = tmp_path / "votes" / f"worker=Zelda{number}"
        folder.mkdir(parents=True)
        rows = [f"i{k * 7 % 97},i{(k * k + number) % 89 + 97}" for k in range(80)]
        text = "\n".join(["winner,loser", *rows, *rows, "i1,i1", ""])
        (folder / "votes.csv").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pattern", ["votes/*/*.csv", "votes/worker=Zelda1/votes.csv"])
def test_a_folder_of_a_worker_is_named_by_its_pseudonym(folders, pattern):
    printed = run("fit", pattern, "--partitions", "--hide-workers", "--skip-bad", "--method", "bt", "--out", "fit")
    assert "equal earlier ones" in printed
    assert "/worker=worker-" in printed
    written = {path: path.read_bytes() for path in (folders / "fit").iterdir()}
    written[folders / "bad-rows.csv"] = (folders / "bad-rows.csv").read_bytes()
    assert "Zelda" not in printed
    assert not [path for path, content in written.items() if b"Zelda" in content]
    with open("bad-rows.csv") as file:
        assert all(f"worker={row['worker']}/" in row["source"] for row in csv.DictReader(file))


def test_hiding_a_finished_fit_hides_folders_too(folders):
    found = crowdsift.fit("votes/*/*.csv", "bt", partitions=True, skip_bad=True)
    assert "Zelda" in str(found.summary)
    found.hide_workers().save("fit")
    assert not [path for path in Path("fit").iterdir() if b"Zelda" in path.read_bytes()]


@pytest.mark.parametrize("where", ["worker != 'Anna-w'", "\"WORKER\" <> 'Anna-w' AND chars < 9"])
def test_a_condition_on_workers_is_not_kept_beside_pseudonyms(files, where):
    with pytest.raises(RequestError, match="names the column of workers"):
        crowdsift.read(files.votes, skip_bad=True, hide_workers=True, where=where)
    with pytest.raises(RequestError, match="the condition of this fit"):
        crowdsift.fit(files.votes, "bt", skip_bad=True, where=where).hide_workers()
    crowdsift.read(files.votes, skip_bad=True, hide_workers=True, where="winner != 'worker'")


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("unknown", ["error", "prior"])
def test_predictions_of_a_hidden_fit_know_its_workers(files, monkeypatch, key, unknown):
    """Without the cure a known worker was predicted as one drawn from the crowd."""
    monkeypatch.chdir(files.folder)
    hide = ["--hide-key", "key"] if key else []
    run("fit", files.votes, *(hide or ["--hide-workers"]), "--skip-bad", "--out", "fit")
    Path("pairs.csv").write_text("first,second,worker\ni1,i2,Anna-r\ni1,i2,Anna-q\ni3,i2,\n")
    text = run("predict", "fit", "pairs.csv", *hide, "--unknown", unknown)
    assert "Anna" not in text
    found = [float(row["probability"]) for row in csv.DictReader(text.splitlines())]
    plain = crowdsift.fit(files.votes, skip_bad=True)
    expected = plain.predict(["i1", "i1", "i3"], ["i2"] * 3, ["Anna-r", "Anna-q", None])
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert abs(found[0] - found[1]) > 0.01
    hidden = crowdsift.load("fit")
    if key:
        with pytest.raises(RequestError, match="hidden with a key"):
            hidden.predict("i1", "i2", "Anna-r", unknown=unknown)
    else:
        np.testing.assert_allclose(hidden.predict("i1", "i2", "Anna-r"), expected[0], atol=2e-3)


def test_a_key_for_a_fit_that_is_not_hidden_is_refused(files):
    found = crowdsift.fit(files.votes, "bt", skip_bad=True)
    with pytest.raises(RequestError, match="not hidden"):
        labels_of_workers(found, "Anna-r", files.folder / "key")


def test_panels_do_not_have_the_names_of_hidden_workers(tmp_path):
    """With each worker as a panel, their labels were in workers.csv, panel_bias.csv and summary.json."""
    rng = np.random.default_rng(2)
    a = rng.integers(6, size=200)
    rows = {"left": a, "right": (a + rng.integers(1, 6, 200)) % 6, "winner": rng.choice(["left", "right"], 200)}
    rows["worker"] = [f"ann{k % 5}" for k in range(200)]
    rows["panel"] = ["people" if k % 5 < 2 else "ai" for k in range(200)]
    with pytest.raises(CrowdsiftError, match="worker=ann1"):
        crowdsift.fit(rows, trusted={"worker": "ann1"}, hide_workers=True)
    trusted = {"worker": Hiding().pseudonym("ann1")}
    crowdsift.fit(rows, trusted=trusted, hide_workers=True).save(tmp_path / "alone")
    with pytest.raises(RequestError, match="labels of workers"):
        crowdsift.fit(rows, trusted={"worker": "ann1"}).hide_workers()
    crowdsift.fit(rows, trusted={"panel": "people"}, hide_workers=True).save(tmp_path / "hidden")
    crowdsift.fit(rows, trusted={"panel": "people"}).hide_workers().save(tmp_path / "later")
    for path in tmp_path.glob("*/*.*"):
        assert b"ann" not in path.read_bytes(), path
