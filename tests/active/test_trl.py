"""What `export --to trl` writes, held against TRL's own functions for preferences.

`.ci/run` installs the versions that are pinned there (trl, datasets); elsewhere this is skipped.
"""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from preference_rows import preferences

from crowdsift import export_votes

if not find_spec("trl") or not find_spec("datasets"):
    pytest.skip("trl and datasets are not installed (pip install trl datasets)", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # what these libraries say of themselves


@pytest.fixture(scope="module")
def trl():
    return pytest.importorskip("trl.data_utils")


def loaded(path, cache):
    import datasets

    datasets.disable_progress_bars()
    return datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(cache))


def test_preferences_of_text_pass(trl, tmp_path):
    rows = preferences(tmp_path / "in.jsonl")
    export_votes(tmp_path / "in.jsonl", tmp_path / "out.jsonl", to="trl")
    data = loaded(tmp_path / "out.jsonl", tmp_path)
    assert len(data) == len(rows)
    for row in data:
        assert not trl.is_conversational(row)
        assert trl.maybe_extract_prompt(row) == row  # an explicit prompt: nothing to be found
        assert (row["margin"] > 0) == (row["probability"] > 0.5)
        # What both trainers do with a row before they tokenise it.
        assert (row["prompt"] + row["chosen"]) != (row["prompt"] + row["rejected"])
    pairs = trl.unpair_preference_dataset(data.select_columns(["prompt", "chosen", "rejected"]))
    assert len(pairs) == 2 * len(rows)
    assert sum(pairs["label"]) == len(rows)


@pytest.mark.parametrize("whole", [False, True])
def test_conversations_pass(trl, tmp_path, whole):
    """Replies alone beside a prompt of messages, and whole conversations beside a text."""
    rows = preferences(tmp_path / "in.jsonl", chat=True)
    for row in rows:
        asked = [{"role": "user", "content": row["prompt"]}]
        if whole:
            row["chosen"], row["rejected"] = asked + row["chosen"], asked + row["rejected"]
        else:
            row["prompt"] = asked
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    export_votes(tmp_path / "in.jsonl", tmp_path / "out.jsonl", to="trl")
    data = loaded(tmp_path / "out.jsonl", tmp_path)
    assert len(data) == len(rows)
    for row, given in zip(data, rows, strict=True):
        assert trl.is_conversational(row)
        found = trl.maybe_extract_prompt(row)
        turns = [[message["role"] for message in found[name]] for name in ("prompt", "chosen", "rejected")]
        assert turns == [["user"], ["assistant"], ["assistant"]]
        assert found["prompt"][0]["content"] in str(given["prompt"])
