"""A release: checks, version, changelog, artefacts with checksums, tag. Nothing is published.

``python -m tools.release 0.2.0`` asks for a clean tree on main, a section of CHANGELOG for that version, runs lint,
tests and `tools.release_check`, writes the version, commits and tags. What is left to a person is written at the end.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = ROOT / "src" / "crowdsift" / "_version.py"
CHANGELOG = ROOT / "CHANGELOG.md"
CITATION = ROOT / "CITATION.cff"


def checked(version: str) -> None:
    """Check that there is one version, the tree is clean, and the changelog names the version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"{version!r} is not a version such as 0.2.0")
    if _git("status", "--porcelain"):
        raise SystemExit("commit first: the tree is not clean")
    if _git("branch", "--show-current") != "main":
        raise SystemExit("a release is made on main")
    if _git("tag", "--list", f"v{version}"):
        raise SystemExit(f"v{version} exists already")
    if f"## {version} (unreleased)" not in CHANGELOG.read_text():
        raise SystemExit(f"CHANGELOG.md needs a section '## {version} (unreleased)'")


def with_version(text: str, version: str, today: str) -> str:
    """Return a file's text with the version, and the day where the changelog says unreleased."""
    text = re.sub(r'(__version__ = )"[^"]*"', rf'\g<1>"{version}"', text)
    text = re.sub(r"(?m)^version: .*$", f"version: {version}", text)
    return text.replace(f"## {version} (unreleased)", f"## {version} ({today})")


def main() -> None:
    """All steps in order; the first that fails ends it and leaves everything as it was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version")
    version = parser.parse_args().version
    checked(version)
    for command in (["make", "lint"], ["make", "test"]):
        subprocess.run(command, check=True, cwd=ROOT)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    before = {path: path.read_text() for path in (VERSION_FILE, CHANGELOG, CITATION)}
    try:
        for path, text in before.items():
            path.write_text(with_version(text, version, today))
        check = [sys.executable, "-m", "tools.release_check", "--out", f"dist/{version}"]
        subprocess.run(check, check=True, cwd=ROOT)
    except BaseException:
        for path, text in before.items():
            path.write_text(text)
        raise
    _git("commit", "--all", "--message", f"Release {version}")
    _git("tag", "--annotate", f"v{version}", "--message", f"crowdsift {version}")
    print(f"made: dist/{version}, tag v{version}. Look at them, then push main and the tag: the")
    print("workflow release.yml builds the wheels of all systems and publishes them on PyPI.")


def _git(*words: str) -> str:
    answer = subprocess.run(["git", *words], check=True, cwd=ROOT, capture_output=True, text=True)
    return answer.stdout.strip()


if __name__ == "__main__":
    main()
