"""Makes the pictures of the documentation: reports in Chromium, plots by matplotlib.

Run from the root of the project with ``make pictures``; needs the real data sets (CROWDSIFT_DATA), Chromium and
matplotlib.
"""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.browser import find_chromium
from benchmarks.data import data_folder
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import crowdsift
from crowdsift.lab.demonstration import crowd_with_spammers
from crowdsift.report import plots

HERE = Path(__file__).parent


def save(image: Image.Image, name: str) -> None:
    """Make the file small: 128 colours are enough for flat drawings."""
    small = image.convert("RGB").quantize(128, method=Image.Quantize.MEDIANCUT, dither=0)
    small.save(HERE / f"{name}.png", optimize=True)
    print(f"{name}.png {(HERE / f'{name}.png').stat().st_size / 1000:.0f} kB")


def shot(page: Page, name: str, selector: str | None = None, height: int | None = None) -> None:
    """Take a picture of the top of the window, or of an element down to a height."""
    options: dict[str, Any] = {}
    if selector is not None:
        page.evaluate("document.querySelector('nav').style.position = 'static'")
        box = page.locator(selector).bounding_box()
        assert box is not None
        tall = min(box["height"], height or box["height"])
        options = {"clip": {**box, "height": tall}, "full_page": True}
    save(Image.open(BytesIO(page.screenshot(**options))), name)


def main() -> None:
    """Make all pictures."""
    data = data_folder()
    reports = {
        "demo": (crowd_with_spammers().comparisons(), "A simulated crowd with spammers"),
        "llmfao": (crowdsift.read(data / "llmfao.csv"), "LLMFAO: 59 models, judged by a crowd"),
        "judges": (crowdsift.read(data / "llmfao_llmjudges.csv"), "LLMFAO: 59 models, judged by two models"),
        "mtbench": (crowdsift.read(data / "mtbench.csv"), "MT-bench: votes of experts"),
    }
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium())
        fits = {}
        for name, (votes, title) in reports.items():
            fits[name] = crowdsift.fit(votes)
            fits[name].report(Path(folder) / f"{name}.html", title=title)

        def opened(name: str, scheme: str = "light") -> Page:
            context = browser.new_context(
                color_scheme=scheme,  # type: ignore[arg-type]
                viewport={"width": 1000, "height": 860},
                device_scale_factor=1.4,
            )
            page = context.new_page()
            page.goto((Path(folder) / f"{name}.html").as_uri())
            return page

        shot(opened("demo"), "report-light")
        shot(opened("demo", "dark"), "workers-dark", "#workers", 900)
        shot(opened("demo"), "without", "#without", 620)
        shot(opened("llmfao"), "llmfao-leaderboard", "#leaderboard", 900)
        shot(opened("llmfao"), "llmfao-workers", "#workers", 860)
        shot(opened("llmfao"), "llmfao-disputes", "#disputes", 420)
        shot(opened("judges"), "judges-trust", "#trust")
        shot(opened("mtbench"), "mtbench-trust", "#trust")
        browser.close()
    drawn = BytesIO()
    plots.leaderboard(fits["mtbench"]).figure.savefig(drawn, dpi=110)  # type: ignore[union-attr]
    save(Image.open(drawn), "mtbench-plot")


if __name__ == "__main__":
    main()
