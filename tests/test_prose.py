"""The check of prose finds what it should, and finds nothing in our pages."""

from __future__ import annotations

import json

import pytest
from tools import prose


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("The votes are told apart.", "'told'"),
        ("It has a page of its own.", "'of its own'"),
        ("It takes 16 bytes a vote.", "'bytes a vote'"),
        (" ".join(["word"] * 41) + ".", "41 words"),
        ("Short. " + " ".join(["Word"] * 45) + ". Short.", "45 words"),
    ],
)
def test_a_planted_fault_is_found(text, finding):
    assert any(finding in each for each in prose.faults(text))


@pytest.mark.parametrize("text", ["Plain text.", " ".join(["word"] * 40) + ".", "`so many` is code."])
def test_plain_text_passes(text):
    assert list(prose.faults(text)) == []


def test_code_is_skipped_and_cells_are_read_one_by_one():
    page = "A line\nof text.\n\n```\ntold\n```\n\n| one | two |\n|---|---|\n| told | b |\n"
    texts = [text.strip() for _, text in prose.plain(page)]
    assert texts == ["A line of text.", "one", "two", "---", "---", "told", "b"]


def test_docstrings_and_messages_are_read():
    docstring = '"""Return what was told to us by x."""'
    message = 'raise E(f"so many {x} are not allowed here")'
    source = f"def f(x):\n    {docstring}\n    {message}\n"
    found = [fault for _, text in prose.python_texts(source) for fault in prose.faults(text)]
    assert len(found) == 2


def test_templates_are_read():
    page = '<p>What was told. {{ "so many are here" if x else "" }}</p><i class="told">x</i>{% if told %}'
    found = [fault for _, text in prose.template_texts(page) for fault in prose.faults(text)]
    assert len(found) == 2


def test_cells_of_notebooks_are_read():
    cells = [{"cell_type": "code", "source": ["told"]}, {"cell_type": "markdown", "source": ["# A\n", "Was told."]}]
    found = list(prose.notebook_texts(json.dumps({"cells": cells})))
    assert [number for number, text in found if any(prose.faults(text))] == [2]


def test_a_long_page_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("Word word. " * 600)
    assert list(prose.check(page)) == []
    page.write_text("Word word. " * 601)
    assert "1202 words" in next(prose.check(page))


def test_our_pages_pass():
    assert len(prose.EXCEPTIONS) <= 20
    assert [fault for page in prose.checked() for fault in prose.check(page)] == []
