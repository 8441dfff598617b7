"""What users import is what was promised: names, arguments, defaults, the page of the interface."""

from __future__ import annotations

import inspect
from pathlib import Path

from tools import public_api

import crowdsift

ROOT = Path(__file__).resolve().parents[1]


def test_the_interface_is_the_one_that_was_promised():
    promised, found = public_api.SNAPSHOT.read_text(), public_api.describe()
    gone = sorted(set(promised.splitlines()) - set(found.splitlines()))
    new = sorted(set(found.splitlines()) - set(promised.splitlines()))
    assert (gone, new) == ([], []), "on purpose? `make api-accept`, and say so in CHANGELOG"


def test_the_page_of_the_interface_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text()
    for name in crowdsift.__all__:
        value = getattr(crowdsift, name)
        if name in {"__version__", "models"}:  # the models have an entry each
            continue
        if inspect.ismodule(value):
            entry = value.__name__
        elif value.__module__ == "crowdsift.errors":
            entry = "crowdsift.errors"
        else:
            entry = f"{value.__module__}.{value.__name__}"
        assert f"::: {entry}\n" in page, name


def test_every_page_is_in_the_site():
    listed = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in listed, page.name
