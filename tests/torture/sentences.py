"""Sentences against tables: whatever a terminal, a report or a reason says, the figures say too.

Random crowds through every method and level: few votes, ties, sides, spammers, weights, islands; also with gold, a
trusted panel, grades, rankings or several dimensions. Texts are parsed as a reader sees them, and compared with the
tables of the fit.
"""

from __future__ import annotations

import io
import json
import random
import re
import warnings
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import crowdsift
from crowdsift import Comparisons, CrowdsiftError
from crowdsift.models import MODELS
from crowdsift.numeric.distributions import half_width
from crowdsift.report import terminal
from crowdsift.report.checks import headline
from crowdsift.results.dimensions import dimension_sentences
from crowdsift.results.predict import difference_sd
from crowdsift.results.query import model_of
from crowdsift.results.reasons import random_level
from crowdsift.results.summary import gold_sentence
from crowdsift.results.words import chance, percent
from crowdsift.votes.comparisons import Grades
from crowdsift.votes.panels import with_panels
from torture.shapes import SHAPES, made, weight
from torture.words import result

ACCUSED = ("random", "one-sided", "adversarial")
LEVELS = (0.55, 0.8, 0.9, 0.9, 0.9, 0.95, 0.99)
# What a reason says, and the verdict that it stands for.
CLAIMS = {
    "The answers follow the quality of the items.": "reliable",
    "but less closely than those of a typical worker": "weak",
    "do not differ clearly from guessing": "random",
    "mostly go against those of the other workers": "adversarial",
    "whichever item stood there": "one-sided",
    "but they weigh other things than": "distinct",
    "not enough to judge this worker": "undecided",
    "do not settle which end of the ranking is up": "undecided",
}

DEEDS = {
    "answers? at random": "random",
    "follows? only the side": "one-sided",
    "answers? the opposite": "adversarial",
    "consistently weighs? something else": "distinct",
}


def case(seed: int, folder: Path) -> None:
    """One crowd, one method, one level: every sentence holds."""
    rng = random.Random(seed)
    method, level = rng.choice(sorted(MODELS)), rng.choice(LEVELS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            votes = any_crowd(seed)
            method, votes, more = with_more(random.Random(seed + 2), method, votes)
            model = crowdsift.model(method).relax(votes)[0]
            options: dict[str, Any] = {"level": level, "threads": 1, **more}
            if rng.random() < 0.2:
                options["scale"] = rng.choice(("elo", "logit"))
            fit = crowdsift.fit(votes, model, **options)
        except CrowdsiftError as error:
            result(error)
            return
        check(fit)


def any_crowd(seed: int) -> Comparisons:
    """Draw votes: a shape of its own kind, or a crowd of all kinds of workers."""
    rng, numbers = random.Random(seed + 1), np.random.default_rng(seed)
    if rng.random() < 0.15:
        shape = rng.choice([name for name in SHAPES if "star" not in name and name != "chain"])
        arrays = SHAPES[shape](numbers)
        return made(arrays, weight(rng, len(arrays["first"])))
    items, workers = rng.choice((2, 3, 5, 9, 14)), rng.choice((1, 2, 4, 9, 20, 40))
    count = workers * rng.choice((1, 3, 8, 25, 60, 150))
    score, worker = numbers.standard_normal(items), np.sort(numbers.integers(workers, size=count))
    kinds = rng.choice(((0.7, 0.1, 0.1, 0.1), (1, 0, 0, 0), (0.3, 0.3, 0.2, 0.2)))
    kind = numbers.choice(4, workers, p=kinds)  # careful, random, adversarial, one-sided
    beta = np.choose(kind, [numbers.uniform(0.1, 3.0, workers), 0.0, -2.0, 0.3])
    lean = rng.choice((0.0, 0.2, 1.0))
    side = np.where(kind == 3, numbers.choice([-3.7, 3.7], workers), 0.0)
    side = side + numbers.normal(0.0, lean, workers)
    first = numbers.integers(items, size=count)
    second = (first + numbers.integers(1, items, size=count)) % items
    x = beta[worker] * (score[first] - score[second]) + side[worker]
    taste, other = numbers.standard_normal(items), numbers.normal(0.0, 2.0, workers)
    x = x + rng.choice((0.0, 0.0, 1.0)) * other[worker] * (taste[first] - taste[second])
    tie, u = rng.choice((0.0, 0.3, 1.0)), numbers.random(count)
    won, lost = 1 / (1 + np.exp(tie - x)), 1 / (1 + np.exp(tie + x))
    outcome = np.where(u < won, 1.0, np.where(u < won + lost, 0.0, 0.5))
    return Comparisons.from_arrays(first, second, worker=worker, outcome=outcome, sides_known=rng.random() < 0.7)


def with_more(rng: random.Random, method: str, votes: Comparisons) -> tuple[str, Comparisons, dict[str, Any]]:
    """Give some votes grades, gold, a trusted panel or dimensions, or draw rankings in their place."""
    kind, items = rng.random(), votes.items.tolist()
    if kind < 0.1 and method != "barp":
        pairs = [rng.sample(items, 2) for _ in range(rng.choice((1, 4, 12)))]
        lean = rng.choice((0, 0, 1, -1))  # any order, the one of the labels, or the opposite
        pairs = [sorted(pair)[:: lean or 1] if lean else pair for pair in pairs]
        seen = {frozenset(pair): pair for pair in pairs}.values()  # no pair both ways
        winner, loser = zip(*seen, strict=True)
        return method, votes, {"gold": {"winner": list(winner), "loser": list(loser)}}
    if kind < 0.2 and len(votes.workers) > 1:
        label = [("human", "llm", "other")[rng.randrange(3)] for _ in votes.workers]
        label[0] = "human"
        names, code = np.unique(label, return_inverse=True)
        who = votes.worker_codes().astype(np.int64)
        return "sift", with_panels(votes, who, names.tolist(), code[who], "panel", ("human",)), {}
    if kind < 0.3 and np.isin(votes.outcome, (0.0, 0.5, 1.0)).all():
        plain = Grades.of_decided(votes)
        level = np.array([rng.choice((1, 1, 2)) for _ in plain.level], np.int64)
        return rng.choice(("sift", method)), replace(votes, grades=plain._replace(level=level)), {}
    if kind < 0.4:
        return rng.choice(("sift", "bt", method)), rankings(rng), {}
    if kind < 0.5:
        return "sift", votes, {"dimensions": rng.choice((2, 3))}
    return method, votes, {}


def rankings(rng: random.Random) -> Comparisons:
    """Rankings of a few items each, by careful and careless workers."""
    score = {f"i{number}": rng.gauss(0.0, 1.0) for number in range(rng.choice((3, 6, 12)))}
    beta = {f"w{number}": rng.choice((0.0, 1.0, 3.0)) for number in range(rng.choice((2, 8, 20)))}
    rows: dict[str, list[str]] = {"worker": [], "ranking": []}
    for worker in rng.choices(sorted(beta), k=len(beta) * rng.choice((2, 10, 40))):
        some = rng.sample(sorted(score), rng.choice((2, 3)))
        some.sort(key=lambda item: np.log(rng.expovariate(1.0)) - beta[worker] * score[item])
        rows["worker"].append(worker)
        rows["ranking"].append("".join(item + rng.choice(">>>=") for item in some)[:-1])
    return crowdsift.read(rows)


def check(fit: crowdsift.Fit) -> None:
    """Every statement about items and workers of a fit, wherever it stands."""
    ranks_hold_their_rank(fit)
    verdicts_hold(fit)
    headline_holds(fit)
    gold_holds(fit)
    panels_hold(fit)
    dimensions_hold(fit)
    reasons_hold(fit)
    terminal_holds(fit)
    page_holds(fit)


def ranks_hold_their_rank(fit: crowdsift.Fit) -> None:
    items = fit.item_table
    rank, low, high = (items[name].astype(float) for name in ("rank", "rank_lower", "rank_upper"))
    known = np.isfinite(low)
    assert (low[known] <= rank[known]).all()
    assert (rank[known] <= high[known]).all()


def verdicts_hold(fit: crowdsift.Fit) -> None:
    """No verdict contradicts the interval, the agreement or the number of votes beside it."""
    table, level = fit.worker_table, random_level(model_of(fit))
    if not table.height or not (table["verdict"] != "").any():
        return
    decided = fit.decisions()
    for row, suggestion in zip(table.records(), decided["suggestion"], strict=True):
        word, low, high = row["verdict"], row["lower"], row["upper"]
        if low is None:  # most probably a worker who ignores the items
            assert row["p_ignores_items"] > 0.5, row
            assert row["p_above_random"] is None, row
            assert word in ("one-sided", "undecided"), row
        else:
            assert low <= row["reliability"] <= high, row
            assert row.get("p_ignores_items", 0.0) <= 0.5, row
            probabilities_hold(row, (low - level, high - level), fit.level, suggestion)
        if word in ("reliable", "weak"):
            assert low > level, row
            assert row["agreement"] is None or row["agreement"] > 0.5, row
        elif word == "random":
            assert low <= level <= high, row
        elif word == "adversarial":
            assert high < level, row
            assert row["agreement"] is None or row["agreement"] < 0.5, row
        elif word == "one-sided":
            assert abs(row["left_share"] - 0.5) >= 0.25, row
        elif word == "distinct":
            assert row["p_distinct"] >= 0.9, row
        else:
            assert word == "undecided", row
        assert word == "undecided" or row["comparisons"] >= 5, row
        assert (suggestion == "pay") == (word not in ACCUSED), row
        assert suggestion != "block" or row["comparisons"] >= 20, row


def probabilities_hold(row: dict[str, Any], interval: tuple[float, float], level: float, suggestion: str) -> None:
    """The probability of being better than a random clicker, beside the rest of the row."""
    above, word, (low, high) = row["p_above_random"], row["verdict"], interval
    tail = 0.5 - 0.5 * level
    assert 0.0 <= above <= 1.0, row
    if low > 0.0:
        assert above >= 1.0 - tail, row
    elif high < 0.0:
        assert above <= tail, row
    else:
        assert tail <= above <= 1.0 - tail, row
    expected = {"reliable": (0.95, 1), "weak": (0.95, 1), "random": (0.05, 0.95), "adversarial": (0, 0.05)}.get(
        word, (0, 1)
    )
    assert expected[0] - 1e-9 <= above <= expected[1] + 1e-9, row
    assert not (suggestion == "block" and word == "random") or above <= 0.75, row
    assert {name for name in row if name.startswith("p_")} <= {"p_above_random", "p_ignores_items", "p_distinct"}


def headline_holds(fit: crowdsift.Fit) -> None:
    """First place and the counts of workers in the sentences above the tables of the terminal."""
    table, text = fit.item_table, " ".join(headline(fit))
    words = fit.worker_table.get("verdict", np.empty(0, object))
    if "No worker was found" in text:
        assert not np.isin(words, ACCUSED).any(), text
    elif "the scores allow for it" in text:
        for phrase, word in DEEDS.items():
            found = re.search(rf"([\d,]+) {phrase}", text)
            assert (int(found[1].replace(",", "")) if found else 0) == (words == word).sum(), text
    best = table["rank_lower"] == 1
    said = "is (clearly|probably) the best: better than .*, the second, with probability (.*?)\\.( |$)"
    if found := re.search(said, text):
        assert best.tolist() == [True] + [False] * (len(best) - 1), text
        assert found[1] == "probably" or table["rank_upper"][0] == 1, text
        assert found[2] == chance(float(fit.better(fit.labels[0], fit.labels[1]))), text
    if found := re.search("First place is open between (.*?);", text):
        named = re.findall("“i?([^”]*)”", found[1])
        more = re.search(r" and ([\d,]+) more", found[1])
        assert best[0], text
        assert len(named) + (int(more[1]) if more else 0) == (best & (table["comparisons"] > 0)).sum(), text


def gold_holds(fit: crowdsift.Fit) -> None:
    """Gold pairs add up in the summary, and workers' votes on them in their table."""
    s, table = fit.summary, fit.worker_table
    if s.get("gold_agree") is not None:
        assert 0 <= s["gold_agree"] + s["gold_disagree"] <= s["gold_pairs"]
        if found := re.search(r"of ([\d,]+) pairs? left out of the fit ([\d,]+) came out", gold_sentence(s)):
            assert [int(each) for each in found.groups()] == [s["gold_agree"] + s["gold_disagree"], s["gold_agree"]]
    if "gold_votes" in table:
        some = table["gold_votes"] > 0
        assert (table["gold_votes"] <= table["comparisons"] + 1e-6).all()
        assert ((table["gold_agreement"][some] >= 0) & (table["gold_agreement"][some] <= 1)).all()
        for row, text in zip(table.records(), fit.decisions()["reason"], strict=True):
            found = re.search(r"([\d,.]+) of ([\d,.]+) votes? on pairs with a known answer \(gold\) are right", text)
            assert bool(found) == (row["gold_votes"] > 0 and bool(text)), text
            if found:
                right, total = (float(each.replace(",", "")) for each in found.groups())
                assert abs(right - row["gold_votes"] * row["gold_agreement"]) <= 0.06, text
                assert abs(total - row["gold_votes"]) <= 0.06, text


def panels_hold(fit: crowdsift.Fit) -> None:
    """A panel is said to be off for an item only where the interval of that bias excludes 0."""
    if fit.panel_biases is None or not fit.panel_sentences:
        return
    table, text = fit.panel_biases, " ".join(fit.panel_sentences)
    apart = (table["lower"] > 0.0) | (table["upper"] < 0.0)
    assert ((table["lower"] <= table["bias"]) & (table["bias"] <= table["upper"])).all()
    for panel in np.unique(table["panel"].astype(str)):
        said = re.search(
            rf"panel={panel} is off by ([\d.]+) logits per item \(.*?\), (but )?clearly for (.*?)\.(?= |$)", text
        )
        assert said, text
        mine = table["panel"] == panel
        assert ("no single item" in said[3]) == (not apart[mine].any()), said[0]
        for item, bias in re.findall(r"(\S+) \(([+-][\d.]+)\)", said[3]):
            row = mine & (table["item"].astype(str) == item)
            assert apart[row].all(), said[0]
            assert abs(float(bias) - table["bias"][row][0]) <= 0.0051, said[0]
    assert not ("would settle first place" in text and "is clearly the best" in " ".join(headline(fit))), text


def dimensions_hold(fit: crowdsift.Fit) -> None:
    """Who is said to weigh a dimension has an interval of the weight without 0."""
    for number, text in enumerate(dimension_sentences(fit), 2):
        ends = (fit.worker_table[f"weight_{number}_{end}"] for end in ("lower", "upper"))
        low, high = (np.asarray(end, float) for end in ends)
        counts = sorted((int((low > 0).sum()), int((high < 0).sum())))
        said = re.search(r": ([\d,]+) of [\d,]+ workers? ", text)
        other = re.search(r", ([\d,]+) workers? the other way round", text)
        found = [int(each[1].replace(",", "")) if each else 0 for each in (other, said)]
        assert found == counts, text


def reasons_hold(fit: crowdsift.Fit) -> None:
    """Sentences that may be sent: the claim of the verdict, and figures of the table."""
    if not (fit.worker_table["verdict"] != "").any():
        return
    for row, text in zip(fit.worker_table.records(), fit.decisions()["reason"], strict=True):
        assert [word for claim, word in CLAIMS.items() if claim in text] == [row["verdict"]], text
        votes = re.search(r"([\d,.]+) votes?[,.]", text)
        assert votes, text
        assert abs(float(votes[1].replace(",", "")) - row["comparisons"]) <= 0.05, text
        if row["agreement"] is not None:
            assert f"{percent(row['agreement'])} agreement".replace("\u00a0", " ") in text, text
        if found := re.search(r"item on the (left|right),", text):
            assert (row["left_share"] > 0.5) == (found[1] == "left"), text
        if "of the decided answers" in text:
            share = percent(row["left_share"]).replace("\u00a0", " ")
            assert f"{share} of the decided answers" in text, text
        assert not re.search("sure|probab|nats|interval|likel", text), text


def terminal_holds(fit: crowdsift.Fit) -> None:
    """The tables as printed, and the counts of verdicts in their title."""
    text = printed(fit)
    assert "0.00 to 0.00" not in text
    table, level = fit.worker_table, random_level(model_of(fit))
    title = re.search(r"^Workers: (.*?)(;|$)", text, re.M)
    if title:
        for count, word in re.findall(r"([\d,]+) ([a-z-]+)", title[1]):
            assert int(count.replace(",", "")) == int((table["verdict"] == word).sum()), title[0]
        words = {str(row["worker"]): row for row in table.records()}
        for line in text[title.start() :].splitlines():
            cells = [cell.strip() for cell in line.split("│")[1:-1]]
            if len(cells) == 6 and cells[0] in words:
                assert cells[-1] == words[cells[0]]["verdict"], line
                shown_interval_holds(cells[2], cells[-1], level)


def printed(fit: crowdsift.Fit) -> str:
    """What `crowdsift fit` prints into a pipe."""
    file, usual = io.StringIO(), terminal._console
    terminal._console = lambda: Console(file=file, width=terminal._NO_WIDTH)  # type: ignore[assignment]
    try:
        terminal.show_fit(fit)
    finally:
        terminal._console = usual
    return file.getvalue()


def shown_interval_holds(text: str, verdict: str, level: float) -> None:
    """An interval as it is printed, beside its verdict."""
    if text == "not informative":
        assert verdict in (*ACCUSED, "undecided")
        return
    if " to " not in text:  # no width in double precision, or no interval
        return
    low, high = (float(end.replace("−", "-")) for end in text.split(" to "))
    assert low < high, text
    if verdict in ("reliable", "weak"):
        assert low > level, (text, verdict)
    elif verdict == "adversarial":
        assert high < level, (text, verdict)
    elif verdict == "random":
        assert low <= level <= high, (text, verdict)


def page_holds(fit: crowdsift.Fit) -> None:
    """First place, the flagged and every row of the tables of a report."""
    html = fit.report(refit=False).html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.S)[1])
    text = unescape(re.sub(r"<[^>]+>", "", html.split('<script type="application/json"')[0]))
    badges_hold(fit, data, text)
    workers, population = data["workers"], fit.worker_table["verdict"].astype(str)
    level = random_level(model_of(fit))
    rows = re.findall(r'<tr role="row"><td role="cell" class="name">.*?</tr>', html, re.S)
    for row in rows:
        verdict = re.search(r'class="v-[a-z-]+"></i>([a-z-]+)<', row)
        interval = re.search(r'class="num ends">(.*?)<', row)
        if verdict and interval:
            shown_interval_holds(interval[1], verdict[1], level)
    flagged = int(np.isin(population, ACCUSED).sum())
    assert workers["flagged"] == flagged
    if "No worker is flagged" in text:
        assert not flagged
    if found := re.search(r"([\d,]+) of ([\d,]+) workers are flagged \((.*?)\)", text):
        assert int(found[1].replace(",", "")) == flagged
        for count, word in re.findall(r"([\d,]+) ([a-z-]+)", found[3]):
            assert int(count.replace(",", "")) == int((population == word).sum())


def badges_hold(fit: crowdsift.Fit, data: dict[str, Any], text: str) -> None:
    """What is said of first place, beside items, in a sentence and in a check."""
    table, columns = fit.item_table, data["items"]
    if "badge" not in columns:
        assert "clearly the best" not in text
        return
    words = np.array([data["badges"][code] for code in columns["badge"]], dtype=object)
    score, rank_low = table["score"].astype(float), table["rank_lower"].astype(float)
    for component in np.unique(table["component"]):
        rows = np.flatnonzero(table["component"] == component)
        here, leader = words[rows], rows[0]
        if "clearly first" in here or "probably first" in here:
            assert sorted(filter(None, here)) == [here[0]], here
            assert (rank_low[rows[1:]] != 1).all()
        if here[0] == "clearly first":
            assert table["rank_upper"][leader] == 1
            others = rows[1:][np.isfinite(rank_low[rows[1:]])]
            sd = difference_sd(fit, np.full(len(others), leader), others)
            assert (score[leader] - score[others] > half_width(fit.level) * sd).all()
        if "may be first" in here:
            assert (here == "may be first").sum() > 1
            assert table["rank_upper"][leader] > 1 or score[rows[0]] == score[rows[1]]
            assert (rank_low[rows[here == "may be first"]] == 1).all()
    if fit.summary["components"] != 1:
        return
    said = {
        "clearly first": ("is clearly the best (", "One item is clearly the best ("),
        "probably first": ("is probably the best (", "One item is probably the best,"),
        "may be first": ("First place is open between", " may be the best ("),
    }
    for word, sentences in said.items():
        for sentence in sentences:
            assert (sentence in text) == (word in words), (word, sentence)
    if found := re.search(r"([\d,]+) items may be the best", text):
        assert int(found[1].replace(",", "")) == (words == "may be first").sum()
