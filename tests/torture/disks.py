"""Full disks: every output is there whole as on an empty disk, or as it was, and an error says so.

Where a small file system can be mounted (in a name space of the command's own, by `unshare`) the disk is really full;
elsewhere a limit of the size of files stands for it.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import crowdsift
from torture.signals import OLD, commands

# The disk lies over $out; what is on it in the end goes back to where the caller can see it.
ON_A_SMALL_DISK = """
size=$1 out=$2 back=$3; shift 3
mkdir "$back" && cp -r "$out/." "$back/"
mount -t tmpfs -o size="$size" tmpfs "$out" || exit 99
cp -r "$back/." "$out/" || exit 98
"$@"; status=$?
rm -rf "$back"; cp -r "$out" "$back"
exit $status
"""


@cache
def can_mount() -> bool:
    words = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=16k tmpfs /tmp"]
    try:
        return subprocess.run(words, capture_output=True, timeout=20).returncode == 0
    except OSError:
        return False


@cache
def votes() -> bytes:
    rng = random.Random(5)
    rows = (f"item{a},item{b},w{rng.randrange(9)}" for a, b in drawn(rng, 600))
    return ("winner,loser,worker\n" + "\n".join(rows) + "\n").encode()


def drawn(rng: random.Random, count: int) -> list[tuple[int, int]]:
    pairs = (rng.sample(range(30), 2) for _ in range(count))
    return [(min(pair), max(pair)) for pair in pairs]


def case(seed: int, folder: Path) -> None:
    """A command with little room for what it writes, or for what it keeps meanwhile."""
    rng = random.Random(seed)
    source, out, spare = folder / "votes.csv", folder / "out", folder / "tmp"
    source.write_bytes(votes())
    out.mkdir()
    spare.mkdir()
    choices = [*commands(source, out), ["fit", str(source), "--method", "bt", "--out", str(out / "fit")]]
    command = rng.choice([words for words in choices if str(out) in " ".join(words)])
    target = next(Path(word) for word in command if Path(word).parent == out)
    if target.name == "fit":
        crowdsift.fit(crowdsift.read(source), "bora-map", threads=1).save(target)
    else:
        target.write_text(OLD)
    environment = {**os.environ, "TMPDIR": str(out if rng.random() < 0.2 else spare)}
    words = [sys.executable, "-m", "crowdsift", *command]
    room = rng.choice((4096, 65_536, rng.randrange(1, 300_000)))
    if can_mount() and rng.random() < 0.7:
        held = sum(-(-path.stat().st_size // 4096) + 1 for path in out.rglob("*"))
        size = 4096 * (held + 2) + room
        inside = ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, "sh", str(size), str(out)]
        run = partial(subprocess.run, [*inside, str(folder / "back"), *words])
        out = folder / "back"
    else:
        run = partial(subprocess.run, words, preexec_fn=partial(limit, room))
    done = run(env=environment, capture_output=True, text=True, timeout=100)
    look(done, out, target.name)


def limit(room: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


def look(done: subprocess.CompletedProcess[str], out: Path, name: str) -> None:
    """Whole and new after success; whole and old after an error of ours; nothing beside it."""
    what = (done.args[-6:], done.returncode, done.stderr[-1500:])
    assert done.returncode in (0, 1), what
    assert "internal error" not in done.stderr, what
    assert "Traceback" not in done.stderr, what
    if done.returncode:
        assert "crowdsift: error: " in done.stderr, what
    assert [path.name for path in out.iterdir()] == [name], (list(out.iterdir()), what)
    if name == "fit":
        assert crowdsift.load(out / name).method == ("bora-map" if done.returncode else "bt"), what
    else:
        assert ((out / name).read_text() == OLD) == (done.returncode != 0), what
