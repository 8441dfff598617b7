"""The study file: SQLite in WAL mode with one writer, and a copy of what pages need in memory.

A vote is on the disk before it is acknowledged (synchronous=FULL). Votes that arrive together share one transaction, so
that many judges wait for the same sync of the disk.
"""

import hashlib
import json
import os
import secrets
import sqlite3
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from crowdsift.ask.items import Content
from crowdsift.errors import InputError, RequestError
from crowdsift.io.files import replace_file
from crowdsift.io.sql import STUDY_MARK, is_study

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


VERSION = 1
_SCHEMA = """
CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE items (code INTEGER PRIMARY KEY, item TEXT NOT NULL UNIQUE);
CREATE TABLE contents (code INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES items,
  prompt TEXT NOT NULL, text TEXT NOT NULL, markdown TEXT NOT NULL, image BLOB,
  media TEXT NOT NULL);
CREATE TABLE gold (winner INTEGER NOT NULL REFERENCES items,
  loser INTEGER NOT NULL REFERENCES items);
CREATE TABLE judges (code INTEGER PRIMARY KEY, worker TEXT NOT NULL UNIQUE, token BLOB UNIQUE,
  capacity INTEGER, consented TEXT, withdrawn TEXT, joined TEXT DEFAULT CURRENT_TIMESTAMP);
-- An answer that was undone keeps its id alone: a copy that arrives late is known, and ignored.
CREATE TABLE answers (id TEXT PRIMARY KEY, judge INTEGER NOT NULL REFERENCES judges,
  question TEXT, left_content INTEGER REFERENCES contents,
  right_content INTEGER REFERENCES contents, answer TEXT, gold INTEGER, milliseconds INTEGER,
  at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE UNIQUE INDEX one_answer ON answers (question) WHERE question IS NOT NULL;
CREATE VIEW votes AS
  SELECT l.item AS "left", r.item AS "right", a.answer AS winner, j.worker AS worker,
    nullif(c.prompt, '') AS prompt, a.milliseconds AS milliseconds, a.gold AS gold, a.at AS time
  FROM answers a JOIN judges j ON j.code = a.judge
    JOIN contents c ON c.code = a.left_content JOIN contents d ON d.code = a.right_content
    JOIN items l ON l.code = c.item JOIN items r ON r.code = d.item
  WHERE a.answer IN ('left', 'right', 'tie') ORDER BY a.rowid;
"""
_ANSWER = (
    "INSERT INTO answers (id, judge, question, left_content, right_content, answer, gold, "
    "milliseconds) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_UNDO = (
    "INSERT INTO answers (id, judge) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET question = NULL, left_content = "
    "NULL, right_content = NULL, answer = NULL, gold = NULL, milliseconds = NULL WHERE judge = excluded.judge"
)
_JUDGE = (
    "INSERT INTO judges (code, worker, token, capacity) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (code) DO UPDATE SET token = excluded.token, capacity = excluded.capacity"
)
_SET = "INSERT INTO study VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


def token_digest(token: str) -> bytes:
    """Return the digest of a token, which is stored in its place."""
    return hashlib.sha256(token.encode()).digest()


@dataclass
class Vote:
    """An answer of a judge; left and right are contents."""

    id: str
    left: int
    right: int
    answer: str
    milliseconds: int

    @property
    def pair(self) -> tuple[int, int]:
        """Return the two contents, in either order of sides."""
        return min(self.left, self.right), max(self.left, self.right)

    @property
    def winner(self) -> int | None:
        """Return the content that was preferred, or None."""
        return {"left": self.left, "right": self.right}.get(self.answer)


@dataclass
class Judge:
    """A judge with the judge's answers."""

    code: int
    worker: str
    digest: bytes | None
    capacity: int | None
    consented: bool = False
    withdrawn: bool = False
    votes: list[Vote] = field(default_factory=list)

    @property
    def seen(self) -> set[tuple[int, int]]:
        """Return the pairs of contents that this judge has answered."""
        return {vote.pair for vote in self.votes}


def create_study(
    path: Path, settings: Mapping[str, Any], contents: Sequence[Content], gold: Iterable[tuple[str, str]] = ()
) -> None:
    """Write a new study file, completely or not at all."""
    items = list(dict.fromkeys(each.item for each in contents))
    code = {item: number for number, item in enumerate(items)}
    with replace_file(path) as draft:
        connection = sqlite3.connect(draft)
        connection.executescript(_SCHEMA)
        stored = {**settings, "key": secrets.token_hex(32)}
        rows = [(name, json.dumps(value)) for name, value in stored.items()]
        connection.executemany("INSERT INTO study VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO items VALUES (?, ?)", enumerate(items))
        connection.executemany(
            "INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((i, code[each.item], *each[1:]) for i, each in enumerate(contents)),
        )
        connection.executemany("INSERT INTO gold VALUES (?, ?)", ((code[a], code[b]) for a, b in gold))
        connection.execute(f"PRAGMA application_id = {int.from_bytes(STUDY_MARK, 'big')}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.commit()
        connection.close()


class Store:
    """An open study: the only server that writes to the file.

    Everything except others' votes is read from memory. `write` passes statements to a thread, which commits all that
    wait together, and returns a future of the counts of changed rows. If one statement fails, none of them takes
    effect.
    """

    def __init__(self, path: Path) -> None:
        _require_study(path)
        self.path = path
        self._lock, self._erase = _hold(path), False
        try:
            self._load()
        except BaseException as error:
            self._release()
            if isinstance(error, sqlite3.Error):
                raise InputError(f"the study cannot be read: {error}", source=str(path)) from None
            raise
        self._queue: SimpleQueue[tuple[list[tuple[str, tuple[Any, ...]]], Future[list[int]]] | None]
        self._queue = SimpleQueue()
        self._thread = threading.Thread(target=self._commit, name="crowdsift-study", daemon=True)
        self._thread.start()

    def _load(self) -> None:
        self._connection = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {setting}")
        read = self._connection.execute
        self.settings = {name: json.loads(value) for name, value in read("SELECT * FROM study")}
        self.items: list[str] = [item for (item,) in read("SELECT item FROM items ORDER BY code")]
        self.item_of: list[int] = []
        self.contents: list[Content] = []
        for item, *rest in read("SELECT item, prompt, text, markdown, image, media FROM contents ORDER BY code"):
            self.item_of.append(item)
            self.contents.append(Content(self.items[item], *rest))
        self.gold: list[tuple[int, int]] = list(read("SELECT DISTINCT winner, loser FROM gold"))
        self._gold = set(self.gold)
        known = read(
            "SELECT code, worker, token, capacity, consented IS NOT NULL, withdrawn IS NOT NULL "
            "FROM judges ORDER BY code"
        )
        self.judges = {row[0]: Judge(*row) for row in known}
        self.answers, self.cost = 0, 0.0  # votes, and their cost by the prices of judges
        for code, *row in read(
            "SELECT judge, id, left_content, right_content, answer, milliseconds "
            "FROM answers WHERE answer IS NOT NULL ORDER BY rowid"
        ):
            vote = Vote(*row)
            self.judges[code].votes.append(vote)
            self.count(self.judges[code], vote)
        self.by_digest = {each.digest: each for each in self.judges.values()}
        self.by_name = {each.worker: each for each in self.judges.values()}

    # --- writing ----------------------------------------------------------------------------

    def write(self, *statements: tuple[str, tuple[Any, ...]]) -> Future[list[int]]:
        """Run statements in one transaction; the future completes when they are on disk."""
        result: Future[list[int]] = Future()
        self._queue.put((list(statements), result))
        return result

    def _commit(self) -> None:
        """Commit waiting statements repeatedly until the study is closed."""
        ending = False
        while not ending:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            ending = None in waiting
            jobs = [job for job in waiting if job is not None]
            run = self._connection.execute
            try:
                run("BEGIN IMMEDIATE")
                counts = [[run(*each).rowcount for each in statements] for statements, _ in jobs]
                run("COMMIT")
            except Exception as error:  # the disk is full, or the file is gone
                with suppress(sqlite3.Error):
                    run("ROLLBACK")
                for _, future in jobs:
                    future.set_exception(error)
                continue
            with suppress(sqlite3.Error):
                if self._erase:  # 1 means that another process reads: repeat after the next commit
                    self._erase = bool(run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
            for (_, future), changed in zip(jobs, counts, strict=True):
                future.set_result(changed)

    def set(self, **settings: Any) -> Future[list[int]]:
        """Change settings of the study."""
        self.settings.update(settings)
        return self.write(*((_SET, (name, json.dumps(each))) for name, each in settings.items()))

    def close(self) -> None:
        """Finish all writes, and leave one plain file that can be copied."""
        self._queue.put(None)
        self._thread.join()
        with suppress(sqlite3.Error):  # another process reads the file: it stays in WAL mode
            self._connection.execute("PRAGMA journal_mode=DELETE")
        self._connection.close()
        self._release()

    def _release(self) -> None:
        with suppress(OSError):
            os.unlink(_lock_path(self.path))
        os.close(self._lock)

    # --- judges -----------------------------------------------------------------------------

    def gold_winner(self, left: int, right: int) -> int | None:
        """Return the known better one of two contents; None if the pair is not gold."""
        one, two = self.item_of[left], self.item_of[right]
        return left if (one, two) in self._gold else right if (two, one) in self._gold else None

    def judge_of(self, digest: bytes) -> Judge | None:
        """Return the judge whose token has this digest."""
        # The time of a lookup depends on digests, from which no token can be computed.
        return self.by_digest.get(digest)

    def add_judge(self, worker: str, token: str | None, capacity: int | None = None) -> Judge:
        """Add a judge, or give a known one another token or capacity; wait for the disk."""
        judge = self.by_name.get(worker) or Judge(max(self.judges, default=-1) + 1, worker, None, None)
        digest = judge.digest if token is None else token_digest(token)
        self.write((_JUDGE, (judge.code, worker, digest, capacity))).result()
        self.by_digest.pop(judge.digest, None)
        judge.digest, judge.capacity = digest, capacity
        self.judges[judge.code] = self.by_name[worker] = self.by_digest[digest] = judge
        return judge

    def count(self, judge: Judge, vote: Vote, times: int = 1) -> None:
        """Count a vote, or with -1 a deleted one; skipping costs nothing."""
        if vote.answer != "skip":
            self.answers += times
            self.cost += times * (self.settings.get("prices") or {}).get(judge.worker, 0.0)

    def add_vote(self, judge: Judge, vote: Vote, question: str) -> Future[list[int]]:
        """Store a vote, unless its id is known or its question was answered."""
        gold = self.gold_winner(*vote.pair) is not None
        row = (vote.id, judge.code, question, vote.left, vote.right, vote.answer, gold, vote.milliseconds)
        return self.write((_ANSWER, row))

    def undo(self, judge: Judge, vote_id: str) -> Future[list[int]]:
        """Delete an answer, even one that has not arrived yet."""
        return self.write((_UNDO, (vote_id, judge.code)))

    def withdraw(self, judge: Judge) -> Future[list[int]]:
        """Delete all answers of a judge, also from the write-ahead log."""
        self._erase = True
        stamp = "UPDATE judges SET withdrawn = CURRENT_TIMESTAMP WHERE code = ?"
        return self.write(("DELETE FROM answers WHERE judge = ?", (judge.code,)), (stamp, (judge.code,)))


def read_votes(path: str) -> list[tuple[str, str, str, str, int, str]]:
    """Return all votes as left, right, winner, worker, milliseconds and time; any process may call this."""
    return _selected(path, 'SELECT "left", "right", winner, worker, milliseconds, time FROM votes')


def read_goal(path: str) -> tuple[list[str], str, float, bool] | None:
    """Return the items of a study, its goal, its confidence and whether it has votes; None for other files."""
    if not is_study(path):
        return None
    settings = {name: json.loads(value) for name, value in _selected(path, "SELECT name, value FROM study")}
    items = [item for (item,) in _selected(path, "SELECT item FROM items ORDER BY code")]
    return items, settings["goal"], settings["confidence"], bool(read_votes(path))


def _selected(path: str, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def _require_study(path: Path) -> None:
    if not path.is_file():
        raise InputError("no such file", source=str(path))
    with path.open("rb") as file:
        head = file.read(100)
    if head[:16] != b"SQLite format 3\0" or head[68:72] != STUDY_MARK:
        raise InputError("the file is not a study of crowdsift ask; give --study another name", source=str(path))
    if (version := int.from_bytes(head[60:64], "big")) > VERSION:
        raise InputError(f"a study of format {version}, made by a later version; upgrade crowdsift", source=str(path))


def _lock_path(path: Path) -> str:
    return f"{path}.lock"


def _hold(path: Path) -> int:
    """Lock the study for this server; the system releases the lock when the process ends."""
    try:
        handle = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RequestError(f"{path}: cannot be locked: {error.strerror}") from None
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.stat(_lock_path(path)), os.fstat(handle)):
            raise OSError  # the previous server removed this file in the meantime
    except OSError:
        os.close(handle)
        raise RequestError(f"{path}: another server is running this study; stop it first") from None
    return handle
