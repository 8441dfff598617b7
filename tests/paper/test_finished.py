"""What a stopped run left: a damaged line or record is named, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_experiment import Small

from crowdsift.errors import RequestError
from crowdsift.paper import Options
from crowdsift.paper.runner import perform

ONE = Options(seeds=1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    perform(Small(ONE), folder, jobs=1)
    return folder


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"nonsense",
        lambda line: b"\xff" + line,
        lambda line: b"[" * 100_000,
        lambda line: b"[1]",
        lambda line: line.replace(b'"figures"', b'"other"'),
        lambda line: line.replace(b'"accuracy": ', b'"accuracy": "much", "more": '),
        lambda line: b"",
    ],
    ids=["nonsense", "bytes", "nesting", "list", "missing", "text", "empty"],
)
def test_a_damaged_line_is_named(whole, tmp_path, damage):
    (tmp_path / "run.json").write_bytes((whole / "run.json").read_bytes())
    lines = (whole / "finished.jsonl").read_bytes().split(b"\n")
    lines[1] = damage(lines[1])
    (tmp_path / "finished.jsonl").write_bytes(b"\n".join(lines))
    with pytest.raises(RequestError, match=r"finished\.jsonl, line 2: damaged"):
        perform(Small(ONE), tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", '{"seeds": "x"}', "[]"])
def test_a_damaged_record_of_a_run_is_refused(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RequestError, match=r"damaged|cannot be mixed"):
        perform(Small(ONE), tmp_path)


def test_separators_of_unicode_do_not_end_a_line(whole, tmp_path):
    (tmp_path / "run.json").write_bytes((whole / "run.json").read_bytes())
    content = (whole / "finished.jsonl").read_text().replace('"note": "', '"note": "a\u2028b\x85')
    (tmp_path / "finished.jsonl").write_text(content)
    perform(Small(ONE), tmp_path)
    assert (tmp_path / "finished.jsonl").read_text() == content
