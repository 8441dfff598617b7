"""Commands that are interrupted at any moment: the old outputs or the new ones, and nothing else.

A signal before the command has begun ends Python as it ends any program; from then on the status says which signal it
was, the message that nothing was written, and no temporary file stays.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OLD = "what was there before"


@cache
def votes() -> bytes:
    """Enough of them that reading, fitting and writing all take a while."""
    rows = "".join(f"item{i % 211},item{211 + i % 89},w{i % 50}\n" for i in range(40_000))
    return ("winner,loser,worker\n" + rows).encode()


def commands(source: Path, out: Path) -> list[list[str]]:
    target = str(out / "written")
    return [
        ["fit", str(source), "--method", "bt", "--json"],
        ["fit", str(source), "--method", "bora-map", "--report", target],
        ["fit", str(source), "--method", "bora-em", "--table", target + ".csv"],
        ["export", str(source), "--method", "bt", "--out", target + ".csv"],
        ["spam", str(source), "--kind", "left", "--percent", "50", "--out", target],
        ["next", str(source), "--pairs", "5", "--out", target],
        ["evaluate", str(source), "--methods", "bt,bora-map", "--json"],
    ]


def case(seed: int, folder: Path) -> None:
    """One command, one signal, and often a second one while the first is answered."""
    rng = random.Random(seed)
    source, out, spare = folder / "votes.csv", folder / "out", folder / "tmp"
    source.write_bytes(votes())
    out.mkdir()
    spare.mkdir()
    command = rng.choice(commands(source, out))
    for word in command:
        if Path(word).parent == out:
            Path(word).write_text(OLD)
    process = subprocess.Popen(
        [sys.executable, "-m", "crowdsift", *command],
        env={**os.environ, "TMPDIR": str(spare)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_beginning(process, spare)
    begun = process.poll() is None
    time.sleep(rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 1.0))))
    number = rng.choice(SIGNALS)
    process.send_signal(number)
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0, 0.02))
        process.send_signal(number)
    _, errors = process.communicate(timeout=100)
    left = [str(path) for path in (*spare.rglob("*"), *out.iterdir())]
    what = (command, number, process.returncode, errors[-2000:], left)
    assert process.returncode in (0, 128 + number) or not begun, what
    assert "internal error" not in errors, what
    assert "Traceback" not in errors, what
    assert not list(spare.iterdir()), what
    assert len(list(out.iterdir())) <= 1, what
    if process.returncode:
        assert ("nothing was written" in errors) != ("already written: " in errors), what
    for path in out.iterdir():
        new = process.returncode == 0 or f"already written: {path}" in errors
        assert (path.read_text() == OLD) != new, what


def wait_for_beginning(process: subprocess.Popen[str], spare: Path) -> None:
    """Until the command has made its temporary folder: its signals are its own by then."""
    while process.poll() is None and not any(spare.iterdir()):
        time.sleep(0.005)
