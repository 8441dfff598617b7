"""The page of the architecture says what is so: its table, its examples, its limits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from docs import engine_table

from crowdsift.engines import ENGINES
from crowdsift.io.formats import GROUP

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    """The file that the page shows under that name."""
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def columns(table: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {column[0]: list(column) for column in zip(*rows, strict=True)}


def test_the_table_of_engines_is_that_of_the_registries(monkeypatch):
    monkeypatch.delitem(ENGINES, "reference")  # which only tests register
    written, made = columns(engine_table.written()), columns(engine_table.table())
    for name, column in made.items():  # an engine whose library is missing here has no column
        assert written.get(name) == column, "run python -m docs.engine_table"


def run_with(tmp_path: Path, plugin: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, with something added to our registries by `added`."""
    (tmp_path / "added.py").write_text(plugin)
    paths = [str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


REGISTERED = """\
from crowdsift.engines import ENGINES
from crowdsift.models import MODELS
from side_bt import SideBT
MODELS[SideBT.name] = SideBT
ENGINES['timed'] = 'timed_engine'
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A folder with the page's method and engine, registered, and what the tests then say."""
    folder = tmp_path_factory.mktemp("extended")
    (folder / "side_bt.py").write_text(example("models/side_bt.py"))
    (folder / "timed_engine.py").write_text(example("engines/timed.py"))
    files = ("models/test_models.py", "results/test_islands.py", "engines/test_contract.py")
    chosen = "(side-bt and not timed) or (test_passes and timed)"
    words = ("-m", "pytest", "-p", "added", "-p", "no:cacheprovider", "-vv", "-k", chosen)
    done = run_with(folder, REGISTERED, *words, *(f"tests/{name}" for name in files))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def passed(result: str, name: str) -> int:
    return len(re.findall(rf"\S*{name}\S* PASSED", result))


def test_a_new_method_is_one_file_and_one_line_and_is_covered(extended):
    assert len(example("models/side_bt.py").splitlines()) <= 60
    _, result = extended
    assert passed(result, "side-bt") >= 8
    for engine in ("cpu", "reference", "sharded"):
        assert f"test_contract[side-bt-{engine}] PASSED" in result


def test_a_new_engine_is_one_file_and_one_line_and_is_covered(extended):
    folder, result = extended
    assert passed(result, "timed") >= 4
    check = (
        "import added, crowdsift\n"
        "votes = crowdsift.simulate(9, 5, 300, seed=1).comparisons()\n"
        "assert crowdsift.fit(votes, 'bt', engine='timed').converged\n"
        "try:\n    crowdsift.fit(votes, 'sift', engine='timed')\n"
        "except crowdsift.RequestError as error:\n    print(error)\n"
    )
    done = run_with(folder, REGISTERED, "-c", check)
    assert done.returncode == 0, done.stderr
    assert "does not offer" in done.stdout


READ = """\
import crowdsift
rows = {
    "trial": [1, 2, 2, 3, 4], "stimulus_1": list("abbca"), "stimulus_2": list("bccab"),
    "preferred": ["1", "2", "2", "0", "timeout"], "respondent": list("xxxyy"),
}
for form in ("auto", "sidewise"):
    votes = crowdsift.read(rows, format=form)
    print(votes.intake, len(votes), votes.outcome.tolist(), votes.sides_known)
del rows["preferred"]
try:
    crowdsift.read(rows)
except crowdsift.InputError as error:
    print(str(error).rpartition(". ")[2])
"""


def install(folder: Path, entry_points: str) -> None:
    """Make a folder look as if a package with these entry points was installed in it."""
    about = folder / "sidewise-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sidewise\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)


def test_a_new_format_is_one_file_and_one_entry_point(tmp_path):
    (tmp_path / "sidewise_votes.py").write_text(example("sidewise_votes.py"))
    groups = tomllib.loads(example("pyproject.toml"))["project"]["entry-points"]
    lines = [f"{name} = {value}" for name, value in groups["crowdsift.formats"].items()]
    install(tmp_path, "\n".join(["[crowdsift.formats]", *lines]) + "\n")
    done = run_with(tmp_path, "", "-c", READ)
    assert done.returncode == 0, done.stderr
    *read, missing = done.stdout.splitlines()
    counts = "sidewise: 5 rows read, 3 used, 1 empty, 1 duplicate, 0 set aside"
    assert read == [f"{counts} 3 [1.0, 0.0, 0.5] True"] * 2
    assert missing.startswith("It is nearly the format sidewise (answers of Sidewise): ")
    assert missing.endswith("preferred is missing")


@pytest.mark.parametrize(
    ("module", "fault"),
    [
        ("import nothing_of_that_name", "it cannot be imported (ModuleNotFoundError: "),
        ("SIDEWISE = {'left': 'a'}", "it is neither a crowdsift.io.formats.Format nor a tuple"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused_by_name(tmp_path, module, fault):
    (tmp_path / "sidewise_votes.py").write_text(module)
    install(tmp_path, "[crowdsift.formats]\nsidewise = sidewise_votes:SIDEWISE\n")
    (tmp_path / "other.csv").write_text("url1,url2,reply\na,b,I\n")
    done = run_with(tmp_path, "", "-m", "crowdsift", "fit", str(tmp_path / "other.csv"))
    assert done.returncode == 1
    assert f"the format 'sidewise' (sidewise_votes:SIDEWISE, entry point of {GROUP}): {fault}" in (
        done.stderr.replace("\n", " ")
    )
    assert "Traceback" not in done.stderr
    plain = tmp_path / "plain.csv"
    plain.write_text("winner,loser,worker\na,b,x\nb,c,x\nc,a,y\n")
    done = run_with(tmp_path, "", "-m", "crowdsift", "fit", str(plain))
    assert done.returncode == 0, "our own columns need no format"


ROOMS = ("numeric", "votes", "io", "engines", "solvers", "models", "results")


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_on_the_page(room):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"`{room}/`" in page
    assert (ROOT / "src" / "crowdsift" / room).is_dir()
