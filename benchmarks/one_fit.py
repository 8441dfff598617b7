"""Fits of one kind in a process of their own, by the public names that all versions have.

Run as a script with one JSON object: the votes (``file`` with ``by``, or a folder of ``arrays``), ``method``,
``threads`` and ``repeats``. Prints one JSON object. Reading is not in the seconds.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift


def votes_of(request: dict[str, Any]) -> Any:
    """Return the votes, read or made from codes."""
    if "file" in request:
        by = request.get("by")
        return crowdsift.read(request["file"], **({"by": by} if by else {}))
    folder = Path(request["arrays"])
    arrays = {name: np.load(folder / f"{name}.npy") for name in ("first", "second", "outcome")}
    loads = np.diff(np.load(folder / "offsets.npy"))
    return crowdsift.Comparisons.from_codes(
        arrays["first"],
        arrays["second"],
        outcome=arrays["outcome"],
        weight=np.load(folder / "weight.npy"),
        worker=np.repeat(np.arange(len(loads), dtype=np.uint32), loads),
        items=np.arange(int(np.load(folder / "n_items.npy"))).astype(object),
        workers=np.arange(len(loads)).astype(object),
    )


def memory(name: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at the peak; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    return 0


def main() -> None:
    """Fit as requested; the fastest of the repeats."""
    request = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    votes = votes_of(request)
    small = crowdsift.simulate(20, 10, 500, seed=1).comparisons()
    crowdsift.fit(small, request["method"], threads=1)  # loads libraries
    anew = Path("/proc/self/clear_refs")
    if anew.exists():
        anew.write_text("5")  # the peak starts anew
    held = memory("VmRSS")
    seconds, processor, fit = [], [], None
    for _ in range(request["repeats"]):
        fit = None
        started, used = time.perf_counter(), time.process_time()
        fit = crowdsift.fit(votes, request["method"], threads=request["threads"])
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    summary = fit.summary if fit is not None else {}
    result: dict[str, Any] = {"seconds": min(seconds), "processor": min(processor), "peak": memory("VmHWM") - held}
    result |= {name: summary.get(name) for name in ("iterations", "passes", "converged")}
    print(json.dumps({**result, "comparisons": len(votes)}))


if __name__ == "__main__":
    main()
