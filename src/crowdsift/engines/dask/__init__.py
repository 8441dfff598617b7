"""The sharded engine over a cluster of Dask: `--engine dask --scheduler tcp://host:port`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from crowdsift.engines.base import CAPABILITIES, ContextEngine, Facts
from crowdsift.engines.sharded import Plan, ShardedEngine
from crowdsift.engines.shards import of_workers, shared_pairs, worker_ranges
from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.engines.dask.map import DaskMap, Remote, Traffic
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["DaskEngine", "engine"]


class RemoteEngine:
    """An engine of a worker process; its capabilities are fetched once."""

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
        """Passes over its votes so far."""
        (found,) = self._link.get([self._remote], "passes")
        return float(found)

    def by_context(self) -> ContextEngine | None:
        """The same votes by context, there; see the protocol."""
        (found,) = self._link.call([self._remote], "by_context", [{}])
        if found is None:
            return None
        apart: Any = RemoteEngine(self._link, found.engine)
        return ContextEngine(apart, found.worker, found.context)


class DaskEngine(ShardedEngine):
    """Shards in worker processes; `close` gives them back."""

    def __init__(self, shards: Any, plan: Plan, session: Any, *, ties: bool) -> None:
        super().__init__(shards, plan, ties=ties)
        self._session = session

    @property
    def traffic(self) -> Traffic:
        """What went over the network so far."""
        found: Traffic = self._plan.map.traffic  # type: ignore[attr-defined]
        return found

    def close(self) -> None:
        """Let go of the shards, and of the cluster where it was started here."""
        self._session.close(self._plan.map)


def engine(
    comparisons: Comparisons,
    threads: int,
    *,
    scheduler: str | None = None,
    shards: int | None = None,
    needs: str = "grid",
) -> DaskEngine:
    """Shards on a cluster: that of a scheduler, or processes of this machine.

    Parameters
    ----------
    comparisons
        The votes.
    threads
        How many processes to start where no scheduler is given.
    scheduler
        The address of a scheduler, as tcp://host:8786.
    shards
        How many; one a worker process by default, with all threads of it. The same number of
        shards, of as many threads, gives the same bytes, however many processes there are.
    needs
        The capability that will be used; pairs that several shards have matter to "grid" only.
    """
    try:
        from crowdsift.engines.dask.cluster import Session
        from crowdsift.engines.dask.held import Recipe, without_labels
        from crowdsift.engines.dask.map import DaskMap
    except ImportError:
        raise RequestError("the engine dask needs Dask; pip install 'crowdsift[dask]'") from None
    session = Session.open(scheduler, threads)
    link = None
    try:
        bounds = worker_ranges(comparisons.offsets, shards or session.count)
        parts = [
            without_labels(of_workers(comparisons, begin, end)) for begin, end in pairwise(bounds)
        ]
        own = session.threads(len(parts))
        lists, places, count = shared_pairs(parts) if needs == "grid" else ([], [], 0)
        recipes = [Recipe(part, lists[at] if lists else None, own) for at, part in enumerate(parts)]
        link = DaskMap(session.client, uuid4().hex, recipes)
        session.say(len(recipes))
        engines: list[Any] = [RemoteEngine(link, remote) for remote in link.start()]
        plan = Plan(bounds, tuple(places), count, link)
        return DaskEngine(engines, plan, session, ties=comparisons.ties_are_outcomes)
    except BaseException:
        session.close(link)
        raise
