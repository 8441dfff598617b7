"""Start a study: make or open its file, issue links, and run the server until it is stopped."""

import asyncio
import csv
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from crowdsift.active.stopping import Goal, checked_confidence
from crowdsift.ask.items import read_items, require_packages
from crowdsift.ask.store import Store, create_study, token_digest
from crowdsift.ask.store import read_goal as read_goal
from crowdsift.errors import InputError, RequestError
from crowdsift.io.items import read_gold
from crowdsift.votes.comparisons import Comparisons

_DEFAULTS = {
    "question": "Which one is better?",
    "goal": "ranking",
    "confidence": 0.95,
    "budget": None,
    "ties": False,
    "skip": False,
    "repeat": False,
    "gold_rate": 0.1,
    "consent": "",
    "prices": None,  # of a vote of every judge; the budget is then in money
}
DEMO = Path(__file__).parent / "demo.csv"
OWNER, EVERYONE = "(study page)", "(open link)"


@dataclass
class Links:
    """The addresses of a study's pages."""

    study: str
    everyone: str
    judges: dict[str, str]
    file: Path


def open_study(path: Path, items: str | None, given: Mapping[str, Any], gold: str | None = None) -> Store:
    """Return an open study, created if there is none; given options replace earlier ones."""
    require_packages()
    given = {name: value for name, value in given.items() if value is not None}
    contents = None if items is None else read_items(items)
    if not path.exists():
        if contents is None:
            raise InputError("no such study; give a file of items to begin one", source=str(path))
        names = sorted({each.item for each in contents})
        settings = {**_DEFAULTS, **given, "state": "open"}
        _check(settings, len(names))
        create_study(path, settings, contents, _gold(gold, names))
    store = Store(path)
    try:
        if contents is not None and list(contents) != store.contents:
            raise RequestError(
                f"{path}: this study has other items; leave the items out to "
                "continue it, or begin another one with --study"
            )
        names = store.items
        if gold is not None and sorted(_gold(gold, names)) != sorted((names[a], names[b]) for a, b in store.gold):
            raise RequestError(f"{path}: gold is given when a study begins, and this study has other gold")
        _check({**store.settings, **given}, len(store.items))
        store.set(**given).result()
    except BaseException:
        store.close()
        raise
    return store


def _check(settings: Mapping[str, Any], items: int) -> None:
    Goal.of(settings["goal"], items)
    checked_confidence(settings["confidence"])
    if not 0 <= settings["gold_rate"] < 1:
        raise RequestError(f"--gold-rate is at least 0 and below 1, not {settings['gold_rate']!r}")
    if not all(0 <= price < inf for price in (settings.get("prices") or {}).values()):
        raise RequestError("--price: a price is a number that is not below 0")
    if not str(settings["question"]).strip() or len(settings["question"]) > 300:
        raise RequestError("--question needs 1 to 300 characters")


def _gold(source: str | None, items: list[str]) -> list[tuple[str, str]]:
    """Return the distinct gold pairs of a file about these items."""
    found = read_gold(source, Comparisons.from_arrays(items[1:], items[:-1]))
    return [] if found is None else list(zip(*found.labels(np.array(sorted(items), object)), strict=True))


def issue_links(store: Store, base: str, workers: Mapping[str, int | None] | None = None, renew: bool = False) -> Links:
    """Return the links of a study, and write them to a file beside it; the study stores only hashes."""
    # With `workers` every judge has a link, and there is no open link. `renew` replaces all links; old ones then stop
    # working.
    if (prices := store.settings.get("prices")) and (missing := [each for each in workers or {} if each not in prices]):
        raise RequestError(f"{missing[0]!r} has no price; give --price again with --workers")
    file = store.path.with_name(store.path.name + ".links.csv")
    kept = {} if renew else _tokens(file)
    tokens: dict[str, str] = {}
    for name in (OWNER, EVERYONE):
        tokens[name] = kept.get(name, "")
        if token_digest(tokens[name]).hex() != store.settings.get(name):
            tokens[name] = secrets.token_urlsafe(32)
            store.set(**{name: token_digest(tokens[name]).hex()}).result()
    if workers is not None:
        store.set(named=True).result()
    elif store.settings.get("named"):
        workers = {each.worker: each.capacity for each in store.judges.values()}
    for name, capacity in (workers or {}).items():
        judge = store.by_name.get(name)
        lacks_link = renew or judge is None or judge.digest is None
        token = secrets.token_urlsafe(32) if lacks_link else None
        judge = store.add_judge(name, token, capacity)
        token = token or kept.get(name, "")
        if token_digest(token) == judge.digest:  # a link missing from the file stays valid, but cannot be shown
            tokens[name] = token
    links = Links(
        f"{base}/study#{tokens.pop(OWNER)}",
        "" if store.settings.get("named") else f"{base}/#{tokens[EVERYONE]}",
        {name: f"{base}/#{token}" for name, token in tokens.items() if name != EVERYONE},
        file,
    )
    draft = f"{file}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8", newline="") as lines:
        rows = [("name", "link"), (OWNER, links.study)]
        rows += [(EVERYONE, links.everyone)] if links.everyone else []
        csv.writer(lines).writerows([*rows, *links.judges.items()])
    os.replace(draft, file)
    return links


def _tokens(file: Path) -> dict[str, str]:
    """Return the tokens of a file of links by name."""
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {row[0]: row[1].rpartition("#")[2] for row in csv.reader(lines) if len(row) == 2}


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise an error for a port that is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise RequestError(
            f"cannot listen on {host}, port {port}: {reason}; choose another with --port, or 0 for any that is free"
        ) from None
    except OverflowError:
        raise RequestError(f"--port is 0 to 65535, not {port}") from None


def serve(store: Store, listening: socket.socket, started: Callable[[], None]) -> None:
    """Answer requests until Ctrl-C or a request to end; then close the study."""
    import uvicorn

    from crowdsift.ask.app import Application

    digests = [bytes.fromhex(store.settings[name]) for name in (OWNER, EVERYONE)]
    invitation = None if store.settings.get("named") else digests[1]

    class Server(uvicorn.Server):
        """A server that leaves signals to the command: stopping it is no error."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    async def run() -> None:
        made = Application(store, digests[0], invitation)
        config = uvicorn.Config(
            made.app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
            timeout_keep_alive=75,
            ws="none",
        )
        server = Server(config)

        def stop(*_: Any) -> None:
            server.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            if sys.platform == "win32":
                signal.signal(number, stop)
            else:
                asyncio.get_running_loop().add_signal_handler(number, stop)
        started()
        await server.serve(sockets=[listening])

    try:
        asyncio.run(run())
    finally:
        listening.close()
        store.close()
