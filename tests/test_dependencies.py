"""What we depend on, as far as it can be checked without asking anybody; `make audit` asks."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FREE = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Zlib|0BSD|Unlicense|MPL)\b")


def stated() -> list[str]:
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    found = [*PROJECT["build-system"]["requires"], *project["dependencies"]]
    return [*found, *(line for lines in extras for line in lines)]


@pytest.mark.parametrize("line", sorted(set(stated())))
def test_every_dependency_has_a_bound_and_no_address(line):
    needed = Requirement(line)
    assert needed.url is None
    if needed.name == "crowdsift":  # an extra of our own
        return
    assert any(bound.operator in (">=", "==", "~=") for bound in needed.specifier)


def needed_at_run_time() -> set[str]:
    """The packages of a plain installation, theirs included."""
    found: set[str] = set()
    waiting = list(PROJECT["project"]["dependencies"])
    while waiting:
        needed = Requirement(waiting.pop())
        name = canonicalize_name(needed.name)
        if name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += metadata.requires(name) or []
    return found


def test_all_that_is_installed_with_us_has_a_licence_for_any_use():
    for name in sorted(needed_at_run_time()):
        about = metadata.metadata(name)
        fields = [about.get("License-Expression"), about.get("License"), *(about.get_all("Classifier") or [])]
        words = " ".join(text for text in fields if text and (":: OSI" in text or "::" not in text))
        assert FREE.search(words), f"{name}: {words[:200]}"
        assert "General Public" not in words, name


def test_what_is_downloaded_is_checked():
    """Every data set that can be downloaded has an address over HTTPS and a checksum."""
    from crowdsift.lab.datasets import _SOURCES

    found = [source for source in _SOURCES.values() if source.url or source.checksum]
    assert found
    for source in found:
        assert source.url.startswith("https://")
        assert re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", source.checksum)
    sources = (path for path in (ROOT / "src").rglob("*.py") if path.name != "datasets.py")
    for path in sources:
        assert not re.search(r"urlopen|urlretrieve|requests\.|pooch\.|http\.client", path.read_text()), path
