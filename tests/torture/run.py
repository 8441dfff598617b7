"""`make torture MINUTES=10`: all areas in turn with fresh seeds; findings as tests to paste.

Cases run in a child process. One that dies or does not answer is a finding as well.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from torture import AREAS

LONGEST = 120.0  # seconds that a case may take where nothing slows it down


def child(pipe: Connection) -> None:
    """Run the cases that come through the pipe; answer with what went wrong, or with nothing."""
    while True:
        area, seed = pipe.recv()
        with tempfile.TemporaryDirectory(prefix="torture-") as folder:
            try:
                AREAS[area](seed, Path(folder))
                pipe.send("")
            except BaseException:
                pipe.send(traceback.format_exc())


class Child:
    """A process for cases, started anew where a case took it along."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.start()

    def start(self) -> None:
        self.pipe, theirs = get_context("spawn").Pipe()
        self.process = get_context("spawn").Process(target=child, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def run(self, area: str, seed: int) -> str:
        """What went wrong."""
        self.pipe.send((area, seed))
        try:
            if self.pipe.poll(self.longest):
                return str(self.pipe.recv())
            result = f"no answer after {self.longest:g} s"
        except (EOFError, ConnectionResetError):
            self.process.join(10)
            result = f"the process died with status {self.process.exitcode}"
        self.process.kill()
        self.start()
        return result


def as_test(area: str, seed: int) -> str:
    """What keeps a finding: a test to paste into tests/torture/test_torture.py."""
    return f"def test_{area}_{seed}(tmp_path):\n    AREAS[{area!r}]({seed}, tmp_path)\n"


def turns(areas: list[str], minutes: float) -> Iterator[tuple[str, int]]:
    """Areas by the time each has had, so that slow cases do not starve quick ones."""
    used = dict.fromkeys(areas, 0.0)
    end = time.monotonic() + 60.0 * minutes
    while (started := time.monotonic()) < end:
        area = min(areas, key=used.__getitem__)
        yield area, secrets.randbelow(2**31)
        used[area] += time.monotonic() - started


def main() -> None:
    """Run for the time given; exit 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--areas", default=",".join(AREAS))
    parser.add_argument("--most", type=int, default=20, help="findings before it stops")
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds of a case")
    options = parser.parse_args()
    runner, counts, findings = Child(options.longest), Counter[str](), Counter[str]()
    for area, seed in turns(options.areas.split(","), options.minutes):
        counts[area] += 1
        result = runner.run(area, seed)
        if result:
            findings[area] += 1
            print(f"\n{result}\n{as_test(area, seed)}", flush=True)
            if findings.total() >= options.most:
                break
    for area, count in counts.items():
        print(f"{area:12s}{count:8d} cases{findings[area]:6d} findings")
    sys.exit(1 if findings else 0)
