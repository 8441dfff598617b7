"""Two versions of the project side by side: this one and another revision of its repository.

The other revision is checked out into a temporary worktree and installed from there into an environment of its own,
which is kept under bench-output/ for the next run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import OUTPUT

__all__ = ["Version", "here", "other", "users_environment"]

ROOT = Path(__file__).resolve().parents[1]
# What sets the threads of numerical libraries: users do not set them, so no benchmark does.
TUNING = ("OPENBLAS_", "OMP_", "MKL_", "NUMEXPR_", "GOTO_", "BLIS_", "VECLIB_")


@dataclass(frozen=True)
class Version:
    """A version that can be run: its name, its interpreter and the environment of its processes."""

    name: str
    python: Path
    environment: Mapping[str, str]


def users_environment() -> dict[str, str]:
    """Return the variables of this process without those that tune numerical libraries."""
    return {name: value for name, value in os.environ.items() if not name.startswith(TUNING)}


def here() -> Version:
    """Return the version that this process runs."""
    return Version("here", Path(sys.executable), users_environment())


def other(revision: str) -> Version:
    """Another revision, installed on first use."""
    named = f"{revision}^{{commit}}"
    commit = _git("rev-parse", "--verify", named).stdout.strip()
    folder = (OUTPUT / "environments" / commit).absolute()
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"building {revision} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        with tempfile.TemporaryDirectory() as name:
            tree = Path(name) / "tree"
            _git("worktree", "add", "--detach", str(tree), commit)
            try:
                quietly = ("--quiet", "--disable-pip-version-check")
                subprocess.run([python, "-m", "pip", "install", *quietly, tree], check=True)
            finally:
                _git("worktree", "remove", "--force", str(tree))
        (folder / ".ready").touch()
    environment = users_environment()
    environment.pop("PYTHONPATH", None)  # it may lead to this version
    return Version(revision, python, environment)


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True)
