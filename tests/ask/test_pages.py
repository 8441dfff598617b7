"""The pages of a study in a real browser: judges vote by key and by touch until it is settled."""

from __future__ import annotations

import csv
import sqlite3

import pytest
from benchmarks.ask_server import Server
from benchmarks.browser import CHROMIUM, WIDER, find_chromium
from hostile import HOSTILE

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright for Python")
PHONE = {"viewport": {"width": 375, "height": 720}, "has_touch": True, "is_mobile": True}
SIDES = ("left", "right")
DESK = {"viewport": {"width": 1280, "height": 800}}


@pytest.fixture(scope="module")
def browser():
    path = find_chromium()
    if path is None:
        pytest.skip(f"no Chromium here (none of {', '.join(CHROMIUM)}; or set CROWDSIFT_CHROMIUM)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path)
        yield opened
        opened.close()


class Visit:
    """A page, with what it said on the console and whom it asked."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**{"color_scheme": "light", **options})
        self.context.set_default_timeout(8_000)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def join(self, name):
        self.page.fill("#name", name)
        self.page.click("text=Start")
        self.page.wait_for_selector("#vote:not([hidden])")

    def texts(self):
        return [self.page.inner_text(f"#{side} .body").strip() for side in SIDES]

    def better(self):
        """The side on which the better item, of the smaller number, is shown."""
        one, two = (int(text.split()[-1]) for text in self.texts())
        return "left" if one < two else "right"

    def wait(self):
        self.page.wait_for_timeout(270)  # an earlier answer is taken for a slip


@pytest.fixture
def visit(browser):
    opened = []

    def open_page(address, **options):
        opened.append(Visit(browser, address, **options))
        return opened[-1]

    yield open_page
    for one in opened:
        one.context.close()


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(rows, *words):
        with (tmp_path / "items.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        running.append(Server(tmp_path, "items.csv", *words))
        return running[-1]

    yield begin
    for each in running:
        each.kill()


ITEMS = [("item", "text"), *((f"i{n}", f"Text {n}") for n in (1, 2, 3, 4))]


def stored(folder):
    connection = sqlite3.connect(folder / "study.sqlite")
    rows = connection.execute('SELECT "left", "right", winner, worker FROM votes').fetchall()
    connection.close()
    return rows


def accessible(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    assert not found, [(each["id"], [n["html"] for n in each["nodes"]]) for each in found]


def test_a_study_from_start_to_settled(visit, start, tmp_path):
    server = start(ITEMS, "--goal", "first", "--ties", "--repeat", "--question", "Which is better?")
    key, touch = visit(server.judges, **DESK), visit(server.judges, **PHONE)
    accessible(key.page)
    key.join("Key")
    touch.join("Touch")
    owner = visit(server.study, **DESK)
    # Undo: a wrong answer is taken back, the same pair is shown again, and answered rightly.
    key.wait()
    before = key.texts()
    wrong = {"left": "ArrowRight", "right": "ArrowLeft"}
    right = {"left": "ArrowLeft", "right": "ArrowRight"}
    key.page.keyboard.press(wrong[key.better()])
    key.page.keyboard.press("u")
    assert key.texts() == before
    key.wait()
    key.page.keyboard.press(right[key.better()])
    key.page.wait_for_function("document.querySelector('#count').textContent === '1 vote'")
    # Lost network: two votes wait in the page, over a reload, and are stored once.
    touch.context.set_offline(True)
    for _ in range(2):
        touch.wait()
        touch.page.tap(f"[data-answer={touch.better()}]")
    touch.page.wait_for_selector("text=2 votes wait on this device")
    assert len(stored(tmp_path)) == 1
    touch.context.set_offline(False)
    touch.page.reload()
    touch.page.wait_for_selector("#vote:not([hidden])")
    rows = stored(tmp_path)
    assert sorted(row[3] for row in rows) == ["Key", "Touch", "Touch"]
    # Sides are drawn, and what is stored is what was shown.
    for _ in range(60):
        key.wait()
        if key.page.is_visible("#vote"):
            key.page.keyboard.press(right[key.better()])
        if touch.page.is_visible("#vote"):
            touch.page.tap(f"[data-answer={touch.better()}]")
        elif not key.page.is_visible("#vote"):
            break
    key.page.wait_for_selector("text=The answer is settled")
    owner.page.wait_for_selector("text=First place is settled with 95 % confidence: i1.")
    rows = stored(tmp_path)
    assert all(winner == ("left" if left < right else "right") for left, right, winner, _ in rows)
    assert {left < right for left, right, *_ in rows} == {True, False}
    for each in (key, touch, owner):
        assert all(url.startswith(server.base) for url in each.asked)
    assert key.said == owner.said == []
    accessible(owner.page)


@pytest.mark.parametrize("options", [PHONE, DESK, {**DESK, "color_scheme": "dark"}], ids=["phone", "desk", "dark"])
def test_pages_fit_and_can_be_used_by_all(visit, start, tmp_path, options):
    (tmp_path / "consent.md").write_text("We store your *votes*, nothing else.")
    (tmp_path / "workers.csv").write_text("worker,capacity\nann,4\n")
    reply = "word " * 150 + "\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    long = [("item", "markdown", "prompt")]
    long += [(f"m{n}", f"## Reply {n}\n\n{reply}", "Why?") for n in range(4)]
    server = start(long, "--consent", "consent.md", "--workers", "workers.csv", "--ties", "--skip")
    with (tmp_path / "study.sqlite.links.csv").open() as file:
        link = {row["name"]: row["link"] for row in csv.DictReader(file)}["ann"]
    seen = visit(link, **options)
    seen.page.wait_for_selector("text=We store your votes")
    accessible(seen.page)
    seen.page.click("text=I agree")
    seen.page.wait_for_selector("#vote:not([hidden])")
    assert seen.page.inner_text("#prompt-text") == "Why?"
    accessible(seen.page)
    assert seen.page.evaluate(WIDER) == []
    boxes = [seen.page.locator(f"#{side}").bounding_box() for side in SIDES]
    if options is PHONE:  # one below the other, and the answers within reach
        assert boxes[1]["y"] > boxes[0]["y"] + boxes[0]["height"]
        low = seen.page.locator("[data-answer=left]").bounding_box()
        assert low["y"] + low["height"] <= 720
        assert low["height"] >= 44
    else:
        assert boxes[0]["y"] == boxes[1]["y"]
    for _ in range(4):
        seen.wait()
        seen.page.click("[data-answer=left]")
    seen.page.wait_for_selector("text=You have seen everything")
    assert seen.page.inner_text("#count") == "4 of 4"
    owner = visit(server.study, **options)
    owner.page.wait_for_selector("#ranking tr")
    accessible(owner.page)
    assert [each for each in owner.page.evaluate(WIDER) if "<t" not in each] == []
    seen.page.click("summary")
    seen.page.click("#withdraw")
    seen.page.click("#sure-yes")
    seen.page.wait_for_selector("text=You have withdrawn")
    assert stored(tmp_path) == []
    assert seen.said == owner.said == []


def test_both_items_of_a_pair_are_shown_in_the_same_type(visit, start):
    """Large type for a short text beside small type for a long one would be an argument for one of them."""
    rows = [("short 1", "Yes."), ("short 2", "No."), ("long 1", "Yes, " * 30), ("long 2", "No, " * 30)]
    judge = visit(start([("item", "text"), *rows]).judges, **DESK)
    judge.join("ann")
    sizes = set()
    for _ in range(6):
        look = [judge.page.eval_on_selector(f"#{side} .plain", "e => getComputedStyle(e).fontSize") for side in SIDES]
        short = all(len(text) < 60 for text in judge.texts())
        assert look[0] == look[1]
        sizes.add((short, look[0]))
        judge.wait()
        judge.page.keyboard.press("ArrowLeft")
    assert len(sizes) == 2  # a pair of short texts is shown in larger type


def test_hostile_items_and_names_run_nothing(visit, start):
    rows = [(f"i{n} {text}", text, text) for n, text in enumerate(HOSTILE)]
    server = start([("item", "text", "markdown"), *rows], "--question", HOSTILE[0])
    judge = visit(server.judges, **DESK)
    judge.join(HOSTILE[2])
    texts = {" ".join(text.split()) for text in HOSTILE}
    for _ in range(8):
        judge.wait()
        shown = " ".join(judge.page.inner_text("#left .plain").split())
        assert any(shown == text or text.startswith(shown[:20]) for text in texts)
        judge.page.keyboard.press("ArrowLeft")
    owner = visit(server.study, **DESK)
    owner.page.wait_for_selector("#ranking tr")
    assert owner.page.inner_text("h1") == HOSTILE[0]
    assert HOSTILE[2] in owner.page.inner_text("#judges")
    assert judge.said == owner.said == []
    assert all(url.startswith(server.base) for url in judge.asked + owner.asked)
