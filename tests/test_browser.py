"""The report in a browser: it opens clean, works by mouse and keyboard, and can be read."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks.browser import CHROMIUM, WIDER, find_chromium
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
def found():
    return crowdsift.fit(crowd_with_spammers().comparisons())


@pytest.fixture(scope="module")
def report(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    found.report(path)
    return path


class Visit:
    """A page that was opened, with all it said and asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture(scope="module", params=["light", "dark"])
def seen(browser, report, request):
    """The report opened once for all tests that only look at it."""
    opened = Visit(browser, report, color_scheme=request.param)
    yield opened
    opened.context.close()


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


def test_it_opens_without_errors_or_requests_and_is_not_blank(seen, report):
    assert seen.said == []
    assert seen.asked == [report.as_uri()]
    pixels = picture(seen.page)
    some = (pixels[::4, ::4] * 255).astype(np.uint8).reshape(-1, 3)
    assert len(np.unique(some, axis=0)) > 50
    assert pixels.std() > 0.05
    middle = np.median(pixels)
    dark = seen.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert middle < 0.2 if dark else middle > 0.9


def test_the_button_switches_between_light_and_dark(visit, report):
    page = visit(report, color_scheme="dark").page
    before = np.median(picture(page))
    page.get_by_role("button", name="Switch between light and dark").click()
    assert before < 0.2 < 0.9 < np.median(picture(page))
    page.emulate_media(color_scheme="light")
    assert np.median(picture(page)) > 0.9  # what was chosen stays


def test_every_text_has_contrast(seen):
    page = seen.page
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = page.evaluate(CONTRAST)
    assert len(found) > 300
    assert [text for text in found if text[0] < text[1]] == []


def test_everything_has_a_name(seen):
    assert seen.page.evaluate(NAMELESS) == []


def context_votes() -> crowdsift.Comparisons:
    """Two prompts, and so two components that cannot be compared."""
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


def test_tables_sort_by_a_click_and_by_the_keyboard(visit, report, found):
    page, fit = visit(report).page, found
    names = sorted(fit.item_table["item"])
    page.locator('#items-table th[data-key="name"] button').click()
    assert column(page, "items", ".name bdi") == names[:25]
    assert page.locator('#items-table th[aria-sort="ascending"]').inner_text().startswith("Item")
    page.keyboard.press("Enter")  # the button that was clicked has the focus
    assert column(page, "items", ".name bdi") == names[::-1][:25]
    assert page.locator('#items-table th[aria-sort="descending"]').count() == 1
    page.locator('#workers-table th[data-key="name"] button').focus()
    for _ in range(2):  # over the verdicts to the reliabilities
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    result = [float(text.replace("−", "-")) for text in column(page, "workers", "[data-label=reliability]")]
    lowest = np.sort(fit.worker_table["reliability"])[:25]
    np.testing.assert_allclose(result, lowest, atol=0.0051)


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
    assert set(column(page, "workers", ".why")) == {"against the others"}


def image_votes() -> crowdsift.Comparisons:
    """As of Mechanical Turk: long names, known sides, ties, one-sided workers."""
    rng = np.random.default_rng(2)
    names = np.array([f"https://cdn.example.com/img/scene_{i:03d}.jpg" for i in range(30)])
    a, b = rng.integers(0, 30, (2, 1500))
    a, b = a[a != b], b[a != b]
    who = rng.integers(0, 20, len(a))
    wins = rng.random(len(a)) < np.where(who < 3, 0.97, 1 / (1 + np.exp((a - b) / 6)))
    outcome = np.where(rng.random(len(a)) < 0.05, 0.5, wins)
    workers = np.array([f"A{i:02d}QWERTYUIOPAS" for i in range(20)])[who]
    return crowdsift.Comparisons.from_arrays(names[a], names[b], outcome=outcome, worker=workers, sides_known=True)


def reply_votes() -> crowdsift.Comparisons:
    """As of TRL: replies of hundreds of characters under more prompts than a menu holds."""
    rng = np.random.default_rng(3)
    rows: dict[str, list[str]] = {name: [] for name in ("winner", "loser", "worker", "prompt")}
    for prompt in range(80):
        for one, two in ((0, 1), (1, 2)):
            best = rng.permutation([one, two])
            for name, which in zip(("winner", "loser"), best, strict=True):
                rows[name].append(f"[{prompt}.{which}] " + "some reply, print(x) " * 20)
            rows["worker"].append(f"ann_{rng.integers(9)}")
            rows["prompt"].append(f"Prompt {prompt}: " + "a question " * 12)
    return crowdsift.read(rows, by="prompt")


def arena_votes() -> crowdsift.Comparisons:
    """As of an arena: few models, hundreds of judges with long names, ties, sides."""
    drawn = crowdsift.simulate(12, 300, 3000, seed=4).comparisons()
    judge = np.array([f"arena_user_{i:010d}" for i in range(300)])[drawn.worker_codes()]
    outcome = np.where(np.arange(len(drawn)) % 4 == 0, 0.5, drawn.outcome)
    return crowdsift.Comparisons.from_arrays(
        drawn.items[drawn.first], drawn.items[drawn.second], outcome=outcome, worker=judge, sides_known=True
    )


@pytest.mark.parametrize(
    "make",
    [image_votes, reply_votes, arena_votes, lambda: crowd_with_spammers().comparisons()],
    ids=["images", "replies", "arena", "spammers"],
)
def test_no_element_is_wider_than_its_box(visit, tmp_path, make):
    path, votes = tmp_path / "report.html", make()
    fit = crowdsift.fit(votes, "factor-bt" if votes.sides_known else "sift")
    fit.with_statistics().report(path)
    for widths in ((320, 375), (768, 1060, 1280)):
        size = {"width": widths[0], "height": 800}
        page = visit(path, viewport=size, is_mobile=widths[0] < 500).page
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        for width in widths:
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("window.innerWidth") == width
            assert page.evaluate(WIDER) == [], width
            shown = page.locator("#workers figure .narrow").is_visible()
            assert shown == (width < 641)
    if votes.by:  # preference data have no leaderboard of replies
        assert not page.locator("#items-filter").is_visible()


def test_the_flagged_workers_are_copied(visit, report, found):
    seen = visit(report)
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    seen.page.get_by_role("button", name="Copy the 30 flagged workers").click()
    seen.page.get_by_text("Copied, one a line.").wait_for()
    copied = seen.page.evaluate("navigator.clipboard.readText()").split("\n")
    fit = found
    flagged = np.isin(fit.worker_table["verdict"], ["random", "one-sided", "adversarial"])
    assert sorted(copied) == sorted(fit.worker_table["worker"][flagged])


def test_a_short_interval_is_not_hidden_and_first_place_is_marked(visit, tmp_path):
    votes = crowdsift.Comparisons.from_arrays(
        ["a", "b", "b", "c", "a", "c"], ["b", "a", "c", "b", "c", "a"], weight=[510, 490, 900, 100, 900, 100]
    )
    path = tmp_path / "report.html"
    fit = crowdsift.fit(votes, "bt")
    fit.report(path, refit=False)
    page = visit(path).page
    names = column(page, "items", ".name")
    sharing = set(fit.first_place()[0])
    assert sharing == {"a", "b"}
    assert {name.split()[0] for name in names if "may be first" in name} == sharing
    score, low, high = (fit.items[name] for name in ("score", "lower", "upper"))
    assert column(page, "items", ".ends") == [
        f"{a:.2f} to {b:.2f}".replace("-", "−") for a, b in zip(low, high, strict=True)
    ]
    result = column(page, "items", "[data-label=score]")
    assert result == [f"{value:.2f}".replace("-", "−") for value in score]
    bars = page.locator("#items-table .bar")
    span, at = (bars.first.locator(kind).bounding_box() for kind in (".span", ".at"))
    assert span["width"] > at["width"]  # the mark covers less than the interval


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
    path.write_text(f"<!doctype html><title>n</title>{fit._repr_html_()}{fit.report()._repr_html_()}", encoding="utf-8")
    seen = visit(path)
    inner = seen.page.frame_locator("iframe")
    assert inner.get_by_text("Can you trust this?").is_visible()
    assert HOSTILE[0] in inner.locator("#items-table").inner_text()
    assert seen.page.locator("body > div").inner_text().count("<script>") >= 2
    assert seen.said == []
    assert all(re.match(r"file:|about:srcdoc", url) for url in seen.asked)
