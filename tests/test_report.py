"""The report: its facts against the truth, its words, its text as text, and its files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons, RequestError
from crowdsift.demonstration import crowd_with_spammers
from crowdsift.files import require_file
from crowdsift.report import page as page_module
from crowdsift.report.checks import Check, overall, run_checks
from crowdsift.report.crowd import describe_crowd
from crowdsift.report.disputes import disputed_pairs
from crowdsift.report.facts import gather, settled
from crowdsift.report.leftout import Calibration, calibrate, fit_without
from crowdsift.report.reasons import TEMPLATES, reasons
from crowdsift.tables import Table

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "javascript:alert(4)",
    '=HYPERLINK("http://example.invalid","x")',
    "{{ 7*7 }}{% raw %}",
    "שלום עולם \u202eevil",
    "&lt;b&gt;\u2028line\nbreak\x07",
    "x" * 500,
)


@pytest.fixture(scope="module")
def crowd():
    return crowd_with_spammers().comparisons()


@pytest.fixture(scope="module")
def facts(crowd):
    return gather(crowdsift.fit(crowd), threads=1)


@pytest.fixture(scope="module")
def html(facts):
    return facts.fit.report().html


def hostile_votes(seed: int = 0) -> Comparisons:
    """Votes in which every item and worker has a hostile name."""
    rng = np.random.default_rng(seed)
    first = rng.integers(len(HOSTILE), size=600)
    second = (first + rng.integers(1, len(HOSTILE), size=600)) % len(HOSTILE)
    names = np.array(HOSTILE, dtype=object)
    better = first < second
    won, lost = np.where(better, first, second), np.where(better, second, first)
    return Comparisons.from_arrays(
        names[won], names[lost], worker=names[rng.integers(len(HOSTILE), size=600)]
    )


class Elements(HTMLParser):
    """Tags with their attributes, and the text of everything but scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text.append(data)


# Facts


def test_ranking_without_flagged_workers_is_that_of_the_remaining_votes(crowd, facts):
    flagged = facts.crowd.flagged
    assert flagged.sum() == 30
    worker = np.repeat(np.arange(crowd.n_workers), np.diff(crowd.offsets))
    keep = ~flagged[worker]
    left = Comparisons.from_arrays(
        crowd.items[crowd.first[keep]],
        crowd.items[crowd.second[keep]],
        worker=crowd.workers[worker[keep]],
        outcome=crowd.outcome[keep],
        weight=crowd.weight[keep],
        sides_known=True,
    )
    direct = crowdsift.fit(left, threads=1).item_table
    rank = dict(zip(direct["item"], direct["rank"], strict=True))
    assert facts.without.rank.tolist() == [rank[item] for item in crowd.items]
    whole = facts.fit.item_table
    before = dict(zip(whole["item"], whole["rank"], strict=True))
    assert facts.without.before.tolist() == [before[item] for item in crowd.items]


def test_items_that_lose_all_votes_have_no_rank():
    votes = Comparisons.from_arrays(
        ["a", "b", "a", "c"], ["b", "c", "c", "d"], worker=["x", "x", "x", "y"]
    )
    found = fit_without(
        votes, crowdsift.Sift(), np.array([False, True]), np.array([2.0, 1.0, 0.0, -1.0])
    )
    assert found.lost == 1
    assert found.rank[3] == 0
    assert sorted(found.rank[:3]) == [1, 2, 3]


def test_calibration_of_the_true_model_has_no_gap_and_that_of_a_wrong_one_has():
    drawn = crowdsift.simulate(30, 40, 20_000, reliability=(0.5, 2.5), seed=4)
    right = calibrate(drawn.comparisons(), crowdsift.Sift(), threads=1)
    assert right.votes.sum() == pytest.approx(4000, rel=0.05)
    assert right.gap < 0.01
    assert right.log_loss < 0.6
    coin = crowdsift.simulate(100, 9, 600, reliability=(0.0, 1e-9), seed=4).comparisons()
    sure = calibrate(coin, crowdsift.BradleyTerry(penalty=1e-6), threads=1)  # of mere noise
    assert sure.gap > 0.1
    assert sure.log_loss > np.log(2)


def test_gap_is_zero_within_chance_and_the_distance_beyond_it():
    p, votes = np.array([0.6, 0.9]), np.array([1e12, 1e12])
    exact = Calibration(p, p, votes, 0.5, 0.75)
    assert exact.gap == 0.0
    assert replace(exact, observed=p - 0.1).gap == pytest.approx(0.1, abs=1e-5)
    few = Calibration(np.array([0.5]), np.array([0.55]), np.array([50.0]), 0.5, 0.5)
    assert few.gap == 0.0  # √(2 · ¼ / 50π) = .056


def test_predictions_are_those_of_fit_predict(crowd):
    from crowdsift.engines import choose_engine
    from crowdsift.report.leftout import predicted_probability

    rule = crowdsift.BoraEM()  # without a posterior both are exactly σ(β d)
    estimate = rule.estimate(choose_engine("cpu", crowd, 1))
    p = predicted_probability(crowd, rule, estimate)
    fit = crowdsift.fit(crowd, rule, threads=1)
    worker = np.repeat(crowd.workers, np.diff(crowd.offsets))
    some = slice(0, 60)
    direct = fit.predict(
        crowd.items[crowd.first[some]], crowd.items[crowd.second[some]], worker[some]
    )
    np.testing.assert_allclose(p[some], direct, atol=1e-9)


def test_predictions_have_the_likelihood_that_sift_gives_to_left_out_votes():
    from crowdsift.engines import choose_engine
    from crowdsift.holdout import folds
    from crowdsift.report.leftout import predicted_probability

    votes = crowdsift.simulate(12, 10, 3000, reliability=(-1.0, 2.0), seed=5).comparisons()
    kept, left_out = next(folds(votes, 5, 0))
    rule = crowdsift.Sift()
    estimate = rule.estimate(choose_engine("cpu", kept, 1))
    estimate = replace(estimate, precision=None)  # sift takes errors of scores as independent
    p = predicted_probability(left_out, rule, estimate)
    told = np.where(left_out.outcome > 0.5, p, 1.0 - p)
    direct = rule.left_out(choose_engine("cpu", left_out, 1), estimate)
    assert (left_out.weight * np.log(told)).sum() == pytest.approx(direct, rel=1e-4)


def test_disputes_are_the_most_divided_pairs_by_brute_force(crowd, facts):
    counts: dict[tuple[int, int], list[float]] = {}
    worker = np.repeat(np.arange(crowd.n_workers), np.diff(crowd.offsets))
    for a, b, y, w, s in zip(
        crowd.first, crowd.second, crowd.outcome, crowd.weight, worker, strict=True
    ):
        if facts.crowd.flagged[s]:
            continue
        low, high, won = (a, b, y) if a < b else (b, a, 1 - y)
        pair = counts.setdefault((int(low), int(high)), [0.0, 0.0])
        pair[0] += w * won
        pair[1] += w * (1 - won)
    for dispute in facts.disputes:
        found = counts[min(dispute[:2]), max(dispute[:2])]
        assert sorted(found) == sorted(dispute[2:])
    evenest = max(min(pair) for pair in counts.values() if pair[0] == pair[1])
    assert min(facts.disputes[0][2:]) == evenest


def test_pairs_without_votes_on_both_sides_are_no_dispute():
    votes = Comparisons.from_arrays(["a"] * 9, ["b"] * 9, worker=list(range(9)))
    assert disputed_pairs(votes, np.zeros(9, bool)) == []


def test_left_shares_count_decided_votes():
    votes = Comparisons.from_arrays(
        ["a", "b", "c", "a"], ["b", "c", "a", "c"],
        worker=["x", "x", "x", "y"], outcome=[1, 0, 0.5, 1], sides_known=True,
    )  # fmt: skip
    crowd = describe_crowd(crowdsift.fit(votes), votes)
    assert crowd.left_share.tolist() == [0.5, 1.0]
    assert crowd.decided.tolist() == [2.0, 1.0]


def test_a_crowd_that_prefers_the_left_is_told_from_one_that_does_not(crowd, facts):
    assert abs(facts.side_excess[0]) < 2.5 * facts.side_excess[1]
    rng = np.random.default_rng(1)
    left = (crowd.outcome > 0.5) | (rng.random(len(crowd)) < 0.3)
    leaning = replace(crowd, outcome=left.astype(np.float32))
    biased = gather(crowdsift.fit(leaning, "bora-em", threads=1), refit=False)
    assert biased.side_excess[0] > 5 * biased.side_excess[1]
    assert _state(biased, "sides") == "bad"


# Reasons and checks


def _table(verdict: str, **figures: float) -> Table:
    usual = {"reliability": 1.0, "side_bias": np.nan, "side_lower": np.nan, "side_upper": np.nan,
             "comparisons": 30.0, "agreement": 0.7, "p_reliable": 0.5, "p_random": 0.3,
             "p_adversarial": 0.2}  # fmt: skip
    columns = {name: np.array([1.0, value]) for name, value in (usual | figures).items()}
    columns["verdict"] = np.array(["reliable", verdict], dtype=object)
    return Table(columns)


@pytest.mark.parametrize(
    ("verdict", "figures", "words"),
    [
        ("reliable", {"p_reliable": 1.0}, "follow the quality of the items (over 99 % sure)"),
        ("weak", {"p_reliable": 0.95, "reliability": 0.3}, "of the typical worker's reliability"),
        ("weak", {"p_reliable": 0.8}, "not clear by how much"),
        ("random", {"p_random": 0.96}, "next to nothing to do with the quality of the items (96 %"),
        ("random", {"p_random": 0.6}, "At best half as reliable"),
        ("adversarial", {"p_adversarial": 0.93}, "against the quality of the items (93 % sure)"),
        ("one-sided", {"p_one_sided": 0.97}, "not how good it is (97 % sure)"),
        ("undecided", {}, "Not settled by 30 votes: it could be useful (50 %), random (30 %) or"),
        ("weak", {"side_bias": 1.2, "side_lower": 0.8, "side_upper": 1.5},
         "Side habit +1.2 (90 % interval +0.8 to +1.5"),
        ("weak", {"agreement": 0.61}, "Agrees with the ranking in 61 % of the decided votes"),
    ],
)  # fmt: skip
def test_every_verdict_has_its_reasons(verdict, figures, words):
    told = reasons(_table(verdict, **figures), np.full(2, np.nan), np.zeros(2))[1]
    assert words in " ".join(map(str, told)).replace("\u00a0", " ")


def test_a_lopsided_worker_is_told_so_only_with_enough_votes():
    table = _table("random", p_random=0.95)
    loud = reasons(table, np.array([0.5, 0.97]), np.array([30.0, 30.0]))[1]
    assert "Chose the left item in 97\u00a0% of the decided votes." in map(str, loud)
    quiet = reasons(table, np.array([0.5, 1.0]), np.array([30.0, 3.0]))[1]
    assert not any("left" in str(reason) for reason in quiet)


def test_no_reason_is_given_where_a_method_judges_nobody(crowd):
    fit = crowdsift.fit(crowd, "bt")
    assert describe_crowd(fit, crowd).reasons == [[]] * crowd.n_workers


def test_templates_are_filled_by_their_figures(facts):
    for worker in facts.crowd.reasons:
        assert worker
        for reason in worker:
            assert len(reason.figures) == len(set(re.findall(r"\{\d\}", TEMPLATES[reason.code])))


ISLANDS = Comparisons.from_arrays(["a", "c"], ["b", "d"], worker=["x", "x"])
ONE_VOTE = Comparisons.from_arrays(["a"], ["b"], worker=["x"])


def _state(facts, key: str) -> str:
    return next(check.state for check in run_checks(facts) if check.key == key)


def test_every_check_is_stated_either_way(facts):
    checks = run_checks(facts)
    assert [check.key for check in checks] == [
        "item-votes", "worker-votes", "connected", "sign", "converged", "flagged", "one-worker",
        "sides", "calibration",
    ]  # fmt: skip
    assert all(check.finding for check in checks)
    assert all(check.advice for check in checks if check.state in ("care", "bad"))
    assert _state(facts, "flagged") == "care"  # 37 % of the votes


@pytest.mark.parametrize(
    ("key", "votes", "method", "state"),
    [
        ("connected", ISLANDS, "sift", "care"),
        ("item-votes", ISLANDS, "sift", "bad"),
        ("worker-votes", ONE_VOTE, "sift", "bad"),
        ("one-worker", ONE_VOTE, "sift", "bad"),
        ("worker-votes", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("sign", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("flagged", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("sides", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("calibration", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
    ],
)  # fmt: skip
def test_checks_see_what_is_wrong(key, votes, method, state):
    assert _state(gather(crowdsift.fit(votes, method)), key) == state


def test_an_unfinished_calculation_fails_its_check(crowd):
    with pytest.warns(crowdsift.ConvergenceWarning):
        fit = crowdsift.fit(crowd, crowdsift.Sift(most_iterations=2))
    assert _state(gather(fit, refit=False), "converged") == "bad"


def test_a_crowd_half_of_which_votes_the_other_way_has_no_clear_sign():
    drawn = crowdsift.simulate(20, 20, 4000, reliabilities=np.array([1.0, -1.0] * 10), seed=2)
    assert _state(gather(crowdsift.fit(drawn.comparisons()), refit=False), "sign") == "bad"


def test_the_answer_follows_the_worst_check():
    good, care, bad, none = (Check(s, s, s, "") for s in ("good", "care", "bad", "none"))
    assert overall([good, good])[:2] == ("good", "Yes")
    assert overall([good, care])[0] == "care"
    assert overall([care, bad])[0] == "bad"
    assert "1 could not be made" in overall([good, none])[2]


# The page


def test_the_page_shows_every_section_and_the_command_that_makes_it_again(html):
    text = " ".join(Elements(html).text)
    for words in (
        "Can you trust this?", "Leaderboard", "Workers", "Without the flagged workers",
        "Pairs the crowd disputes most", "Do its predictions hold?", "How it was made",
        "Make it again", "crowdsift.model('sift'",
    ):  # fmt: skip
        assert words in text


def test_the_page_loads_nothing(html):
    assert not re.search(r"""(src|href|action)\s*=\s*["'](?!#)""", html)
    assert "url(" not in html
    assert "@import" not in html


def test_the_policy_of_the_page_allows_its_own_script_and_style_only(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html).group(1)
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL).group(1)
        allowed = "sha256-" + b64encode(sha256(body.encode()).digest()).decode()
        assert f"{rule} '{allowed}'" in policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none';")


def test_hostile_names_are_text_everywhere():
    fit = crowdsift.fit(hostile_votes())
    html = fit.report(title=HOSTILE[0], command=HOSTILE[1]).html
    found = Elements(html)
    scripts = [attrs for tag, attrs in found.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert not [tag for tag, _ in found.tags if tag in ("img", "iframe", "object", "b")]
    assert not [key for _, attrs in found.tags for key in attrs if key.startswith("on")]
    text = "".join(found.text)
    for name in HOSTILE[:6]:
        assert name in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL).group(1))
    assert set(data["items"]["name"]) == {page_module.label(name) for name in HOSTILE}
    shown = Elements(fit._repr_html_())
    assert not [tag for tag, _ in shown.tags if tag in ("script", "img")]
    assert HOSTILE[0] in "".join(shown.text)


def test_the_same_votes_make_the_same_bytes(crowd, html):
    assert crowdsift.fit(crowd).report().html == html


@pytest.mark.parametrize("method", sorted(crowdsift.models.MODELS))
def test_every_method_has_a_report(method):
    drawn = crowdsift.simulate(8, 6, 400, seed=1)
    votes = drawn.comparisons().with_classes(["x", "y"] * 4)
    html = crowdsift.fit(votes, method).report().html
    assert f"Method {method}" in html
    assert not re.search(r"\b(nan|None|inf)\b", " ".join(Elements(html).text))


@pytest.mark.parametrize(
    "votes",
    [
        Comparisons.from_arrays(["a"], ["b"]),
        Comparisons.from_arrays(["a"], ["b"], outcome=[0.5], worker=["x"]),
        Comparisons.from_arrays([1, 2.5], [2.5, 3], worker=[True, 7], weight=[0.5, 0.25]),
        Comparisons.from_arrays(["a", "c", "e"], ["b", "d", "f"], worker=["x", "x", "y"]),
    ],
    ids=["no workers", "one tie", "fractions", "islands"],
)
def test_small_and_odd_votes_have_a_report(votes):
    fit = crowdsift.fit(votes, "sift" if votes.has_workers else "bt")
    assert "Can you trust this?" in fit.report().html


def test_groups_are_shown_where_items_cannot_be_compared():
    votes = Comparisons.from_arrays(["a", "c"] * 9, ["b", "d"] * 9, worker=["x", "y", "z"] * 6)
    html = crowdsift.fit(votes).report().html
    assert "within a group only" in html
    assert 'data-key="group"' in html


def test_contexts_are_shown_beside_their_items():
    first, second = ["a", "b", "c"] * 12, ["b", "c", "a"] * 12
    votes = crowdsift.read(
        {"winner": first, "loser": second, "worker": list(range(4)) * 9, "p": ["q", "r"] * 18},
        by="p",
    )
    fit = crowdsift.fit(votes)
    html = fit.report(refit=False).html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL).group(1))["items"]
    assert list(zip(data["context"], data["name"], strict=True)) == fit.labels
    assert 'data-key="context"' in html
    assert "by='p'" in " ".join(Elements(html).text)
    assert _state(gather(fit, refit=False), "connected") == "good"


def test_gold_settles_which_end_is_up_and_the_refit_follows_it():
    kinds = np.array([1.0] * 8 + [-1.0] * 12)
    drawn = crowdsift.simulate(15, 20, 4000, reliabilities=kinds, seed=2)
    order = np.argsort(-drawn.scores)
    gold = {"winner": drawn.items[order[:4]], "loser": drawn.items[order[-4:]]}
    facts = gather(crowdsift.fit(drawn.comparisons(), gold=gold))
    assert _state(facts, "sign") == "good"  # although most workers answer the opposite
    assert facts.without.tau > 0.8
    check = next(check for check in run_checks(facts) if check.key == "sign")
    assert check.finding == "4 of 4 pairs with a known answer agree with the ranking."


def test_side_habits_are_shown_where_a_method_finds_them(crowd):
    html = crowdsift.fit(crowd, "factor-bt").report(refit=False).html
    assert 'data-key="side_bias"' in html


def test_a_loaded_fit_reports_what_it_knows_and_all_with_its_votes(crowd, facts, html, tmp_path):
    facts.fit.save(tmp_path)
    loaded = crowdsift.load(tmp_path)
    alone = loaded.report().html
    assert "The votes are not at hand" in alone
    assert "Mean log-likelihood" in alone
    given = loaded.report(votes=crowd).html
    assert "Kendall's tau" in given
    with pytest.raises(RequestError, match="not the votes of this fit"):
        loaded.report(votes=crowdsift.simulate(5, 4, 90, seed=1).comparisons())


def test_refits_can_be_left_out(facts):
    html = facts.fit.report(refit=False).html
    assert html.count("Left out on request.") == 3  # the check and both sections


def test_refits_that_take_long_are_left_out_with_the_reason(facts, monkeypatch):
    from crowdsift.report import facts as module

    monkeypatch.setattr(module, "MOST_SECONDS", 0.0)
    text = " ".join(Elements(facts.fit.report().html).text)
    assert "Left out, because it takes another fit, here about 0 seconds of one core" in text
    assert "Left out" not in " ".join(Elements(facts.fit.report(refit=True).html).text)


def test_refits_keep_the_habits_that_were_found_and_drop_the_others(facts):
    rule = settled(facts.fit)  # a crowd without side habits or repeated pairs
    assert (rule.sides, rule.pair_effect, rule.ties) == (False, False, True)
    sided = replace(
        facts.fit,
        worker_table=Table({**facts.fit.worker_table, "side_bias": np.ones(80)}),
        summary={**facts.fit.summary, "pair_effect": 0.5},
    )
    assert settled(sided).sides
    assert settled(sided).pair_effect


def test_long_tables_are_cut_with_a_note(crowd, monkeypatch):
    monkeypatch.setattr(page_module, "MOST_ROWS", 30)
    html = crowdsift.fit(crowd).report(refit=False).html
    assert "The table holds the first 30 of 40 items. All are in items.csv" in html
    assert "The table holds the first 30 of 80 workers" in html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL).group(1))
    assert len(data["items"]["score"]) == len(data["workers"]["why"]) == 30


def test_more_than_100_000_items_are_cut():
    k = page_module.MOST_ROWS + 1
    item = np.arange(k)
    votes = Comparisons.from_arrays(item, (item + 1) % k, worker=item % 50)
    html = crowdsift.fit(votes, crowdsift.BradleyTerry()).report(refit=False).html
    assert "The table holds the first 100,000 of 100,001 items. All are in items.csv" in html


# Files


def test_the_report_is_written_whole(facts, tmp_path):
    path = tmp_path / "report.html"
    made = facts.fit.report(path)
    assert path.read_text(encoding="utf-8") == made.html
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    frame = Elements(made._repr_html_()).tags[0]
    assert frame[0] == "iframe"
    assert frame[1]["srcdoc"] == made.html
    assert frame[1]["sandbox"] == "allow-scripts"


def test_a_missing_folder_or_one_without_permission_is_refused_early(tmp_path, monkeypatch):
    with pytest.raises(RequestError, match="there is no folder"):
        require_file(tmp_path / "nowhere" / "report.html")
    with pytest.raises(RequestError, match="is a folder"):
        require_file(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(RequestError, match="no permission in"):
        require_file(tmp_path / "report.html")


def _command(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("crowdsift")
    return subprocess.run(
        [command, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


@pytest.fixture
def votes_file(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\n" + "a,b,x\nb,c,x\na,c,y\nc,d,y\n" * 5)
    return path


def test_the_command_writes_a_report(votes_file, tmp_path):
    page = tmp_path / "report.html"
    done = _command("fit", votes_file, "--report", page, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["method"] == "sift"
    html = page.read_text(encoding="utf-8")
    assert f"crowdsift fit {votes_file} --report {page} --json" in html
    assert '<h1><bdi dir="auto">votes.csv</bdi></h1>' in html


def test_the_command_refuses_a_missing_folder_before_it_reads(tmp_path):
    done = _command("fit", tmp_path / "no.csv", "--report", tmp_path / "nowhere" / "r.html")
    assert done.returncode == 1
    assert "there is no folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the size of files")
def test_on_a_full_disk_the_old_report_stays(votes_file, tmp_path):
    import resource

    page = tmp_path / "report.html"
    page.write_text("old")

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = _command("fit", votes_file, "--report", page, preexec_fn=no_room)
    assert done.returncode == 1
    assert "report.html: cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert page.read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["report.html", "votes.csv"]
