"""Signals, closed streams and poor terminals: a clear end, nothing left behind.

Which of them fail on the code before: tests/torture/CASES.md.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from crowdsift import InputError
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.sql import Database

HEADER = "winner,loser,worker\n"
ROWS = "a,b,x\nb,c,y\na,c,x\n"


class OwnError(Exception):
    """An exception of the caller's own."""


def test_the_callers_own_exception_comes_through() -> None:
    folder = TemporaryFolder()
    database = Database(2, (), folder)

    def raised(*_: Any) -> None:
        raise OwnError("stop")

    before = signal.signal(signal.SIGALRM, raised)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        started = time.perf_counter()
        with pytest.raises(OwnError, match="stop"):
            database.execute("SELECT count(*) FROM range(1000000000000) t(i) WHERE i % 7 = 3")
        assert time.perf_counter() - started < 20
        assert database.execute("SELECT 5").fetchone() == (5,)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        database.close()
        folder.close()


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
def test_signals_while_reading_end_cleanly(tmp_path: Path, number: int, status: int) -> None:
    path = tmp_path / "v.csv"
    with path.open("w") as file:
        file.write(HEADER)
        block = "".join(f"item{i % 997},item{997 + i % 89},w{i % 50}\n" for i in range(100_000))
        for _ in range(30):
            file.write(block)
    spare = tmp_path / "tmp"
    spare.mkdir()
    environment = {**os.environ, "TMPDIR": str(spare)}
    command = [sys.executable, "-m", "crowdsift", "fit", str(path), "--method", "bt"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while running.poll() is None and not any(spare.iterdir()):
            time.sleep(0.01)
        time.sleep(0.2)
        running.send_signal(number)
        _, errors = running.communicate(timeout=120)
    assert running.returncode == status, errors
    assert "internal error" not in errors
    assert "nothing was written" in errors
    assert list(spare.iterdir()) == []


AT_ONCE = """
import os, signal, sys
name, number = sys.argv.pop(1), int(sys.argv.pop(1))
made, seen = getattr(os, name), []
def interrupted(path, *given, **named):
    result = made(path, *given, **named)
    new = name == "mkdir" or given[0] & os.O_EXCL
    if new and os.path.dirname(str(path)) in (os.environ["TMPDIR"], os.environ["OUT"]):
        seen.append(path)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGINT)  # before anybody knows what was made
    return result
setattr(os, name, interrupted)
from crowdsift.cli import program
program()
"""


@pytest.mark.parametrize(("name", "number"), [("open", 1), ("open", 2), ("mkdir", 1)])
def test_a_signal_just_when_a_file_is_made_leaves_nothing(tmp_path: Path, name: str, number: int) -> None:
    """Python's own trial of the folder of temporary files, the draft of an output, our folder."""
    votes, spare, out = tmp_path / "v.csv", tmp_path / "tmp", tmp_path / "out"
    votes.write_text(HEADER + ROWS)
    spare.mkdir(), out.mkdir()
    command = [name, str(number), "fit", str(votes), "--method", "bt", "--table", str(out / "t.csv")]
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, *command],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(spare), "OUT": str(out)},
    )
    assert done.returncode == 130, done.stderr
    assert "nothing was written" in done.stderr
    assert [*spare.iterdir(), *out.iterdir()] == []


IN_A_CALLBACK = """
import os, signal, threadpoolctl
from threadpoolctl import ThreadpoolController
threadpoolctl._HAS_PROCFS, threadpoolctl.dllist = False, None  # as before 3.8, and off Linux
libc = ThreadpoolController._get_libc()
class Interrupting:
    def dl_iterate_phdr(self, callback, data):
        seen = []
        def interrupted(*given):
            if not seen:
                seen.append(given)
                os.kill(os.getpid(), signal.SIGINT)  # ctypes prints the exception and goes on
            return callback(*given)
        return libc.dl_iterate_phdr(type(callback)(interrupted), data)
ThreadpoolController._get_libc = classmethod(lambda cls: Interrupting())
from crowdsift.cli import program
program()
"""


def test_a_signal_in_a_callback_of_a_library_ends_the_command(tmp_path: Path) -> None:
    votes, out = tmp_path / "v.csv", tmp_path / "out.csv"
    votes.write_text(HEADER + ROWS)
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CALLBACK, "export", str(votes), "--out", str(out)], capture_output=True, text=True
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.endswith("crowdsift: interrupted; nothing was written\n")
    assert not out.exists()


def test_a_signal_that_a_library_swallows_is_in_the_status(run, tmp_path, monkeypatch) -> None:
    def swallowed(*_: Any, **__: Any) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except BaseException:
            raise InputError("the query fails") from None

    votes = tmp_path / "v.csv"
    votes.write_text(HEADER + ROWS)
    monkeypatch.setattr("crowdsift.io.ingest.open_source", swallowed)
    status, _, err = run("next", votes)
    assert (status, err) == (130, "crowdsift: interrupted; nothing was written\n")


def test_a_hangup_is_ignored_where_it_was(tmp_path: Path) -> None:
    """As nohup does."""
    votes = tmp_path / "v.csv"
    votes.write_text(HEADER + ROWS)
    script = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from crowdsift.cli import interrupts, program\n"
        "import crowdsift.cli as cli\n"
        "run = cli._run\n"
        "def hung_up():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    run()\n"
        "cli._run = hung_up\n"
        "program()"
    )
    words = [sys.executable, "-c", script, "fit", str(votes), "--method", "bt"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_closed_standard_streams_are_said(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + ROWS)
    program = f"{sys.executable} -m crowdsift fit"
    for command, message in (
        (f"{program} - <&-", "standard input is closed"),
        (f"{program} {path} >&-", "standard output is closed"),
    ):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert done.returncode == 1
        assert message in done.stderr
        assert "internal error" not in done.stderr
    done = subprocess.run(["bash", "-c", f"{program} {path} 2>&-"], capture_output=True, text=True)
    assert done.returncode == 0


def test_spam_and_tables_under_a_plain_locale(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + "é\x1b[31m,答え,ann\nb,é\x1b[31m,bøb\n答え,b,ann\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    spam = ["spam", path, "--kind", "left", "--percent", "100", "--out", tmp_path / "s.csv"]
    for arguments in (["fit", path, "--method", "bt"], spam):
        done = subprocess.run(
            [sys.executable, "-m", "crowdsift", *map(str, arguments)], env=environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        assert b"\x1b[31m" not in done.stdout + done.stderr
    assert "答え" in (tmp_path / "s.csv").read_text(encoding="utf-8")
