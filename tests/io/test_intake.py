"""What becomes of every row: conditions, doubles, empty answers, bad rows, and the line of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import crowdsift
from crowdsift import InputError, RequestError
from crowdsift.io.rows import alike
from crowdsift.votes.intake import Intake

SIDES = "left,right,winner,worker,weight,stamp\n"
GOOD = ["a,b,left,x,1,1", "b,c,right,y,1,2", "a,c,tie,x,2,3", "a,b,a,z,1,4"]
BAD = {
    "b,b,left,x,1,5": "an item compared with itself",
    ",b,left,x,1,6": "empty item label",
    "a,b,left,,1,7": "empty worker label",
    "a,b,left,x,-1,8": "not a valid weight",
    "a,b,c,x,1,9": "a winner that is neither side",
    "a,b,left": "3 fields where the header has 6",
}


def written(path: Path, rows: list[str]) -> Path:
    path.write_text(SIDES + "\n".join(rows) + "\n")
    return path


def test_bad_rows_are_set_aside_with_their_reasons(tmp_path: Path) -> None:
    rows = [GOOD[0], *BAD, "b,a,,y,1,0", *GOOD[1:]]
    path = written(tmp_path / "votes.csv", rows)
    with pytest.raises(InputError):
        crowdsift.read(path)
    votes = crowdsift.read(path, skip_bad=tmp_path / "bad.csv")
    good = crowdsift.read(written(tmp_path / "good.csv", GOOD))
    assert votes.intake is not None
    assert (votes.intake.rows, votes.intake.used, votes.intake.empty, votes.intake.set_aside) == (11, 4, 1, 6)
    assert (votes.first == good.first).all()
    assert (votes.weight == good.weight).all()
    with (tmp_path / "bad.csv").open(newline="") as file:
        aside = list(csv.DictReader(file))
    assert [(int(row["row"]), row["reason"]) for row in aside] == [
        (place + 2, reason) for place, reason in enumerate(BAD.values())
    ]
    assert aside[4]["winner"] == "c"
    assert aside[4]["column"] == "winner"


def test_all_empty_answers_are_reported_together(tmp_path: Path) -> None:
    rows = [f"a,b,{'' if i % 3 == 0 else 'left'},x,1,{i}" for i in range(30)]
    with pytest.raises(InputError, match=r"row 1, .*empty winner; 10 rows have none \(1, 4, 7, "):
        crowdsift.read(written(tmp_path / "votes.csv", rows))


def test_duplicates_count_once(tmp_path: Path) -> None:
    path = written(tmp_path / "votes.csv", [*GOOD, *GOOD[:2], "a,b,left,w,1,", "a,b,left,w,1,"])
    votes = crowdsift.read(path, unique="stamp")
    assert votes.intake is not None
    assert (votes.intake.duplicates, votes.intake.used) == (2, 6)  # no entry names no row
    both = crowdsift.read(path, unique=["worker", "left", "right"])
    assert both.intake is not None
    assert both.intake.duplicates == 3
    with pytest.raises(InputError, match="no column 'id' for what names a row"):
        crowdsift.read(path, unique="id")


def test_duplicate_rankings_count_once() -> None:
    """A ranking is one record of several pairs, whatever its layout."""
    text = {"worker": list("aab"), "ranking": ["x>y>z", "y>x>z", "x>z"], "id": list("112")}
    long = {"worker": list("aaabbaaa"), "task": list("11111222"), "item": list("xyzxyyxz"), "rank": list("12312123")}
    for rows in (text, {**long, "id": list("pppqqppp")}):
        votes = crowdsift.read(rows, unique="id")
        assert votes.intake is not None
        assert (votes.intake.duplicates, votes.intake.used, len(votes)) == (1, 2, 4)
    fit = crowdsift.fit(text, "bt", unique="id").update(
        {"worker": ["b"] * 2, "ranking": ["x>z", "z>y"], "id": ["2", "3"]}
    )
    assert fit.summary["votes"] == pytest.approx(4.0)  # two of the first ranking, one each of the others


def test_conditions_are_sql_on_any_source(tmp_path: Path) -> None:
    path = written(tmp_path / "votes.csv", GOOD)
    columns = {name: [row.split(",")[place] for row in GOOD] for place, name in enumerate(SIDES.strip().split(","))}
    pd = pytest.importorskip("pandas")
    for source in (path, columns, pd.DataFrame(columns)):
        votes = crowdsift.read(source, where="worker = 'x' OR stamp > 3")
        assert votes.intake is not None
        assert (votes.intake.used, votes.intake.left_out) == (3, 1)
        with pytest.raises(RequestError, match="--where"):
            crowdsift.read(source, where="wroker = 'x'")
        with pytest.raises(RequestError, match=r"several statements|is not a condition"):
            crowdsift.read(source, where="true); DROP TABLE votes; SELECT (1")
        with pytest.raises(InputError, match="no votes are left: 4 rows read, 0 used"):
            crowdsift.read(source, where="worker = 'nobody'")


def test_a_condition_reaches_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("word\nhidden\n")
    path = written(tmp_path / "votes.csv", GOOD)
    inner = f"worker IN (SELECT word FROM read_csv('{tmp_path / 'secret.csv'}'))"
    with pytest.raises(crowdsift.CrowdsiftError, match="disabled by configuration"):
        crowdsift.read(path, where=inner)


def test_labels_that_look_alike_are_named() -> None:
    votes = crowdsift.read({"winner": ["caf\u00e9", "a"], "loser": ["b", "cafe\u0301"], "worker": ["x", "x "]})
    assert votes.intake is not None
    notes = " ".join(votes.intake.notes)
    assert "'cafe\u0301' and 'caf\u00e9' differ only in blanks or Unicode form" in notes
    assert "'x' and 'x ' differ only in blanks" in notes
    assert alike(["a", "b", "A", 7, "7"], "items") == ()


def test_the_counts_of_two_sources_add_up() -> None:
    one = Intake("mturk", rows=5, used=3, empty=2, votes=3, reasons=())
    two = Intake("mturk", rows=4, used=2, set_aside=2, votes=2, reasons=(("cancelled", 2),))
    assert str(one + two) == ("mturk: 9 rows read, 5 used, 2 empty, 0 duplicates, 2 set aside (2 cancelled)")
    with pytest.raises(AssertionError, match="5 rows were read and 4 accounted for"):
        Intake(rows=5, used=4)
    votes = crowdsift.read({"winner": ["a"], "loser": ["b"], "worker": ["x"]})
    more = votes.extended(votes)
    assert more.intake is not None
    assert more.intake.rows == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("columns", ["winner"]),
        ("columns", {"winner": 3}),
        ("values", "A=left"),
        ("where", 5),
        ("unique", 7),
        ("workers", "no"),
        ("sides", "left"),
        ("covariates", 3),
        ("by", 4),
        ("skip_bad", 2.5),
        ("threads", 1.5),
        ("threads", True),
        ("partitions", "yes"),
        ("format", 3),
    ],
)
def test_options_of_a_wrong_type_are_refused(option: str, value: Any) -> None:
    votes = {"winner": ["a"], "loser": ["b"], "worker": ["x"]}
    with pytest.raises(RequestError, match=f"{option} must be"):
        crowdsift.read(votes, **{option: value})
