"""Memory and disk: available amounts, and errors before work that needs more."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crowdsift.errors import RequestError, ResourceError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_CGROUPS = (  # limit and use of a container: version 2, version 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
SMALL = 16e6  # bytes that every machine has


def available_memory() -> int | None:
    """Return the bytes of memory that this process can still allocate; None if unknown."""
    # The environment variable CROWDSIFT_MEMORY, such as 8GB or 500MB, takes precedence over the system.
    requested = os.environ.get("CROWDSIFT_MEMORY")
    if requested is not None:
        return size_of(requested, "the environment variable CROWDSIFT_MEMORY")
    found = []
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    for limit, usage in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no number: no limit
            found.append(int(Path(limit).read_text()) - int(Path(usage).read_text()))
    return max(min(found), 0) if found else None


@contextmanager
def limited_memory(memory: str) -> Iterator[None]:
    """Limit the available memory to an amount such as 4GB within the block; "" changes nothing."""
    before = os.environ.get("CROWDSIFT_MEMORY")
    if memory:
        os.environ["CROWDSIFT_MEMORY"] = memory
    try:
        yield
    finally:
        if before is not None:
            os.environ["CROWDSIFT_MEMORY"] = before
        elif memory:
            os.environ.pop("CROWDSIFT_MEMORY", None)


def memory_is_limited() -> bool:
    """Return whether the user set the limit of memory, and not the system."""
    return "CROWDSIFT_MEMORY" in os.environ


def size_of(text: str, what: str = "--memory") -> int:
    """Return the bytes in an amount such as 8GB."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)b?\s*", text.lower())
    amount = 0.0 if match is None else float(match[1]) * _UNITS[match[2]]
    if not 1 <= amount < 2**63:
        raise RequestError(f"{what} is {text!r}; it must be an amount such as 8GB or 500MB")
    return int(amount)


def readable(size: float) -> str:
    """Return an amount of bytes as text for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"


def require_memory(size: float, what: str) -> None:
    """Raise an error for work that needs more memory than is available."""
    # `size` is the peak of the work in bytes, without memory that is already used.
    if size < SMALL and not memory_is_limited():
        return  # querying the system would take longer than some small fits
    there = available_memory()
    if there is not None and size > there:
        raise ResourceError(
            f"{what} takes about {readable(size)} of memory, and {readable(there)} are available. Use a machine with "
            "more memory, or fewer votes; where --memory sets the limit, give more, or Parquet with the columns "
            "winner, loser and worker, which is read in parts; if you know better, set "
            f"CROWDSIFT_MEMORY={int(size / 1e9) + 1}GB"
        )


def require_disk(size: float, what: str) -> None:
    """Raise an error for work that writes more temporary data than the disk has free."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > free:
        raise ResourceError(
            f"{what} spills about {readable(size)} to {folder}, where {readable(free)} are free. Make room there, or "
            "set TMPDIR to a folder on a larger disk"
        )
