"""The examples of the documentation run, and its links lead somewhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from docs import quality_tables

import crowdsift

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
# Commands and Python of a guide go hand in hand: tests/test_guides.py follows those.
ALONE = [page for page in PAGES if page.parent.name != "guides"]


@pytest.mark.parametrize("page", ALONE, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    if page.name == "inspect.md":
        pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    for block in blocks:  # the blocks of a page build on each other
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_source_files_that_pages_name_are_there():
    there = {
        path.name
        for folder in ("src", "cpp", "tests", "tools", "benchmarks", "docs")
        for path in (ROOT / folder).rglob("*.*pp" if folder == "cpp" else "*.py")
    }
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`(?:[\w-]+/)*([\w-]+\.(?:py|hpp|cpp))`", page.read_text("utf-8"))
    }
    assert len(named) > 20
    assert not {(page, name) for page, name in named if name not in there}


@pytest.mark.parametrize("name", quality_tables.TABLES)
def test_tables_of_quality_are_made_from_the_results(name):
    page = quality_tables.PAGE.read_text(encoding="utf-8")
    made = quality_tables.TABLES[name]()
    assert quality_tables.written(name, page) == made, "run python -m docs.quality_tables"


def test_figures_of_the_results_page_are_those_of_its_tables():
    """Nothing on the page is set by hand: rows of real votes against the CSV beside."""
    page = (ROOT / "docs" / "research" / "results.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| ([a-z-]+) \| \**\.(\d{4})", page, flags=re.MULTILINE)
    rows = quality_tables.means("real")
    assert [(row["method"], f"{float(row['accuracy']):.4f}"[2:]) for row in rows] == shown


def test_every_method_has_a_page():
    for name in crowdsift.models.MODELS:
        assert (ROOT / "docs" / "methods" / f"{name}.md").exists()


def test_every_public_name_has_an_example():
    for name in crowdsift.__all__:
        if not name.startswith("__") and not inspect.ismodule(getattr(crowdsift, name)):
            assert ">>>" in (getattr(crowdsift, name).__doc__ or ""), name


def test_public_names_are_told_once():
    named = {name for names in crowdsift._ROOMS.values() for name in names.split()}
    modules = {"__version__", *crowdsift._MODULES}
    assert named | modules == set(crowdsift.__all__)
