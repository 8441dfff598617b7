"""Reading votes: every format, every layout, every way in which a file can be wrong."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from crowdsift import Comparisons, InputError, RequestError
from crowdsift.io.duck import FileSource
from crowdsift.io.ingest import read
from crowdsift.io.items import match_items, read_item_values
from samples import CSV, VOTES, assert_same, written

if TYPE_CHECKING:
    from pathlib import Path


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


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: Comparisons) -> None:
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_pipes_are_read_once(tmp_path: Path, expected: Comparisons) -> None:
    contents = [CSV.encode(), gzip.compress(CSV.encode()), CSV.replace("\n", "\r\n", 2).encode()]
    for number, content in enumerate(contents):
        path = tmp_path / f"pipe-{number}"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
        writer.start()
        votes = read(path)
        writer.join()
        assert_same(votes, expected)
        assert votes.source == str(path)
    if os.path.exists("/dev/fd"):  # what the shell writes for <(command)
        out, into = os.pipe()
        os.write(into, CSV.encode() + b"a,a,x\n")
        os.close(into)
        with pytest.raises(InputError, match=rf"/dev/fd/{out}, row 5: the item 'a' is compared"):
            read(f"/dev/fd/{out}")
        os.close(out)


def test_device_of_standard_input(expected: Comparisons) -> None:
    if not os.path.exists("/dev/stdin"):
        pytest.skip("no /dev/stdin here")
    code = "from crowdsift import read; print(read('/dev/stdin'))"
    done = subprocess.run([sys.executable, "-c", code], input=CSV, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(expected)


def test_threads(tmp_path: Path, expected: Comparisons) -> None:
    path = written(tmp_path / "v.csv", CSV)
    for threads in (None, 1, 3):
        assert_same(read(path, threads=threads), expected)
        table = FileSource(str(path), threads or 2)
        query = "SELECT current_setting('threads')"
        assert table._query(query).fetchone() == (threads or 2,)
        table.close()
    with pytest.raises(RequestError, match="threads must be at least 1, not 0"):
        read(path, threads=0)


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
    votes = read(written(tmp_path / "v.csv", text), covariates=["length", "Tone"])
    assert votes.weight.tolist() == [3.0, 0.5]
    assert votes.feature_names == ("length", "Tone")
    assert votes.features is not None
    assert votes.features.dtype == np.float32
    assert votes.features.tolist() == [[1.5, 0.0], [-2.0, 1.0]]
    assert votes.rows == 3


# Labels


def test_many_rows_keep_their_place(tmp_path: Path) -> None:
    """Rows are read in parallel; codes, numbers and row numbers must still belong together."""
    rng = np.random.default_rng(1)
    n = 150_000
    first = rng.integers(0, 1000, n)
    second = (first + rng.integers(1, 1000, n)) % 1000
    worker, weight = rng.integers(0, 100, n), rng.integers(1, 5, n)
    rows = [f"i{a},i{b},w{w},{c}" for a, b, w, c in zip(first, second, worker, weight, strict=True)]
    path = written(tmp_path / "v.csv", "winner,loser,worker,weight\n" + "\n".join(rows))
    labels = [np.array([f"{kind}{x}" for x in codes]) for kind, codes in (("i", first), ("i", second), ("w", worker))]
    expected = Comparisons.from_arrays(labels[0], labels[1], worker=labels[2], weight=weight)
    assert_same(read(path), expected)
    rows[131_828] = "i1,i1,w0,1"
    written(path, "winner,loser,worker,weight\n" + "\n".join(rows))
    with pytest.raises(InputError, match="row 131829: "):
        read(path)
    rows[131_828] = "i1,i2,w0"
    written(path, "winner,loser,worker,weight\n" + "\n".join(rows))
    with pytest.raises(InputError, match="row 131829: 3 fields where the header has 4"):
        read(path)


# Faults


def test_import_stays_light() -> None:
    code = (
        "import sys, crowdsift.io.ingest; "
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
def test_real_data(data_dir: Path, name: str, rows: int, items: int, workers: int, ties: float, sides: bool) -> None:
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
