"""Reading votes: every format, every layout, every way in which a file can be wrong."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowdsift import Comparisons, InputError, RequestError
from crowdsift.ingest import match_items, read, read_item_values

if TYPE_CHECKING:
    from pathlib import Path

VOTES = {
    "winner": ["a", "b", "a", "c"],
    "loser": ["b", "c", "b", "a"],
    "worker": ["x", "x", "x", "y"],
}
CSV = "winner,loser,worker\na,b,x\nb,c,x\na,b,x\nc,a,y\n"


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def assert_same(one: Comparisons, two: Comparisons) -> None:
    for name in ("first", "second", "outcome", "weight", "offsets"):
        left, right = getattr(one, name), getattr(two, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right, err_msg=name)
    assert one.items.tolist() == two.items.tolist()
    assert one.workers.tolist() == two.workers.tolist()
    assert (one.sides_known, one.has_workers, one.rows) == (
        two.sides_known,
        two.has_workers,
        two.rows,
    )


@pytest.fixture
def expected() -> Comparisons:
    return Comparisons.from_arrays(VOTES["winner"], VOTES["loser"], worker=VOTES["worker"])


# Formats


def test_csv_and_its_variants(tmp_path: Path, expected: Comparisons) -> None:
    variants = {
        "plain.csv": CSV.encode(),
        "no-end.csv": CSV.rstrip().encode(),
        "crlf.csv": CSV.replace("\n", "\r\n").encode(),
        "mixed.csv": CSV.replace("\n", "\r\n", 2).encode(),
        "bom.csv": b"\xef\xbb\xbf" + CSV.encode(),
        "semicolon.csv": CSV.replace(",", ";").encode(),
        "bar.txt": CSV.replace(",", "|").encode(),
        "tab.tsv": CSV.replace(",", "\t").encode(),
        "blank-lines.csv": ("\r\n\n" + CSV.replace("b,c,x\n", "b,c,x\n\n") + "\n\n").encode(),
        "case.csv": CSV.replace("winner,loser", " Winner , LOSER ").encode(),
        "extra.csv": CSV.replace("\n", ",\n").replace(",\n", ",more\n").encode(),
        "index.csv": "\n".join(f",,{line}" for line in CSV.split("\n") if line).encode(),
        "trailing-comma.csv": CSV.replace("x\n", "x,\n").encode(),
        "zipped.csv.gz": gzip.compress(CSV.encode()),
        "zipped.tsv.gz": gzip.compress(CSV.replace(",", "\t").encode()),
        "zipped-by-content.csv": gzip.compress(CSV.encode()),
        "long-line.csv": CSV.replace("worker\n", "worker,note\n")
        .replace("x\n", "x,n\n")
        .replace("y\n", f"y,{'n' * 3_000_000}\n")
        .encode(),
        "v[1]*?'.csv": CSV.encode(),
    }
    for name, content in variants.items():
        votes = read(written(tmp_path / name, content))
        assert_same(votes, expected)
        assert votes.source == str(tmp_path / name)
        assert votes.backend is None


def test_json_lines_and_lists(tmp_path: Path, expected: Comparisons) -> None:
    rows = [
        f'{{"winner": "{w}", "loser": "{v}", "worker": "{s}", "more": {{"deep": [1]}}}}'
        for w, v, s in zip(*VOTES.values(), strict=True)
    ]
    lines, array = "\n".join(rows), f"[{','.join(rows)}]"
    assert_same(read(written(tmp_path / "v.jsonl", lines)), expected)
    assert_same(read(written(tmp_path / "v.ndjson", lines + "\n")), expected)
    assert_same(read(written(tmp_path / "v.json", array)), expected)
    assert_same(read(written(tmp_path / "content-tells", array)), expected)
    assert_same(read(written(tmp_path / "v.jsonl.gz", gzip.compress(lines.encode()))), expected)


def test_json_labels_keep_their_type(tmp_path: Path) -> None:
    text = (
        '{"winner": 7, "loser": "7", "worker": "2024-01-01", "weight": 2}\n'
        '{"winner": "007", "loser": 7, "worker": "\\u00e9", "weight": 1.5}\n'
        '{"winner": "é", "loser": "\\u00e9\\n", "worker": "é", "weight": 1}\n'
    )
    votes = read(written(tmp_path / "v.jsonl", text))
    assert votes.items.tolist() == [7, "007", "7", "é", "é\n"]
    assert votes.workers.tolist() == ["2024-01-01", "é"]
    assert votes.total_weight == 4.5


def test_parquet(tmp_path: Path, expected: Comparisons) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(VOTES), tmp_path / "v.parquet")
    assert_same(read(tmp_path / "v.parquet"), expected)
    numbers = {"winner": [10, 9], "loser": [9, 8], "worker": pa.array([1, 2], pa.int16())}
    pq.write_table(pa.table(numbers), tmp_path / "n.parquet")
    votes = read(tmp_path / "n.parquet")
    assert votes.items.tolist() == [8, 9, 10]
    assert votes.workers.tolist() == [1, 2]
    mixed = pa.table({"winner": [1, 2], "loser": ["1", "2"], "worker": [1, 1]})
    pq.write_table(mixed, tmp_path / "m.parquet")
    assert read(tmp_path / "m.parquet").items.tolist() == [1, 2, "1", "2"]


def test_glob_reads_all_files_and_names_the_bad_one(tmp_path: Path, expected: Comparisons) -> None:
    written(tmp_path / "v-1.csv", "winner,loser,worker\na,b,x\nb,c,x\n")
    written(tmp_path / "v-2.csv", "worker;loser;winner\nx;b;a\ny;a;c\n")
    votes = read(str(tmp_path / "v-*.csv"))
    assert_same(votes, expected)
    assert votes.source.endswith("v-*.csv")
    written(tmp_path / "v-3.csv", "winner,loser,worker\na,b,x\nb,b,x\n")
    with pytest.raises(InputError, match=r"v-3\.csv, row 2: the item 'b' is compared with itself"):
        read(str(tmp_path / "v-*.csv"))
    written(tmp_path / "v-3.csv", "winner,lost,worker\na,b,x\n")
    with pytest.raises(InputError, match=r"v-3\.csv: no column 'loser'.*winner, lost, worker"):
        read(str(tmp_path / "v-*.csv"))


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: Comparisons
) -> None:
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spool"))
    (tmp_path / "spool").mkdir()
    pq.write_table(pa.table(VOTES), tmp_path / "v.parquet")
    contents = [
        CSV.encode(),
        CSV.replace(",", "\t").encode(),
        gzip.compress(CSV.encode()),
        (tmp_path / "v.parquet").read_bytes(),
        b'{"winner":"a","loser":"b","worker":"x"}\n{"winner":"b","loser":"c","worker":"x"}\n'
        b'{"winner":"a","loser":"b","worker":"x"}\n{"winner":"c","loser":"a","worker":"y"}\n',
    ]
    for content in contents:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        votes = read("-")
        assert_same(votes, expected)
        assert votes.source == "standard input"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(CSV.encode() + b"a,a,x")))
    with pytest.raises(InputError, match=r"standard input, row 5: .*'a' is compared with itself"):
        read("-")
    assert os.listdir(tmp_path / "spool") == []


# Frames and arrays


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(backend: str, expected: Comparisons) -> None:
    module = pytest.importorskip(backend)
    make = module.table if backend == "pyarrow" else module.DataFrame
    votes = read(make(VOTES))
    assert_same(votes, expected)
    assert (votes.backend, votes.source) == (backend, "votes")
    numbers = read(
        make({"first": [3, 1], "second": [1, 2], "outcome": [0.25, 1], "worker": [5, 4]})
    )
    assert numbers.items.tolist() == [1, 2, 3]
    assert all(type(label) is int for label in numbers.items)
    with pytest.raises(InputError, match="votes, row 2, column 'loser': empty item label"):
        read(make({"winner": ["a", "b"], "loser": ["b", None], "worker": ["x", "x"]}))


def test_lazy_and_categorical_frames(expected: Comparisons) -> None:
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    assert_same(read(pl.DataFrame(VOTES).lazy()), expected)
    assert_same(read(pl.DataFrame(VOTES, schema=dict.fromkeys(VOTES, pl.Categorical))), expected)
    assert_same(read(pd.DataFrame(VOTES).astype("category")), expected)
    assert_same(read(pd.DataFrame(VOTES, index=[5, 5, 1, 0])), expected)
    mixed = pd.DataFrame(
        {"winner": [7, "7"], "loser": ["7", "007"], "worker": [1, 1]}, dtype=object
    )
    assert read(mixed).items.tolist() == [7, "007", "7"]


def test_large_frames_keep_rows_together() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 500, 20_000)
    second = (first + rng.integers(1, 500, 20_000)) % 500
    votes = {
        "first": np.char.add("i", first.astype(str)),
        "second": np.char.add("i", second.astype(str)),
        "outcome": rng.integers(0, 5, 20_000) / 4,
        "worker": rng.integers(0, 50, 20_000),
        "weight": rng.integers(1, 4, 20_000),
    }
    expected = read(votes)
    for backend in ("pandas", "polars", "pyarrow"):
        module = pytest.importorskip(backend)
        columns = {name: values.tolist() for name, values in votes.items()}
        assert_same(read((module.table if backend == "pyarrow" else module.DataFrame)(columns)), expected)  # fmt: skip  # noqa: E501


def test_arrays_relations_and_comparisons(expected: Comparisons) -> None:
    assert_same(read(VOTES), expected)
    assert_same(read(tuple(VOTES.values())), expected)
    assert_same(read(np.array(list(VOTES.values())).T), expected)
    records = np.array(list(zip(*VOTES.values(), strict=True)), [(n, "U1") for n in VOTES])
    assert_same(read(records), expected)
    assert read(expected) is expected
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT * FROM (VALUES ('a','b','x'),('b','c','x'),('a','b','x'),('c','a','y')) t"
    relation = duckdb.connect().sql(query + "(winner, loser, worker)")
    assert_same(read(relation), expected)
    assert read({"winner": [7, "7"], "loser": ["7", "007"]}, workers=False).n_items == 3


@pytest.mark.parametrize("source", [3, None, object(), ["a"], ["a"] * 4])
def test_what_cannot_hold_votes(source: Any) -> None:
    with pytest.raises(RequestError, match=r"votes cannot be read from|list of arrays"):
        read(source)


def test_arrays_of_unequal_length() -> None:
    with pytest.raises(InputError, match="one entry a vote"):
        read({"winner": ["a"], "loser": ["b", "c"], "worker": ["x"]})


# Layouts


def test_sides(tmp_path: Path) -> None:
    text = "left,right,winner,worker\na,b,left,x\na,b,RIGHT,x\na,b,Tie,x\nb,a,a,x\nb,c,b,x\n"
    votes = read(written(tmp_path / "v.csv", text))
    assert votes.sides_known
    a, b, c = range(3)
    found = list(zip(votes.first, votes.second, votes.outcome, strict=True))
    assert found == [(a, b, 0), (a, b, 0.5), (a, b, 1), (b, a, 0), (b, c, 1)]
    unknown = read(tmp_path / "v.csv", sides=False)
    assert not unknown.sides_known
    assert (unknown.outcome >= 0.5).all()


def test_outcomes_have_no_sides_unless_asked() -> None:
    votes = {"first": ["a", "b"], "second": ["b", "c"], "outcome": [0.25, 1], "worker": ["x", "x"]}
    unknown, known = read(votes), read(votes, sides=True)
    assert not unknown.sides_known
    assert unknown.first.tolist() == [1, 1]
    assert unknown.outcome.tolist() == [0.75, 1.0]
    assert known.sides_known
    assert known.outcome.tolist() == [0.25, 1.0]


def test_winner_and_loser_have_no_sides() -> None:
    assert not read(VOTES).sides_known
    with pytest.raises(RequestError, match="who was on the left"):
        read(VOTES, sides=True)


def test_layout_preference() -> None:
    votes = {"left": ["a"], "right": ["b"], "winner": ["b"], "loser": ["c"], "worker": ["x"]}
    assert read(votes).items.tolist() == ["a", "b"]
    assert read(votes, columns={"loser": "loser"}).items.tolist() == ["b", "c"]


def test_items_named_like_keywords() -> None:
    def one(left: str, right: str, winner: str) -> float:
        votes = {"left": [left], "right": [right], "winner": [winner], "worker": ["x"]}
        return float(read(votes).outcome[0])

    assert one("left", "b", "left") == 1.0  # both readings agree
    assert one("tie", "b", "right") == 0.0
    assert one("tie", "b", "b") == 0.0
    for winner in ("left", "right"):
        with pytest.raises(InputError, match="also the label of an item"):
            one("right", "left", winner)
    with pytest.raises(InputError, match="'tie' is a keyword and also the label"):
        one("tie", "b", "tie")


def test_winner_as_text_where_items_are_numbers() -> None:
    votes = {"left": [1, 2], "right": [2, 3], "winner": ["2", "tie"], "worker": ["x", "x"]}
    assert read(votes).outcome.tolist() == [0.0, 0.5]


def test_mapped_columns(tmp_path: Path, expected: Comparisons) -> None:
    path = written(tmp_path / "v.csv", CSV.replace("winner,loser,worker", "chosen,loser,winner"))
    mapping = {"winner": "chosen", "loser": "loser", "worker": "winner"}
    assert_same(read(path, columns=mapping), expected)
    assert_same(read(path, columns={"winner": " CHOSEN", "worker": "winner"}), expected)


def test_pooled_votes(tmp_path: Path) -> None:
    for text in (CSV, "winner,loser\na,b\nb,c\na,b\nc,a\n"):
        votes = read(written(tmp_path / "v.csv", text), workers=False)
        assert not votes.has_workers
        assert votes.n_workers == 1
        assert votes.weight.tolist() == [2, 1, 1]


def test_weights_and_features(tmp_path: Path) -> None:
    text = "winner,loser,worker,weight,length,tone\na,b,x,3,1.5,0\nb,c,x,0,-2,1\nc,a,y, 0.5 ,-2,1\n"
    votes = read(written(tmp_path / "v.csv", text), features=["length", "Tone"])
    assert votes.weight.tolist() == [3.0, 0.5]
    assert votes.feature_names == ("length", "Tone")
    assert votes.features is not None
    assert votes.features.dtype == np.float32
    assert votes.features.tolist() == [[1.5, 0.0], [-2.0, 1.0]]
    assert votes.rows == 3


# Labels


def test_csv_labels_stay_as_written(tmp_path: Path) -> None:
    text = (
        'winner,loser,worker\n007,7,1.0\n"a ""b"", c"," lead",1\n"two\nlines",日本語,NULL\n'
        "nan,NA,true\nИ,é,#x\n"
    )
    votes = read(written(tmp_path / "v.csv", text))
    items = ["007", "7", 'a "b", c', " lead", "two\nlines", "日本語", "nan", "NA", "И", "é"]
    assert votes.items.tolist() == sorted(items)
    assert votes.workers.tolist() == sorted(["1.0", "1", "NULL", "true", "#x"])


LABEL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(
    lambda label: label.strip()
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(LABEL, LABEL, LABEL).filter(lambda v: v[0] != v[1]), min_size=1))
def test_any_text_survives_csv(tmp_path: Path, votes: list[tuple[str, str, str]]) -> None:
    quoted = [",".join('"' + x.replace('"', '""') + '"' for x in vote) for vote in votes]
    path = written(tmp_path / "v.csv", "winner,loser,worker\n" + "\n".join(quoted) + "\n")
    found = read(path)
    winner, loser, worker = (list(column) for column in zip(*votes, strict=True))
    assert_same(found, Comparisons.from_arrays(winner, loser, worker=worker))


def test_many_rows_keep_their_place(tmp_path: Path) -> None:
    """Rows are read in parallel; codes, numbers and row numbers must still belong together."""
    rng = np.random.default_rng(1)
    n = 300_000
    first = rng.integers(0, 1000, n)
    second = (first + rng.integers(1, 1000, n)) % 1000
    worker, weight = rng.integers(0, 100, n), rng.integers(1, 5, n)
    rows = [f"i{a},i{b},w{w},{c}" for a, b, w, c in zip(first, second, worker, weight, strict=True)]
    path = written(tmp_path / "v.csv", "winner,loser,worker,weight\n" + "\n".join(rows))
    labels = [np.array([f"{kind}{x}" for x in codes]) for kind, codes in
              (("i", first), ("i", second), ("w", worker))]  # fmt: skip
    expected = Comparisons.from_arrays(labels[0], labels[1], worker=labels[2], weight=weight)
    assert_same(read(path), expected)
    rows[271_828] = "i1,i1,w0,1"
    written(path, "winner,loser,worker,weight\n" + "\n".join(rows))
    with pytest.raises(InputError, match="row 271829: "):
        read(path)
    rows[271_828] = "i1,i2,w0"
    written(path, "winner,loser,worker,weight\n" + "\n".join(rows))
    with pytest.raises(InputError, match="row 271829: 3 fields where the header has 4"):
        read(path)


# Faults

H = "winner,loser,worker\n"
S = "left,right,winner,worker\n"
O = "first,second,outcome,worker\n"  # noqa: E741
BAD_TEXT = {
    "empty": ("", "the file is empty"),
    "blank": ("\n \n", "the file is empty"),
    "header only": (H, "no votes: there are columns (winner, loser, worker) but no rows"),
    "missing column": ("a,b,c\n1,2,3\n", "the columns are a, b, c, and needed are winner,loser or"),
    "how to map": ("won,lost,worker\n1,2,3\n", "--columns winner=NAME"),
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
    "neither side": (S + "a,b,c,x\n", "row 1, column 'winner': the winner 'c' is neither side"),
    "which sides": (S + "a,b,draw,x\nc,d,left,x\n", "left, right, tie, 'a' or 'b'"),
    "empty winner": (S + "a,b,,x\n", "row 1, column 'winner': empty winner"),
    "outcome high": (O + "a,b,1,x\na,b,1.5,x\n", "row 2, column 'outcome': the outcome '1.5'"),
    "outcome low": (O + "a,b,-0.1,x\n", "the outcome '-0.1' is outside [0, 1]"),
    "outcome text": (O + "a,b,left,x\n", "the outcome 'left' is not a number"),
    "outcome empty": (O + "a,b,,x\n", "row 1, column 'outcome': empty outcome"),
    "outcome nan": (O + "a,b,nan,x\n", "the outcome 'nan' is not a number"),
}  # fmt: skip


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
    [("-1", "negative"), ("nan", "not a number"), ("inf", "infinite"), ("1e60", "infinite"),
     ("two", "not a number"), ("", "empty weight")],
)  # fmt: skip
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
    "latin-1": (CSV.encode() + "é,b,x\n".encode("latin-1"), ", row 5: not UTF-8 text"),
    "latin-1 header": ("é,b,x\n".encode("latin-1"), r"not UTF-8 text \(in the header\)"),
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
    "mark": ("\ufeff[]", "byte order mark"),
    "null label": ('{"winner": null, "loser": "b", "worker": "x"}', "row 1, .*'winner': empty"),
    "lists": ('{"winner": ["a"], "loser": ["b"], "worker": ["x"]}', "not a text or a number"),
}  # fmt: skip


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
    with pytest.raises(InputError, match="a directory, not a file"):
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
    with pytest.raises(InputError, match="no column 'length' for the feature"):
        read(VOTES, features=["length"])
    with pytest.raises(InputError, match=r"row 3, column 'size': .*'big' is not a number"):
        read(VOTES | {"size": [1, 2, "big", 3]}, features=["size"])
    with pytest.raises(InputError, match="no votes"):
        read({"winner": [], "loser": [], "worker": []})


# Items


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
        ("item,score\na,1\nb,2\na,3\n", "row 3, column 'item': the item 'a' is there twice"),
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


def test_import_stays_light() -> None:
    code = (
        "import sys, crowdsift.ingest; "
        "print([m for m in ('duckdb', 'narwhals', 'pandas', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "rows", "items", "workers", "ties", "sides"),
    [
        ("passage.csv", 11_763, 472, 624, 0, False),
        ("faceage_subset.csv", 48_627, 9_150, 4_091, 0, False),
        ("llmfao.csv", 8_931, 59, 124, 38.9, True),
        ("llmfao_llmjudges.csv", 4_278, 59, 2, 6.1, True),
        ("mtbench.csv", 3_355, 6, 65, 23.2, True),
        ("wmt13_fren.csv.gz", 99_960, 13, 218, 19.2, True),
        ("lightfield.csv", 26_580, 350, 29, 0, True),
        ("musicsim.csv", 2_805, 118, 79, 50.1, True),
    ],
)
def test_real_data(
    data_dir: Path, name: str, rows: int, items: int, workers: int, ties: float, sides: bool
) -> None:
    votes = read(data_dir / name)
    assert (votes.rows, votes.n_items, votes.n_workers) == (rows, items, workers)
    assert votes.total_weight == rows
    assert votes.sides_known is sides
    tied = votes.weight[votes.outcome == 0.5].sum() / rows
    assert round(100 * float(tied), 1) == ties


def test_real_truth(data_dir: Path) -> None:
    votes = read(data_dir / "passage.csv")
    labels, scores = read_item_values(data_dir / "passage_items.csv")
    places = match_items(votes, labels)
    assert (places >= 0).all()
    assert (scores[places] >= 1).all()
    assert (scores[places] <= 12).all()
