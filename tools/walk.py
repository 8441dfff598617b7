"""Count the files that one fit enters, and how often control passes from one file to another.

Run with ``python -m tools.walk [--report] [--list]``. The fit is always the same: 400 votes of 12 workers on 20 items,
through the command line, in this process. The last line printed is ``files N switches M modules L``: files of the
package in which a function ran, changes of file between consecutive calls and returns, and modules of the package that
were imported. `tests/test_walk.py` holds these numbers to a budget.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any


class Walk:
    """A profiler that records the files of a package in the order in which they are entered."""

    def __init__(self, root: str) -> None:
        self.root, self.entered, self.last, self.switches = root, dict[str, None](), "", 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call or a return inside a function of the package."""
        name = frame.f_code.co_filename
        optimized = 1  # flag of functions; bodies of modules and classes lack it
        if event not in ("call", "return") or not name.startswith(self.root):
            return
        if frame.f_code.co_flags & optimized:
            self.entered.setdefault(name)
            if name != self.last:
                self.switches, self.last = self.switches + 1, name


def write_votes(path: Path) -> None:
    """Write the votes of the fixed fit: two of twelve workers answer at random."""
    rng = random.Random(1)
    score = [rng.gauss(0, 1) for _ in range(20)]
    rows = ["winner,loser,worker"]
    for _ in range(400):
        a, b = rng.sample(range(20), 2)
        worker = rng.randrange(12)
        slope = 0 if worker < 2 else 1.5
        if rng.random() > 1 / (1 + math.exp(-slope * (score[a] - score[b]))):
            a, b = b, a
        rows.append(f"i{a},i{b},w{worker}")
    path.write_text("\n".join(rows) + "\n")


def main() -> None:
    """Run the fit under the profiler and print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="write the report as well")
    parser.add_argument("--list", action="store_true", help="print the files as they are entered")
    options = parser.parse_args()
    import crowdsift
    from crowdsift.cli import program

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_votes(folder / "votes.csv")
        words = ["fit", "votes.csv", "--out", "out", "--quiet"]
        sys.argv = ["crowdsift", *words, *(["--report", "report.html"] if options.report else [])]
        walk = Walk(str(Path(crowdsift.__file__).resolve().parent) + os.sep)
        out, before = sys.stdout, Path.cwd()
        os.chdir(folder)
        try:
            with open(os.devnull, "w") as sys.stdout:
                sys.setprofile(walk)
                program()
        except SystemExit as stop:
            if stop.code:
                raise
        finally:
            sys.setprofile(None)
            sys.stdout = out
            os.chdir(before)
    if options.list:
        print("\n".join(each.removeprefix(walk.root) for each in walk.entered))
    modules = sum(each.split(".")[0] == "crowdsift" for each in sys.modules)
    print(f"files {len(walk.entered)} switches {walk.switches} modules {modules}")


if __name__ == "__main__":
    main()
