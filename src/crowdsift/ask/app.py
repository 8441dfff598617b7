"""The web application: pages for judges and for the study's owner, and the requests that they send.

Everyone has a token, sent as a header and never as a cookie, so that no other site can use it. All answers come from
memory or from the study file; fits run in a separate process.
"""

import asyncio
import csv
import hmac
import io
import json
import re
import secrets
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crowdsift.ask.items import Content, safe_html
from crowdsift.ask.questions import Chooser, Question, opened, signature
from crowdsift.ask.store import Judge, Store, Vote, read_votes, token_digest

STATIC = Path(__file__).parent / "static"
MAX_BODY = 16_000  # most bytes of a request
MAX_JUDGES = 10_000  # most judges who join by the open link
_AHEAD = 2  # questions that a page holds, including the one shown
_LONGEST = 3_600_000  # most milliseconds that count as time taken
_REFRESH = 0.3  # least seconds between two fits
_OPTIONAL = {"tie": "ties", "skip": "skip"}  # answers, with the options that allow them
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
_FILES = {path.name: _TYPES[path.suffix] for path in STATIC.iterdir() if path.suffix in _TYPES}


class Limiter:
    """At most `rate` requests a second for every key, with bursts of `burst`."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left: dict[Any, tuple[float, float]] = {}

    def allow(self, key: Any) -> bool:
        """Count a request; return False if it is one too many."""
        now = time.monotonic()
        left, before = self._left.get(key, (float(self._burst), now))
        left = min(float(self._burst), left + (now - before) * self._rate)
        if len(self._left) > 50_000:  # drop idle keys
            self._left.clear()
        self._left[key] = (left - 1.0 if left >= 1.0 else left, now)
        return left >= 1.0


class Guard:
    """Add headers to every answer, and refuse writes from other sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request as ASGI describes."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(each for each in added if each[0] not in own)]
            await send(message)

        app = self._app
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            if not _same_site(headers):
                app = JSONResponse({"error": "requests from other sites are refused"}, 403)
        await app(scope, receive, send_guarded)


def _same_site(headers: dict[str, str]) -> bool:
    """Return whether a request that writes comes from a page of this server."""
    origin = headers.get("origin")
    if (site := headers.get("sec-fetch-site")) is not None:  # valid behind a proxy, which may change the host
        same = site == "same-origin"
    else:
        same = origin is None or origin.partition("://")[2] == headers.get("host")
    return same and headers.get("content-type", "").partition(";")[0] == "application/json"


class Application:
    """Handle the requests of one study; `app` is the ASGI application."""

    def __init__(self, store: Store, owner: bytes, invitation: bytes | None) -> None:
        self.store, self.chooser = store, Chooser(store)
        self._owner, self._invitation = owner, invitation  # digests of their tokens
        self.result: dict[str, Any] = {}
        self._changed, self._asked = asyncio.Event(), asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._votes_allowed, self._others_allowed = Limiter(5.0, 40), Limiter(2.0, 60)
        self._folder = Path(tempfile.mkdtemp(prefix="crowdsift-ask-"))
        self._reports: set[str] = set()  # names of files in the folder
        self._images: dict[str, Content] = {}
        self._shown = [self._content(code, each) for code, each in enumerate(store.contents)]
        routes = [
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

    def _content(self, code: int, content: Content) -> dict[str, str]:
        """Return the part of a content that pages show; the address of its image cannot be guessed."""
        name = signature(self.store.settings["key"], f"image {code}") if content.image else ""
        if name:
            self._images[name] = content
        return {
            "text": content.text,
            "html": safe_html(content.markdown) if content.markdown else "",
            "image": f"/image/{name}" if name else "",
        }

    # --- fits ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _life(self, _: Starlette) -> AsyncIterator[None]:
        """Run fits while the server runs; at its end, stop the process that fits and delete the reports."""
        task = asyncio.create_task(self._keep_fitting())
        self._changed.set()
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            if self._process is not None and self._process.returncode is None:
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
                    "workers": list(self.store.by_name),
                }
            )
            if "error" in found:
                found = {**self.result, **found}
            else:
                self.chooser.rank(found.pop("pairs"))
            self.result = found
            if found.get("settled") and self.state == "open" and not settings.get("beyond"):
                self.store.set(state="settled")
            await asyncio.sleep(_REFRESH)

    async def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply of the process that fits; start it if it is not running."""
        names = self.store.items
        request["gold"] = [(names[a], names[b]) for a, b in self.store.gold]
        async with self._asked:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "crowdsift.ask.background", str(self.store.path)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=2**26,
                    start_new_session=True,  # Ctrl-C is for the server, which ends this process
                )
            process = self._process
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            if line := await process.stdout.readline():
                answer: dict[str, Any] = json.loads(line)
                return answer
            await process.wait()
        return {"error": "the process that fits has ended; it starts again with the next vote"}

    # --- who asks -----------------------------------------------------------------------------

    def _token(self, request: Request) -> bytes:
        """Return the digest of the token of a request."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not 20 <= len(token) <= 100:
            self._refuse(request, 401, "this link is not complete; ask for a new one")
        return token_digest(token)

    def _limit(self, request: Request) -> None:
        if not self._others_allowed.allow(request.client.host if request.client else ""):
            raise HTTPException(429, "too many requests; wait a moment")

    def _refuse(self, request: Request, status: int, message: str) -> NoReturn:
        """Refuse a token; the guesses of one address are limited."""
        self._limit(request)
        raise HTTPException(status, message)

    def _require_owner(self, request: Request) -> None:
        if not hmac.compare_digest(self._owner, self._token(request)):
            self._refuse(request, 403, "this link does not open the study's page")

    def _is_invited(self, request: Request) -> bool:
        return self._invitation is not None and hmac.compare_digest(self._invitation, self._token(request))

    def _require_judge(self, request: Request) -> Judge:
        judge = self.store.judge_of(self._token(request))
        if judge is None:
            self._refuse(request, 403, "this link is not known; ask for a new one")
        if judge.withdrawn:
            raise HTTPException(410, "you have withdrawn, and your votes are deleted")
        if not self._votes_allowed.allow(judge.code):
            raise HTTPException(429, "too many requests; wait a moment")
        return judge

    async def _sent(self, request: Request) -> tuple[Judge, dict[str, Any]]:
        """Return the judge and the body of a request; a judge who withdraws while it arrives is refused."""
        body = await _body(request)
        return self._require_judge(request), body

    # --- pages and files ------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """Return a page; its script requests the content."""
        name = "study.html" if request.url.path == "/study" else "judge.html"
        return HTMLResponse((STATIC / name).read_text(encoding="utf-8"))

    async def static(self, request: Request) -> Response:
        """Return a style or a script."""
        name = request.path_params["name"]
        if name not in _FILES:
            raise HTTPException(404, "no such file")
        return Response((STATIC / name).read_bytes(), media_type=_FILES[name])

    async def image(self, request: Request) -> Response:
        """Return the image of an item."""
        content = self._images.get(request.path_params["name"])
        if content is None:
            raise HTTPException(404, "no such image")
        headers = {"cache-control": "private, max-age=86400"}
        return Response(content.image, media_type=content.media, headers=headers)

    @property
    def state(self) -> str:
        """Return the study's state: open, paused, closed, settled or spent."""
        settings = self.store.settings
        spent = self.store.cost + 1e-9 if settings.get("prices") else self.store.answers
        if settings["state"] == "open" and spent >= (settings.get("budget") or 1e18):
            return "spent"
        return str(settings["state"])

    async def join(self, request: Request) -> Response:
        """Register a person with the open link as a judge under a name."""
        self._limit(request)
        if not self._is_invited(request):
            raise HTTPException(403, "this link is not known; ask for a new one")
        name = " ".join(str((await _body(request)).get("name", "")).split())
        if not 1 <= len(name) <= 80 or not name.isprintable():
            raise HTTPException(422, "please give a name of 1 to 80 characters")
        if name[0] in "=+-@":  # would be a formula in a spreadsheet that opens the votes
            raise HTTPException(422, "please begin the name with a letter or a digit")
        if name in self.store.by_name:
            raise HTTPException(409, "this name is taken; choose another one")
        if len(self.store.judges) >= MAX_JUDGES:
            raise HTTPException(403, "this study has no room for further judges")
        own = secrets.token_urlsafe(32)
        self.store.add_judge(name, own)
        return JSONResponse({"token": own})

    async def judge(self, request: Request) -> Response:
        """Return everything that a judge's page needs to begin."""
        settings = self.store.settings
        if self._is_invited(request):
            return JSONResponse({"join": True, "title": settings["question"]})
        judge = self._require_judge(request)
        return JSONResponse(
            {
                "name": judge.worker,
                "title": settings["question"],
                "consent": safe_html(settings.get("consent") or ""),
                "consented": judge.consented or not settings.get("consent"),
                "ties": settings.get("ties", False),
                "skip": settings.get("skip", False),
                **self._next(judge, []),
            }
        )

    def _next(self, judge: Judge, held: list[Question]) -> dict[str, Any]:
        """Return the state of the study for a judge, and further questions if the page may hold more."""
        room = _AHEAD - len(held)
        if judge.capacity is not None:
            room = min(room, judge.capacity - len(judge.votes) - len(held))
        made: list[Question] = []
        while self.state == "open" and len(made) < room:
            question = self.chooser.choose(judge, [each.pair for each in (*held, *made)])
            if question is None:
                break
            made.append(question)
        return {
            **self._standing(judge),
            "of": judge.capacity,
            "questions": [self._asked_question(each) for each in made],
        }

    def _standing(self, judge: Judge) -> dict[str, Any]:
        last = judge.votes[-1].id if judge.votes else ""
        return {"state": self.state, "votes": len(judge.votes), "last": last}

    def _asked_question(self, question: Question) -> dict[str, Any]:
        return {
            "id": question.signed(self.store.settings["key"]),
            "prompt": self.store.contents[question.left].prompt,
            "left": self._shown[question.left],
            "right": self._shown[question.right],
        }

    async def consent(self, request: Request) -> Response:
        """Record that a judge agrees to the consent text."""
        judge, _ = await self._sent(request)
        stamp = "UPDATE judges SET consented = CURRENT_TIMESTAMP WHERE code = ?"
        await asyncio.wrap_future(self.store.write((stamp, (judge.code,))))
        judge.consented = True
        return JSONResponse({"consented": True})

    async def vote(self, request: Request) -> Response:
        """Store a vote, then acknowledge it; a repeated request stores it once."""
        judge, body = await self._sent(request)
        settings = self.store.settings
        question = opened(str(body.get("question", "")), settings["key"])
        if question is None or question.judge != judge.code:
            raise HTTPException(422, "this question was not asked")
        allowed = ["left", "right", *(name for name, option in _OPTIONAL.items() if settings.get(option))]
        if (answer := body.get("answer")) not in allowed:
            raise HTTPException(422, f"an answer is one of {', '.join(allowed)}")
        if settings.get("consent") and not judge.consented:
            raise HTTPException(403, "please agree to the text first")
        taken = body.get("milliseconds")
        taken = int(min(max(0, taken), _LONGEST)) if isinstance(taken, int | float) else 0
        vote = Vote(_vote_id(body), question.left, question.right, answer, taken)
        stored = False
        if not any(each.id == vote.id for each in judge.votes):
            self._require_room(judge, question)
            (rows,) = await asyncio.wrap_future(self.store.add_vote(judge, vote, question.number))
            stored = bool(rows)
        if judge.withdrawn:
            raise HTTPException(410, "you have withdrawn, and your votes are deleted")
        if stored:
            judge.votes.append(vote)
            self.store.count(judge, vote)
            self.chooser.note(vote.pair)
            self._changed.set()
        held = body.get("held")
        held = held[:_AHEAD] if isinstance(held, list) else []
        held = [found for text in held if (found := opened(str(text), settings["key"]))]
        return JSONResponse({"stored": stored, **self._next(judge, held)})

    def _require_room(self, judge: Judge, question: Question) -> None:
        """Refuse a vote that was not allowed; a judge can hold more questions than a page does."""
        if self.state == "closed":
            raise HTTPException(409, "this study is closed")
        if judge.capacity is not None and len(judge.votes) >= judge.capacity:
            raise HTTPException(409, "you have given all your votes")
        if not self.store.settings.get("repeat") and question.pair in judge.seen:
            raise HTTPException(409, "you have answered this pair")

    async def undo(self, request: Request) -> Response:
        """Take back the last vote."""
        judge, body = await self._sent(request)
        vote_id = _vote_id(body)
        if self.state == "closed":
            raise HTTPException(409, "this study is closed")
        if any(each.id == vote_id for each in judge.votes[:-1]):
            raise HTTPException(409, "only the last vote can be undone")
        await asyncio.wrap_future(self.store.undo(judge, vote_id))
        answer: dict[str, Any] = {}
        if last := next((each for each in judge.votes if each.id == vote_id), None):
            judge.votes.remove(last)
            self.store.count(judge, last, -1)
            self._changed.set()
            again = Question(judge.code, last.left, last.right, secrets.token_hex(8), int(time.time()))
            answer["question"] = self._asked_question(again)
        return JSONResponse({**answer, **self._standing(judge)})

    async def withdraw(self, request: Request) -> Response:
        """Delete all votes of a judge, and the reports that contain them."""
        judge, _ = await self._sent(request)
        judge.withdrawn = True  # set at once, so that no vote is stored after the others were deleted
        try:
            await asyncio.wrap_future(self.store.withdraw(judge))
        except sqlite3.Error:
            judge.withdrawn = False
            raise
        for vote in judge.votes:
            self.store.count(judge, vote, -1)
        judge.votes.clear()
        for name in self._reports:
            (self._folder / name).unlink(missing_ok=True)
        self._reports.clear()
        self._changed.set()
        return JSONResponse({"withdrawn": True})

    # --- the study's page -------------------------------------------------------------------

    async def study(self, request: Request) -> Response:
        """Return everything that the study's page shows."""
        self._require_owner(request)
        settings = self.store.settings
        known = self.result.get("judges", {})
        judges = [
            {
                "name": each.worker,
                "votes": sum(vote.answer != "skip" for vote in each.votes),
                "seconds": statistics.median(v.milliseconds for v in each.votes) / 1000.0 if each.votes else None,
                "gold": self._gold_right(each),
                "withdrawn": each.withdrawn,
                **known.get(each.worker, {}),
            }
            for each in self.store.judges.values()
        ]
        return JSONResponse(
            {
                "question": settings["question"],
                "budget": settings.get("budget"),
                "state": self.state,
                "answers": self.store.answers,
                "cost": round(self.store.cost, 6) if settings.get("prices") else None,
                "items": len(self.store.items),
                "judges": judges,
                "result": self.result,
            }
        )

    def _gold_right(self, judge: Judge) -> list[int] | None:
        """Return how many gold pairs a judge answered correctly, and how many in all."""
        known = [(each, self.store.gold_winner(*each.pair)) for each in judge.votes if each.answer != "skip"]
        asked = [each.winner == winner for each, winner in known if winner is not None]
        return [sum(asked), len(asked)] if asked else None

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
        await self._save({"folder": str(folder)})
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.iterdir()):
                archive.write(path, f"fit/{path.name}")
        shutil.rmtree(folder, ignore_errors=True)
        return Response(packed.getvalue(), media_type="application/zip")

    async def make_report(self, request: Request) -> Response:
        """Make the report, and return the address that opens it."""
        self._require_owner(request)
        name = f"{secrets.token_urlsafe(24)}.html"
        await self._save({"report": str(self._folder / name), "title": self.store.settings["question"]})
        self._reports.add(name)
        return JSONResponse({"at": f"/report/{name}"})

    async def _save(self, request: dict[str, Any]) -> None:
        """Have the process that fits write a saved fit or a report."""
        made = await self._request(request)
        if "error" in made:
            raise HTTPException(409, made["error"])

    async def report(self, request: Request) -> Response:
        """Return a report in a sandbox, with a policy that allows only its own script."""
        name = request.path_params["name"]
        if name not in self._reports:
            raise HTTPException(404, "no such report")
        policy = "sandbox allow-scripts allow-downloads; frame-ancestors 'none'"
        headers = {"content-security-policy": policy}
        return FileResponse(self._folder / name, media_type="text/html", headers=headers)


def _vote_id(body: dict[str, Any]) -> str:
    """Return the id of a vote, which the page generates."""
    found = body.get("id")
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise HTTPException(422, "a vote needs an id of 8 to 64 letters and digits")
    return found


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY:
            raise HTTPException(413, f"a request has at most {MAX_BODY:,} bytes")
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise HTTPException(422, "a request is a JSON object")
    return found


async def _explain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)
