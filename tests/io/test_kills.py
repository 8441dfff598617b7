"""Runs that are killed while they save: the old files or the new ones, never some of each."""

from __future__ import annotations

import subprocess
import sys

import pytest

import crowdsift


def small(seed: int, method: str) -> crowdsift.Fit:
    drawn = crowdsift.simulate(items=6, workers=4, comparisons=80, seed=seed)
    return crowdsift.fit(drawn.comparisons(), method)


KILLS = """
import os, shutil, sys
import crowdsift
old, new, place = sys.argv[1:]
watched = ("open", "os.rename", "os.remove", "os.chmod", "os.chown", "os.mkdir", "os.scandir",
           "fcntl.flock")
fits = {path: crowdsift.load(path) for path in (old, new)}
figures = {path: (fit.item_table.to_csv(), fit.worker_table.to_csv(), fit.population, fit.method)
           for path, fit in fits.items()}
fits[new].save(place), shutil.rmtree(place)  # all modules are loaded
seen, n = [], 0
while True:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(old, place)
    child = os.fork()
    if not child:
        count, counts = 0, False  # whether the new record is in place
        def hook(event, given):
            global count, counts
            if event in watched:
                if count == n:
                    os._exit(10 if counts else 9)
                count += 1
                if event == "os.rename" and os.path.basename(given[1]) == "summary.json":
                    counts = True
        sys.addaudithook(hook)
        fits[new].save(place)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    fit = crowdsift.load(place)
    found = (fit.item_table.to_csv(), fit.worker_table.to_csv(), fit.population, fit.method)
    seen.append([figures[old], figures[new]].index(found))
    assert seen[-1] == (status != 9), n  # the new fit from its rename on
    fits[new].save(place)  # the next run puts all in order
    assert sorted(os.listdir(place)) == sorted(os.listdir(new)), os.listdir(place)
    for name in os.listdir(new):
        with open(f"{place}/{name}", "rb") as one, open(f"{new}/{name}", "rb") as two:
            assert one.read() == two.read(), name
    if status == 0:
        break
    n += 11  # at every call: see FOLDER_KILLS
print(n, sum(seen))
"""


FOLDER_KILLS = """
import os, shutil, sys
from crowdsift.io.saved import RecordedFolder, write_recorded
place = sys.argv[1]
watched = ("open", "os.rename", "os.remove", "os.chmod", "os.chown", "os.mkdir", "os.scandir",
           "fcntl.flock")
old = {"a.csv": b"old a", "b.csv": b"old b", "gone.json": b"old"}
new = {"a.csv": b"new a!", "b.csv": b"new b", "more.json": b"new"}
seen, n = [], 0
while True:
    shutil.rmtree(place, ignore_errors=True)
    write_recorded(place, "all.json", {"n": 1}, old)
    child = os.fork()
    if not child:
        count = 0
        def hook(event, _):
            global count
            if event in watched:
                if count == n:
                    os._exit(9)
                count += 1
        sys.addaudithook(hook)
        write_recorded(place, "all.json", {"n": 2}, new)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = RecordedFolder(place, "all.json")
    wanted = {1: old, 2: new}[found.record["n"]]
    assert {name: found.read(name) for name in wanted} == wanted, n
    seen.append(found.record["n"])
    write_recorded(place, "all.json", {"n": 2}, new, ours=("gone.json",))
    assert sorted(os.listdir(place)) == ["a.csv", "all.json", "b.csv", "more.json"], n
    if status == 0:
        break
    n += 1
assert seen == sorted(seen), seen
print(n, seen.count(2))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_killed_at_every_call_the_old_files_or_the_new_ones_are_there(tmp_path):
    done = subprocess.run([sys.executable, "-c", FOLDER_KILLS, str(tmp_path / "place")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kills, new = map(int, done.stdout.split())
    assert kills > 20
    assert 1 < new < kills


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize("methods", [("sift", "bt"), ("bt", "sift")])
def test_killed_at_any_call_the_old_fit_or_the_new_one_is_there(tmp_path, methods):
    for seed, (name, method) in enumerate(zip(("old", "new"), methods, strict=True)):
        small(seed, method).save(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", KILLS, *(str(tmp_path / x) for x in ("old", "new", "place"))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kills, new = map(int, done.stdout.split())
    assert kills > 20
    assert 1 < new < kills
