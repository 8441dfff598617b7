"""Which engine is used where none is named: the one whose fit is expected to end first."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from crowdsift.votes.kernels import COMPILED

__all__ = ["Choice", "fastest_engine"]

# By the capability that a method needs, as measured (docs/speed.md, docs/gpu.md): seconds a vote of
# one thread of the compiled core, of several methods that for which it is fastest; seconds a vote
# of a GPU; and seconds until that has begun, for PyTorch, the device and kernels compiled earlier.
_CORE = {"slopes": 1.0e-7, "em": 1.3e-6, "likelihood": 1.0e-5, "grid": 2.2e-6}
_GPU = {"slopes": 6.0e-9, "em": 3.0e-8, "likelihood": 2.0e-6, "grid": 2.2e-8}
_START = {"slopes": 5.2, "em": 6.0, "likelihood": 5.2, "grid": 6.3}


class Choice(NamedTuple):
    """An engine by name, and why it is the one."""

    name: str
    reason: str


def fastest_engine(votes: int, threads: int, needs: str) -> Choice:
    """A GPU where it is expected to be faster, else the compiled core, else what is there.

    Examples
    --------
    >>> from crowdsift.engines.fastest import fastest_engine
    >>> fastest_engine(1000, 2, "grid").name
    'cpu'
    """
    here, there = votes * _CORE[needs] / threads, _START[needs] + votes * _GPU[needs]
    times = f"about {here:.1f} s on the CPU, {there:.1f} s on a GPU, its start included"
    if COMPILED and here <= there:
        return Choice("cpu", f"it is expected to be faster: {times}")
    if find_spec("torch") is None:
        reason = "PyTorch is not installed"
    elif COMPILED and "torch" not in sys.modules and not _has_driver():
        reason = "there is no driver of a GPU"  # PyTorch itself takes seconds and 250 MB
    else:
        import torch

        if torch.cuda.is_available():
            name = torch.cuda.get_device_name()
            return Choice("torch", f"there is a GPU, {name}, expected to be faster: {times}")
        if not COMPILED:
            return Choice("torch", "the compiled core is missing")
        reason = "PyTorch finds no CUDA device"
    return Choice("cpu", reason) if COMPILED else Choice("reference", f"no core, and {reason}")


@cache
def _has_driver() -> bool:
    """Whether a driver is installed without which PyTorch would find no GPU."""
    if Path("/dev/kfd").exists():  # of AMD
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True
