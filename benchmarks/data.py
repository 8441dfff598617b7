"""The data sets that the benchmarks share."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import crowdsift

__all__ = ["data_folder", "look_alike"]


def data_folder() -> Path:
    """The folder of the real data sets: CROWDSIFT_DATA, or ../shared/data beside the project."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CROWDSIFT_DATA", default))
    if not folder.is_dir():
        sys.exit(f"no real data at {folder}; set CROWDSIFT_DATA to their folder")
    return folder


@cache
def look_alike() -> crowdsift.Comparisons:
    """Votes as many as in FaceAge, with the loads of its workers, made by the command line."""
    command = Path(sys.executable).with_name("crowdsift")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(command, "simulate", "--items", "9150", "--comparisons", "250249"),
                *("--like", data_folder() / "faceage_subset.csv", "--seed", "0", "--out", folder),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        return crowdsift.read(Path(folder) / "votes.csv")
