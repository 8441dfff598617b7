"""Where the Chromium of this machine is."""

from __future__ import annotations

import os
import shutil

__all__ = ["CHROMIUM", "find_chromium"]

# CROWDSIFT_CHROMIUM names another one.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """The path of Chromium or Chrome, or None."""
    named = os.environ.get("CROWDSIFT_CHROMIUM")
    return named or next((path for name in CHROMIUM if (path := shutil.which(name))), None)
