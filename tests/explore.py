"""Property tests with fresh examples for a given time: `make explore MINUTES=10`.

What fails is printed as a line to paste above the test: `@example(...)` where the arguments are
written as code, and else Hypothesis's own record of the choices that led there.
"""

from __future__ import annotations

import argparse
import ast
import re
import secrets
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NUMPY = ("array", "dtype", "float32", "float64", "inf", "nan", "uint32")


class Collector:
    """The failures of a run, by test; ends the run when the time is over."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.failures: dict[str, str] = {}
        self.ran = 0
        self.session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.ran += 1
        if report.failed:
            told = "\n".join([report.longreprtext, *(text for _, text in report.sections)])
            self.failures[report.nodeid] = told
        if time.monotonic() > self.deadline and self.session is not None:
            self.session.shouldstop = "the time is over"


def fixed_example(told: str) -> str:
    """The line to paste above a test, from what Hypothesis says of its failure."""
    lines = [re.sub(r"^E {1,3}", "", line) for line in told.splitlines()]
    text = "\n".join(lines)
    begins = r"(?:Falsifying example|Failing test case): \w+"  # by the version of Hypothesis
    call = re.search(begins + r"(\(.*?^\s*\)$)", text, re.DOTALL | re.MULTILINE)
    if call and "data(...)" not in call[1]:
        example = f"@example{call[1]}"
        if is_code(example[1:]):
            return example
    blob = re.search(r"@reproduce_failure\(.*?\)", text)
    return blob[0] if blob else "(no example was given: see above)"


def is_code(expression: str) -> bool:
    """Whether it can be pasted: it parses, and it holds no `<object at ...>`."""
    try:
        ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        return False
    return True


def report(failures: dict[str, tuple[int, str]]) -> None:
    """Print every failure with the line that keeps it."""
    for test, (seed, told) in failures.items():
        example = fixed_example(told)
        print(f"\n{told}\n\n# {test} (--hypothesis-seed={seed}): paste above the test")
        names = [name for name in NUMPY if re.search(rf"\b{name}\b", example)]
        if names:
            print(f"from numpy import {', '.join(names)}")
        print(example)


def explore(minutes: float, paths: list[str], processes: str, most_rounds: float) -> int:
    """Run rounds of all property tests with a new seed each; the number of tests that failed."""
    deadline = time.monotonic() + 60.0 * minutes
    failures: dict[str, tuple[int, str]] = {}
    rounds, ran = 0, 0
    while time.monotonic() < deadline and rounds < most_rounds:
        seed = secrets.randbelow(2**32)
        collector = Collector(deadline)
        options = ["-m", "hypothesis", "--hypothesis-profile=explore", f"--hypothesis-seed={seed}"]
        options += ["-n", processes, "--dist", "worksteal", "-p", "no:cacheprovider", "--tb=short"]
        options += ["-c", str(ROOT / "pyproject.toml")]
        status = pytest.main([*options, "-q", "--no-header", "--no-summary", *paths], [collector])
        if status not in (0, 1, 2):
            raise SystemExit(int(status))
        for test, told in collector.failures.items():
            failures.setdefault(test, (seed, told))
        rounds, ran = rounds + 1, ran + collector.ran
    report(failures)
    print(f"\n{rounds} rounds, {ran} property tests with fresh examples, {len(failures)} failed")
    return len(failures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", default="2", help="of pytest-xdist; 0 for none")
    parser.add_argument("--rounds", type=float, default=float("inf"), help="at most so many")
    parser.add_argument("paths", nargs="*", default=[str(ROOT / "tests")])
    asked = parser.parse_args()
    failed = explore(asked.minutes, asked.paths, asked.processes, asked.rounds)
    sys.exit(min(failed, 1))


if __name__ == "__main__":
    main()
