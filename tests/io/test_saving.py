"""Saved fits and other outputs: whole or not at all, whatever happens on the way."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons, InputError, RequestError
from crowdsift.io.files import replace_file, require_file, write_folder
from crowdsift.io.folders import RecordedFolder, write_recorded

SAVED = Path(__file__).parents[1] / "saved"


def small(seed: int = 1, method: str = "sift") -> crowdsift.Fit:
    drawn = crowdsift.simulate(items=6, workers=4, comparisons=80, seed=seed)
    return crowdsift.fit(drawn.comparisons(), method)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --- a folder holds one fit ----------------------------------------------------------------------


def test_the_summary_names_its_files(tmp_path):
    small().save(tmp_path)
    files = json.loads((tmp_path / "summary.json").read_text())["files"]
    assert set(files) == set(os.listdir(tmp_path)) - {"summary.json"}
    for name, entry in files.items():
        assert entry["bytes"] == (tmp_path / name).stat().st_size


def test_a_fit_over_that_of_another_method_leaves_nothing_of_it(tmp_path):
    small().save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    bt = small(method="bt")
    bt.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.method == "bt"
    assert back.population is None
    assert back.sites is None
    bt.save(tmp_path / "fresh")
    fresh = content(tmp_path / "fresh")
    shutil.rmtree(tmp_path / "fresh")
    assert content(tmp_path) == {**fresh, "notes.txt": b"mine"}


def test_only_named_files_are_read(tmp_path):
    small(method="bt").save(tmp_path)
    small().save(tmp_path / "other")
    for name in ("population.json", "sites.parquet"):
        shutil.copy(tmp_path / "other" / name, tmp_path / name)
    back = crowdsift.load(tmp_path)
    assert back.population is None
    assert back.sites is None


@pytest.mark.parametrize("name", ["items.csv", "workers.csv", "population.json", "sites.parquet"])
def test_a_file_that_was_changed_is_refused(tmp_path, name):
    small().save(tmp_path)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=rf"{name}.*checksum"):
        crowdsift.load(tmp_path)


def test_a_population_under_its_earlier_name_is_read(tmp_path):
    """Folders of earlier revisions have it in crowd.json; a new fit leaves no such file."""
    fit = small()
    fit.save(tmp_path)
    path = tmp_path / "summary.json"
    record = json.loads(path.read_text())
    record["files"]["crowd.json"] = record["files"].pop("population.json")
    path.write_text(json.dumps(record))
    (tmp_path / "population.json").rename(tmp_path / "crowd.json")
    back = crowdsift.load(tmp_path)
    assert back.population == fit.population
    assert back.sites is not None
    back.save(tmp_path)
    assert not (tmp_path / "crowd.json").exists()
    assert crowdsift.load(tmp_path).population == fit.population


def test_a_record_cannot_name_files_elsewhere(tmp_path):
    small().save(tmp_path / "fit")
    path = tmp_path / "fit" / "summary.json"
    record = json.loads(path.read_text())
    shutil.move(tmp_path / "fit" / "items.csv", tmp_path / "items.csv")
    record["files"]["../items.csv"] = record["files"].pop("items.csv")
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"no items\.csv"):
        crowdsift.load(tmp_path / "fit")


def test_folders_of_the_first_format_are_read():
    fit = crowdsift.load(SAVED / "format1")
    assert fit.method == "sift"
    assert fit.labels[0] == fit.items["item"][0]
    assert fit.population is None  # it may be of another fit


@pytest.mark.filterwarnings("ignore::crowdsift.SignWarning")
def test_folders_of_the_second_format_are_read_and_go_on(tmp_path):
    """Written by 0.1.0 of build 7: contexts, ties, sides, one adversary and one who clicks."""
    fit = crowdsift.load(SAVED / "format2")
    assert {topic for topic, _ in fit.labels} == {"x", "y"}
    assert [item for _, item in fit.labels[:5]] == ["m0", "m1", "m2", "m3", "m4"]
    assert fit.item_table["score"][0] == 1.0959378347543203
    assert fit.predict(("x", "m0"), ("x", "m4"), worker="w0") > 0.9
    assert dict(zip(fit.workers["worker"], fit.workers["verdict"], strict=True))["w5"] == (
        "adversarial"
    )
    assert "Can you trust this?" in fit.report().html
    shutil.copytree(SAVED / "format2", tmp_path / "fit")
    again = {"left": ["m0"], "right": ["m1"], "winner": ["left"], "worker": ["w1"], "topic": ["x"]}
    gone_on = crowdsift.load(tmp_path / "fit").update(crowdsift.read(again, by="topic"))
    assert gone_on.summary["votes"] == 241
    gone_on.save(tmp_path / "fit")
    assert crowdsift.load(tmp_path / "fit").summary["votes"] == 241


def test_a_folder_of_the_first_format_is_replaced_whole(tmp_path):
    shutil.copytree(SAVED / "format1", tmp_path / "fit")
    small(method="bt").save(tmp_path / "fit")
    assert sorted(os.listdir(tmp_path / "fit")) == sorted(
        [*json.loads((tmp_path / "fit" / "summary.json").read_text())["files"], "summary.json"]
    )


# --- readers and writers --------------------------------------------------------------------------


def test_a_reader_meets_the_old_fit_or_the_new_one(tmp_path):
    fits = [small(seed, method) for seed, method in ((1, "sift"), (2, "bt"))]
    known = {fit.item_table.to_csv() for fit in fits}
    fits[0].save(tmp_path)
    stop = threading.Event()

    def write():
        for i in range(30):
            fits[i % 2].save(tmp_path)
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reads = 0
        while not stop.is_set():
            assert crowdsift.load(tmp_path).item_table.to_csv() in known
            reads += 1
    finally:
        writer.join()
    assert reads > 5


# --- what lies in the way ------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    with replace_file(path) as temporary:
        temporary.write_text(text)


def test_devices_and_pipes_are_written_into(tmp_path):
    write(Path("/dev/null"), "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    require_file("/dev/null")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write(pipe, "through")
    reader.join()
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    dangling = tmp_path / "dangling.txt"
    dangling.symlink_to(tmp_path / "far" / "later.txt")
    require_file(dangling)
    write(dangling, "made")
    assert (tmp_path / "far" / "later.txt").read_text() == "made"


def test_a_saved_folder_follows_links_and_keeps_permissions(tmp_path):
    fit = small()
    place = tmp_path / "fit"
    fit.save(place)
    (tmp_path / "elsewhere.csv").write_text("old")
    (place / "items.csv").unlink()
    (place / "items.csv").symlink_to(tmp_path / "elsewhere.csv")
    (place / "workers.csv").chmod(0o600)
    (place / "summary.json").chmod(0o640)
    fit.save(place)
    assert (place / "items.csv").is_symlink()
    assert (tmp_path / "elsewhere.csv").read_text() == fit.item_table.to_csv()
    assert stat.S_IMODE((place / "workers.csv").stat().st_mode) == 0o600
    assert stat.S_IMODE((place / "summary.json").stat().st_mode) == 0o640
    assert crowdsift.load(place).item_table.to_csv() == fit.item_table.to_csv()


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_permissions_are_kept(tmp_path, mode):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(mode)
    write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path):
    (tmp_path / "plain").touch()
    write(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("name", ["items.csv", "summary.json"])
def test_a_saved_folder_refuses_what_is_no_file(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(RequestError, match="is no regular file"):
        small().save(tmp_path)
    os.unlink(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(RequestError, match="is a folder"):
        small().save(tmp_path)
    assert os.listdir(tmp_path) == [name]


KILLED = """
import os, sys
from pathlib import Path
from crowdsift.io.files import replace_file
with replace_file(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_temporary_files_of_killed_runs_go_with_the_next_run(tmp_path):
    target = tmp_path / "report.html"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    left = os.listdir(tmp_path)
    assert len(left) == 1
    assert left[0].startswith(".report.html.")
    (tmp_path / "other.html").write_text("mine")
    (tmp_path / ".report.html.swp").write_text("an editor's")
    write(target, "whole")
    assert sorted(os.listdir(tmp_path)) == [".report.html.swp", "other.html", "report.html"]


def test_temporary_files_of_living_runs_stay(tmp_path):
    target = tmp_path / "a.txt"
    with replace_file(target) as first:
        first.write_text("first")
        write(target, "second")
        assert first.exists()
    assert target.read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_longest_names_can_be_written(tmp_path):
    write(tmp_path / ("n" * 255), "whole")
    assert os.listdir(tmp_path) == ["n" * 255]


def test_a_failed_save_leaves_the_old_one(tmp_path, monkeypatch):
    old = small(1)
    old.save(tmp_path)
    before = content(tmp_path)
    calls = 0

    def full(source, target):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(28, "No space left on device")
        return rename(source, target)

    rename = os.replace
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RequestError, match="No space left"):
        small(2).save(tmp_path)
    assert content(tmp_path) == before


def test_what_is_recorded_comes_back(tmp_path):
    write_recorded(tmp_path, "all.json", {"a": 1}, {"x.bin": b"\0\1", "empty": b""})
    found = RecordedFolder(tmp_path, "all.json")
    assert found.record == {"a": 1}
    assert found.read("x.bin") == b"\0\1"
    assert found.read("empty") == b""
    assert found.is_current
    write_recorded(tmp_path, "all.json", {"a": 2}, {"empty": b""})
    assert not found.is_current
    assert sorted(os.listdir(tmp_path)) == ["all.json", "empty"]


def test_a_folder_that_is_made_anew_goes_if_writing_fails(tmp_path):
    def broken():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "x" / "y", {"b.txt": broken()})
    assert not os.listdir(tmp_path)


# --- what could not be loaded --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["worker", "who", "items", "format", "topic"])
def test_a_context_column_of_any_name_comes_back(tmp_path, name):
    rows = {
        "first": ["a", "b", "a", "b"],
        "second": ["b", "c", "b", "c"],
        "outcome": [1, 1, 0, 1],
        "annotator": ["x", "y", "x", "y"],
        name: [1, 1, 2, 2],
    }
    votes = crowdsift.read(rows, columns={"worker": "annotator"}, by=name)
    fit = crowdsift.fit(votes)
    assert sorted(fit.labels) == [(c, i) for c in (1, 2) for i in "abc"]
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.labels == fit.labels
    assert back.item_table.to_csv() == fit.item_table.to_csv()
    np.testing.assert_array_equal(back.scores_of(fit.labels), fit.item_table["score"])
    assert back.better((1, "a"), (1, "b")) > 0.0
    assert back.to_json()["items"][0]["item"] in "abc"


def test_labels_of_any_length_come_back(tmp_path):
    long = ["a" * 200_000, 'b"' * 100_000, "c,\n" * 70_000]
    votes = Comparisons.from_arrays(long, long[1:] + long[:1], worker=long)
    fit = crowdsift.fit(votes)
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.labels == fit.labels
    assert set(back.labels) == set(long)
    assert back.worker_table["worker"].tolist() == fit.worker_table["worker"].tolist()


@pytest.mark.parametrize("name", ["items.csv", "votes.parquet"])
def test_files_of_others_are_not_overwritten(tmp_path, name):
    fit = small()
    (tmp_path / name).write_text("mine")
    with pytest.raises(RequestError, match=f"{name} is there and would be overwritten"):
        fit.save(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert os.listdir(tmp_path) == [name]
    fit.save(tmp_path / "fit")
    fit.save(tmp_path / "fit")  # a fit over a fit is no loss
