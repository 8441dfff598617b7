"""What a person sees at a terminal: labels, widths, numbers, progress and the time left."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import crowdsift
from crowdsift.lab.demonstration import crowd_with_spammers
from crowdsift.report import STAGES, make_report, progress, terminal
from crowdsift.report.checks import headline
from crowdsift.report.progress import Forecast, fit_progress, step_progress
from crowdsift.results.words import abbreviated

IDS = [f"A{i:02d}QWERTYUIOPASDFGHJKLZXCVBNM0123456789" for i in range(12)]


@pytest.fixture(scope="module")
def fit() -> crowdsift.Fit:
    rng = np.random.default_rng(1)
    names = np.array([f"https://cdn.example.com/images/of/scene_{i:03d}.jpg" for i in range(12)])
    a, b = rng.integers(0, 12, (2, 3000))
    a, b = a[a != b], b[a != b]
    who = rng.integers(0, 12, len(a))
    wins = rng.random(len(a)) < 1 / (1 + np.exp(np.where(who < 3, b - a, a - b) / 2))
    votes = crowdsift.Comparisons.from_arrays(
        names[a], names[b], outcome=wins.astype(float), worker=np.array(IDS)[who], weight=np.full(len(a), 1000.0)
    )
    return crowdsift.fit(votes, "bora-map")


def shown(fit: crowdsift.Fit, monkeypatch: pytest.MonkeyPatch, width: int | None) -> str:
    file = io.StringIO()
    size = terminal._NO_WIDTH if width is None else width
    monkeypatch.setattr(terminal, "_console", lambda: Console(file=file, width=size))
    terminal.show_fit(fit)
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_keeps_to_the_width_and_cuts_no_worker(fit, monkeypatch, width):
    text = shown(fit, monkeypatch, width)
    assert max(map(len, text.splitlines())) <= width
    flagged = fit.worker_table["worker"][fit.worker_table["verdict"] != "reliable"]
    assert len(flagged) >= 3
    for name in flagged:  # whole, or folded over lines of its own cell
        cells = "".join(line.split("│")[1].strip() for line in text.splitlines() if "│" in line)
        assert name in cells


def test_labels_are_cut_by_what_they_share(fit, monkeypatch):
    text = shown(fit, monkeypatch, 80)
    for name in fit.items["item"][:10]:
        assert f"…{name.rsplit('/', 1)[1]}" in text


def test_a_pipe_has_no_width(fit, monkeypatch):
    text = shown(fit, monkeypatch, None)
    assert all(name in text for name in fit.items["item"][:10])
    lines = [line for line in text.splitlines() if "bora-map:" in line]
    assert len(lines) == 1
    assert "mean log-likelihood" in lines[0]
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_numbers_can_be_read(fit, monkeypatch):
    text = shown(fit, monkeypatch, 200)
    votes = fit.summary["votes"]
    assert votes > 2_000_000
    assert f"{votes:,.0f} votes" in text
    assert not re.search(r"\de\+", text)


def test_what_is_abbreviated_can_be_told_apart():
    rng = np.random.default_rng(0)
    for _ in range(200):
        prefix = "".join(rng.choice(list("ab/ _-"), rng.integers(0, 30)))
        names = sorted({prefix + f"{i:05d}" for i in rng.integers(0, 99999, 5)})
        cut = abbreviated(names, 14)
        assert all(len(text) <= 14 for text in cut)
        assert len(set(cut)) == len(names)


def test_the_time_left_is_that_of_geometric_convergence():
    forecast = Forecast(1e-6)
    for i in range(1, 11):
        forecast.add(i, 0.5**i, 0.3 * i)
    left = np.log(0.5**10 / 1e-6) / np.log(2)
    assert forecast.seconds_left == pytest.approx(0.3 * left, rel=1e-6)
    assert forecast.share == pytest.approx(9 * np.log(2) / np.log(0.5e6), abs=1e-6)
    forecast.add(1, 0.9, 3.3)  # another start
    assert (forecast.runs, forecast.seconds_left) == (2, None)
    for odd in (Forecast(None), Forecast(0.0)):
        odd.add(1, np.inf, 1.0)
        assert (odd.share, odd.seconds_left) == (None, None)


def test_the_bar_names_its_stage_and_the_time_left(monkeypatch):
    clock = iter(float(second) for second in range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    seen = []
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **fields: seen.append(fields))
    console = Console(file=io.StringIO(), width=120)
    with fit_progress("Fitting bt", 1e-6, console) as report:
        for i in range(1, 6):
            report(i, 10.0**-i)
        report(1, 1e-3)
        report(2, 1e-7)
    assert seen[4]["description"] == "Fitting bt"
    assert seen[4]["status"] == "iteration 5, 1.0e-05, about 1 s left"
    assert seen[4]["completed"] == pytest.approx(0.8)
    assert seen[5]["description"] == "Fitting bt, run 2"
    assert seen[6]["description"] == "Fitting bt: intervals and tables"


def test_the_bar_of_a_report_names_every_stage(monkeypatch, tmp_path):
    votes = crowdsift.simulate(items=9, workers=8, comparisons=800, seed=3).comparisons()
    seen = []
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **fields: seen.append(fields))
    console = Console(file=io.StringIO(), width=120)
    with step_progress("Report:", STAGES, console) as stage:
        make_report(crowdsift.fit(votes), path=tmp_path / "page.html", progress=stage)
    assert [each["description"] for each in seen] == [f"Report: {name}" for name in STAGES]
    assert [each["completed"] for each in seen] == list(range(len(STAGES)))
    assert "Can you trust this?" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_notebook_has_a_bar_and_a_log_has_none(monkeypatch):
    votes = crowdsift.simulate(items=9, workers=8, comparisons=800, seed=3).comparisons()
    result = []

    class Handle:
        def update(self, html):
            result.append(html.data)

    def show(html, display_id):
        assert display_id
        result.append(html.data)
        return Handle()

    notebook = SimpleNamespace(HTML=lambda data: SimpleNamespace(data=data), display=show)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=notebook))
    with crowdsift.progress_bar() as bar:
        crowdsift.fit(votes, progress=bar)
    assert result == []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(progress, "_UPDATE", 0.0)
    with crowdsift.progress_bar("My <fit>") as bar:
        fit = crowdsift.fit(votes, progress=bar)
    assert result[0] == "My &lt;fit&gt;"
    assert len(result) >= fit.summary["iterations"] + 2  # runs from other starts count, too
    assert all(text.startswith("<progress value=") for text in result[1:-1])
    assert "iteration 2," in result[2]
    assert result[-1].endswith(" s")


def test_updates_keep_the_history_of_ranks(tmp_path):
    rounds = [crowdsift.simulate(6, 9, 300, seed=seed).comparisons() for seed in range(4)]
    fit = crowdsift.fit(rounds[0], "bt")
    want = [fit.items]
    for votes in rounds[1:]:
        fit.save(tmp_path / "fit")
        fit = crowdsift.load(tmp_path / "fit").update(votes)
        want.append(fit.items)
    history = fit.summary["history"]
    assert [entry["votes"] for entry in history] == [300.0, 600.0, 900.0, 1200.0]
    for entry, items in zip(history, want, strict=True):
        assert entry["items"] == items["item"].tolist()
        assert entry["ranks"] == items["rank"].tolist()
    page = fit.report(refit=False).html
    assert "after every update with more votes" in page
    assert page.count('class="history') == 3 * 6  # every item in the pictures of three widths
    assert "after every update" not in replace(fit, summary={**fit.summary, "history": []}).report(refit=False).html


def test_no_column_is_empty(fit, monkeypatch):
    assert "90 % interval" in shown(fit, monkeypatch, 120).split("Workers")[0]
    without = crowdsift.fit(fit.votes, "rank-centrality")  # it knows no intervals
    printed = shown(without, monkeypatch, 120)
    assert "rank-centrality gives no intervals here" in printed
    assert "interval" not in printed.split("Items")[1].split("Workers")[0]


def two_items(wins: int, losses: int) -> crowdsift.Fit:
    outcome = [1.0] * wins + [0.0] * losses
    return crowdsift.fit(
        {
            "first": ["a"] * len(outcome),
            "second": ["b"] * len(outcome),
            "outcome": outcome,
            "worker": ["w"] * len(outcome),
        },
        "bt",
    )


@pytest.mark.parametrize("won", [(55, 45), (30, 30), (520, 480), (6, 4)])
def test_the_votes_that_would_settle_first_place_are_those_of_a_plan(won):
    """The median of the plan, also where the two items have the same score by few votes."""
    found = headline(fit := two_items(*won))
    assert found[0].startswith("First place is open between “a” and “b”")
    sentence = (
        r"[Aa]bout ([\d,]+) more votes on that pair have an even chance of settling first place \(95 % sure\); crowds"
    )
    more = int(re.search(sentence, found[-1])[1].replace(",", ""))
    needs = crowdsift.plan(fit, goal="first", runs=399).needs
    assert 0.4 < (needs < more).mean() < 0.6


def test_equal_items_are_called_equal():
    assert "treat them as equal" in headline(two_items(50_000, 50_000))[-1]


def test_sentences_on_workers_count_the_verdicts():
    fit = crowdsift.fit(crowd_with_spammers().comparisons())
    verdict = fit.worker_table["verdict"]
    random, opposite = ((verdict == word).sum() for word in ("random", "adversarial"))
    expected = f"Of 80 workers, {random} answer at random and {opposite} answer the opposite"
    assert expected in headline(fit)[1]


def test_preferences_have_no_leaderboard_and_no_alarm_for_many_prompts(monkeypatch):
    rng = np.random.default_rng(1)
    rows = {"winner": [], "loser": [], "worker": [], "prompt": []}
    for prompt in range(60):
        quality = rng.normal(size=2)
        for _ in range(4):
            better = int(rng.random() < 1 / (1 + np.exp(-3 * (quality[0] - quality[1]))))
            for name, value in (
                ("winner", "ab"[1 - better]),
                ("loser", "ab"[better]),
                ("worker", int(rng.integers(6))),
                ("prompt", prompt),
            ):
                rows[name].append(value)
    fit = crowdsift.fit(rows, by="prompt", overall=False)
    assert headline(fit)[0] == ("Items are compared within 60 components by prompt; there is no common ranking.")
    text = shown(fit, monkeypatch, None)
    assert "Items, " not in text
    assert "Workers: " in text
    page = fit.report(refit=False).html
    assert "What can be trained on?" in page
    assert 'id="leaderboard" aria-labelledby="leaderboard-title" hidden' in page
    assert not set(re.findall(r'data-check="([\w-]+)"', page)) & {"item-votes", "connected"}
    pairs = (list(zip(rows["prompt"], rows[name], strict=True)) for name in ("winner", "loser"))
    expected = fit.better(*pairs)
    share = re.search(r"(\d+)\s% of the votes are expected to be right", page)
    assert abs(int(share[1]) - 100 * expected.mean()) <= 0.5 + 1e-9


def test_replies_of_different_prompts_are_not_ranked_even_if_features_join_them(monkeypatch):
    rng = np.random.default_rng(1)
    quality = rng.normal(size=(60, 2))
    rows = []
    for prompt in np.repeat(np.arange(60), 4):
        better = int(rng.random() < 1 / (1 + np.exp(3 * (quality[prompt, 0] - quality[prompt, 1]))))
        rows.append((f"p{prompt}", f"r{prompt}-{better}", f"r{prompt}-{1 - better}", f"w{rng.integers(6)}"))
    votes = dict(zip(("prompt", "winner", "loser", "worker"), map(list, zip(*rows, strict=True)), strict=True))
    items = {"item": [f"r{p}-{k}" for p in range(60) for k in range(2)], "quality": quality.ravel()}
    fit = crowdsift.fit(votes, by="prompt", items=items)
    assert fit.summary["item_features"]["used"]
    assert fit.summary["components"] == 1
    assert headline(fit)[0] == "Items are compared within 60 components by prompt; there is no common ranking."
    assert not any("first place" in line.lower() for line in headline(fit))
    assert "Items, " not in shown(fit, monkeypatch, None)
    page = fit.report(refit=False).html
    assert "These are preferences within 60 components by prompt, so there is no leaderboard" in page
    assert "First place" not in page
    assert "chain of comparisons links" not in page


def test_contexts_say_that_ranks_count_within_each(monkeypatch):
    rows = [(w, x, "v", t) for t in "pq" for w, x in ("ab", "bc", "cd", "de", "ef", "fg")] * 20
    names = ("winner", "loser", "worker", "topic")
    votes = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    text = shown(crowdsift.fit(votes, "bt", by="topic"), monkeypatch, None)
    assert "Items, the best of each topic first, 10 of 14" in text
    assert "component" not in text  # the column of the topic says the same
    for name in ("winner", "loser"):  # the same as two islands of one context
        votes[name] = [f"{x}{t}" for x, t in zip(votes[name], votes["topic"], strict=True)]
    text = shown(crowdsift.fit(votes, "bt"), monkeypatch, None)
    assert "Items, the best of each component first, 10 of 14" in text
    assert "component ┃" in text


def test_the_headline_names_items_of_contexts():
    """Features join contexts into one ranking; an item is then named with its context."""
    rng = np.random.default_rng(1)
    embedding = rng.normal(size=(30, 3))
    quality = embedding @ [2.0, 1.0, 0.0]
    rows = []
    for n in range(800):
        i, j = rng.choice(10, 2, replace=False) + 10 * (n % 3)
        i, j = (i, j) if rng.random() < 1 / (1 + np.exp(quality[j] - quality[i])) else (j, i)
        rows.append((f"p{n % 3}", f"r{i}", f"r{j}", f"w{n % 4}"))
    votes = dict(zip(("prompt", "winner", "loser", "worker"), map(list, zip(*rows, strict=True)), strict=True))
    items = {"item": [f"r{i}" for i in range(30)], "e": embedding}
    best = int(quality.argmax())
    found = headline(crowdsift.fit(votes, by="prompt", items=items))
    assert found[0].startswith(f"“r{best} (p{best // 10})” is clearly the best")
