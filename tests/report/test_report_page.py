"""The page of a report: what it shows, names as text, and its files."""

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

import numpy as np
import pytest
from hostile import HOSTILE, hostile_votes

import crowdsift
from crowdsift import Comparisons, RequestError
from crowdsift.io.files import require_file
from crowdsift.report import page as page_columns
from crowdsift.report.checks import run_checks
from crowdsift.report.facts import gather, refit_model
from crowdsift.results.tables import Table


@pytest.fixture(scope="module")
def html(facts):
    return facts.fit.report().html


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


def test_the_page_shows_every_section_and_the_command_that_makes_it_again(html):
    text = " ".join(Elements(html).text)
    for words in (
        "Can you trust this?",
        "Leaderboard",
        "Workers",
        "Without the flagged workers",
        "Pairs the crowd disputes most",
        "Do its predictions hold?",
        "How it was made",
        "Make it again",
        "crowdsift.model('sift'",
    ):
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
    assert set(data["items"]["name"]) == {page_columns.label(name) for name in HOSTILE}
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
    assert "within a component only" in html
    assert 'data-key="component"' in html


def test_contexts_are_shown_beside_their_items():
    first, second = ["a", "b", "c"] * 12, ["b", "c", "a"] * 12
    votes = crowdsift.read(
        {"winner": first, "loser": second, "worker": list(range(4)) * 9, "p": ["q", "r"] * 18}, by="p"
    )
    fit = crowdsift.fit(votes)
    html = fit.report(refit=False).html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL).group(1))["items"]
    assert list(zip(data["context"], data["name"], strict=True)) == fit.labels
    assert 'data-key="context"' in html
    assert "by='p'" in " ".join(Elements(html).text)
    checks = run_checks(gather(fit, refit=False))
    assert next(check.state for check in checks if check.key == "connected") == "good"


def test_side_habits_are_shown_where_a_method_finds_them(crowd):
    html = crowdsift.fit(crowd, "factor-bt").report(refit=False).html
    assert 'data-key="side_bias"' in html


def test_a_loaded_fit_reports_what_it_knows_and_all_with_its_votes(crowd, facts, html, tmp_path):
    facts.fit.save(tmp_path)
    assert "Kendall's tau" in crowdsift.load(tmp_path).report().html  # the folder holds the votes
    loaded = replace(crowdsift.load(tmp_path), votes=None)
    alone = loaded.report().html
    assert "The votes are missing" in alone
    assert "Mean log-likelihood" in alone
    given = loaded.report(votes=crowd).html
    assert "Kendall's tau" in given
    with pytest.raises(RequestError, match="not the votes of this fit"):
        loaded.report(votes=crowdsift.simulate(5, 4, 90, seed=1).comparisons())


def test_refits_can_be_left_out(facts):
    html = facts.fit.report(refit=False).html
    assert (
        html.count("Left out, because it takes another fit; --refit (refit=True)") == 3
    )  # the check and both sections


def test_refits_that_take_long_are_left_out_with_the_reason(facts, monkeypatch):
    from crowdsift.report import facts as module

    monkeypatch.setattr(module, "MOST_SECONDS", 0.0)
    text = " ".join(Elements(facts.fit.report().html).text)
    assert "Left out, because it takes another fit, here about 0 seconds of one core" in text
    assert "Left out" not in " ".join(Elements(facts.fit.report(refit=True).html).text)


def test_refits_keep_the_habits_that_were_found_and_drop_the_others(facts):
    rule = refit_model(facts.fit)  # a crowd without side biases or repeated pairs
    assert (rule.sides, rule.pair_effect, rule.ties) == (False, False, True)
    sided = replace(
        facts.fit,
        worker_table=Table({**facts.fit.worker_table, "side_bias": np.ones(80)}),
        summary={**facts.fit.summary, "pair_effect": 0.5},
    )
    assert refit_model(sided).sides
    assert refit_model(sided).pair_effect


def test_long_tables_are_cut_with_a_note(crowd, monkeypatch):
    monkeypatch.setattr(page_columns, "MOST_ROWS", 30)
    html = crowdsift.fit(crowd).report(refit=False).html
    assert "The table holds the first 30 of 40 items. All are in items.csv" in html
    assert "The table holds the first 30 of 80 workers" in html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL).group(1))
    assert len(data["items"]["score"]) == len(data["workers"]["why"]) == 30


def test_more_than_100_000_items_are_cut_to_5_mb():
    k = page_columns.MOST_ROWS + 1
    item = np.arange(k)
    votes = Comparisons.from_arrays(item, (item + 1) % k, worker=item % 50)
    html = crowdsift.fit(votes, crowdsift.BradleyTerry()).report(refit=False).html
    assert re.search(r"The table holds the first [\d,]+ of 100,001 items. All are in items.csv", html)
    assert len(html.encode()) < 5_000_000


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
    return subprocess.run(
        [sys.executable, "-m", "crowdsift", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
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


def test_on_a_scale_without_zero_no_bar_has_a_line_at_zero():
    votes = crowdsift.simulate(items=8, workers=9, comparisons=600, seed=2).comparisons()
    elo = crowdsift.fit(votes, "bora-map", scale="elo").report(refit=False).html
    places = [float(x.replace("−", "-")) for x in re.findall(r'class="zero" x1="(.*?)%', elo)]
    assert len(places) == 9  # of the workers; scores of Elo are nowhere near 0
    assert all(0.0 <= place <= 100.0 for place in places)
