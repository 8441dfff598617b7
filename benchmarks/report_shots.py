"""Reports of real votes in a browser: pictures to look at, and what stands out of its box.

Run with ``python -m benchmarks.report_shots FOLDER [NAME=VOTES ...]``: the data sets that are found, and files of votes
with a name. At 375, 768 and 1280 px, light and dark; all that opens is opened for the check of widths. Prints what is
wider than its box, messages of the console, and the first paint.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import sync_playwright

import crowdsift
from benchmarks.browser import WIDER, find_chromium
from crowdsift.lab.datasets import find

SETS: dict[str, dict[str, Any]] = {
    "passage": {},
    "llmfao": {"scale": "elo"},
    "lightfield": {"by": "scene"},
    "mtbench": {"dependent_by": "question"},
    "wmt13_fren": {},
}
WIDTHS = (375, 768, 1280)
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
OPEN = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
PAINT = "performance.getEntriesByName('first-contentful-paint').map((e) => e.startTime)"


def reports(folder: Path, extra: dict[str, str]) -> dict[str, Path]:
    """Return the page of every data set that is there."""
    pages = {}
    for name in (*SETS, *extra):
        try:
            votes = extra[name] if name in extra else str(find(name).votes)
        except crowdsift.CrowdsiftError as error:
            print(f"{name}: {error}")
            continue
        pages[name] = folder / f"{name}.html"
        crowdsift.fit(votes, **SETS.get(name, {})).report(pages[name])
    return pages


def main() -> None:
    """Make the pages, their pictures, and the check."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    pages = reports(folder, dict(given.split("=", 1) for given in sys.argv[2:]))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium())
        for name, path in pages.items():
            print(f"{name}: {path.stat().st_size / 1e6:.2f} MB")
            for scheme in SCHEMES:
                for width in WIDTHS:
                    context = browser.new_context(
                        viewport={"width": width, "height": 900}, color_scheme=scheme, is_mobile=width < 500
                    )
                    page = context.new_page()
                    messages: list[Any] = []
                    page.on("console", partial(list.append, messages))
                    page.goto(path.as_uri())
                    paint = page.evaluate(PAINT)
                    picture = folder / f"{name}-{width}-{scheme}.png"
                    page.screenshot(path=str(picture), full_page=True)
                    page.evaluate(OPEN)
                    words = [each.text for each in messages[:3]]
                    print(
                        f"  {scheme} {width}: wider {page.evaluate(WIDER)}, console {words}, paint {paint}", flush=True
                    )
                    context.close()
        browser.close()


if __name__ == "__main__":
    main()
