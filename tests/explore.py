"""Property tests with fresh examples for a given time: `make explore MINUTES=10`.

What fails is printed as a line to paste above the test: `@example(...)` where the arguments are
written as code, and else Hypothesis's own record of the choices that led there.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import secrets
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
NUMPY = ("array", "dtype", "float32", "float64", "inf", "nan", "uint32")


class Collector:
    """The failures of a run, by test; ends the run when the time is over."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.failures: dict[str, str] = {}
        self.ran = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        random.shuffle(items)  # a short time reaches every test sooner or later

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if time.time() > self.deadline:
            item.session.shouldstop = "the time is over"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.ran += 1
        if report.failed:
            result = "\n".join([report.longreprtext, *(text for _, text in report.sections)])
            self.failures[report.nodeid] = result


class Found(NamedTuple):
    """Rounds, tests that ran, and for every test that failed the seed and what was said."""

    rounds: int
    ran: int
    failures: dict[str, tuple[int, str]]


def fixed_example(result: str) -> str:
    """The line to paste above a test, from what Hypothesis says of its failure."""
    lines = [re.sub(r"^E {1,3}", "", line) for line in result.splitlines()]
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
    for test, (seed, result) in failures.items():
        example = fixed_example(result)
        print(f"\n{result}\n\n# {test} (--hypothesis-seed={seed}): paste above the test")
        names = [name for name in NUMPY if re.search(rf"\b{name}\b", example)]
        if names:
            print(f"from numpy import {', '.join(names)}")
        print(example)


def explore(deadline: float, paths: list[str], most_rounds: float) -> Found:
    """Run rounds of all property tests with a new seed each."""
    failures: dict[str, tuple[int, str]] = {}
    rounds, ran = 0, 0
    while time.time() < deadline and rounds < most_rounds:
        seed = secrets.randbelow(2**32)
        collector = Collector(deadline)
        options = ["-m", "hypothesis", "--hypothesis-profile=explore", f"--hypothesis-seed={seed}"]
        options += ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "--tb=short"]
        status = pytest.main([*options, "--no-header", "--no-summary", *paths], [collector])
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED,
                          pytest.ExitCode.INTERRUPTED):  # fmt: skip
            raise RuntimeError(f"pytest ended with status {status}")
        for test, result in collector.failures.items():
            failures.setdefault(test, (seed, result))
        rounds, ran = rounds + 1, ran + collector.ran
    return Found(rounds, ran, failures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=1, help="each with seeds of its own")
    parser.add_argument("--rounds", type=float, default=float("inf"), help="at most so many")
    parser.add_argument("paths", nargs="*", default=[str(ROOT / "tests")])
    asked = parser.parse_args()
    deadline = time.time() + 60.0 * asked.minutes
    words = deadline, asked.paths, asked.rounds
    if asked.processes == 1:
        found = [explore(*words)]
    else:
        with ProcessPoolExecutor(asked.processes, get_context("spawn")) as pool:
            tasks = [pool.submit(explore, *words) for _ in range(asked.processes)]
            found = [task.result() for task in tasks]
    failures = {test: outcome for part in found for test, outcome in part.failures.items()}
    report(failures)
    rounds, ran = sum(part.rounds for part in found), sum(part.ran for part in found)
    print(f"\n{rounds} rounds, {ran} property tests with fresh examples, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
