"""Votes in mapped files: read ahead, and passed part by part, so that their pages leave again."""

from __future__ import annotations

import mmap
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Columns = Sequence[NDArray[np.generic]]

__all__ = ["advise", "is_mapped", "parts"]

_ROWS = 1 << 22  # of a part: 64 MB of votes


def is_mapped(column: NDArray[np.generic]) -> bool:
    """Whether an array is in a file, of which parts come to memory when they are used."""
    return getattr(column, "_mmap", None) is not None


def advise(columns: Columns, *, ahead: bool) -> None:
    """Tell the system what becomes of the pages of mapped arrays: read ahead, or done with."""
    if sys.platform != "linux":
        return
    advice = mmap.MADV_WILLNEED if ahead else mmap.MADV_DONTNEED
    for column in columns:
        held: Any = column
        if not len(column):
            continue
        whole: mmap.mmap = held._mmap
        start = held.__array_interface__["data"][0] - np.frombuffer(whole, np.uint8).ctypes.data
        aligned = start - start % mmap.PAGESIZE
        whole.madvise(advice, aligned, start + column.nbytes - aligned)


def parts(*columns: NDArray[np.generic]) -> Iterator[slice]:
    """The rows of arrays in ranges; those in files leave memory when the next is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.votes.mapped import parts
    >>> list(parts(np.arange(3)))
    [slice(0, 3, None)]
    """
    for start in range(0, len(columns[0]), _ROWS):
        rows = slice(start, min(start + _ROWS, len(columns[0])))
        yield rows
        if is_mapped(columns[0]):
            advise([column[rows] for column in columns], ahead=False)
