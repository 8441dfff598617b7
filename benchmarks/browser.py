"""Where the Chromium of this machine is."""

from __future__ import annotations

import os
import shutil

__all__ = ["CHROMIUM", "WIDER", "find_chromium"]

# CROWDSIFT_CHROMIUM names another one.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


# Elements that are wider than their box, or stand out of that of their parent.
WIDER = """() => {
  const bad = [];
  for (const node of document.querySelectorAll("body *")) {
    if (!node.checkVisibility() || node.closest("svg, script, .skip")) continue;
    if (getComputedStyle(node).display === "inline") continue;
    const box = node.getBoundingClientRect(), up = node.parentElement.getBoundingClientRect();
    const out = box.right > up.right + 1.5 || box.left < up.left - 1.5;
    const full = node.clientWidth && node.scrollWidth > node.clientWidth + 1;
    if (box.width && (out || full))
      bad.push(`${node.scrollWidth}>${node.clientWidth} ${node.outerHTML.slice(0, 90)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) bad.push("the page");
  return bad;
}"""


def find_chromium() -> str | None:
    """Return the path of Chromium or Chrome, or None."""
    named = os.environ.get("CROWDSIFT_CHROMIUM")
    return named or next((path for name in CHROMIUM if (path := shutil.which(name))), None)
