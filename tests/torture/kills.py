"""Saves that are killed or find no room: the folder holds the old fit or the new one, whole.

By strace at the n-th of the system calls that change a folder, where it is installed; by a signal at a random moment;
by a limit of the size of files, as on a full disk.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import crowdsift
from torture.folders import fitted

CALLS = ("openat", "write", "fsync", "rename", "unlink", "mkdir", "close", "fchmod")
SAVE = """
import resource, sys, crowdsift
fit = crowdsift.load(sys.argv[1])
print("ready", flush=True)
limit = int(sys.stdin.readline())
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    fit.save(sys.argv[2])
except crowdsift.RequestError:
    sys.exit(1 if limit else 2)
"""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def case(seed: int, folder: Path) -> None:
    """Kill a save over an older fit; then save once more, after which nothing else lies there."""
    rng = random.Random(seed)
    old, new = rng.sample(("sift", "bt", "factor-bt"), 2)
    fitted(new).save(folder / "new")
    fitted(old).save(folder / "target")
    status = run(rng, [sys.executable, "-c", SAVE, str(folder / "new"), str(folder / "target")])
    assert status <= 1, "a save failed without a reason"
    found = crowdsift.load(folder / "target")
    assert found.method in (old, new)
    assert found.item_table.to_csv() == fitted(found.method).item_table.to_csv()
    assert found.worker_table.to_csv() == fitted(found.method).worker_table.to_csv()
    fitted(new).save(folder / "target")
    fitted(new).save(folder / "clean")
    left = {entry.name for entry in (folder / "target").iterdir()}
    assert left == {entry.name for entry in (folder / "clean").iterdir()}


def run(rng: random.Random, words: list[str]) -> int:
    """The save, disturbed somewhere after it began; its exit status."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    tracer, kind = None, rng.random()
    if shutil.which("strace") and kind < 0.6:
        call = rng.choice(CALLS)
        rule = f"inject={call}:signal=KILL:when={rng.randrange(1, 12)}"
        follow = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(process.pid), "-e"]
        tracer = subprocess.Popen([*follow, f"trace={call}", "-e", rule], stderr=subprocess.DEVNULL)
        wait_for_tracer(process.pid)
    full = kind > 0.8
    process.stdin.write(b"%d\n" % (rng.randrange(1, 20_000) if full else 0))
    process.stdin.flush()
    if tracer is None and not full:
        time.sleep(rng.uniform(0.0, 0.02))
        process.send_signal(rng.choice(SIGNALS))
    process.wait(timeout=60)
    process.stdin.close()
    process.stdout.close()
    if tracer is not None:
        tracer.wait(timeout=60)
    return process.returncode


def wait_for_tracer(pid: int) -> None:
    """Until strace has attached, or for two seconds where it is not allowed to."""
    status = Path(f"/proc/{pid}/status")
    for _ in range(200):
        if "TracerPid:\t0\n" not in status.read_text():
            return
        time.sleep(0.01)
