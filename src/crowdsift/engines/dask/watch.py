"""Timeouts of a cluster, and which of its workers are connected."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from distributed.comm.core import CommClosedError

from crowdsift.errors import ResourceError

__all__ = [
    "HEARTBEAT",
    "LOST",
    "RESPONSE_TIMEOUT",
    "WORKER_TIMEOUT",
    "VoteFiles",
    "connected_workers",
]

HEARTBEAT, RESPONSE_TIMEOUT = (
    1.0,
    10.0,
)  # seconds between heartbeats, and until a silent worker is lost
WORKER_TIMEOUT = 25.0  # seconds until a worker must have appeared where none is left
LOST = (OSError, CommClosedError, asyncio.TimeoutError)


class VoteFiles(Protocol):
    """Votes that workers have read: where each shard is, and how it is made of files anew."""

    workers: list[str]

    async def supply(self, at: int, worker: str) -> None:
        """Make the votes of a shard anew on a worker."""


async def connected_workers(client: Any) -> dict[str, Any]:
    """The workers that the scheduler knows now; an error where it does not answer."""
    try:
        known = await asyncio.wait_for(client.scheduler.identity(), RESPONSE_TIMEOUT)
    except (*LOST, AttributeError):
        raise ResourceError(
            f"the scheduler {client.scheduler.address} is gone; start it and its workers again and "
            "repeat the fit"
        ) from None
    return dict(known["workers"])
