"""Parquet files as the workers of a cluster read them: what runs there.

All of it are tasks of Dask, which repeats on another worker what was lost with one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import InputError, RequestError, ResourceError
from crowdsift.io.options import ReadOptions
from crowdsift.io.parquet_votes import Labels, ParquetVotes, by_range, merged_labels
from crowdsift.io.temporary import TemporaryFolder
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.kernels import collapse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Range", "coded_blocks", "files_at", "hold_votes", "labels_of", "united_labels"]


class Range(NamedTuple):
    """A range of workers: whose votes are a shard, by the codes of all labels."""

    begin: int
    end: int


def files_at(address: str) -> list[str]:
    """The Parquet files of a folder, of a pattern or of an fsspec address, in order."""
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(address)
        if system.isdir(path):
            found = [each for each in system.find(path) if each.endswith(".parquet")]
        else:
            found = [each for each in system.glob(path) if not system.isdir(each)]
    except (ImportError, ValueError) as error:
        raise RequestError(f"{address} cannot be opened by the workers: {error}") from None
    except OSError as error:
        raise InputError(f"it cannot be read by the workers: {error}", source=address) from None
    if not found:
        raise InputError(
            "the workers see no Parquet file there; give a folder, a pattern or an address that "
            "all of them see",
            source=address,
        )
    return [system.unstrip_protocol(each) for each in sorted(found)]


@contextmanager
def _opened(file: str, options: dict[str, Any]) -> Iterator[ParquetVotes]:
    """One file, copied here where it is not on a disk that this worker sees."""
    from fsspec.core import url_to_fs

    given = ReadOptions(**options)
    folder = TemporaryFolder()
    votes = None
    try:
        system, path = url_to_fs(file)
        local = "file" in (system.protocol if isinstance(system.protocol, tuple) else ())
        shown, here = (path, path) if local else (file, os.path.join(folder.path, "part.parquet"))
        try:
            if not local:
                system.get_file(path, here)
            votes = ParquetVotes(here, 1)
            for part in votes._parts:
                part.source = shown
            votes.source = shown
            if not votes.suits(given):
                raise InputError(
                    "workers of a cluster read Parquet with the columns winner, loser and worker, "
                    "all text or all integers, and no weight; read other votes with --engine cpu",
                    source=shown,
                )
            yield votes
        except InputError as error:
            raise InputError(str(error).replace(here, shown)) from None
        except OSError as error:
            raise _of_disk(error, shown) from None
    finally:
        if votes is not None:
            votes.close()
        folder.close()


def _of_disk(error: OSError, shown: str) -> Exception:
    if error.errno == 28:
        return ResourceError(f"the disk of a worker is full while it reads {shown}; make room")
    return InputError(f"it cannot be read by a worker: {error}", source=shown)


def labels_of(files: Sequence[str], options: dict[str, Any]) -> Labels:
    """The distinct labels of some files."""
    found = []
    for file in files:
        with _opened(file, options) as votes:
            found.append(votes.find_labels())
    return united_labels(found)


def united_labels(parts: Sequence[Labels]) -> Labels:
    """The labels of all parts; those of one type, text or integers, in all files."""
    kinds = {type(each) for part in parts for each in (*part.items[:1], *part.workers[:1])}
    if len(kinds) > 1:
        raise InputError("labels are text in some files and integers in others; write all alike")
    return merged_labels(parts)


def coded_blocks(
    file: str, options: dict[str, Any], labels: Labels, ranges: Sequence[Range]
) -> list[NDArray[np.uint32]]:
    """The rows of a file as codes, apart by the ranges of workers; others are left out."""
    blocks: list[list[NDArray[np.uint32]]] = [[] for _ in ranges]
    bounds = sorted({bound for each in ranges for bound in each} | {0, len(labels.workers)})
    place = {each.begin: at for at, each in enumerate(ranges)}
    with _opened(file, options) as votes:
        votes.take_codes(labels)
        for rows in votes.chunks():
            for begin, some in zip(bounds, by_range(rows, bounds), strict=False):
                if begin in place:
                    blocks[place[begin]].append(some)
    return [np.concatenate([np.empty((0, 3), np.uint32), *each]) for each in blocks]


def hold_votes(
    blocks: Sequence[NDArray[np.uint32]], key: tuple[str, int], own: Range, n_items: int
) -> tuple[NDArray[np.int64], list[int]]:
    """Sort the votes of a range of workers and keep them in this process.

    Their offsets, and how many rows each block has.
    """
    from distributed import get_worker

    rows = np.concatenate(blocks)
    first, second, worker = (np.ascontiguousarray(rows[:, each]) for each in range(3))
    del rows
    worker -= np.uint32(own.begin)
    made = collapse(first, second, worker, None, None, None, n_items, own.end - own.begin, False, 1)
    nothing = np.full(n_items, None, dtype=object)
    votes = Comparisons(
        first=made[0], second=made[1], outcome=made[2], weight=made[3], offsets=made[6],
        items=nothing, workers=np.full(own.end - own.begin, None, dtype=object), rows=len(first),
    )  # fmt: skip
    get_worker()._crowdsift.keep(key, votes)
    return np.asarray(made[6]), [len(block) for block in blocks]
