"""Before a release: sdist, wheels that need no compiler, oldest and newest dependencies.

Every interpreter of 3.11 to 3.14 that is found gets an environment of its own, in which only the wheel is installed,
nothing may be compiled, the demo runs and the tests that need no source pass.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# Rooms whose tests read nothing of the repository but themselves.
ROOMS = ("numeric", "votes", "active", "solvers")
TOOLS = ("pytest>=8.1", "pytest-xdist>=3.5", "hypothesis>=6.100", "scipy>=1.12", "pandas>=2.2")


def run(*command: str | Path, quiet: bool = False, **options: object) -> None:
    """One step, shown and checked."""
    print("+", *command, flush=True)
    out = subprocess.DEVNULL if quiet else None
    subprocess.run([str(part) for part in command], check=True, stdout=out, **options)  # type: ignore[call-overload]


def interpreters(versions: Sequence[str] = VERSIONS) -> dict[str, str]:
    """Return the interpreters of this machine, by version: on the path, or kept by pyenv."""
    found = {}
    for version in versions:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        path = str(kept[-1]) if kept else shutil.which(f"python{version}")
        if path:
            found[version] = path
    return found


def build(folder: Path, pythons: dict[str, str]) -> list[Path]:
    """Return the sdist, and from it a wheel of 3.11 and one of the limited API for 3.12 and later."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    limited = next((version for version in pythons if version != "3.11"), None)
    for version in ("3.11", limited):
        if version in pythons:
            run("uv", "build", "--wheel", "--python", pythons[version], "--out-dir", folder, sdist)
    return sorted(folder.glob("*.whl"))


def try_wheel(folder: Path, python: str, version: str, wheels: list[Path], resolution: str) -> None:
    """Installs the wheel that fits, in an environment without a compiler; demo and tests."""
    tag = "cp311-cp311" if version == "3.11" else "abi3"
    (wheel,) = [wheel for wheel in wheels if tag in wheel.name]
    home = folder / f"{version}-{resolution}"
    run("uv", "venv", "--quiet", "--python", python, home)
    inside = home / "bin" / "python"
    install: list[str | Path] = ["uv", "pip", "install", "--quiet", "--python", inside, "--only-binary", ":all:"]
    run(*install, "--resolution", resolution, wheel, *TOOLS)
    away = home / "work"
    shutil.copytree(ROOT / "tests", away / "tests")
    shutil.copy(ROOT / "conftest.py", away)
    shutil.copy(ROOT / "pyproject.toml", away)
    bare = {"PATH": str(home / "bin"), "HOME": str(home), "LANG": "C.UTF-8"}  # no compiler, no source
    run(home / "bin" / "crowdsift", "demo", "--out", away / "demo", quiet=True, env=bare)
    rooms = [f"tests/{room}" for room in ROOMS]
    run(inside, "-m", "pytest", "-n", "2", "-c", "pyproject.toml", *rooms, cwd=away, env=bare)


def keep(made: Sequence[Path], out: Path) -> None:
    """Copy the artefacts with their checksums, as `sha256sum -c` reads them."""
    out.mkdir(parents=True, exist_ok=True)
    for file in made:
        shutil.copy(file, out)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in made]
    (out / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    """Build and try everything; the first failure ends the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep sdist, wheels and SHA256SUMS here")
    parser.add_argument("--versions", default=",".join(VERSIONS), help="of Python, these alone")
    parser.add_argument("--newest", action="store_true", help="the newest dependencies alone")
    options = parser.parse_args()
    out = options.out
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pythons = interpreters(options.versions.split(","))
    print("interpreters:", pythons)
    with tempfile.TemporaryDirectory(prefix="crowdsift-release-") as name:
        folder = Path(name)
        wheels = build(folder, pythons)
        for version, python in pythons.items():
            try_wheel(folder, python, version, wheels, "highest")
        oldest, python = next(iter(pythons.items()))
        if not options.newest:
            try_wheel(folder, python, oldest, wheels, "lowest-direct")
        if out is not None:
            keep([*wheels, *folder.glob("*.tar.gz")], out)
    print("all good:", ", ".join(wheel.name for wheel in wheels))


if __name__ == "__main__":
    main()
