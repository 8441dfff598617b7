"""The page of the architecture says what is so: its table, its examples, its limits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs import engine_table

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    """The file that the page shows under that name."""
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def columns(table: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {column[0]: list(column) for column in zip(*rows, strict=True)}


def test_the_table_of_engines_is_that_of_the_registries():
    written, made = columns(engine_table.written()), columns(engine_table.table())
    for name, column in made.items():  # an engine whose library is missing here has no column
        assert written.get(name) == column, "run python -m docs.engine_table"


def run_with(tmp_path: Path, plugin: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, with something added to our registries by `added`."""
    (tmp_path / "added.py").write_text(plugin)
    paths = [str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip


PYTEST = ("-m", "pytest", "-p", "added", "-p", "no:cacheprovider")


def passed(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) passed", done.stdout)
    assert found
    return int(found[1])


def test_a_new_method_is_one_file_and_one_line_and_is_covered(tmp_path):
    source = example("models/side_bt.py")
    assert len(source.splitlines()) <= 60
    (tmp_path / "side_bt.py").write_text(source)
    line = "from crowdsift.models import MODELS\nfrom side_bt import SideBT\n"
    line += "MODELS[SideBT.name] = SideBT\n"
    covered = ("tests/models/test_models.py", "tests/results/test_islands.py")
    done = run_with(tmp_path, line, *PYTEST, *covered, "-vv", "-k", "side-bt")
    assert passed(done) >= 8
    for engine in ("cpu", "reference", "sharded"):
        assert f"test_contract[side-bt-{engine}] PASSED" in done.stdout


def test_a_new_engine_is_one_file_and_one_line_and_is_covered(tmp_path):
    (tmp_path / "timed_engine.py").write_text(example("engines/timed.py"))
    line = "from crowdsift.engines import ENGINES\nENGINES['timed'] = 'timed_engine'\n"
    chosen = "test_passes and timed"
    done = run_with(tmp_path, line, *PYTEST, "tests/engines/test_contract.py", "-k", chosen)
    assert passed(done) >= 4
    check = (
        "import added, crowdsift\n"
        "votes = crowdsift.simulate(9, 5, 300, seed=1).comparisons()\n"
        "assert crowdsift.fit(votes, 'bt', engine='timed').converged\n"
        "try:\n    crowdsift.fit(votes, 'sift', engine='timed')\n"
        "except crowdsift.RequestError as error:\n    print(error)\n"
    )
    told = run_with(tmp_path, line, "-c", check)
    assert told.returncode == 0, told.stderr
    assert "does not offer" in told.stdout


ROOMS = ("numeric", "votes", "io", "engines", "solvers", "models", "results")


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_on_the_page(room):
    assert f"`{room}/`" in PAGE
    assert (ROOT / "src" / "crowdsift" / room).is_dir()
