"""The report of 10,000 items and 5,000 workers: size, time beyond the fit, first paint.

Run with ``python -m benchmarks.report``; needs Chromium, as the browser test does.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import crowdsift
from benchmarks.browser import find_chromium

_PAINT = """() => new Promise((resolve) => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0];
  const wait = () => (painted() ? resolve(painted().startTime) : requestAnimationFrame(wait));
  wait();
})"""
_SORT = """async (key) => {
  const button = document.querySelector(`#items-table th[data-key="${key}"] button`);
  const begun = performance.now();
  button.click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begun;
}"""


def large_crowd(items: int, workers: int, votes: int) -> crowdsift.Comparisons:
    """Return a crowd of honest workers, spammers and adversaries."""
    rng = np.random.default_rng(0)
    kind = rng.random(workers)
    reliability = np.where(kind < 0.7, rng.uniform(0.5, 1.5, workers), 0.0)
    reliability[kind > 0.9] = -1.0
    drawn = crowdsift.simulate(items, workers, votes, reliabilities=reliability, seed=0)
    return drawn.comparisons()


def paint(page: Path, runs: int) -> tuple[float, float]:
    """Seconds to the first paint of content and of sorting by a click, the median of some runs."""
    from playwright.sync_api import sync_playwright

    paints, sorts = [], []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium())
        for _ in range(runs):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            tab = context.new_page()
            tab.goto(page.as_uri(), wait_until="commit")
            paints.append(tab.evaluate(_PAINT) / 1000)
            tab.wait_for_load_state("load")
            sorts.append(tab.evaluate(_SORT, "score") / 1000)
            context.close()
        browser.close()
    return float(np.median(paints)), float(np.median(sorts))


def main() -> None:
    """Print one row per measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=5_000)
    parser.add_argument("--votes", type=int, default=250_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    votes = large_crowd(given.items, given.workers, given.votes)
    fit = crowdsift.fit(votes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        begun, busy = time.perf_counter(), time.process_time()
        fit.report(path)
        seconds, busy = time.perf_counter() - begun, time.process_time() - busy
        size = os.path.getsize(path) / 1e6
        first, sorting = paint(path, given.runs)
    rows = (
        ("size, MB", size, 4.0),
        ("made beyond the fit, s", seconds, 5.0),
        ("first paint, s", first, 2.0),
        ("sorting all items by a click, s", sorting, 1.0),
    )
    print(
        f"{given.items:,} items, {given.workers:,} workers, {given.votes:,} votes; "
        f"fit {fit.summary['seconds']:.2f} s; report {busy:.2f} s of processor time"
    )
    for title, value, limit in rows:
        print(f"{title:36s}{value:9.3f}{limit:8.2f}  {'ok' if value <= limit else 'OVER'}")


if __name__ == "__main__":
    main()
