"""Property tests with fresh examples: one property test per case, with more examples than in CI.

A failure is printed with the line to paste above the test: `@example(...)` if the arguments can be written as code,
otherwise Hypothesis's own record of the choices that led there.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def case(seed: int, folder: Path) -> None:
    """Run one property test, chosen by the seed, with fresh examples."""
    run(random.Random(seed).choice(property_tests(ROOT / "tests")), seed)


def run(test: str, seed: int) -> None:
    """Run a test by its pytest id; raise with the example to paste if it fails."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        test,
        "-n0",
        "-c",
        ROOT / "pyproject.toml",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "--no-header",
        "--hypothesis-profile=fresh",
        f"--hypothesis-seed={seed}",
    ]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=ROOT / "tests")
    if done.returncode == 5:  # everything was skipped or deselected
        return
    if done.returncode:
        example = fixed_example(done.stdout)
        raise AssertionError(f"{done.stdout}{done.stderr}\npaste above {test}\n{example}")


@cache
def property_tests(folder: Path) -> list[str]:
    """Return the pytest ids of all functions with a `@given` decorator below a folder."""
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "@given" in text:
            found += [
                f"{path}::{node.name}"
                for node in ast.parse(text).body
                if isinstance(node, ast.FunctionDef)
                and any(ast.unparse(each).startswith("given(") for each in node.decorator_list)
            ]
    return found


def fixed_example(output: str) -> str:
    """Return the line to paste above a test, from the output of its failure."""
    text = "\n".join(re.sub(r"^E {1,3}", "", line) for line in output.splitlines())
    begins = r"(?:Falsifying example|Failing test case): \w+"  # by the version of Hypothesis
    call = re.search(begins + r"(\(.*?^\s*\)$)", text, re.DOTALL | re.MULTILINE)
    if call and "data(...)" not in call[1] and _is_code(f"example{call[1]}"):
        return f"@example{call[1]}"
    record = re.search(r"@reproduce_failure\(.*?\)", text)
    return record[0] if record else "(no example was given: see above)"


def _is_code(expression: str) -> bool:
    """Return whether the text can be pasted: it parses and holds no `<object at ...>`."""
    try:
        ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        return False
    return True
