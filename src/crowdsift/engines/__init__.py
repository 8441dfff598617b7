"""Engines hold the votes and offer passes over them; this module finds an engine by its name."""

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from crowdsift.engines.base import CAPABILITIES, Engine
from crowdsift.errors import RequestError, ResourceError
from crowdsift.io.options import ReadOptions
from crowdsift.io.resources import SMALL, readable, size_of
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons

# Most bytes per vote of a fit in memory: the vote, and what a pass keeps for it.
_NEEDED = 80
# Bytes per pair of items that `grid` holds in memory if votes are in files, measured with 2e6 votes.
_NEEDED_BY_PAIRS = 160
# The module of each engine, which has a function `engine(comparisons, threads)`.
ENGINES = {"cpu": "crowdsift.engines.cpu", "sharded": "crowdsift.engines.sharded", "torch": "crowdsift.engines.torch"}
# Engines that consist of shards of others elsewhere; they have options, and must be closed.
MAPS = {"dask": "crowdsift.engines.dask", "disk": "crowdsift.engines.out_of_core"}
# Measured times by the capability that a method needs (docs/speed.md, docs/gpu.md), for the fastest method that needs
# it. `_CORE` and `_GPU` are seconds per vote of one thread of the compiled core and of a GPU. `_START` is seconds until
# the GPU has started: PyTorch, the device, and kernels compiled earlier.
_CORE = {"slopes": 1.0e-7, "em": 1.3e-6, "likelihood": 1.0e-5, "grid": 2.2e-6}
_GPU = {"slopes": 6.0e-9, "em": 3.0e-8, "likelihood": 2.0e-6, "grid": 2.2e-8}
_START = {"slopes": 5.2, "em": 6.0, "likelihood": 5.2, "grid": 6.3}


class Choice(NamedTuple):
    """The name of an engine, and why it was chosen."""

    name: str
    reason: str


def choose_engine(
    name: str, comparisons: Comparisons, threads: int | None = None, device: str | None = None, needs: str | None = None
) -> Engine:
    """Return the engine of that name over the comparisons; `device` is a PyTorch device."""
    # `needs` is the capability that will be used, for engines that check its memory first.
    chosen = engine_choice(name, comparisons, {"device": device}, needs, threads).name
    if chosen in MAPS:
        raise RequestError(f"engine {name!r} can only run complete fits; use another one here")
    module: Any = import_module(ENGINES[chosen])
    given = {"device": device, "needs": needs} if chosen == "torch" else {}
    where = {key: value for key, value in given.items() if value is not None}
    made: Engine = module.engine(comparisons, thread_count(threads), **where)
    return made


def engine_choice(
    name: str,
    comparisons: Comparisons,
    options: Mapping[str, Any] | None = None,
    needs: str | None = None,
    threads: int | None = None,
) -> Choice:
    """Choose the engine for a name, these comparisons and the engine's options; give the reason."""
    # `needs` is the capability that will be used, with that number of threads. Engine 'torch' without a usable GPU
    # becomes 'cpu', unless a device is named or Triton's interpreter is on.
    if not isinstance(name, str) or name not in ("auto", *ENGINES, *MAPS):
        known = ", ".join((*ENGINES, *MAPS))
        raise RequestError(f"unknown engine {name!r}; the engines are auto, {known}")
    given = named_options(options)
    memory, device = given.get("memory"), given.get("device")
    if device is not None and name not in ("auto", "torch"):
        raise RequestError(f"device {device!r} is one of engine 'torch'; with engine {name!r} leave it out")
    memory_counts = device is None and name in ("auto", "cpu")
    if memory is not None and memory_counts and not _fits(comparisons, memory):
        if needs == "grid":
            _require_pairs(comparisons, memory)
        return Choice("disk", f"the votes need more than {memory} of memory")
    if (name == "torch" or device is not None) and not _installed("torch"):
        raise RequestError(
            "engine 'torch' needs PyTorch, which is not installed: pip install 'crowdsift[gpu]', or use engine 'cpu'"
        )
    if name == "torch" and device is None and os.environ.get("TRITON_INTERPRET") != "1":
        fault = _gpu_fault()
        if fault is not None:
            return Choice("cpu", f"engine 'torch' cannot run, so the compiled core ran: {fault}")
    if name != "auto":
        return Choice(name, "it was asked for")
    if device is not None:
        return Choice("torch", f"device {device} was asked for")
    return fastest_engine(len(comparisons), thread_count(threads), needs or "slopes")


def fastest_engine(votes: int, threads: int, needs: str) -> Choice:
    """Choose a GPU if a fit is expected to end sooner there, otherwise the compiled core."""
    here, there = votes * _CORE[needs] / threads, _START[needs] + votes * _GPU[needs]
    times = f"about {here:.1f} s on the CPU, {there:.1f} s on a GPU, its start included"
    if here <= there:
        return Choice("cpu", f"it is expected to be faster: {times}")
    fault = _gpu_fault()
    if fault is not None:
        return Choice("cpu", fault)
    import torch

    name = torch.cuda.get_device_name()
    return Choice("torch", f"there is a GPU, {name}, expected to be faster: {times}")


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _gpu_fault() -> str | None:
    """Return why the torch engine cannot use a GPU here; None if it can."""
    for module, library in (("torch", "PyTorch"), ("triton", "Triton")):
        if not _installed(module):
            return f"{library} is not installed"
    if "torch" not in sys.modules and not _has_driver():  # importing PyTorch takes seconds
        return "there is no driver of a GPU"
    from crowdsift.engines.torch.device import gpu_fault

    return gpu_fault()


@cache
def _has_driver() -> bool:
    """Return whether a driver is installed; without one PyTorch finds no GPU."""
    if Path("/dev/kfd").exists():  # driver of AMD
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def named_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of an engine that have a value."""
    if options is not None and not isinstance(options, Mapping):
        raise RequestError(f"engine_options are values by name, not {options!r:.60}")
    return {str(key): value for key, value in (options or {}).items() if value is not None}


@contextmanager
def opened_engine(
    name: str, comparisons: Comparisons, threads: int | None, needs: str, options: Mapping[str, Any] | None = None
) -> Iterator[Engine]:
    """Yield the engine of that name with its options, and close it at the end."""
    # `options`: of engines in `MAPS`: `scheduler` and `shards` for dask; `memory`, beyond which shards are kept in
    # files, for all; `device` for torch.
    if not isinstance(name, str):
        raise RequestError(f"an engine is chosen by its name, not by {name!r:.60}")
    given = named_options(options)
    memory = given.pop("memory", None)
    name = engine_choice(name, comparisons, options, needs, threads).name
    if comparisons.elsewhere is not None and name != "dask":
        comparisons.require_rows(f"the engine {name}")
    if memory is not None and name == "disk":
        given["memory"] = memory
    if name not in MAPS:
        device = given.pop("device", None)
        if given:
            raise RequestError(f"{', '.join(given)}: options of the engine dask, not of {name!r}")
        engine = choose_engine(name, comparisons, threads, device, needs)
        with getattr(engine, "guard", nullcontext)():  # errors of a device, in plain words
            yield engine
        return
    module: Any = import_module(MAPS[name])
    try:
        made = module.engine(comparisons, thread_count(threads), needs=needs, **given)
    except TypeError:
        raise RequestError(f"the engine {name} has no option {', '.join(given)}") from None
    try:
        yield made
    finally:
        made.close()


def read_by_engine(
    name: str, votes: Any, options: ReadOptions, given: Mapping[str, Any] | None = None
) -> Comparisons | None:
    """Return votes that the engine of that name reads itself; None if it does not."""
    if not isinstance(name, str) or name not in MAPS:
        return None
    reads = getattr(import_module(MAPS[name]), "read", None)
    threads = thread_count(options.threads)
    found: Comparisons | None = reads and reads(votes, options, threads, named_options(given))
    return found


def _fits(comparisons: Comparisons, memory: str) -> bool:
    return not comparisons.on_disk and _NEEDED * len(comparisons) <= size_of(memory)


def _require_pairs(comparisons: Comparisons, memory: str) -> None:
    """Raise an error if votes have more pairs of items than `grid` can hold; it names the amount that suffices."""
    votes, k = len(comparisons), comparisons.n_items
    pairs = min(votes, k * (k - 1) // 2)
    needed = min(_NEEDED_BY_PAIRS * pairs, _NEEDED * votes)
    if needed <= max(size_of(memory), SMALL):
        return
    raise ResourceError(
        f"sift holds arrays over pairs of items in memory: {votes:,} votes on up to {pairs:,} pairs take about "
        f"{readable(needed)}, and --memory allows {readable(size_of(memory))}. Give --memory "
        f"{int(1.01 * needed / 1e6)}MB, or use bora-map or bt, which hold none"
    )


def offers(engine: Engine) -> tuple[str, ...]:
    """Return the capabilities of an engine."""
    return tuple(name for name in CAPABILITIES if getattr(engine, name) is not None)
