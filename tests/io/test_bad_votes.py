"""Votes that cannot be used: every fault has its own message, with file, row and column."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from crowdsift import InputError, RequestError
from crowdsift.io.ingest import read
from samples import CSV, VOTES, written

if TYPE_CHECKING:
    from pathlib import Path


H = "winner,loser,worker\n"
S = "left,right,winner,worker\n"
O = "first,second,outcome,worker\n"  # noqa: E741
BAD_TEXT = {
    "empty": ("", "the file is empty"),
    "blank": ("\n \n", "the file is empty"),
    "header only": (H, "no votes: there are columns (winner, loser, worker) but no rows"),
    "missing column": ("a,b,c\n1,2,3\n", "and needed are winner,loser or"),
    "no header": ("a,b,c\n1,2,3\n", "a, b, c (or is that the first vote? Then put"),
    "a comment": ("# mine\nwinner,loser,worker\na,b,x\n", "is there a title or a comment"),
    "mistyped": ("winer,loser,worker\na,b,x\n", "did you mean 'winner' by 'winer'?"),
    "how to map": ("good,bad,worker\n1,2,3\n", "--columns winner=NAME"),
    "worker absent": ("winner,loser\na,b\n", "no column 'worker'"),
    "how to pool": ("winner,loser\na,b\n", "--no-workers (workers=False)"),
    "column twice": ("winner,loser,loser,worker\na,b,c,d\n", "the column 'loser' twice"),
    "ambiguous": ("WINNER,Winner,loser,worker\na,b,c,d\n", "could both be 'winner'"),
    "itself": (H + "a,b,x\nb,b,x\n", ", row 2: the item 'b' is compared with itself"),
    "single item": (H + "a,a,x\n", "only one item, 'a'"),
    "empty item": (H + "a,b,x\n,c,x\n", ", row 2, column 'winner': empty item label"),
    "blank item": (H + 'a,b,x\na,"  ",x\n', ", row 2, column 'loser': empty item label"),
    "empty worker": (H + "a,b,\n", ", row 1, column 'worker': empty worker label"),
    "too few": (H + "a,b,x\na,b\n", ", row 2: 2 fields where the header has 3"),
    "too many": (H + "a,b,x,y\n", ", row 1: 4 fields where the header has 3"),
    "open quote": (H + 'a,b,x\n"a,b,x\n', ", row 2: wrong quotes"),
    "after a line break": (H + '"a\nb",c,x\na,b\n', ", row 2: 2 fields"),
    "a word for a tie": (S + "a,b,Draw,x\n", 'with --values "Draw=tie" (left'),
    "neither side": (S + "a,b,c,x\n", "row 1, column 'winner': the winner 'c' is neither side"),
    "which sides": (S + "a,b,draw,x\nc,d,left,x\n", "left, right, tie, 'a' or 'b'"),
    "empty winner": (S + "a,b,,x\n", "row 1, column 'winner': empty winner"),
    "outcome high": (O + "a,b,1,x\na,b,1.5,x\n", "row 2, column 'outcome': the outcome '1.5'"),
    "outcome just high": (O + "a,b,1.00000001,x\n", "the outcome '1.00000001' is outside [0, 1]"),
    "outcome low": (O + "a,b,-0.1,x\n", "the outcome '-0.1' is outside [0, 1]"),
    "outcome text": (O + "a,b,left,x\n", "the outcome 'left' is not a number"),
    "outcome empty": (O + "a,b,,x\n", "row 1, column 'outcome': empty outcome"),
    "outcome nan": (O + "a,b,nan,x\n", "the outcome 'nan' is not a number"),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text(tmp_path: Path, case: str) -> None:
    text, message = BAD_TEXT[case]
    path = written(tmp_path / "v.csv", text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert "Error" not in str(caught.value)  # nothing of DuckDB's own words


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("-1", "negative"),
        ("nan", "not a number"),
        ("inf", "infinite"),
        ("1e60", "at most 1e"),
        ("1e400", "infinite"),
        ("two", "not a number"),
        ("", "empty weight"),
    ],
)
def test_bad_weights(tmp_path: Path, weight: str, message: str) -> None:
    text = f"winner,loser,worker,weight\na,b,x,1\nb,c,x,{weight}\n"
    with pytest.raises(InputError, match=f"row 2, column 'weight': .*{message}"):
        read(written(tmp_path / "v.csv", text))
    if weight in ("-1", "nan", "inf"):
        frame = {"winner": "ab", "loser": "bc", "worker": "xx"}
        votes: dict[str, Any] = {name: list(value) for name, value in frame.items()}
        with pytest.raises(InputError, match=f"votes, row 2, column 'weight': .*{message}"):
            read(votes | {"weight": [1.0, float(weight)]})


def test_all_weights_zero() -> None:
    with pytest.raises(InputError, match="all weights are 0"):
        read(VOTES | {"weight": [0, 0, 0, 0]})


BAD_BYTES = {
    "png": (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image"),
    "zip": (b"PK\x03\x04abc", "a zip archive or an Excel workbook"),
    "zeros": (b"winner,loser\0\0", "not a text file"),
    "utf-16": (CSV.encode("utf-16"), "UTF-16 text; save the file as UTF-8"),
    "not UTF-8": (CSV.encode() + b"\x81,b,x\n", ", row 5: not UTF-8 text"),
    "header not UTF-8": (b"\x81,b,x\n", r"not UTF-8 text \(in the header\)"),
    "broken gzip": (gzip.compress(CSV.encode() * 9)[:-20], "a broken gzip file"),
    "gzipped parquet": (gzip.compress(b"PAR1...."), "a gzipped Parquet file"),
    "not parquet": (b"PAR1 and nothing else", "cannot be read as PARQUET"),
}


@pytest.mark.parametrize("case", BAD_BYTES)
def test_bad_bytes(tmp_path: Path, case: str) -> None:
    content, message = BAD_BYTES[case]
    with pytest.raises(InputError, match=message):
        read(written(tmp_path / "v.csv", content))


BAD_JSON = {
    "cut": ('{"winner": "a", "loser": "b", "worker": "x"}\n{"winner": \n', "row 2: not JSON"),
    "scalars": ("1\n2\n", "row 1: not an object"),
    "list of scalars": ("[1, 2]", "row 1: not an object"),
    "cut list": ('[{"winner": "a"}, ', "not JSON"),
    "no rows": ("[]", "holds no rows"),
    "mark": ("\ufeff[]", "holds no rows"),
    "null label": ('{"winner": null, "loser": "b", "worker": "x"}', "row 1, .*'winner': empty"),
    "lists": ('{"winner": ["a"], "loser": ["b"], "worker": ["x"]}', "row 1, column 'winner'"),
    "a list below": (
        '{"winner": "b", "loser": "a", "worker": "x"}\n{"winner": "a", "loser": [2], "worker": "x"}'
        '\n{"winner": "a", "loser": [1], "worker": "x"}',
        r"row 2, column 'loser': the item label \[2\] is not a text, a number or a date",
    ),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_bad_json(tmp_path: Path, case: str) -> None:
    text, message = BAD_JSON[case]
    with pytest.raises(InputError, match=message):
        read(written(tmp_path / "v.json", text))


def test_bad_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"none.csv: no such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="no file matches this pattern"):
        read(str(tmp_path / "none-*.csv"))
    with pytest.raises(InputError, match="a folder without files of votes"):
        read(tmp_path)

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path / "v.csv", CSV)
    monkeypatch.setattr("builtins.open", refuse)  # tests may run as root, who may read anything
    with pytest.raises(InputError, match="no permission to read this file"):
        read(path)


def test_bad_requests() -> None:
    with pytest.raises(InputError, match=r"no column 'winers' .*mean 'winner'"):
        read(VOTES, columns={"winner": "winers"})
    with pytest.raises(RequestError, match="'victor', which is no column of votes"):
        read(VOTES, columns={"victor": "winner"})
    for columns in ({"winner": "winner", "loser": "winner"}, {"winner": "LOSER", "loser": "loser"}):
        with pytest.raises(RequestError, match="maps 'winner' and 'loser' to the same column"):
            read(VOTES, columns=columns)
    with pytest.raises(InputError, match="no column 'length' for the covariate"):
        read(VOTES, covariates=["length"])
    with pytest.raises(InputError, match=r"row 3, column 'size': .*'big' is not a number"):
        read(VOTES | {"size": [1, 2, "big", 3]}, covariates=["size"])
    with pytest.raises(InputError, match="no votes"):
        read({"winner": [], "loser": [], "worker": []})


# Items


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "dict", "pandas", "polars"])
@pytest.mark.parametrize("weight", ["1_000", "\u0663", "\xa05"], ids=ascii)
def test_a_number_in_text_means_the_same_in_every_source(tmp_path: Path, kind: str, weight: str) -> None:
    """Python takes these for numbers; a file of votes does not, whichever its format is."""
    columns = {"winner": ["a", "b"], "loser": ["b", "a"], "worker": ["w", "v"]}
    columns["weight"] = ["2", weight]
    source: Any = columns
    path = tmp_path / f"votes.{kind}"
    if kind == "csv":
        lines = [columns.keys(), *zip(*columns.values(), strict=True)]
        path.write_text("".join(f"{','.join(each)}\n" for each in lines))
        source = path
    elif kind == "json":
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text(json.dumps(rows))
        source = path
    elif kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(pytest.importorskip("pyarrow").table(columns), path)
        source = path
    elif kind != "dict":
        source = pytest.importorskip(kind).DataFrame(columns)
    with pytest.raises(InputError, match=r"row 2, column 'weight'.* is not a number"):
        read(source)


@pytest.mark.parametrize("further", ["", "e,f,w\r\n", 'e,"f ""g""",w\n', '"e\ng",f,w\r\n'], ids=ascii)
def test_blanks_around_quotes_never_count(tmp_path: Path, further: str) -> None:
    """Other rows of the file decide who reads it: DuckDB, or after a refusal the csv module."""
    path = tmp_path / "votes.csv"
    rows = 'winner, "loser" ,worker\na, "b" ,w\nb, c,w\n "x "" y","b",w \n"k","l" ,w\n'
    path.write_bytes((rows + further).encode())
    votes = read(path)
    assert {"a", "b", " c", 'x " y', "k", "l"} <= set(votes.items.tolist())
    assert '"' not in "".join(set(votes.items) - {'x " y', 'f "g"'})
    assert set(votes.workers) == {"w", "w "}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_zero_byte_far_down_is_refused(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "votes.csv"
    content = b"winner,loser,worker\n" + b"a,b,w\n" * 300_000 + b"a\0,b,w\nb,a,w\n"
    path.write_bytes(gzip.compress(content, 1) if zipped else content)
    with pytest.raises(InputError, match=r"votes\.csv, row 300001: a zero byte"):
        read(path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "dict"])
def test_a_condition_may_end_in_a_comment_and_is_blamed_itself(tmp_path: Path, kind: str) -> None:
    columns = {"winner": ["a", "b"], "loser": ["b", "a"], "worker": ["w", "v"]}
    source: Any = columns
    if kind == "csv":
        source = tmp_path / "votes.csv"
        source.write_text("winner,loser,worker\na,b,w\nb,a,v\n")
    elif kind == "jsonl":
        source = tmp_path / "votes.jsonl"
        rows = zip(*columns.values(), strict=True)
        source.write_text("\n".join(json.dumps(dict(zip(columns, r, strict=True))) for r in rows))
    assert read(source, where="worker = 'w' -- only this one").workers.tolist() == ["w"]
    with pytest.raises(RequestError, match=r"--where .*missing \]"):
        read(source, where="regexp_matches(worker, '[')")
