"""Files about items: truth and classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crowdsift import InputError
from crowdsift.io.ingest import read
from crowdsift.io.items import match_items, read_item_values
from samples import written

if TYPE_CHECKING:
    from pathlib import Path


def test_item_values(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "item,score,kind\nb,2,u\n007,-1e3,v\na,0.1,u\n")
    labels, values = read_item_values(path)
    assert labels.tolist() == ["b", "007", "a"]
    assert values.tolist() == [2.0, -1000.0, 0.1]
    labels, kinds = read_item_values(path, "kind", numeric=False)
    assert kinds.tolist() == ["u", "v", "u"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("item,score\n", "no items"),
        ("name,score\na,1\n", "no column 'item'"),
        ("item,scores\na,1\n", "no column 'score' .*did you mean 'scores'"),
        ("item,score\na,1\nb,x\n", "row 2, column 'score': the number 'x' is not a number"),
        ("item,score\na,1\nb,2\na,3\n", "row 3, column 'item': the item 'a' occurs twice"),
        ("item,score\n,1\n", "row 1, column 'item': empty item label"),
    ],
)
def test_bad_item_values(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_item_values(written(tmp_path / "t.csv", text))


def test_match_items() -> None:
    votes = read({"winner": [1, "a", "01"], "loser": ["a", 2, "1"]}, workers=False)
    assert votes.items.tolist() == [1, 2, "01", "1", "a"]
    assert match_items(votes, ["a", 2, "1", 1]).tolist() == [3, 1, -1, 2, 0]
    assert match_items(votes, ["2", "a"]).tolist() == [-1, 0, -1, -1, 1]
    assert match_items(votes, [2, "2", "1"]).tolist() == [2, 0, -1, 2, -1]


# The house rules
