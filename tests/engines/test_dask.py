"""Shards in real processes: the answers of one machine, whatever is killed meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import numpy as np
import pytest
from context_votes import draw_votes
from tied_votes import drawn, votes_of

import crowdsift
from crowdsift import simulate
from crowdsift.engines import cpu
from crowdsift.errors import RequestError, ResourceError
from crowdsift.models import MODELS

pytest.importorskip("distributed")

from crowdsift.engines.dask import cluster as clusters
from crowdsift.engines.dask import engine

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def votes():
    found = simulate(30, 12, 3000, reliability=(0.3, 1.5), seed=4).comparisons()
    return found.with_classes([str(j % 3) for j in range(30)])


def scores(method, votes, address=None, shards=3, tolerance=1e-9, progress=None):
    # bora-em takes hundreds of iterations; equal after some, it is equal. To the ends of all methods: python -m
    # benchmarks.cluster equal.
    given = {"accelerate": False, "most_iterations": 3} if method == "bora-em" else {}
    model = crowdsift.model(method, tolerance=tolerance, **given).relax(votes)[0]
    prepared = model.prepare(votes)
    if address is None:
        return model.estimate(cpu.engine(prepared, 1)).scores
    made = engine(prepared, 1, scheduler=address, shards=shards, needs=model.needs)
    try:
        return model.estimate(made, progress).scores
    finally:
        made.close()


@pytest.mark.parametrize("method", [name for name in MODELS if name not in ("sift", "hbtl")])
def test_scores_are_those_of_one_engine(method, votes, cluster):
    found = scores(method, votes, cluster.scheduler_address)
    np.testing.assert_allclose(found, scores(method, votes), atol=1e-8)


@pytest.mark.parametrize("make", ["plain", "ties", "contexts"])
def test_sift(make, votes, cluster):
    given = {
        "plain": lambda: votes,
        "ties": lambda: votes_of(*drawn(1, side=0.5)[:4]),
        "contexts": lambda: draw_votes(0.3, 0.8, seed=3, each=6, workers=7, contexts=2, items=4),
    }[make]()
    shards = 5 if make == "plain" else 3  # more than there are processes, too
    found = scores("sift", given, cluster.scheduler_address, shards, tolerance=1e-3)
    np.testing.assert_allclose(found, scores("sift", given, tolerance=1e-3), atol=1e-6)


def test_killed_workers_change_nothing(votes, cluster):
    """kill -9 in mid-fit, at an iteration and at any moment: not one bit differs.

    `python -m benchmarks.scale kills` does it 20 times at random moments.
    """
    model = crowdsift.model("sift", tolerance=1e-3)
    expected, whole = estimated(model, votes, cluster)
    np.testing.assert_allclose(np.frombuffer(expected), scores("sift", votes, tolerance=1e-3), atol=1e-6)
    killed = []

    def progress(number, measure):
        if number == 2 and not killed:
            killed.append(kill_a_worker(cluster))

    found, traffic = estimated(model, votes, cluster, progress)
    assert found == expected
    assert traffic.recovered >= 1
    assert traffic.longest_recovery < 30.0
    wait_for_workers(cluster)
    killer = threading.Timer(random.uniform(0.0, whole.seconds), kill_a_worker, [cluster])
    killer.start()
    found, _ = estimated(model, votes, cluster)
    killer.join()
    assert found == expected


def estimated(model, votes, cluster, progress=None):
    """The bytes of the scores of sift in four shards, and what travelled."""
    made = engine(votes, 1, scheduler=cluster.scheduler_address, shards=4)
    began = time.monotonic()
    found = model.estimate(made, progress).scores.tobytes()
    made.traffic.seconds = time.monotonic() - began
    made.close()
    return found, made.traffic


def workers_of(cluster):
    return {nanny.worker_address: nanny.process.pid for nanny in cluster.workers.values()}


def wait_for_workers(cluster):
    """Killed workers are started again by their nannies; their addresses are new."""
    from distributed import Client

    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=90)


def kill_a_worker(cluster):
    address, process = sorted(workers_of(cluster).items())[0]
    os.kill(process, signal.SIGKILL)
    return address


def test_two_fits_at_once(votes, cluster):
    wait_for_workers(cluster)
    found = {}

    def one(method):
        found[method] = scores(method, votes, cluster.scheduler_address)

    threads = [threading.Thread(target=one, args=[method]) for method in ("bt", "bora-map")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for method, ours in found.items():
        np.testing.assert_allclose(ours, scores(method, votes), atol=1e-8)
    assert len(found) == 2


def test_fit_by_name(votes, cluster):
    options = {"scheduler": cluster.scheduler_address, "shards": 2}
    fit = crowdsift.fit(votes, method="bora-map", engine="dask", engine_options=options)
    expected = crowdsift.fit(votes, method="bora-map")
    np.testing.assert_allclose(fit.item_table["score"], expected.item_table["score"], atol=1e-8)
    assert fit.item_table["item"].tolist() == expected.item_table["item"].tolist()


def test_other_versions_are_refused(votes, cluster, monkeypatch):
    monkeypatch.setattr(clusters, "__version__", "0.0.1")
    with pytest.raises(RequestError, match=r"crowdsift .* there and 0\.0\.1 here"):
        engine(votes, 1, scheduler=cluster.scheduler_address)


def test_workers_without_crowdsift_are_refused(votes, cluster, monkeypatch):
    def nothing():
        try:
            import no_such_package  # noqa: F401
        except ImportError:
            return

    nothing.__module__ = "__main__"
    monkeypatch.setattr(clusters, "_versions", nothing)
    with pytest.raises(RequestError, match="has no crowdsift; pip install"):
        engine(votes, 1, scheduler=cluster.scheduler_address)


def test_requests(votes, monkeypatch):
    monkeypatch.setattr(clusters, "_CONNECT", 0.5)
    with pytest.raises(ResourceError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        engine(votes, 1, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(RequestError, match="shards: options of the engine dask"):
        crowdsift.fit(votes, engine="cpu", engine_options={"shards": 2})
