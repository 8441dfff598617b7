"""The sites of a fit as a Parquet file, one row per vote."""

from __future__ import annotations

import numpy as np

from crowdsift.errors import InputError
from crowdsift.io.parquet import parquet_bytes, parquet_columns
from crowdsift.solvers.ep.kept_sites import SavedSites

__all__ = ["SITES", "read_sites", "sites_bytes"]

SITES = "sites.parquet"
_BY_WORKER = ("low", "high")  # the same for all votes of a worker
_COLUMNS = {name: np.dtype(kind) for name, kind in {
    "worker": "u4", "winner": "u4", "loser": "u4", "kind": "i1", "tau": "f4", "nu": "f4",
    "side_tau": "f4", "side_nu": "f4", "low": "f8", "high": "f8",
}.items()}  # fmt: skip
# What columns were called in format 1.
_EARLIER = {"precision": "tau", "pull": "nu", "side_precision": "side_tau", "side_pull": "side_nu"}


def sites_bytes(sites: SavedSites) -> bytes:
    """The content of the file: the same bytes for the same sites."""
    columns = sites._asdict()
    for name in _BY_WORKER:
        columns[name] = columns[name][sites.worker]
    return parquet_bytes(columns)


def read_sites(content: bytes, source: str, n_items: int, n_workers: int) -> SavedSites:
    """The sites of a saved fit of so many items and workers, gold among them."""
    try:
        found = parquet_columns(content)
    except ValueError as error:
        raise _damaged(source, str(error)) from None
    found = {_EARLIER.get(name, name): values for name, values in found.items()}
    if list(found) != list(_COLUMNS) or any(found[k].dtype != t for k, t in _COLUMNS.items()):
        raise _damaged(source, f"its columns are {', '.join(found)}")
    worker = found["worker"]
    most = max((int(found[name].max(initial=0)) for name in ("winner", "loser")), default=0)
    if most >= n_items or int(worker.max(initial=0)) >= n_workers:
        raise _damaged(source, "it names items or workers that the fit does not have")
    ends = np.full((2, n_workers), np.nan)
    for row, name in zip(ends, _BY_WORKER, strict=True):
        row[worker] = found[name]
    return SavedSites(*(found[name] for name in SavedSites._fields[:8]), *ends)


def _damaged(source: str, why: str) -> InputError:
    return InputError(
        f"damaged: {why}. Delete the file to go on from the scores alone", source=source
    )
