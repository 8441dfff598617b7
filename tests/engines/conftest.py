"""One cluster of Dask for all tests of a process: starting it takes longer than most of them."""

from __future__ import annotations

import os
import warnings

import pytest


@pytest.fixture(scope="session")
def cluster():
    """Two worker processes, which are started again when they are killed."""
    distributed = pytest.importorskip("distributed")
    import dask

    # Processes come from one that has imported the library: a start takes a tenth of the time.
    forked = {"distributed.worker.multiprocessing-method": "forkserver"}
    with warnings.catch_warnings(), dask.config.set(forked if os.name == "posix" else {}):
        warnings.simplefilter("ignore")
        made = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=":0", silence_logs=50
        )
    # A worker that is away this long after one of its deaths is given up, also where it is being
    # started again after the next death.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}):
        yield made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.close(timeout=10)
