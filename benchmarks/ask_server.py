"""A running server of `crowdsift ask` for tests and benchmarks, and a judge that speaks to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import uuid
import weakref
from pathlib import Path
from typing import Any


class Server:
    """`crowdsift ask` as a process of its own on a free port of this machine."""

    def __init__(self, folder: Path, *words: str, port: int = 0) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crowdsift", "ask", *words, "--port", str(port)],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        said = ""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        while "Stop with" not in said:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(said + self.process.stderr.read())
            said += line
        self.study = re.search(r"Study page: (\S+)", said)[1]  # type: ignore[index]
        judges = re.search(r"For judges: (http\S+)", said)
        self.judges = judges[1] if judges else ""
        self.base = self.study.partition("/study")[0]
        self.port = int(self.base.rpartition(":")[2])
        self.owner = self.study.partition("#")[2]

    def kill(self) -> None:
        """End the server at once."""
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """End the server as Ctrl-C in a terminal does, and return its status."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.errors = self.process.stderr.read() if self.process.stderr else ""
        return self._end()

    def _end(self) -> int:
        status = self.process.wait(20)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return status


class Client:
    """One connection that speaks as a page does."""

    def __init__(self, port: int, token: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.token = token
        weakref.finalize(self, self.connection.close)
        self.held: list[dict[str, Any]] = []

    def call(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and content of the answer to a request."""
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        text = None if body is None else body if isinstance(body, str) else json.dumps(body)
        method = "GET" if body is None else "POST"
        self.connection.request(method, path, text, {**sent, **given})
        answer = self.connection.getresponse()
        content = answer.read()
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(content) if kind == "application/json" else content

    def join(self, name: str) -> None:
        """Join by the open link."""
        status, found = self.call("/api/join", {"name": name})
        assert status == 200, found
        self.token = found["token"]
        self.begin()

    def begin(self) -> Any:
        """Take the first questions."""
        status, found = self.call("/api/judge")
        assert status == 200, found
        self.held = found["questions"]
        return found

    def vote(self, answer: str = "left", vote_id: str = "") -> dict[str, Any]:
        """Answer the first question that is held."""
        question = self.held.pop(0)
        body = {
            "id": vote_id or str(uuid.uuid4()),
            "question": question["id"],
            "answer": answer,
            "milliseconds": 1200,
            "held": [each["id"] for each in self.held],
        }
        status, found = self.call("/api/vote", body)
        assert status == 200, found
        self.held += found["questions"]
        return body
