"""The table of terms in docs/research/sift.md, made from their classes.

Run with ``python -m docs.term_table``; a test fails where the page says something else.
"""

from __future__ import annotations

import re
from pathlib import Path

from crowdsift.solvers.ep.terms import TERMS, exclusion

PAGE = Path(__file__).parent / "research" / "sift.md"
BEGIN, END = "<!-- terms: made by docs/term_table.py -->", "<!-- terms end -->"


def table() -> str:
    """Return what each term adds, then which terms combine and why others do not."""
    lines = ["| term | asked for by | adds | learned |", "|---|---|---|---|"]
    for term in TERMS:
        option = f"`{term.option}`" if term.option else "itself"
        lines.append(f"| {term.name} | {option} | {term.adds} | {term.variance} |")
    names = [term.name for term in TERMS]
    lines += ["", f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    lines += [f"| {one} | {' | '.join(_cell(one, two) for two in names)} |" for one in names]
    lines.append("")
    for term in TERMS:
        lines += [f"- {each.term}, {term.name}: {each.reason}" for each in term.excludes]
    return "\n".join(lines)


def _cell(one: str, other: str) -> str:
    found = exclusion(one, other)
    if one == other:
        return ""
    return "yes" if found is None else "refused" if found.refused else "not tried"


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
