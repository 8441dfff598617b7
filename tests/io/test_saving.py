"""Saved fits and other outputs: whole or not at all, whatever happens on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from context_votes import draw_votes
from saved_folders import forge

import crowdsift
from crowdsift import Comparisons, CrowdsiftError, InputError, RequestError
from crowdsift.io.files import replace_file, require_file, write_folder
from crowdsift.io.saved import RecordedFolder, write_recorded


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


def test_a_record_cannot_name_files_elsewhere(tmp_path):
    small().save(tmp_path / "fit")
    shutil.move(tmp_path / "fit" / "items.csv", tmp_path / "items.csv")

    def elsewhere(record):
        record["files"]["../items.csv"] = record["files"].pop("items.csv")

    forge(tmp_path / "fit", elsewhere)
    with pytest.raises(InputError, match=r"no items\.csv"):
        crowdsift.load(tmp_path / "fit")


@pytest.mark.parametrize("layout", [None, 1, 2, "3", True])
def test_folders_of_other_formats_are_refused(tmp_path, layout):
    small(method="bt").save(tmp_path)
    forge(tmp_path, lambda record: {**record, "format": layout})
    with pytest.raises(InputError, match=rf"saved in format {layout!r}, this version reads format"):
        crowdsift.load(tmp_path)


# --- damage, and values that no fit writes -------------------------------------------------------


def everything(fit) -> str:
    """All that a fit holds, as text."""
    fields = {name: value for name, value in vars(fit).items() if name != "folder"}
    fields["overall_ranking"] = vars(fit.overall_ranking) if fit.overall_ranking else None
    votes, posterior = fields.pop("votes"), fields.pop("posterior")
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        fields |= {f"votes.{name}": getattr(votes, name) for name in ("first", "outcome", "weight")}
        fields |= {name: table.to_csv() for name, table in fields.items() if name.endswith("table") and table}
        return repr((fields, posterior.quantiles, posterior.points, posterior.in_context))


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """Saved fits that together have every kind of file, and what they hold."""
    drawn = crowdsift.simulate(items=8, workers=6, comparisons=300, seed=2)
    features = {"item": drawn.items, "x": drawn.scores}
    made = {
        "sift": small().with_statistics(),
        "gold": crowdsift.fit(drawn.comparisons(), gold={"winner": ["i1"], "loser": ["i2"]}),
        "contexts": crowdsift.fit(draw_votes(0.6, 0.6, 1, contexts=3), scale="elo"),
        "features": crowdsift.fit(drawn.comparisons(), items=features),
        "bt": small(method="bt"),
    }
    folders = {}
    for name, fit in made.items():
        folders[name] = tmp_path_factory.mktemp("fits") / name
        fit.save(folders[name])
    return {folder: everything(crowdsift.load(folder)) for folder in folders.values()}


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_bit_changes_nothing_or_is_refused(fits, seed):
    """2,000 flips in all, half of them in summary.json."""
    rng = random.Random(seed)
    for _ in range(250):
        folder = rng.choice(sorted(fits))
        paths = sorted(folder.iterdir())
        path = folder / "summary.json" if rng.random() < 0.5 else rng.choice(paths)
        whole = path.read_bytes()
        place = rng.randrange(8 * len(whole))
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            loaded = crowdsift.load(folder)
        except InputError as error:
            assert str(folder) in str(error)  # noqa: PT017 -- most flips raise, some need not
        else:
            assert everything(loaded) == fits[folder], (path, place)
        finally:
            path.write_bytes(whole)


FORGED = (None, True, -1, 0, 1.5, 1e308, 2**70, "", "x", [], {}, [[]], [1], ["x"], {"x": 1})


def used(fit) -> None:
    """Do what a user does with a loaded fit."""
    repr(fit), str(fit), fit.to_json(), fit.decisions() if fit.method == "sift" else None
    one, two = fit.labels[0], fit.labels[-1]
    fit.difference(one, two), fit.better(one, two), fit.predict_outcomes(one, two)
    assert fit.report(refit=False).html


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["sift", "contexts", "features", "bt"])
def test_forged_values_are_used_or_refused(fits, tmp_path, name):
    """Every value of the summary replaced by others, the checksum made to fit."""
    source = next(folder for folder in fits if folder.name == name)
    rng = random.Random(5)
    refused = 0
    for path in places(json.loads((source / "summary.json").read_text())):
        shutil.copytree(source, tmp_path / "fit", dirs_exist_ok=True)
        forge(tmp_path / "fit", lambda record, path=path: put(record, path, rng.choice(FORGED)))
        try:
            used(crowdsift.load(tmp_path / "fit"))
        except CrowdsiftError as error:
            refused += 1
            assert "internal" not in str(error)  # noqa: PT017 -- what is refused is counted
    assert refused > 50


def places(value, path=()):
    """The way to every value within an object, lists by their first entry."""
    if path and path[0] in ("checksum", "format"):
        return
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else ()
    entries = enumerate(value[:1]) if isinstance(value, list) else entries
    for key, entry in entries:
        yield from places(entry, (*path, key))


def put(record, path, value) -> None:
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


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
    assert (tmp_path / "elsewhere.csv").read_text() == fit.shown_items.to_csv()
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
