"""The web application: pages for judges and for the study's owner, and what they send.

Everyone has a token, sent as a header and never as a cookie, so that no other site can use it. All answers come from
memory or from the study file; fits run in a separate process.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import hmac
import io
import json
import re
import secrets
import shutil
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from crowdsift.ask.items import Content, safe_html
from crowdsift.ask.questions import Chooser, Question, opened
from crowdsift.ask.store import ANSWERS, Judge, Store, Vote, read_votes, token_digest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC = Path(__file__).parent / "static"
MAX_BODY = 16_000  # bytes of a request
MAX_JUDGES = 10_000  # who may join by the open link
_AHEAD = 2  # questions that a page holds, the one that is shown among them
_LONGEST = 3_600_000  # milliseconds that count as time taken
_REFRESH = 0.3  # seconds between two fits, at least
_ID = re.compile(r"[0-9a-zA-Z-]{8,64}")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Limiter:
    """At most `rate` requests a second for every key, with bursts of `burst`."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left: dict[Any, tuple[float, float]] = {}

    def allow(self, key: Any) -> bool:
        """Count a request; False if it is one too many."""
        now = time.monotonic()
        left, before = self._left.get(key, (float(self._burst), now))
        left = min(float(self._burst), left + (now - before) * self._rate)
        if len(self._left) > 50_000:  # forget those that are idle
            self._left.clear()
        self._left[key] = (left - 1.0 if left >= 1.0 else left, now)
        return left >= 1.0


class Guard:
    """Adds headers to every answer, and refuses writes from other sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"]] + [
                    (name.encode(), value.encode()) for name, value in _HEADERS.items() if name.encode() not in own
                ]
            await send(message)

        if scope["method"] not in ("GET", "HEAD") and not _same_site(headers):
            refused = JSONResponse({"error": "requests from other sites are refused"}, 403)
            await refused(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)


def _same_site(headers: dict[str, str]) -> bool:
    """Return whether a request that writes comes from a page of this server."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return False
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    return headers.get("content-type", "").partition(";")[0] == "application/json"


class Application:
    """Answers for one study; `app` is what a server runs."""

    def __init__(self, store: Store, owner: bytes, invitation: bytes | None) -> None:
        self.store, self.chooser = store, Chooser(store)
        self._owner, self._invitation = owner, invitation  # digests of their tokens
        self.result: dict[str, Any] = {}
        self._changed, self._asked = asyncio.Event(), asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._votes_allowed, self._others_allowed = Limiter(5.0, 40), Limiter(2.0, 60)
        self._folder = Path(tempfile.mkdtemp(prefix="crowdsift-ask-"))
        self._reports: dict[str, Path] = {}
        key = store.settings["key"]
        self._images = {
            hmac.new(key.encode(), f"image {code}".encode(), hashlib.sha256).hexdigest()[:32]: code
            for code, content in enumerate(store.contents)
            if content.image
        }
        self._image_of = {code: name for name, code in self._images.items()}
        self._shown = [self._content(code, each) for code, each in enumerate(store.contents)]
        routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("GET", "/", self.page),
            ("GET", "/study", self.page),
            ("GET", "/static/{name}", self.static),
            ("GET", "/image/{name}", self.image),
            ("GET", "/report/{name}", self.report),
            ("POST", "/api/join", self.join),
            ("GET", "/api/judge", self.judge),
            ("POST", "/api/consent", self.consent),
            ("POST", "/api/vote", self.vote),
            ("POST", "/api/undo", self.undo),
            ("POST", "/api/withdraw", self.withdraw),
            ("GET", "/api/study", self.study),
            ("POST", "/api/study/state", self.set_state),
            ("GET", "/api/study/votes.csv", self.votes_csv),
            ("GET", "/api/study/fit.zip", self.fit_zip),
            ("POST", "/api/study/report", self.make_report),
        ]
        made = Starlette(
            routes=[Route(path, function, methods=[method]) for method, path, function in routes],
            exception_handlers={HTTPException: _explain},
            lifespan=self._life,
        )
        self.app = Guard(made)

    # --- fits ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _life(self, _: Starlette) -> AsyncIterator[None]:
        """Run the process that fits beside the server."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "crowdsift.ask.background",
            str(self.store.path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**26,
            start_new_session=True,  # Ctrl-C is for the server, which ends this process
        )
        task = asyncio.create_task(self._keep_fitting())
        self._changed.set()
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _keep_fitting(self) -> None:
        """Fit whenever there are new votes, one fit at a time."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            settings = self.store.settings
            found = await self._request(
                {
                    "items": self.store.items,
                    "goal": settings["goal"],
                    "confidence": settings["confidence"],
                    "workers": [each.worker for each in self.store.judges.values()],
                }
            )
            if "error" in found:
                found = {**self.result, "error": found["error"]}
            self.result = found
            if "pairs" in found:
                self.chooser.rank(found["pairs"])
            if found.get("settled") and self.state == "open" and not settings.get("beyond"):
                self.store.set(state="settled")
            await asyncio.sleep(_REFRESH)

    async def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        names = self.store.items
        request["gold"] = [(names[a], names[b]) for a, b in self.store.gold]
        async with self._asked:
            process = self._process
            assert process is not None
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            line = await process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the fits have stopped"}
        if not line:
            await asyncio.sleep(1.0)
        return answer

    # --- who asks -----------------------------------------------------------------------------

    def _token(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        address = request.client.host if request.client else ""
        if scheme != "Bearer" or not 20 <= len(token) <= 100:
            self._limit(address)
            raise HTTPException(401, "this link is not complete; ask for a new one")
        return token

    def _limit(self, key: Any) -> None:
        if not self._others_allowed.allow(key):
            raise HTTPException(429, "too many requests; wait a moment")

    def _require_owner(self, request: Request) -> None:
        token = self._token(request)
        if not hmac.compare_digest(self._owner, token_digest(token)):
            self._limit(request.client.host if request.client else "")
            raise HTTPException(403, "this link does not open the study's page")

    def _require_judge(self, request: Request) -> Judge:
        judge = self.store.judge_of(self._token(request))
        if judge is None:
            self._limit(request.client.host if request.client else "")
            raise HTTPException(403, "this link is not known; ask for a new one")
        if judge.withdrawn:
            raise HTTPException(410, "you have withdrawn, and your votes are deleted")
        if not self._votes_allowed.allow(judge.code):
            raise HTTPException(429, "too many requests; wait a moment")
        return judge

    # --- pages and files ------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """Return a page; its script asks for what it shows."""
        name = "study.html" if request.url.path == "/study" else "judge.html"
        return HTMLResponse((STATIC / name).read_text(encoding="utf-8"))

    async def static(self, request: Request) -> Response:
        """Return a style or a script."""
        name = request.path_params["name"]
        if name not in _FILES:
            raise HTTPException(404, "no such file")
        path = STATIC / name
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix])

    async def image(self, request: Request) -> Response:
        """Return the image of an item; its address cannot be guessed."""
        code = self._images.get(request.path_params["name"])
        if code is None:
            raise HTTPException(404, "no such image")
        content = self.store.contents[code]
        headers = {"cache-control": "private, max-age=86400"}
        return Response(content.image, media_type=content.media, headers=headers)

    def _content(self, code: int, content: Content) -> dict[str, str]:
        return {
            "text": content.text,
            "html": safe_html(content.markdown) if content.markdown else "",
            "image": f"/image/{self._image_of[code]}" if content.image else "",
        }

    # --- judges -----------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """Return open, paused, closed, settled or spent."""
        settings = self.store.settings
        spent = self.store.cost + 1e-9 if settings.get("prices") else self.store.answers
        if settings["state"] == "open" and spent >= (settings.get("budget") or 1e18):
            return "spent"
        return str(settings["state"])

    async def join(self, request: Request) -> Response:
        """Let somebody with the open link vote under a name."""
        token = self._token(request)
        self._limit(request.client.host if request.client else "")
        if self._invitation is None or not hmac.compare_digest(self._invitation, token_digest(token)):
            raise HTTPException(403, "this link is not known; ask for a new one")
        name = " ".join(str((await _body(request)).get("name", "")).split())
        if not 1 <= len(name) <= 80 or not name.isprintable():
            raise HTTPException(422, "please give a name of 1 to 80 characters")
        if name in self.store.by_name:
            raise HTTPException(409, "this name is taken; choose another one")
        if len(self.store.judges) >= MAX_JUDGES:
            raise HTTPException(403, "this study has no room for further judges")
        own = secrets.token_urlsafe(32)
        self.store.add_judge(name, own)
        return JSONResponse({"token": own})

    async def judge(self, request: Request) -> Response:
        """Return all that a judge's page needs to begin."""
        token = self._token(request)
        if self._invitation and hmac.compare_digest(self._invitation, token_digest(token)):
            return JSONResponse({"join": True, "title": self.store.settings["question"]})
        judge = self._require_judge(request)
        settings = self.store.settings
        return JSONResponse(
            {
                "name": judge.worker,
                "title": settings["question"],
                "consent": safe_html(settings.get("consent") or ""),
                "consented": judge.consented or not settings.get("consent"),
                "ties": settings.get("ties", False),
                "skip": settings.get("skip", False),
                "prompts": any(each.prompt for each in self.store.contents),
                **self._next(judge, []),
            }
        )

    def _next(self, judge: Judge, held: list[Question]) -> dict[str, Any]:
        votes = len(judge.votes)
        full = judge.capacity is not None and votes + len(held) >= judge.capacity
        made: list[Question] = []
        waiting = [(min(q.left, q.right), max(q.left, q.right)) for q in held]
        while self.state == "open" and not full and len(held) + len(made) < _AHEAD:
            question = self.chooser.choose(judge, waiting)
            if question is None:
                break
            made.append(question)
            waiting.append((min(question[1:3]), max(question[1:3])))
            full = judge.capacity is not None and votes + len(held) + len(made) >= judge.capacity
        return {
            "state": self.state,
            "votes": votes,
            "of": judge.capacity,
            "last": judge.votes[-1].id if judge.votes else "",
            "questions": [self._asked_question(each) for each in made],
        }

    def _asked_question(self, question: Question) -> dict[str, Any]:
        return {
            "id": question.signed(self.store.settings["key"]),
            "prompt": self.store.contents[question.left].prompt,
            "left": self._shown[question.left],
            "right": self._shown[question.right],
        }

    async def consent(self, request: Request) -> Response:
        """Record that a judge agrees to the consent text."""
        judge = self._require_judge(request)
        stamp = "UPDATE judges SET consented = CURRENT_TIMESTAMP WHERE code = ?"
        await asyncio.wrap_future(self.store.write((stamp, (judge.code,))))
        judge.consented = True
        return JSONResponse({"consented": True})

    async def vote(self, request: Request) -> Response:
        """Store a vote, then acknowledge it; sent twice it is stored once."""
        judge = self._require_judge(request)
        body = await _body(request)
        key = self.store.settings["key"]
        question = opened(str(body.get("question", "")), key)
        if question is None or question.judge != judge.code:
            raise HTTPException(422, "this question was not asked")
        answer, vote_id = body.get("answer"), body.get("id")
        allowed = {"left", "right", *(n for n, s in (("tie", "ties"), ("skip", "skip")) if self.store.settings.get(s))}
        if answer not in ANSWERS or answer not in allowed:
            raise HTTPException(422, f"an answer is one of {', '.join(sorted(allowed))}")
        if not isinstance(vote_id, str) or not _ID.fullmatch(vote_id):
            raise HTTPException(422, "a vote needs an id of 8 to 64 letters and digits")
        if self.store.settings.get("consent") and not judge.consented:
            raise HTTPException(403, "please agree to the text first")
        taken = body.get("milliseconds")
        if not isinstance(taken, int | float) or not isfinite(taken):
            taken = 0
        taken = int(min(max(taken, 0), _LONGEST))
        vote = Vote(vote_id, question.left, question.right, answer, taken, question.gold)
        (stored,) = await asyncio.wrap_future(self.store.add_vote(judge, vote, question.number))
        if judge.withdrawn:
            raise HTTPException(410, "you have withdrawn, and your votes are deleted")
        if stored:
            judge.votes.append(vote)
            self.store.count(judge, vote)
            self.chooser.note(vote.left, vote.right)
            self._changed.set()
        held = body.get("held")
        held = held[:_AHEAD] if isinstance(held, list) else []
        held = [found for text in held if (found := opened(str(text), key))]
        return JSONResponse({"stored": bool(stored), **self._next(judge, held)})

    async def undo(self, request: Request) -> Response:
        """Take back the last vote."""
        judge = self._require_judge(request)
        vote_id = (await _body(request)).get("id")
        if not isinstance(vote_id, str) or not _ID.fullmatch(vote_id):
            raise HTTPException(422, "which vote is to be undone?")
        if any(each.id == vote_id for each in judge.votes[:-1]):
            raise HTTPException(409, "only the last vote can be undone")
        await asyncio.wrap_future(self.store.undo(judge, vote_id))
        answer: dict[str, Any] = {}
        if judge.votes and judge.votes[-1].id == vote_id:
            last = judge.votes.pop()
            self.store.count(judge, last, -1)
            self._changed.set()
            again = Question(judge.code, last.left, last.right, last.gold, secrets.token_hex(8), int(time.time()))
            answer["question"] = self._asked_question(again)
        answer |= {"votes": len(judge.votes), "last": judge.votes[-1].id if judge.votes else ""}
        return JSONResponse({**answer, "state": self.state})

    async def withdraw(self, request: Request) -> Response:
        """Delete all votes of a judge."""
        judge = self._require_judge(request)
        judge.withdrawn = True
        await asyncio.wrap_future(self.store.withdraw(judge))
        for vote in judge.votes:
            self.store.count(judge, vote, -1)
        judge.votes.clear()
        self._changed.set()
        return JSONResponse({"withdrawn": True})

    # --- the study's page -------------------------------------------------------------------

    async def study(self, request: Request) -> Response:
        """Return all that the study's page shows."""
        self._require_owner(request)
        settings = self.store.settings
        known = self.result.get("judges", {})
        judges = [
            {
                "name": each.worker,
                "votes": sum(vote.answer != "skip" for vote in each.votes),
                "skipped": sum(vote.answer == "skip" for vote in each.votes),
                "seconds": statistics.median(v.milliseconds for v in each.votes) / 1000.0 if each.votes else None,
                "gold": self._gold_right(each),
                "withdrawn": each.withdrawn,
                **known.get(each.worker, {}),
            }
            for each in self.store.judges.values()
        ]
        shown = {name: settings.get(name) for name in ("question", "goal", "confidence", "budget")}
        result = {name: value for name, value in self.result.items() if name != "pairs"}
        return JSONResponse(
            {
                **shown,
                "state": self.state,
                "answers": self.store.answers,
                "cost": round(self.store.cost, 6) if settings.get("prices") else None,
                "items": len(self.store.items),
                "judges": judges,
                "result": result,
            }
        )

    def _gold_right(self, judge: Judge) -> list[int] | None:
        """Return how many gold questions a judge answered as known, and how many there were."""
        known = set(self.store.gold)
        item = self.store.item_of
        asked = [v for v in judge.votes if v.gold and v.answer in ("left", "right", "tie")]
        won = [(v.left, v.right) if v.answer == "left" else (v.right, v.left) for v in asked if v.answer != "tie"]
        right = sum((item[a], item[b]) in known for a, b in won)
        return [right, len(asked)] if asked else None

    async def set_state(self, request: Request) -> Response:
        """Open, pause or close the study."""
        self._require_owner(request)
        state = (await _body(request)).get("state")
        if state not in ("open", "paused", "closed"):
            raise HTTPException(422, "a study is open, paused or closed")
        beyond = self.store.settings.get("beyond") or (state == "open" and self.store.settings["state"] == "settled")
        await asyncio.wrap_future(self.store.set(state=state, beyond=beyond))
        return JSONResponse({"state": self.state})

    async def votes_csv(self, request: Request) -> Response:
        """Return all votes as CSV."""
        self._require_owner(request)
        rows = await asyncio.to_thread(read_votes, str(self.store.path))
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("left", "right", "winner", "worker", "milliseconds", "time"))
        writer.writerows(rows)
        return Response(out.getvalue(), media_type="text/csv")

    async def fit_zip(self, request: Request) -> Response:
        """Return the saved fit as one file."""
        self._require_owner(request)
        folder = self._folder / secrets.token_hex(8)
        made = await self._request({"folder": str(folder)})
        if "error" in made:
            raise HTTPException(409, made["error"])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.iterdir()):
                archive.write(path, f"fit/{path.name}")
        shutil.rmtree(folder, ignore_errors=True)
        return Response(packed.getvalue(), media_type="application/zip")

    async def make_report(self, request: Request) -> Response:
        """Make the report, and return the address that opens it."""
        self._require_owner(request)
        name = secrets.token_urlsafe(24)
        path = self._folder / f"{name}.html"
        title = self.store.settings["question"]
        made = await self._request({"folder": "", "report": str(path), "title": title})
        if "error" in made:
            raise HTTPException(409, made["error"])
        self._reports[name] = path
        return JSONResponse({"at": f"/report/{name}"})

    async def report(self, request: Request) -> Response:
        """Return a report, alone in a sandbox; its own policy allows its own script only."""
        path = self._reports.get(request.path_params["name"])
        if path is None or not path.exists():
            raise HTTPException(404, "no such report")
        policy = "sandbox allow-scripts allow-downloads; frame-ancestors 'none'"
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": policy})


_FILES = frozenset(path.name for path in STATIC.glob("*.*") if path.suffix in _TYPES)


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY:
            raise HTTPException(413, f"a request has at most {MAX_BODY:,} bytes")
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise HTTPException(422, "a request is a JSON object")
    return found


async def _explain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)
