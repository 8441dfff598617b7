"""Saves that are killed: the folder holds the old fit or the new one, whole.

By strace at the n-th of the system calls that change a folder, where it is installed; else, and
now and then, at a random moment.
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
import sys, crowdsift
fit = crowdsift.load(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
fit.save(sys.argv[2])
"""


def case(seed: int, folder: Path) -> None:
    """Kill a save over an older fit; then save once more, after which nothing else lies there."""
    rng = random.Random(seed)
    old, new = rng.sample(("sift", "bt", "factor-bt"), 2)
    fitted(new).save(folder / "new")
    fitted(old).save(folder / "target")
    run(rng, [sys.executable, "-c", SAVE, str(folder / "new"), str(folder / "target")])
    found = crowdsift.load(folder / "target")
    assert found.method in (old, new)
    assert found.item_table.to_csv() == fitted(found.method).item_table.to_csv()
    assert found.worker_table.to_csv() == fitted(found.method).worker_table.to_csv()
    fitted(new).save(folder / "target")
    fitted(new).save(folder / "clean")
    left = {entry.name for entry in (folder / "target").iterdir()}
    assert left == {entry.name for entry in (folder / "clean").iterdir()}


def run(rng: random.Random, words: list[str]) -> None:
    """The save, killed somewhere after it began."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    tracer = None
    if shutil.which("strace") and rng.random() < 0.8:
        call = rng.choice(CALLS)
        rule = f"inject={call}:signal=KILL:when={rng.randrange(1, 12)}"
        follow = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(process.pid), "-e"]
        tracer = subprocess.Popen([*follow, f"trace={call}", "-e", rule], stderr=subprocess.DEVNULL)
        wait_for_tracer(process.pid)
    process.stdin.write(b"\n")
    process.stdin.flush()
    if tracer is None:
        time.sleep(rng.uniform(0.0, 0.02))
        process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    process.stdin.close()
    process.stdout.close()
    if tracer is not None:
        tracer.wait(timeout=60)


def wait_for_tracer(pid: int) -> None:
    """Until strace has attached, or for two seconds where it is not allowed to."""
    status = Path(f"/proc/{pid}/status")
    for _ in range(200):
        if "TracerPid:\t0\n" not in status.read_text():
            return
        time.sleep(0.01)
