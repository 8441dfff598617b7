"""A real PostgreSQL for a test: a cluster of its own, by an unprivileged user, gone afterwards."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PASSWORD = "s3cret/word"


def programs() -> str | None:
    """The folder of initdb and pg_ctl; Debian keeps them out of the path."""
    found = shutil.which("initdb")
    if found:
        return os.path.dirname(found)
    return max(glob.glob("/usr/lib/postgresql/*/bin"), default=None)


@contextmanager
def server() -> Iterator[str]:
    """The address, without a password, of a server that speaks through a socket in a folder."""
    where = programs()
    if where is None:
        pytest.skip("PostgreSQL is not installed (initdb and pg_ctl)")
    folder = tempfile.mkdtemp(prefix="crowdsift-pg-")
    user = {"user": "nobody"} if os.getuid() == 0 else {}  # PostgreSQL refuses to run as root
    if user:
        shutil.chown(folder, "nobody")
    data, secret = os.path.join(folder, "data"), os.path.join(folder, "password")
    with open(secret, "w") as file:
        file.write(PASSWORD)

    def run(program: str, *arguments: str) -> None:
        command = [os.path.join(where, program), "-D", data, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)  # type: ignore[call-overload]

    try:
        run(
            "initdb",
            "-U",
            "tester",
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        )
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        run("pg_ctl", "-w", "-o", options, "-l", os.path.join(folder, "log"), "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
