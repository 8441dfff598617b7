"""A study as a file and as a server: what is stored, what is refused, what is durable."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import zipfile
from base64 import urlsafe_b64decode
from contextlib import closing
from datetime import UTC, datetime
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path

import pytest
from benchmarks.ask_server import Client, Server
from hostile import HOSTILE
from starlette.exceptions import HTTPException as StarletteError
from starlette.requests import Request

import crowdsift
from crowdsift.ask.app import Application, Limiter
from crowdsift.ask.items import read_items, safe_html
from crowdsift.ask.questions import Chooser, Question, opened
from crowdsift.ask.serve import issue_links, open_study
from crowdsift.ask.store import Store, Vote, create_study, read_votes, token_digest
from crowdsift.errors import CrowdsiftError, InputError, RequestError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,text\na,Apple\nb,Banana\nc,Cherry\nd,Date\n")
    return path


@pytest.fixture
def store(tmp_path, items):
    opened = open_study(tmp_path / "study.sqlite", str(items), {"goal": "first"})
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    rows = "".join(f"{name},Text of {name}\n" for name in "abcdef")
    (folder / "items.csv").write_text(f"item,text\n{rows}")
    (folder / "gold.csv").write_text("winner,loser\na,f\n")
    made = Server(folder, "items.csv", "--goal", "first", "--gold", "gold.csv", "--ties")
    made.folder = folder
    yield made
    made.kill()


def joined(server, name) -> Client:
    client = Client(server.port, server.judges.partition("#")[2])
    client.join(name)
    return client


def test_a_plan_of_a_study_has_its_items_and_its_goal(tmp_path, items):
    """As on the study's page: items without votes count, and before any vote the assumptions do."""
    path = tmp_path / "study.sqlite"
    store = open_study(path, str(items), {"goal": "top-2", "confidence": 0.9})
    words = [sys.executable, "-m", "crowdsift", "plan", str(path), "--most", "300"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert "Assumed before any vote: scores of the 4 items" in done.stderr
    assert "to settle the top two with 90 %" in done.stdout
    judge = store.add_judge("ann", "x" * 30)
    for n, pair in enumerate([(0, 1), (1, 2), (0, 2)] * 5):
        store.add_vote(judge, Vote(f"vote-{n:04d}", *pair, "left", 900), f"q{n}").result()
    store.close()
    done = subprocess.run([*words, "--json"], capture_output=True, text=True)
    made = crowdsift.plan(crowdsift.read(path), items="abcd", goal="top-2", confidence=0.9, most=300)
    assert json.loads(done.stdout)["needs"] == made.interval[1]
    assert made.interval[1] > crowdsift.plan(crowdsift.read(path), goal="top-2", confidence=0.9, most=300).interval[1]
    refused = subprocess.run([*words, "--goal", "top-4"], capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "K must be at least 1 and below the 4 items" in refused.stderr


# --- items ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "no items"),
        ("a,Apple\n", "1 item; a study compares at least two"),
        ("a,Apple\nb,B\na,Again\n", "row 3, column 'item': the item 'a' occurs twice"),
        ("a,Apple\nb,\n", "row 2, column 'item': the item 'b' has nothing to show"),
    ],
)
def test_items_that_make_no_study_are_refused(tmp_path, rows, message):
    path = tmp_path / "items.csv"
    path.write_text(f"item,text\n{rows}")
    with pytest.raises(InputError, match=message):
        read_items(str(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../secret.png", "outside the folder"),
        ("/etc/passwd", "outside the folder"),
        ("link.png", "outside the folder"),
        ("gone.png", "cannot be read: No such file"),
        ("page.svg", "neither PNG, JPEG, GIF nor WebP"),
    ],
)
def test_images_come_from_the_folder_of_the_items(tmp_path, name, message):
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "page.svg").write_text("<svg onload='alert(1)'/>")
    (folder / "good.png").write_bytes(PNG)
    path = folder / "items.csv"
    path.write_text("item,image\na,good.png\nb,good.png\n")
    assert [each.media for each in read_items(str(path))] == ["image/png"] * 2
    path.write_text(f"item,image\na,good.png\nb,{name}\n")
    with pytest.raises(InputError, match=message):
        read_items(str(path))


def test_replies_are_compared_by_prompt(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,prompt,text\nm1,p,x\nm2,p,y\nm1,q,z\nm2,q,w\nm3,q,v\n")
    store = open_study(tmp_path / "s.sqlite", str(path), {})
    try:
        judge = store.add_judge("ann", "t" * 30)
        chooser, asked = Chooser(store, 1), set()
        while question := chooser.choose(judge):
            one, two = (store.contents[code] for code in (question.left, question.right))
            assert one.prompt == two.prompt
            asked.add((one.prompt, *sorted((one.item, two.item))))
            judge.votes.append(Vote(question.number, question.left, question.right, "left", 1))
        assert asked == {("p", "m1", "m2"), ("q", "m1", "m2"), ("q", "m1", "m3"), ("q", "m2", "m3")}
    finally:
        store.close()
    path.write_text("item,prompt,text\nm1,p,x\nm2,p,y\nm1,q,z\n")
    with pytest.raises(InputError, match="the prompt 'q' has one reply only"):
        read_items(str(path))


@pytest.mark.parametrize(
    "text",
    [*HOSTILE, "[a](javascript:alert(1))", "![i](http://x.invalid/i)", "<b onclick=x>b</b>", "<svg/onload=alert(1)>"],
)
def test_markdown_keeps_nothing_that_acts(text):
    found: list[tuple[str, list[tuple[str, str | None]]]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.append((tag, attrs))

    Parser().feed(safe_html(f"*ok* {text}\n\n{text}"))
    assert ("em", []) in found
    assert {tag for tag, _ in found} <= {"p", "em", "br"}
    assert not any(attributes for _, attributes in found)


# --- the file -----------------------------------------------------------------------------------


def test_a_vote_is_stored_once_and_undone(store, tmp_path):
    judge = store.add_judge("ann", "t" * 30)
    vote = Vote("vote-0001", 0, 1, "left", 900)
    assert store.add_vote(judge, vote, "q1").result() == [1]
    assert store.add_vote(judge, vote, "q1").result() == [0]  # sent again
    again = Vote("vote-0002", 0, 1, "right", 900)
    assert store.add_vote(judge, again, "q1").result() == [0]  # the question has its answer
    store.undo(judge, "vote-0001").result()
    assert store.add_vote(judge, vote, "q1").result() == [0]  # a copy that comes late
    assert store.add_vote(judge, again, "q1").result() == [1]
    store.undo(judge, "vote-0009").result()  # undone before it arrives
    assert store.add_vote(judge, Vote("vote-0009", 0, 2, "left", 1), "q2").result() == [0]
    read = sqlite3.connect(tmp_path / "study.sqlite")
    assert read.execute('SELECT "left", "right", winner, worker FROM votes').fetchall() == [("a", "b", "right", "ann")]
    read.close()


def test_others_cannot_undo(store):
    ann, bob = store.add_judge("ann", "t" * 30), store.add_judge("bob", "u" * 30)
    store.add_vote(ann, Vote("vote-0001", 0, 1, "left", 1), "q1").result()
    store.undo(bob, "vote-0001").result()
    store.close()
    store.__init__(store.path)
    assert [len(each.votes) for each in store.judges.values()] == [1, 0]


def test_withdrawing_deletes_the_votes(store, tmp_path):
    judge = store.add_judge("ann", "t" * 30)
    store.add_vote(judge, Vote("vote-0001", 0, 1, "left", 1), "q1").result()
    log = tmp_path / "study.sqlite-wal"
    assert b"vote-0001" in log.read_bytes()
    store.withdraw(judge).result()
    read = sqlite3.connect(tmp_path / "study.sqlite")
    assert read.execute("SELECT count(*) FROM answers").fetchone() == (0,)
    read.close()
    for path in (log, tmp_path / "study.sqlite"):
        assert b"vote-0001" not in path.read_bytes()


def test_tokens_are_stored_hashed_and_links_survive_a_restart(store, tmp_path):
    links = issue_links(store, "http://h", {"ann": None, "bob": 3})
    token = links.judges["ann"].partition("#")[2]
    assert len(token) >= 43
    assert links.everyone == ""
    assert store.judge_of(token_digest(token)).worker == "ann"
    assert store.judge_of(token_digest(token[:-1] + "x")) is None
    store.close()
    for path in tmp_path.glob("study.sqlite*"):
        if not path.name.endswith(".links.csv"):
            assert token.encode() not in path.read_bytes()
    assert (tmp_path / "study.sqlite.links.csv").stat().st_mode & 0o077 == 0
    store.__init__(store.path)
    assert issue_links(store, "http://h").judges == links.judges
    assert store.by_name["bob"].capacity == 3
    renewed = issue_links(store, "http://h", renew=True)
    assert renewed.judges["ann"] != links.judges["ann"]
    assert store.judge_of(token_digest(token)) is None


def test_a_second_server_refuses(store):
    with pytest.raises(RequestError, match="another server is running this study"):
        Store(store.path)


def test_a_study_may_have_any_file_name(tmp_path, items):
    opened = open_study(tmp_path / "a#b?c%20.sqlite", str(items), {})
    opened.close()
    assert read_votes(str(opened.path)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a#b?c%20.sqlite", "items.csv"]


def test_files_that_are_no_study_are_refused(tmp_path, items):
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1)").close()
    (tmp_path / "text.sqlite").write_text("votes")
    for name in ("other.sqlite", "text.sqlite"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InputError, match="is not a study of crowdsift ask"):
            open_study(tmp_path / name, str(items), {})
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(InputError, match="no such study; give a file of items"):
        open_study(tmp_path / "none.sqlite", None, {})
    create_study(tmp_path / "new.sqlite", {}, read_items(str(items)))
    connection = sqlite3.connect(tmp_path / "new.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(InputError, match="a study of format 99, made by a later version"):
        Store(tmp_path / "new.sqlite")


def test_a_study_goes_on_with_its_own_items(store, items, tmp_path):
    store.close()
    items.write_text("item,text\na,Apple\nb,Changed\n")
    try:
        with pytest.raises(RequestError, match="this study has other items"):
            open_study(tmp_path / "study.sqlite", str(items), {})
    finally:
        store.__init__(store.path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"goal": "best"}, "--goal is first, top-K"),
        ({"goal": "top-4"}, "below the 4 items"),
        ({"confidence": 1.0}, "--confidence is above 0.5 and below 1"),
        ({"gold_rate": 1.5}, "--gold-rate"),
        ({"question": " "}, "--question"),
    ],
)
def test_options_are_refused_before_a_file_is_made(tmp_path, items, given, message):
    with pytest.raises(CrowdsiftError, match=message):
        open_study(tmp_path / "study.sqlite", str(items), given)
    assert not (tmp_path / "study.sqlite").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,z\n", "row 1, column 'loser': the item 'z' is not among the items"),
        ("a,b\nc,c\n", "row 2: the item 'c' is compared with itself"),
        ("a,b\nb,a\n", "row 2: the gold contradicts row 1"),
        ("a,b\nb,c\nc,a\n", "is a cycle"),
        ("", "no gold pairs"),
    ],
)
def test_gold_that_no_order_satisfies_is_refused(tmp_path, items, rows, message):
    gold = tmp_path / "gold.csv"
    gold.write_text(f"winner,loser\n{rows}")
    with pytest.raises(InputError, match=message):
        open_study(tmp_path / "study.sqlite", str(items), {}, str(gold))
    assert not (tmp_path / "study.sqlite").exists()


def test_a_study_keeps_the_gold_that_it_began_with(tmp_path, items):
    gold, other, path = tmp_path / "gold.csv", tmp_path / "other.csv", tmp_path / "study.sqlite"
    gold.write_text("winner,loser\nd,a\nb,c\nd,a\n")
    other.write_text("winner,loser\na,d\n")
    open_study(path, str(items), {}, str(gold)).close()
    for named in (None, str(items)):
        again = open_study(path, named, {}, str(gold))
        names = again.items
        assert sorted((names[a], names[b]) for a, b in again.gold) == [("b", "c"), ("d", "a")]
        again.close()
        with pytest.raises(RequestError, match="this study has other gold"):
            open_study(path, named, {}, str(other))


# --- questions ----------------------------------------------------------------------------------


def test_questions_cannot_be_forged():
    question = Question(1, 2, 3, "n", 2_000_000_000)
    text = question.signed("key")
    assert opened(text, "key") == question
    body, signature = text.split(".")
    other = question._replace(left=3, right=2).signed("key").split(".")[0]
    for forged in (f"{other}.{signature}", f"{body}.{'0' * 64}", body, "", text + "0", "\ud800"):
        assert opened(forged, "key") is None
    assert opened(question._replace(issued=0).signed("key"), "key") is None


def test_rates_of_gold_and_shared_pairs(tmp_path):
    path, gold = tmp_path / "items.csv", tmp_path / "gold.csv"
    path.write_text("item\n" + "".join(f"i{n}\n" for n in range(60)))
    gold.write_text("winner,loser\n" + "".join(f"i{n},i{n + 1}\n" for n in range(0, 58, 2)))
    store = open_study(tmp_path / "s.sqlite", str(path), {"gold_rate": 0.25}, str(gold))
    try:
        chooser = Chooser(store, 7)
        chooser.rank([(a, b) for a in range(60) for b in range(a)])
        judges = [store.add_judge(name, None) for name in "abcdefghijklmnopqrst"]
        asked: dict[tuple[int, int], set[int]] = {}
        gold_count, lefts = 0, 0
        for _ in range(40):
            for judge in judges:
                question = chooser.choose(judge)
                vote = Vote("x", question.left, question.right, "left", 1)
                assert vote.pair not in judge.seen
                gold_count += store.gold_winner(*vote.pair) is not None
                lefts += question.left == vote.pair[0]
                judge.votes.append(vote)
                chooser.note(vote.pair)
                asked.setdefault(vote.pair, set()).add(judge.code)
        total = 40 * len(judges)
        assert 0.2 < gold_count / total < 0.3
        assert 0.44 < lefts / total < 0.56
        several = sum(len(who) for who in asked.values() if len(who) > 1)
        assert several / total > 0.3
    finally:
        store.close()


def test_rates_are_limited():
    limiter = Limiter(rate=0.001, burst=3)
    assert [limiter.allow("a") for _ in range(5)] == [True, True, True, False, False]
    assert limiter.allow("b")


class Digest(bytes):
    """A digest that may not be compared byte by byte, which takes longer the more bytes agree."""

    def __eq__(self, other):
        raise AssertionError("compared in a time that depends on the bytes")

    __ne__ = __eq__
    __hash__ = bytes.__hash__


def test_tokens_are_compared_in_constant_time(store, monkeypatch):
    tokens = {name: name * 30 for name in "oi"}
    application = Application(store, *(Digest(token_digest(each)) for each in tokens.values()))
    owner, invited, stranger = (
        Request({"type": "http", "headers": [(b"authorization", f"Bearer {each}".encode())]})
        for each in (*tokens.values(), "x" * 30)
    )
    application._require_owner(owner)
    for request in (invited, stranger):
        with pytest.raises(StarletteError, match="does not open the study"):
            application._require_owner(request)
    assert [application._is_invited(each) for each in (owner, invited, stranger)] == [False, True, False]
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda *pair: compared.append(pair) or pair[0] == pair[1])
    text = Question(1, 2, 3, "n", 2_000_000_000).signed("key")
    assert opened(text[:-1] + "g", "key") is None
    assert compared == [(text.partition(".")[2][:-1] + "g", text.partition(".")[2])]


# --- the server ---------------------------------------------------------------------------------


def test_a_vote_from_question_to_fit(server):
    ann = joined(server, "ann")
    body = ann.vote("left")
    first = ann.call("/api/vote", body)[1]  # sent again after the network was lost
    assert first["stored"] is False
    ann.vote("tie")
    status, undone = ann.call("/api/undo", {"id": ann.vote("right")["id"]})
    assert (status, undone["votes"]) == (200, 2)
    status, _ = ann.call("/api/undo", {"id": body["id"]})
    assert status == 409  # only the last one
    owner = Client(server.port, server.owner)
    status, text = owner.call("/api/study/votes.csv")
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert [row["winner"] for row in rows if row["worker"] == "ann"] == ["left", "tie"]
    found = crowdsift.fit(str(server.folder / "study.sqlite"))
    assert found.summary["votes"] == len(rows)
    assert found.votes.sides_known
    status, packed = owner.call("/api/study/fit.zip")
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert status == 200
    assert "fit/items.csv" in names
    status, report = owner.call("/api/study/report", {})
    status, page = owner.call(report["at"])
    assert status == 200
    assert b"Can you trust this?" in page


def test_what_is_refused(server):
    ann = joined(server, "ann two")
    vote = {"id": "vote-000001", "question": ann.held[0]["id"], "answer": "left"}
    wrong = [
        (401, "/api/judge", None, {"Authorization": "Bearer short"}),
        (403, "/api/judge", None, {"Authorization": "Bearer " + "x" * 43}),
        (403, "/api/study", None, {}),
        (403, "/api/study/state", {"state": "closed"}, {}),
        (403, "/api/vote", vote, {"Origin": "https://evil.example"}),
        (403, "/api/vote", vote, {"Origin": "null"}),
        (403, "/api/vote", vote, {"Sec_Fetch_Site": "cross-site"}),
        (403, "/api/vote", vote, {"Sec_Fetch_Site": "same-site"}),
        (403, "/api/vote", vote, {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"}),
        (403, "/api/vote", vote, {"Content_Type": "text/plain"}),
        (422, "/api/vote", {**vote, "question": "\ud800.\ud800"}, {}),
        (422, "/api/vote", "[" * 9_000, {}),
        (422, "/api/vote", {**vote, "question": "forged.00"}, {}),
        (422, "/api/vote", {**vote, "answer": "both"}, {}),
        (422, "/api/vote", {**vote, "answer": "skip"}, {}),
        (422, "/api/vote", {**vote, "id": "x'; DROP"}, {}),
        (422, "/api/vote", "[1]", {}),
        (422, "/api/vote", "{", {}),
        (413, "/api/vote", "x" * 20_000, {}),
        (404, "/static/..%2fstore.py", None, {}),
        (404, "/image/" + "0" * 32, None, {}),
        (404, "/report/none", None, {}),
    ]
    for status, path, body, headers in wrong:
        client = Client(server.port, ann.token)
        found = client.call(path, body, **headers)
        assert found[0] == status, (path, body, headers, found)
    bob = joined(server, "bob")
    assert bob.call("/api/vote", vote)[0] == 422  # the question of somebody else
    odd = '{"id": "vote-000009", "question": "%s", "answer": "left", "milliseconds": %s, "held": %s}'
    for milliseconds, held in (("NaN", "{}"), ("-Infinity", "7"), ("9" * 4_000, '["\\ud800"]'), ('"x"', "[3]")):
        text = odd % (bob.held[0]["id"], milliseconds, held)
        assert bob.call("/api/vote", text)[0] == 200
    for origin in (f"http://127.0.0.1:{server.port}", "https://proxy.example"):  # a proxy may change the host
        same = {"Origin": origin, "Sec_Fetch_Site": "same-origin"}
        assert ann.call("/api/vote", vote, **same)[0] == 200
    open_link = Client(server.port, server.judges.partition("#")[2])
    assert open_link.call("/api/join", {"name": "bob"})[0] == 409
    assert open_link.call("/api/join", {"name": " "})[0] == 422
    assert open_link.call("/api/join", {"name": "=HYPERLINK()"})[0] == 422
    assert open_link.call("/api/judge")[1]["join"] is True


def test_a_server_limits_guesses_and_the_requests_of_a_judge(tmp_path, items):
    server = Server(tmp_path, "items.csv")
    try:
        ann, bob = joined(server, "ann"), joined(server, "bob")
        asked = [ann.call("/api/judge")[0] for _ in range(80)]
        assert asked[:30] == [200] * 30
        assert 429 in asked
        assert bob.vote()  # others are served
        guess = Client(server.port, "x" * 43)
        guessed = [guess.call("/api/study")[0] for _ in range(100)]
        assert guessed[:30] == [403] * 30
        assert guessed.count(429) > 20
        assert Client(server.port, server.owner).call("/api/study")[0] == 200
    finally:
        server.stop()


def test_a_withdrawn_judge_is_gone(server):
    eve = joined(server, "eve")
    eve.vote("left")
    question = eve.held[0]["id"]
    assert eve.call("/api/withdraw", {})[0] == 200
    late = {"id": "late-00001", "question": question, "answer": "left"}
    assert eve.call("/api/vote", late)[0] == 410
    owner = Client(server.port, server.owner)
    assert b"eve" not in owner.call("/api/study/votes.csv")[1]


def test_questions_that_were_fetched_ahead_give_no_further_votes(tmp_path, items):
    """A judge who asks for questions again and again has more of them than votes; gold cannot be told from them."""
    (tmp_path / "gold.csv").write_text("winner,loser\na,d\n")
    (tmp_path / "workers.csv").write_text("worker,capacity\nann,2\nbob,90\n")
    words = ("--workers", "workers.csv", "--gold", "gold.csv", "--gold-rate", "0.9")
    server = Server(tmp_path, "items.csv", *words)
    try:
        with (tmp_path / "study.sqlite.links.csv").open() as file:
            links = {row["name"]: row["link"].partition("#")[2] for row in csv.DictReader(file)}
        ann, bob, owner = (Client(server.port, token) for token in (links["ann"], links["bob"], server.owner))
        for judge in (ann, bob):
            judge.held = [question for _ in range(6) for question in judge.begin()["questions"]]
            assert b"true" not in b"".join(urlsafe_b64decode(each["id"].split(".")[0]) for each in judge.held)
        answers = {ann: [], bob: []}
        for judge, found in answers.items():
            for number, question in enumerate(judge.held):
                body = {"id": f"{judge.token[:8]}-{number}x".replace("_", "x"), "question": question["id"]}
                found.append(judge.call("/api/vote", {**body, "answer": "left"})[0])
        assert answers[ann].count(200) == 2
        pairs = [tuple(sorted((q["left"]["text"], q["right"]["text"]))) for q in bob.held]
        assert answers[bob].count(200) == len(set(pairs)) < len(pairs)
        assert owner.call("/api/study/state", {"state": "closed"})[0] == 200
        assert bob.call("/api/undo", {"id": bob.call("/api/judge")[1]["last"]})[0] == 409
        assert set(answers[ann] + answers[bob]) == {200, 409}
    finally:
        server.stop()


def test_a_vote_that_arrives_during_a_withdrawal_is_not_stored(tmp_path, items):
    server = Server(tmp_path, "items.csv")
    try:
        ann, owner = joined(server, "ann"), Client(server.port, server.owner)
        ann.vote()
        report = owner.call("/api/study/report", {})[1]["at"]
        body = json.dumps({"id": "late-00001", "question": ann.held[0]["id"], "answer": "left"}).encode()
        head = f"POST /api/vote HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {ann.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(head.encode() + body[:9])
            assert owner.call(report)[0] == 200
            assert ann.call("/api/withdraw", {})[0] == 200
            slow.sendall(body[9:])
            assert slow.recv(100).startswith(b"HTTP/1.1 410")
        assert owner.call(report)[0] == 404  # it was made with the votes that are deleted
        assert stored_answers(tmp_path) == 0
    finally:
        server.stop()


def stored_answers(folder):
    with closing(sqlite3.connect(folder / "study.sqlite")) as connection:
        return connection.execute("SELECT count(*) FROM answers").fetchone()[0]


def test_fits_start_again_if_their_process_dies(server, tmp_path):
    ann, owner = joined(server, "iris"), Client(server.port, server.owner)
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    if not children.exists():
        pytest.skip("needs /proc")
    for child in children.read_text().split():
        os.kill(int(child), signal.SIGKILL)
    for _ in range(100):
        ann.begin()
        if ann.held:
            ann.vote()
        shown = owner.call("/api/study")[1]
        if shown["result"].get("votes") == shown["answers"]:
            break
        time.sleep(0.2)
    assert shown["result"]["votes"] == shown["answers"]
    assert "error" not in shown["result"]


def test_a_copy_taken_while_the_server_runs_is_the_study(server, tmp_path):
    """What the page shows is what `fit` gives, after undo, withdrawal and gold; times are UTC."""
    fay, gus, hal = (joined(server, name) for name in ("fay", "gus", "hal"))
    for judge in (fay, gus, hal):
        for answer in ("left", "right", "left"):
            judge.vote(answer)
    fay.call("/api/undo", {"id": fay.begin()["last"]})
    gus.call("/api/withdraw", {})
    owner = Client(server.port, server.owner)
    for name in ("study.sqlite", "study.sqlite-wal"):  # votes are in the second one until it is merged
        (tmp_path / name).write_bytes((server.folder / name).read_bytes())
    (tmp_path / "gold.csv").write_text("winner,loser\na,f\n")
    for _ in range(100):
        shown = owner.call("/api/study")[1]
        if shown["result"]["votes"] == shown["answers"]:
            break
        time.sleep(0.1)
    votes = crowdsift.read(str(tmp_path / "study.sqlite"))
    assert votes.total_weight == shown["answers"]
    assert not {"gus"} & set(votes.workers.tolist())
    found = crowdsift.fit(votes, gold=str(tmp_path / "gold.csv"), check_gold=False)
    ranking = {row["item"]: row["score"] for row in shown["result"]["ranking"]}
    assert found.scores_of(list(ranking)) == pytest.approx(list(ranking.values()), abs=1e-6)
    (tmp_path / "items.csv").write_bytes((server.folder / "items.csv").read_bytes())
    elsewhere = Server(tmp_path)
    try:
        again = Client(elsewhere.port, elsewhere.owner).call("/api/study")[1]
        assert (again["answers"], len(again["judges"])) == (shown["answers"], len(shown["judges"]))
        assert Client(elsewhere.port, fay.token).begin()["votes"] == 2
    finally:
        elsewhere.stop()
    rows = csv.DictReader(io.StringIO(owner.call("/api/study/votes.csv")[1].decode()))
    last = datetime.fromisoformat([row["time"] for row in rows][-1]).replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - last).total_seconds()) < 300


def test_a_budget_of_money_counts_the_prices_of_judges(tmp_path, items):
    (tmp_path / "workers.csv").write_text("worker,panel\nann,human\nbot,llm\n")
    words = ("--workers", "workers.csv", "--price", "human=1,llm=0.25", "--budget", "1.5")
    server = Server(tmp_path, "items.csv", *words)
    try:
        with (tmp_path / "study.sqlite.links.csv").open() as file:
            links = {row["name"]: row["link"].partition("#")[2] for row in csv.DictReader(file)}
        ann, bot, owner = (Client(server.port, token) for token in (links["ann"], links["bot"], server.owner))
        ann.begin()
        ann.vote()
        bot.begin()
        bot.vote()
        assert bot.begin()["state"] == "open"
        last = bot.vote()
        assert bot.begin()["state"] == "spent"
        study = owner.call("/api/study")[1]
        assert (study["cost"], study["budget"], study["answers"]) == (1.5, 1.5, 3)
        assert bot.call("/api/undo", {"id": last["id"]})[1]["state"] == "open"
    finally:
        server.stop()
    (tmp_path / "workers.csv").write_text("worker,panel\neve,human\n")
    again = [sys.executable, "-m", "crowdsift", "ask", "--port", "0", "--workers", "workers.csv"]
    done = subprocess.run(again, capture_output=True, text=True, cwd=tmp_path, timeout=30)
    assert (done.returncode, done.stderr) == (
        1,
        "crowdsift: error: 'eve' has no price; give --price again with --workers\n",
    )


def test_a_paused_study_asks_nothing_but_takes_answers(server):
    owner, dan = Client(server.port, server.owner), joined(server, "dan")
    assert owner.call("/api/study/state", {"state": "paused"})[1]["state"] == "paused"
    dan.vote("left")
    assert dan.begin()["state"] == "paused"
    assert dan.held == []
    assert owner.call("/api/study/state", {"state": "open"})[1]["state"] == "open"
    assert len(dan.begin()["questions"]) == 2


def test_every_answer_has_a_strict_policy(server):
    for path in ("/", "/study", "/static/judge.js", "/api/judge", "/nothing"):
        client = Client(server.port, "x" * 43)
        client.connection.request("GET", path)
        answer = client.connection.getresponse()
        answer.read()
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_kills_lose_no_vote_and_store_none_twice(tmp_path):
    (tmp_path / "items.csv").write_text("item\n" + "".join(f"i{n}\n" for n in range(30)))
    acknowledged: set[str] = set()
    sent: set[str] = set()
    token, body = "", None
    for moment in (0.05, 0.21, 0.4):
        server = Server(tmp_path, "items.csv")
        client = Client(server.port, token or server.judges.partition("#")[2])
        if not token:
            client.join("ann")
            token = client.token
        if body is not None:  # what was on its way is sent again
            assert client.call("/api/vote", body)[0] == 200
            acknowledged.add(body["id"])
        client.begin()
        killer = subprocess.Popen(
            [sys.executable, "-c", (f"import os, time; time.sleep({moment}); os.kill({server.process.pid}, 9)")]
        )
        try:
            while True:
                body = {
                    "id": f"vote-{len(sent):06d}",
                    "question": client.held.pop(0)["id"],
                    "answer": "left",
                    "held": [q["id"] for q in client.held],
                }
                sent.add(body["id"])
                status, found = client.call("/api/vote", body)
                if status == 429:
                    continue
                acknowledged.add(body["id"])
                client.held += found["questions"]
        except (OSError, HTTPException, IndexError):
            pass
        killer.wait()
        server.kill()
    store = Store(tmp_path / "study.sqlite")
    stored = [vote.id for judge in store.judges.values() for vote in judge.votes]
    store.close()
    assert len(stored) == len(set(stored))
    assert len(acknowledged) > 10
    assert acknowledged <= set(stored) <= sent


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.csv",), "missing.csv: no such file"),
        (("items.csv", "--consent", "missing.md"), "--consent missing.md: cannot be read"),
        (("items.csv", "--workers", "missing.csv"), "missing.csv: no such file"),
        (("items.csv", "--port", "70000"), "--port"),
        (("items.csv", "--price", "human=1"), "--price needs --workers FILE"),
        (("items.csv", "--budget", "0"), "--budget is above 0"),
        ((), "study.sqlite: no such study; give a file of items"),
        (("items.csv", "--demo"), "--demo brings its own items"),
    ],
)
def test_bad_commands_end_in_one_line(tmp_path, items, words, message):
    done = subprocess.run(
        [sys.executable, "-m", "crowdsift", "ask", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("crowdsift: error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "study.sqlite").exists()


def test_a_port_in_use_and_ctrl_c(server, tmp_path, items):
    done = subprocess.run(
        [sys.executable, "-m", "crowdsift", "ask", "items.csv", "--port", str(server.port)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "choose another with --port" in done.stderr
    own = Server(tmp_path, "items.csv")
    assert Client(own.port, own.owner).call("/api/study")[0] == 200  # the fits have begun, too
    assert own.stop() == 0
    assert own.errors == "crowdsift: stopped. To go on: crowdsift ask --study study.sqlite\n"
    left = sorted(path.name for path in tmp_path.glob("study*"))
    assert left == ["study.sqlite", "study.sqlite.links.csv"]  # one plain file, to be copied
