"""Saved fits that were changed on purpose, with a checksum that fits the change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crowdsift.io.saved import _checksum


def forge(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the summary of a saved fit in place, or to what `change` returns, and sign it."""
    path = folder / "summary.json"
    record = json.loads(path.read_text())
    record = change(record) or record
    record.pop("checksum", None)
    layout = record.pop("format", None)
    record["checksum"] = _checksum(record)
    path.write_text(json.dumps({**record, "format": layout}))
