"""Text that is not UTF-8: Windows-1252 is recognised and said, other encodings are named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import crowdsift
from crowdsift.errors import InputError, RequestError
from crowdsift.io.ingest import read

TEXT = "winner;loser;worker\nMüller;Zoë;Jürgen\nZoë;plain;Ann\nplain;5 €;Jürgen\n"


def labels(path: Path, **options: str) -> set[str]:
    return set(read(path, **options).items.tolist())


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("far", [0, 200_000], ids=["near", "far"])
def test_windows_1252_is_recognised_and_said(tmp_path: Path, zipped: bool, far: int) -> None:
    """Where the first such letter stands does not matter."""
    content = TEXT.replace("Müller", "plain;x;w\n" * far + "Müller").encode("cp1252")
    path = tmp_path / "votes.csv"
    path.write_bytes(gzip.compress(content, 1) if zipped else content)
    votes = read(path)
    assert {"Müller", "Zoë", "5 €"} <= set(votes.items)
    assert "Jürgen" in votes.workers
    assert votes.intake is not None
    (note,) = [note for note in votes.intake.notes if "UTF-8" in note]
    assert "Windows-1252" in note
    assert "--encoding" in note
    assert "ü" in note
    assert "Jürgen" not in note  # workers may be hidden


def test_windows_1252_in_the_header_and_in_json(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes(TEXT.replace("worker", "Prüfer").encode("cp1252"))
    assert "Jürgen" in read(path, columns={"worker": "Prüfer"}).workers
    path = tmp_path / "votes.jsonl"
    path.write_bytes('{"winner": "Zoë", "loser": "b", "worker": "w"}\n'.encode("cp1252"))
    assert labels(path) == {"Zoë", "b"}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_byte_order_mark_in_json_is_no_fault(tmp_path: Path, zipped: bool) -> None:
    content = b"\xef\xbb\xbf" + '[{"winner": "Zoë", "loser": "b", "worker": "w"}]'.encode()
    path = tmp_path / "votes.json"
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert labels(path) == {"Zoë", "b"}


@pytest.mark.parametrize("encoding", ["utf-16", "cp1251", "shift_jis", "latin-1", "utf-8"])
def test_a_named_encoding_is_used(tmp_path: Path, encoding: str) -> None:
    word = {"cp1251": "Лучший", "shift_jis": "最高", "latin-1": "Zoë", "utf-8": "Zoë"}
    label = word.get(encoding, "最高")
    path = tmp_path / "votes.csv"
    path.write_bytes(f"winner,loser,worker\n{label},b,w\nb,c,w\n".encode(encoding))
    assert label in labels(path, encoding=encoding)


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode("cp1252") + "日本;plain;Ann\n".encode(),  # two encodings in one file
        TEXT.encode("cp1252") + "ä;plain;Ann\n".encode(),
        "winner;loser;worker\nЛучший;Худший;Анна\n".encode("cp1251"),
        "winner;loser;worker\n最高;最低;太郎\n".encode("gbk"),
        "winner;loser;worker\na\x81;b;w\n".encode("latin-1"),
    ],
    ids=["mixed", "mixed letters", "cp1251", "gbk", "undefined"],
)
def test_nothing_else_is_guessed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"row 1: not UTF-8 text.*--encoding"):
        read(path)


def test_wrong_encodings_are_refused_or_said(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(TEXT, encoding="utf-8")
    with pytest.raises(RequestError, match=r"--encoding .*'martian', which is not known"):
        read(path, encoding="martian")
    with pytest.raises(RequestError, match="not known"):
        read(path, encoding="base64")
    with pytest.raises(InputError, match=r"votes\.csv: not ascii text .*line 1 or below"):
        read(path, encoding="ascii")
    said = read(path, encoding="cp1252").intake
    assert said is not None
    assert any("valid UTF-8, but read as cp1252" in note for note in said.notes)
    path.write_text(TEXT, encoding="cp1252")
    with pytest.raises(InputError, match="not UTF-8"):
        read(path, encoding="utf-8")


def test_other_files_than_votes_are_not_guessed(tmp_path: Path) -> None:
    """Nobody would see the note there."""
    votes, gold = tmp_path / "votes.csv", tmp_path / "gold.csv"
    votes.write_text(TEXT)
    gold.write_text("winner;loser\nMüller;Zoë\n", encoding="cp1252")
    with pytest.raises(InputError, match=r"gold\.csv.*not UTF-8"):
        crowdsift.fit(votes, gold=gold)
