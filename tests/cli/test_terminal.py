"""What is printed arrives whole, and controls no terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

import crowdsift

EVIL = "a\x1b[31m\x1b]0;owned\x07"  # colours the terminal and renames its window
DIRECTED = "b\x9b31m\u202e\u2066\u200f\u2028"
COMMAND = [sys.executable, "-m", "crowdsift"]


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    path = tmp_path / "votes.csv"
    rows = [f"{EVIL},{DIRECTED},w{i}\n{DIRECTED},c,w{i}\n" for i in range(4)]
    path.write_text("winner,loser,worker\n" + "".join(rows))
    return path


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Votes on many items: their JSON is longer than what a pipe holds."""
    path = tmp_path / "many.csv"
    rows = [f"item{i},item{i + 1},w{i % 3}\n" for i in range(2000)]
    path.write_text("winner,loser,worker\n" + "".join(rows))
    return path


def shown(words: list[str]) -> bytes:
    """What a command sends to a terminal."""
    terminal, inside = pty.openpty()
    with subprocess.Popen([*COMMAND, *words], stdout=inside, stderr=subprocess.DEVNULL) as running:
        os.close(inside)
        sent = b""
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            sent += piece
    os.close(terminal)
    assert running.returncode == 0
    return sent


def test_labels_control_no_terminal(votes, tmp_path):
    crowdsift.fit(votes, "bora-map").save(tmp_path / "fit")
    (tmp_path / "pairs.csv").write_text(f"first,second\n{EVIL},{DIRECTED}\n")
    predict = ["predict", str(tmp_path / "fit"), str(tmp_path / "pairs.csv")]
    text = shown(["fit", str(votes), "--robustness"]).decode()
    assert "whose removal puts another item above" in " ".join(text.split())
    assert "\x1b]0;" not in text
    for words in (["next", str(votes), "--pairs", "4"], predict, ["fit", str(votes), "--json"]):
        text = shown(words).decode()
        assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u200f", "\u2028"}
        assert "\\x1b[31m" in text or "\\u001b[31m" in text


def test_data_in_files_and_pipes_keep_labels_as_they_are(run, votes):
    status, out, _ = run("next", votes, "--pairs", "4", "--quiet")
    assert status == 0
    assert EVIL in out
    status, out, _ = run("next", votes, "--pairs", "4", "--quiet", "--json")
    assert status == 0
    labels = {row[name] for row in json.loads(out) for name in ("first", "second")}
    assert labels <= {EVIL, DIRECTED, "c"}
    assert len(labels) > 1
    assert not set(out) & set("\x1b\x9b\u202e\u2066\u200f\u2028")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["fit", "next"])
def test_a_pipe_that_does_not_block_gets_everything(many, command, unbuffered):
    words = {
        "fit": ["fit", str(many), "--method", "bt", "--json", "--quiet"],
        "next": ["next", str(many), "--pairs", "3000", "--quiet"],
    }[command]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    whole = subprocess.run([*COMMAND, *words], env=environment, capture_output=True, check=True)
    assert len(whole.stdout) > 1 << 17
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen([*COMMAND, *words], env=environment, stdout=writing) as running:
        os.close(writing)
        held = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
        while running.poll() is None and _waiting(reading) < held:  # until the pipe is full
            time.sleep(0.05)
        with open(reading, "rb") as stream:
            received = stream.read()
    assert running.returncode == 0
    if command == "next":
        assert received == whole.stdout
        return
    found, wanted = (json.loads(text) for text in (received, whole.stdout))
    for record in (found, wanted):  # two runs differ in nothing but their time
        del record["summary"]["seconds"]
    assert found == wanted


def _waiting(handle: int) -> int:
    import termios

    found = fcntl.ioctl(handle, termios.FIONREAD, b"\0\0\0\0")
    return int.from_bytes(found, sys.byteorder)


def limited() -> None:
    """Stand for a full disk: a file may grow to 64 KiB, then a write takes what fits."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["fit MANY --method bt --json", "next MANY --pairs 3000", "fit MANY --method bt"])
def test_a_full_disk_is_an_error(many, tmp_path, words, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "COLUMNS": "200"}
    target = tmp_path / "out"
    if words.endswith("bt"):  # the tables are short
        target.write_bytes(b"x" * ((1 << 16) - 100))
    with target.open("ab") as out:
        done = subprocess.run(
            [*COMMAND, *words.replace("MANY", str(many)).split()],
            env=environment,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limited,
        )
    assert done.returncode == 1
    assert "cannot write the output: File too large" in done.stderr
