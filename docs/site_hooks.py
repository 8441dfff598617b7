"""What the site makes while it is built: commands, reports of the gallery, pages of the root."""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from typer.testing import CliRunner

import crowdsift
from crowdsift.cli import app

MARK = "<!-- commands -->"
GALLERY = "<!-- gallery -->"
ROOT = Path(__file__).resolve().parents[1]
# Pages that lie elsewhere, where newcomers look for them, and their names in the site.
FROM_ROOT = {
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
    "examples/README.md": "examples.md",
}


# Reports of the gallery: the guide whose first example makes the votes, its file, and a title.
REPORTS = {
    "requester": ("batch.csv", "A batch of images, judged by a crowd with spammers"),
    "leaderboard": ("arena.jsonl", "An arena of ten models, judged with ties"),
    "preferences": ("preferences.jsonl", "Replies to 500 prompts, judged by annotators"),
}


def report(name: str) -> str:
    """Return the report of the votes that a guide begins with."""
    votes, title = REPORTS[name]
    page = (ROOT / "docs" / "guides" / f"{name}.md").read_text(encoding="utf-8")
    makes = re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert makes is not None
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(makes[1], f"{name}.md", "exec"), {})
        return crowdsift.fit(votes).report(title=title).html


def gallery() -> str:
    """Return a table with a link to every report."""
    rows = [
        f"| [{title}](gallery/{name}.html) | [the guide](guides/{name}.md) |" for name, (_, title) in REPORTS.items()
    ]
    return "\n".join(["| report | made by |", "|---|---|", *rows])


def _help(*command: str) -> str:
    answer = CliRunner().invoke(app, [*command, "--help"], terminal_width=100)
    if answer.exit_code:
        raise RuntimeError(f"{' '.join(command)} --help exits with {answer.exit_code}")
    return answer.output.strip()


def commands() -> str:
    """Every command with its help, by name."""
    names = sorted(command.name or command.callback.__name__ for command in app.registered_commands)
    return "\n".join(f"## {name}\n\n```text\n{_help(name)}\n```\n" for name in names)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root and the reports."""
    for name, page in FROM_ROOT.items():
        text = (ROOT / name).read_text().replace("](docs/", "](").replace("](../docs/", "](")
        files.append(File.generated(config, page, content=text))
    for name in REPORTS:
        files.append(File.generated(config, f"gallery/{name}.html", content=report(name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Change a page before it is rendered."""
    for name, page in FROM_ROOT.items():
        markdown = markdown.replace(f"](../../{name}", f"](../{page}")
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    for mark, made in ((MARK, commands), (GALLERY, gallery)):
        if mark in markdown:
            markdown = markdown.replace(mark, made())
    return markdown
