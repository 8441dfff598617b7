"""The cluster: connect or start it, compare its workers with this process, and release it."""

import logging
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Self

from crowdsift._version import __version__
from crowdsift.engines.dask.map import DaskMap
from crowdsift.engines.dask.worker import ShardPlugin
from crowdsift.errors import RequestError, ResourceError
from crowdsift.io.resources import readable

LOG = logging.getLogger("crowdsift.dask")
_TRIALS = 5  # attempts to make workers ready
_CONNECT = 15.0  # seconds that a scheduler has to answer


class Session:
    """A client of a cluster, and the cluster itself if it was started here."""

    def __init__(self, client: Any, cluster: Any = None) -> None:
        self.client, self._cluster = client, cluster

    @classmethod
    def open(cls, scheduler: str | None, processes: int) -> Self:
        """Connect to a scheduler, or start that number of processes on this machine."""
        from distributed import Client, LocalCluster

        cluster = None
        if scheduler is None:
            cluster = LocalCluster(
                n_workers=processes,
                threads_per_worker=1,
                memory_limit=0,  # memory needs are checked before; no worker should be stopped in the middle
                dashboard_address=":0",  # any free port
                silence_logs=logging.CRITICAL,
            )
        try:
            client = Client(cluster or scheduler, timeout=_CONNECT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ResourceError(
                f"no scheduler answers at {scheduler} ({_first_line(error)}); start one with 'dask scheduler', workers "
                "with 'dask worker ADDRESS', and give its address with --scheduler tcp://HOST:8786"
            ) from None
        session = cls(client, cluster)
        try:
            session._prepare()
        except BaseException:
            session.close(None)
            raise
        return session

    def _prepare(self) -> None:
        for left in range(_TRIALS, 0, -1):
            try:
                self._compare()
                self.client.register_plugin(ShardPlugin())
            except (OSError, KeyError) as error:
                if left == 1:
                    raise ResourceError(
                        f"workers are lost while the fit begins ({_first_line(error)}); look at their logs"
                    ) from None
                time.sleep(1.0)
            else:
                return

    @property
    def count(self) -> int:
        """Return the number of workers."""
        return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def threads(self, shards: int) -> int:
        """Return how many threads a shard may use: all of its worker, divided among its shards."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return 1 if shards > len(workers) else max(min(int(worker["nthreads"]) for worker in workers), 1)

    def _compare(self) -> None:
        """Refuse a cluster without workers, or with workers that would give other results."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=_CONNECT)
        found = self.client.run(_versions)
        if not found:
            raise ResourceError(
                "the cluster has no workers; start some with 'dask worker ADDRESS' (in an environment with crowdsift)"
            )
        ours = (__version__, f"{sys.version_info[0]}.{sys.version_info[1]}")
        for worker, theirs in sorted(found.items()):
            if theirs is None:
                raise RequestError(
                    f"the worker {worker} has no crowdsift; pip install 'crowdsift[dask]=={__version__}' there"
                )
            if tuple(theirs) != ours:
                wrong = ", ".join(
                    f"{name} {one} there and {two} here"
                    for name, one, two in zip(("crowdsift", "Python"), theirs, ours, strict=True)
                    if one != two
                )
                raise RequestError(f"the worker {worker} differs: {wrong}; install the same there")

    def log_shards(self, shards: int) -> None:
        """Log which worker holds which shard."""
        link = self.client.dashboard_link if find_spec("bokeh") else "(needs bokeh)"
        LOG.info("%d shards on %d workers of Dask; dashboard %s", shards, self.count, link)

    def close(self, link: DaskMap | None) -> None:
        """Release shards, and end the cluster if it was started here."""
        with suppress(Exception):
            if link is not None:
                seen = link.traffic
                LOG.info(
                    "%d calls of shards, %s sent and %s received; %d shards made again",
                    seen.calls,
                    readable(seen.sent),
                    readable(seen.received),
                    seen.recovered,
                )
                if self._cluster is None:
                    link.close()
        with suppress(Exception):
            self.client.close(timeout=5)
        if self._cluster is not None:
            with suppress(Exception):
                self._cluster.close(timeout=10)


def _versions() -> tuple[str, str] | None:
    import sys

    try:
        import crowdsift._core  # noqa: F401
        from crowdsift._version import __version__
    except ImportError:
        return None
    return __version__, f"{sys.version_info[0]}.{sys.version_info[1]}"


_versions.__module__ = "__main__"  # sent by value: a worker without crowdsift must be able to answer


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
