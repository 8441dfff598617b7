"""Torture: random cases against exact oracles, without end outside and with fixed seeds in CI.

An area is a function of a seed and an empty folder that raises where something is wrong. What users cause is a
`CrowdsiftError`; anything else that comes out is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torture import (
    arguments,
    core,
    disks,
    files,
    folders,
    kills,
    labels,
    lives,
    pages,
    properties,
    sentences,
    shapes,
    signals,
    states,
)

Case = Callable[[int, Path], None]
AREAS: dict[str, Case] = {
    "files": files.case,
    "shapes": shapes.case,
    "lives": lives.case,
    "folders": folders.case,
    "kills": kills.case,
    "labels": labels.case,
    "arguments": arguments.case,
    "core": core.case,
    "states": states.case,
    "signals": signals.case,
    "disks": disks.case,
    "pages": pages.case,
    "sentences": sentences.case,
    "properties": properties.case,
}
