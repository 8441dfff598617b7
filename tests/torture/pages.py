"""Reports of hostile labels in a browser: nothing runs or is fetched, all is shown as text."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.browser import find_chromium

import crowdsift
from crowdsift import Comparisons
from torture.words import labels

PIECES = (
    "<script>alert(1)</script>",
    "</script>",
    "<!--",
    "-->",
    "]]>",
    "<svg onload=alert(2)>",
    "<img src=x onerror=alert(3)>",
    '" onmouseover="alert(4)',
    "' autofocus onfocus='alert(5)",
    "javascript:alert(6)",
    "</title>",
    "</style>",
    "<iframe src=https://example.invalid>",
    "<link rel=stylesheet href=//example.invalid/x>",
    "{{7*7}}",
    "{% if 1 %}",
    "${alert(7)}",
    "&lt;script&gt;",
    "&#60;b&#62;",
    "\\u003cscript\\u003e",
    "\u2028alert(8)",
    "\u202e",
    "\x00",
    "<base href=//example.invalid>",
    "<meta http-equiv=refresh content=0>",
    "url(//example.invalid/y)",
    "expression(alert(9))",
    "`",
    "\\",
    "\n",
    "x" * 400,
)


def case(seed: int, folder: Path) -> None:
    """One report, opened, sorted and searched."""
    rng = random.Random(seed)
    items, workers = hostile(rng, rng.randrange(3, 9)), hostile(rng, rng.randrange(2, 6))
    votes = [(*rng.sample(items, 2), rng.choice(workers)) for _ in range(80)]
    winner, loser, worker = (list(column) for column in zip(*votes, strict=True))
    fit = crowdsift.fit(Comparisons.from_arrays(winner, loser, worker=worker), "bt", threads=1)
    path = folder / "report.html"
    fit.report(path, title=rng.choice(items), command=rng.choice(items), refit=False, threads=1)
    browser = find_chromium()
    if browser is None:
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser)
        try:
            look(opened.new_page(), path, len(set(winner) | set(loser)))
        finally:
            opened.close()


def hostile(rng: random.Random, count: int) -> list[str]:
    """Labels of which most hold pieces of pages."""
    found = dict.fromkeys(labels(rng, count // 2))
    while len(found) < count:
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 4)))
        if text.strip("\x00 \n\u2028"):
            found[text] = None
    return list(found)


def look(page, path: Path, items: int) -> None:
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.locator('#items-table th[data-key="name"] button').click()
    page.get_by_label("Find a worker").fill("<")
    page.mouse.move(300, 300)
    assert page.locator("#items-table tbody tr").count() == items
    assert page.evaluate("document.scripts.length") == 2
    strange = "main script, main img, main iframe, link, base, meta[http-equiv=refresh]"
    assert page.locator(strange).count() == 0
    assert page.locator("[onload], [onerror], [onmouseover], [onfocus]").count() == 0
    assert said == []
    assert asked == [path.as_uri()]
