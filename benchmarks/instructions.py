"""Instructions of the main kernels on fixed small votes, against a stored budget.

Run with ``make instructions``. Time on a shared machine is noise; the number of instructions is not. Each kernel runs
under callgrind, compiled for plain x86-64 (callgrind knows no AVX-512), and may take up to 3 % more than
benchmarks/instructions.json allows. ``make instructions-accept`` stores what is measured now: for a change that is
meant to cost that much, or that saves.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET = ROOT / "benchmarks" / "instructions.json"
PROGRAM = ROOT / "build" / "kernels"
SLACK = 0.03


def compiler() -> tuple[str, str]:
    """Return the compiler's command, and its name with the major version: counts depend on both."""
    command = shutil.which("g++") or shutil.which("c++")
    if command is None or shutil.which("valgrind") is None:
        sys.exit("counting instructions needs g++ and valgrind: apt-get install g++ valgrind")
    version = subprocess.run([command, "-dumpversion"], check=True, capture_output=True, text=True)
    return command, f"g++ {version.stdout.strip().split('.')[0]}"


def build(command: str) -> None:
    """Compile the program that runs one kernel."""
    PROGRAM.parent.mkdir(exist_ok=True)
    flags = ["-std=c++17", "-O3", "-g", "-fno-math-errno", "-fno-trapping-math", "-pthread"]
    source = ROOT / "cpp" / "bench" / "kernels.cpp"
    include = ROOT / "cpp" / "include"
    subprocess.run([command, *flags, "-DCROWDSIFT_NO_MULTIVERSION", f"-I{include}", source, "-o", PROGRAM], check=True)


def count(kernel: str) -> int:
    """Instructions of one run of a kernel."""
    run = subprocess.run(
        [
            *("valgrind", "--tool=callgrind", "--toggle-collect=measured"),
            *("--callgrind-out-file=/dev/null", PROGRAM, kernel),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    found = re.search(r"Collected : (\d+)", run.stderr)
    if found is None or found[1] == "0":
        sys.exit(f"callgrind counted nothing for {kernel!r}:\n{run.stderr}")
    return int(found[1])


def main() -> None:
    """Measure, compare, and store where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="store the counts as the budget")
    accept = parser.parse_args().accept
    command, name = compiler()
    build(command)
    kernels = subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout
    found = {kernel: count(kernel) for kernel in kernels.splitlines()}
    stored = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
    if accept:
        BUDGET.write_text(json.dumps({**stored, name: found}, indent=2) + "\n")
        print(f"stored for {name} in {BUDGET.relative_to(ROOT)}; commit it with the reason")
        return
    budget = stored.get(name)
    if budget is None:
        print(f"no budget for {name}; `make instructions-accept` stores one. Counts: {found}")
        return
    over = []
    print(f"{'kernel':24s}{'instructions':>14s}{'budget':>14s}{'change':>9s}")
    for kernel, instructions in found.items():
        allowed = budget.get(kernel)
        change = instructions / allowed - 1.0 if allowed else float("inf")
        print(f"{kernel:24s}{instructions:14,d}{allowed or 0:14,d}{change:9.1%}")
        if change > SLACK:
            over.append(kernel)
    if over:
        sys.exit(
            f"{', '.join(over)}: more instructions than the budget allows. If that is the price of "
            "something worth it, run `make instructions-accept`, commit "
            f"{BUDGET.relative_to(ROOT)} and say why; otherwise find what grew with `valgrind "
            f"--tool=callgrind --toggle-collect=measured build/kernels '{over[0]}'` and "
            "callgrind_annotate"
        )
    if any(found[kernel] < (1.0 - 2 * SLACK) * budget.get(kernel, 0) for kernel in found):
        print("some kernels need fewer now: `make instructions-accept` keeps what was won")


if __name__ == "__main__":
    main()
