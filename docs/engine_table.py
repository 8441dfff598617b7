"""The table of engines and methods in docs/architecture.md, made from their registries.

Run with ``python -m docs.engine_table``; a test fails where the page says something else.
"""

from __future__ import annotations

import re
from pathlib import Path

from crowdsift import Comparisons
from crowdsift.engines import ENGINES, choose_engine, offers
from crowdsift.errors import CrowdsiftError
from crowdsift.models import MODELS

PAGE = Path(__file__).with_name("architecture.md")
BEGIN, END = "<!-- engines: made by docs/engine_table.py -->", "<!-- engines end -->"


def capabilities() -> dict[str, tuple[str, ...]]:
    """Return what every engine of the registry offers; engines that cannot run here are left out."""
    votes = Comparisons.from_arrays(["a", "b"], ["b", "a"], worker=["v", "w"])
    found = {}
    for name in ENGINES:
        try:
            found[name] = offers(choose_engine(name, votes, 1))
        except (CrowdsiftError, ImportError):
            continue  # a library or a device is missing
    return found


def table() -> str:
    """Methods down, engines across."""
    engines = capabilities()
    lines = [f"| method | needs | {' | '.join(engines)} |", "|---|---|" + "---|" * len(engines)]
    for name, kind in MODELS.items():
        cells = ("yes" if kind.needs in offered else "no" for offered in engines.values())
        lines.append(f"| [{name}](methods/{name}.md) | {kind.needs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def written() -> str:
    """Return the table as the page has it."""
    found = re.search(f"{BEGIN}\n(.*?)\n{END}", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise SystemExit(f"{PAGE}: the marks of the table are missing")
    return found[1]


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(written(), table()), encoding="utf-8")


if __name__ == "__main__":
    main()
