"""The guides, followed to the end: their Python runs, their commands print what they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdsift.cli import app

GUIDES = sorted((Path(__file__).resolve().parents[1] / "docs" / "guides").glob("*.md"))


def shows(output: str, line: str) -> bool:
    """Whether a line is printed, ... standing for anything; long lines may be wrapped."""
    parts = [re.escape(" ".join(part.split())) for part in line.split("...")]
    return re.search(".*".join(parts), " ".join(output.split())) is not None


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_can_be_followed_to_its_end(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|console)\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    assert {kind for kind, _ in blocks} == {"python", "console"}
    names: dict[str, object] = {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, str(page), "exec"), names)
            continue
        command, _, expected = block.partition("\n")
        dollar, program, *words = shlex.split(command)
        assert (dollar, program) == ("$", "crowdsift")
        answer = CliRunner().invoke(app, words, terminal_width=100)
        assert answer.exit_code == 0, f"{command}\n{answer.output}"
        for line in filter(None, expected.splitlines()):
            assert shows(answer.output, line), f"{command}: {line}\n{answer.output}"
