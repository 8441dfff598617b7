"""The sharded engine over a cluster of Dask: `--engine dask --scheduler tcp://host:port`."""

from __future__ import annotations

import glob
import os
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from crowdsift.engines.base import CAPABILITIES, ContextEngine, Facts
from crowdsift.engines.sharded import Plan, ShardedEngine
from crowdsift.engines.shards import of_workers, shared_keys, shared_pairs, worker_ranges
from crowdsift.errors import RequestError
from crowdsift.io.options import ReadOptions
from crowdsift.io.sql import kind_of_database
from crowdsift.io.streamed import ParquetVotes, is_parquet, is_plain

if TYPE_CHECKING:  # needs Dask, which may not be installed
    from crowdsift.engines.dask.map import DaskMap, Remote, Traffic
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["DaskEngine", "engine", "read"]

_KEYS = 50_000_000  # pairs of all shards processed at a time


class RemoteEngine:
    """An engine in a worker process; its capabilities are fetched once."""

    def __init__(self, link: DaskMap, remote: Remote) -> None:
        self._link, self._remote = link, remote
        self._found: dict[str, Any] = {}
        self.facts: Facts = link.get([remote], "facts")[0]

    def __getattr__(self, name: str) -> Any:
        if name not in CAPABILITIES:
            raise AttributeError(name)
        if name not in self._found:
            (self._found[name],) = self._link.get([self._remote], name)
        return self._found[name]

    @property
    def passes(self) -> float:
        (found,) = self._link.get([self._remote], "passes")
        return float(found)

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        (found,) = self._link.call([self._remote], "by_context", [{"enough": enough}])
        if found is None:
            return None
        apart: Any = RemoteEngine(self._link, found.engine)
        return ContextEngine(apart, found.worker, found.context)


class DaskEngine(ShardedEngine):
    """Shards in worker processes; `close` releases them."""

    def __init__(self, shards: Any, plan: Plan, session: Any, *, ties: bool) -> None:
        super().__init__(shards, plan, ties=ties)
        self._session = session

    @property
    def traffic(self) -> Traffic:
        """Return the network traffic so far."""
        found: Traffic = self._plan.map.traffic  # type: ignore[attr-defined]
        return found

    def gathered(self, votes: Comparisons) -> Comparisons:
        """Return votes that workers have read; for tables of few votes."""
        link: DaskMap = self._plan.map  # type: ignore[assignment]
        columns = zip(*link.query_votes("votes"), strict=True)
        names = ("first", "second", "outcome", "weight")
        made: dict[str, Any] = {name: np.concatenate(each) for name, each in zip(names, columns, strict=True)}
        return replace(votes, **made, elsewhere=None)

    def close(self) -> None:
        """Release the shards, and the cluster if it was started here."""
        self._session.close(self._plan.map)


def engine(
    comparisons: Comparisons,
    threads: int,
    *,
    scheduler: str | None = None,
    shards: int | None = None,
    needs: str = "grid",
) -> DaskEngine:
    """Return shards on a cluster: the cluster of a scheduler, or new processes on this machine."""
    # `shards` is their number: by default one per worker process, with all its threads. The same numbers of shards and
    # threads give the same bytes on any number of processes. `needs` is the capability that will be used; only "grid"
    # needs the pairs that several shards have.
    try:
        from crowdsift.engines.dask.cluster import Session
        from crowdsift.engines.dask.map import DaskMap
        from crowdsift.engines.dask.shard import Recipe, without_labels
    except ImportError:
        raise RequestError("the engine dask needs Dask; pip install 'crowdsift[dask]'") from None
    given = comparisons.elsewhere
    session = Session.open(scheduler, threads) if given is None else given.session
    link = None
    try:
        if given is None:
            bounds = worker_ranges(comparisons.offsets, shards or session.count)
            parts = [without_labels(of_workers(comparisons, begin, end)) for begin, end in pairwise(bounds)]
            lists, places, count = shared_pairs(parts) if needs == "grid" else ([], [], 0)
            own = session.threads(len(parts))
            recipes = [Recipe(part, lists[at] if lists else None, own, len(part)) for at, part in enumerate(parts)]
            link = DaskMap(session.client, uuid4().hex, recipes)
        else:
            bounds = (0, *(each.end for each in given.ranges))
            rows = [int(comparisons.offsets[b] - comparisons.offsets[a]) for a, b in given.ranges]
            own = session.threads(len(rows))
            recipes = [Recipe(None, None, own, each) for each in rows]
            link = DaskMap(session.client, given.fit, recipes, given)
            places, count = _share(link, comparisons.n_items, sum(rows), needs)
        session.log_shards(len(recipes))
        engines: list[Any] = [RemoteEngine(link, remote) for remote in link.start()]
        plan = Plan(bounds, tuple(places), count, link)
        return DaskEngine(engines, plan, session, ties=comparisons.ties_are_outcomes)
    except BaseException:
        session.close(link)
        raise


def _share(link: DaskMap, n_items: int, rows: int, needs: str) -> tuple[list[Any], int]:
    """Send shards of files the pairs that they share with others, a part of the pairs at a time."""
    if needs != "grid":
        return [], 0
    steps = -(-rows // _KEYS)
    edges = np.linspace(0, n_items, steps + 1).astype(int).tolist()
    keys = (link.query_votes("pairs", each) for each in pairwise(edges))
    lists, places, count = shared_keys(keys, n_items)
    for shard, shared in zip(link.shards, lists, strict=True):
        shard.recipe = replace(shard.recipe, shared=shared)
    return places, count


def read(votes: Any, options: ReadOptions, threads: int, given: dict[str, Any]) -> Any:
    """Return Parquet votes that the workers read: a folder, pattern or fsspec address; None for other votes.

    A path that this machine does not see is one that the workers see.
    """
    if not isinstance(votes, str | os.PathLike):
        return None
    address = os.fsdecode(votes)
    remote = "://" in address and not kind_of_database(address)
    if remote and find_spec("distributed") is None:
        raise RequestError(f"{address} is read by Dask; pip install 'crowdsift[dask]'")
    if remote and not is_plain(options):
        raise RequestError(
            f"{address} is read by the workers of a cluster, without {', '.join(options.changed())}; copy the files to "
            "this machine and give their path"
        )
    if not remote and not _for_workers(address, options, given.get("scheduler")):
        return None
    from crowdsift.engines.dask.cluster import Session
    from crowdsift.engines.dask.reading import cluster_votes

    session = Session.open(given.get("scheduler"), threads)
    try:
        layout = {"columns": dict(options.columns), "format": options.format}
        return cluster_votes(session, address, layout, given.get("shards"))
    except BaseException:
        session.close(None)
        raise


def _for_workers(address: str, options: ReadOptions, scheduler: str | None) -> bool:
    """Return whether a path is one of Parquet files that workers can read."""
    if find_spec("distributed") is None or not is_plain(options) or address == "-":
        return False
    path = os.path.expanduser(address)
    if os.path.isdir(path):
        return True
    if not os.path.exists(path) and not glob.glob(path, recursive=True):
        return scheduler is not None and path.endswith(".parquet")
    if not is_parquet(address):
        return False
    source = ParquetVotes(address, 1)
    try:
        return source.suits(options)
    finally:
        source.close()
