"""The report in a browser: it opens clean, works by mouse and keyboard, and can be read."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks.browser import CHROMIUM, find_chromium
from hostile import HOSTILE, hostile_votes

import crowdsift
from crowdsift.lab.demonstration import crowd_with_spammers

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright for Python")

# Every text with the colours it is drawn in; transparent layers are followed to what lies behind.
CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || node.closest("script, style, title, option")) continue;
    const box = node.getBoundingClientRect();
    if (!box.width || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const ink = parse(node.closest("svg") ? style.fill : style.color);
    const [one, two] = [light(ink), light(behind(node))].sort((a, b) => b - a);
    const large = parseFloat(style.fontSize) >= 24;
    const words = walker.currentNode.data.slice(0, 40);
    found.push([(one + 0.05) / (two + 0.05), large ? 3 : 4.5, words]);
  }
  return found;
}"""

# What has no name for those who cannot see it.
NAMELESS = """() => {
  const bad = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const refuse = (nodes, wrong) => bad.push(...nodes.filter(wrong).map((node) => node.outerHTML));
  const named = (node) => node.getAttribute("aria-label") || node.textContent.trim();
  refuse(all("button, a, summary"), (node) => !named(node));
  refuse(all("input, select"), (node) => !node.labels.length || !named(node.labels[0]));
  refuse(all("svg"), (node) => !node.ariaLabel && node.ariaHidden !== "true");
  refuse(all("th"), (node) => !node.scope || !named(node));
  for (const name of ["aria-labelledby", "aria-controls", "for"])
    refuse(all(`[${name}]`), (node) => !document.getElementById(node.getAttribute(name)));
  const ids = all("[id]").map((node) => node.id);
  if (new Set(ids).size < ids.length) bad.push("an id twice");
  if (!document.documentElement.lang) bad.push("no language");
  if (all("h1").length !== 1 || all("main").length !== 1) bad.push("h1, main");
  return bad;
}"""

SHAPES = "svgs => svgs.map((svg) => svg.outerHTML)"


@pytest.fixture(scope="module")
def browser():
    path = find_chromium()
    if path is None:
        pytest.skip(f"no Chromium here (none of {', '.join(CHROMIUM)}; or set CROWDSIFT_CHROMIUM)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    crowdsift.fit(crowd_with_spammers().comparisons()).report(path)
    return path


class Visit:
    """A page that was opened, with all it said and asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(
            **({"viewport": {"width": 1200, "height": 900}} | options)
        )
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def visit(browser):
    opened = []

    def open_page(path, **options):
        opened.append(Visit(browser, path, **options))
        return opened[-1]

    yield open_page
    for one in opened:
        one.context.close()


def column(page, table: str, kind: str) -> list[str]:
    """The texts of one column of the rows shown."""
    return page.locator(f"#{table}-table tbody td{kind}").all_inner_texts()


def picture(page) -> np.ndarray:
    from io import BytesIO

    from matplotlib.image import imread

    return imread(BytesIO(page.screenshot()), format="png")[..., :3]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_errors_or_requests_and_is_not_blank(visit, report, scheme):
    seen = visit(report, color_scheme=scheme)
    assert seen.said == []
    assert seen.asked == [report.as_uri()]
    pixels = picture(seen.page)
    some = (pixels[::4, ::4] * 255).astype(np.uint8).reshape(-1, 3)
    assert len(np.unique(some, axis=0)) > 50
    assert pixels.std() > 0.05
    middle = np.median(pixels)
    assert middle > 0.9 if scheme == "light" else middle < 0.2


def test_the_button_switches_between_light_and_dark(visit, report):
    page = visit(report, color_scheme="dark").page
    before = np.median(picture(page))
    page.get_by_role("button", name="Switch between light and dark").click()
    assert before < 0.2 < 0.9 < np.median(picture(page))
    page.emulate_media(color_scheme="light")
    assert np.median(picture(page)) > 0.9  # what was chosen stays


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(visit, report, scheme):
    page = visit(report, color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = page.evaluate(CONTRAST)
    assert len(found) > 300
    assert [text for text in found if text[0] < text[1]] == []


def test_everything_has_a_name(visit, report):
    assert visit(report).page.evaluate(NAMELESS) == []


def context_votes() -> crowdsift.Comparisons:
    """Two prompts, and so two groups that cannot be compared."""
    drawn = crowd_with_spammers().comparisons()
    columns = {
        "first": drawn.items[drawn.first],
        "second": drawn.items[drawn.second],
        "outcome": drawn.outcome,
        "worker": drawn.workers[np.repeat(np.arange(80), np.diff(drawn.offsets))],
        "prompt": np.where(drawn.first % 2 == 0, "first prompt", "second prompt"),
    }
    return crowdsift.read(columns, by="prompt", sides=True)


@pytest.mark.parametrize("kind", ["plain", "side biass", "contexts"])
def test_rows_of_the_script_are_those_of_the_page(visit, report, tmp_path, kind):
    path = report
    if kind != "plain":
        path = tmp_path / "report.html"
        votes = context_votes() if kind == "contexts" else crowd_with_spammers().comparisons()
        crowdsift.fit(votes, "factor-bt").report(path, refit=False)
    page = visit(path).page
    for table in ("items", "workers"):
        rows = page.locator(f"#{table}-table tbody")
        before = rows.inner_text(), rows.locator("svg").evaluate_all(SHAPES)
        page.locator(f'[data-search="{table}"]').fill("no such name")
        assert page.locator(f'[data-pager="{table}"] span').inner_text() == "nothing found"
        page.locator(f'[data-search="{table}"]').fill("")
        after = rows.inner_text(), rows.locator("svg").evaluate_all(SHAPES)
        assert before == after
    if kind == "contexts":
        page.get_by_label("prompt", exact=True).select_option("second prompt")
        assert set(column(page, "items", ".context")) == {"second prompt"}


def test_tables_sort_by_a_click_and_by_the_keyboard(visit, report):
    page = visit(report).page
    fit = crowdsift.fit(crowd_with_spammers().comparisons())
    names = sorted(fit.item_table["item"])
    page.locator('#items-table th[data-key="name"] button').click()
    assert column(page, "items", ".name") == names[:25]
    assert page.locator('#items-table th[aria-sort="ascending"]').inner_text().startswith("Item")
    page.keyboard.press("Enter")  # the button that was clicked has the focus
    assert column(page, "items", ".name") == names[::-1][:25]
    assert page.locator('#items-table th[aria-sort="descending"]').count() == 1
    page.locator('#workers-table th[data-key="name"] button').focus()
    for _ in range(2):  # over the verdicts to the reliabilities
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    told = [float(text.replace("−", "-")) for text in column(page, "workers", ".num:nth-child(4)")]
    lowest = np.sort(fit.worker_table["reliability"])[:25]
    np.testing.assert_allclose(told, lowest, atol=0.0051)


def test_tables_are_searched_filtered_and_paged(visit, report):
    page = visit(report).page
    page.get_by_label("Find an item").fill("I03")
    assert column(page, "items", ".name") == ["i03"]
    page.get_by_label("Find an item").fill("")
    page.locator('[data-pager="items"]').get_by_text("Next").click()
    assert len(column(page, "items", ".name")) == 15
    assert page.locator('[data-pager="items"] span').inner_text() == "26–40 of 40"
    assert page.locator('[data-pager="items"]').get_by_text("Next").is_disabled()
    page.get_by_label("Verdict", exact=True).select_option("adversarial")
    assert set(column(page, "workers", ".verdict")) == {"adversarial"}
    assert len(column(page, "workers", ".verdict")) == 10
    assert all("against the quality" in text for text in column(page, "workers", ".why"))


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_it_without_scrolling_sideways(visit, report, width):
    page = visit(report, viewport={"width": width, "height": 800}, is_mobile=True).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#workers figure .narrow").is_visible()
    assert not page.locator("#workers figure .wide").is_visible()
    beyond = page.evaluate(
        """(width) => [...document.querySelectorAll("main td, main h2, main p")]
          .filter((n) => n.checkVisibility() && !n.closest("#disputes"))
          .filter((n) => n.getBoundingClientRect().right > width + 1).length""",
        width,
    )
    assert beyond == 0


def test_without_scripts_the_first_rows_are_there(visit, report):
    page = visit(report, java_script_enabled=False).page
    assert len(column(page, "items", ".name")) == 25
    assert page.get_by_text("Without scripts the table").first.is_visible()
    assert not page.get_by_label("Find an item").is_visible()


def test_hostile_names_run_nothing_and_are_shown_as_text(visit, tmp_path):
    path = tmp_path / "hostile.html"
    fit = crowdsift.fit(hostile_votes())
    fit.report(path, title=HOSTILE[2], command=HOSTILE[1])
    seen = visit(path)
    page = seen.page
    names = " ".join(column(page, "items", ".name"))
    for name in HOSTILE[:6]:
        assert name in names
    page.locator('#items-table th[data-key="name"] button').click()
    page.get_by_label("Find a worker").fill("<script>")
    assert {*column(page, "workers", ".name")} == {HOSTILE[0], HOSTILE[1]}
    page.get_by_label("Find a worker").fill("x" * 500)
    assert len(column(page, "workers", ".name")) == 1
    assert page.locator("main script, main img, main iframe").count() == 0
    assert page.evaluate("document.scripts.length") == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    assert seen.said == []
    assert seen.asked == [path.as_uri()]


def test_hostile_names_run_nothing_in_a_notebook(visit, tmp_path):
    fit = crowdsift.fit(hostile_votes())
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><title>n</title>{fit._repr_html_()}{fit.report()._repr_html_()}",
        encoding="utf-8",
    )
    seen = visit(path)
    inner = seen.page.frame_locator("iframe")
    assert inner.get_by_text("Can you trust this?").is_visible()
    assert HOSTILE[0] in inner.locator("#items-table").inner_text()
    assert seen.page.locator("body > div").inner_text().count("<script>") >= 2
    assert seen.said == []
    assert all(re.match(r"file:|about:srcdoc", url) for url in seen.asked)
