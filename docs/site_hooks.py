"""What the site makes while it is built: the page of commands, and the pages of the root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from typer.testing import CliRunner

from crowdsift.cli import app

MARK = "<!-- commands -->"
ROOT = Path(__file__).resolve().parents[1]
# Pages that lie elsewhere, where newcomers look for them, and their names in the site.
FROM_ROOT = {
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
    "examples/README.md": "examples.md",
}


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
    """Adds the pages of the root."""
    for name, page in FROM_ROOT.items():
        text = (ROOT / name).read_text().replace("](docs/", "](").replace("](../docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called for every page before it is rendered."""
    for name, page in FROM_ROOT.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown
