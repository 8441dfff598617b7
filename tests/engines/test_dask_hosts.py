"""Hosts of their own: three network namespaces, one of which is cut off; a scheduler that dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import crowdsift
from crowdsift.engines import cpu
from crowdsift.errors import ResourceError

pytest.importorskip("distributed")

from crowdsift.engines.dask import engine
from crowdsift.engines.dask import map as shard_map
from crowdsift.fitting import start as checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.fixture(scope="module")
def votes():
    return crowdsift.simulate(30, 12, 3000, reliability=(0.3, 1.5), seed=4).comparisons()


def ip(*words):
    subprocess.run(["ip", *words], check=True, **QUIET)


@contextmanager
def hosts(count):
    """Namespaces on one bridge, named by their addresses; this process is on it, too."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    mark = f"{os.getpid() % 10000}"
    net, bridge = f"10.{200 + os.getpid() % 50}.{os.getpid() % 250}", f"csb{mark}"
    made = []
    try:
        try:
            ip("link", "add", bridge, "type", "bridge")
            ip("addr", "add", f"{net}.254/24", "dev", bridge)
            ip("link", "set", bridge, "up")
            for at in range(1, count + 1):
                name, outer, inner = f"cs{mark}-{at}", f"cso{mark}{at}", f"csi{mark}{at}"
                ip("netns", "add", name)
                made.append((name, f"{net}.{at}", outer))
                ip("link", "add", outer, "type", "veth", "peer", "name", inner)
                ip("link", "set", inner, "netns", name)
                ip("link", "set", outer, "master", bridge, "up")
                ip("-n", name, "addr", "add", f"{net}.{at}/24", "dev", inner)
                ip("-n", name, "link", "set", inner, "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")
        yield made
    finally:
        for name, _, _ in made:
            subprocess.run(["ip", "netns", "del", name], check=False, **QUIET)
        subprocess.run(["ip", "link", "del", bridge], check=False, **QUIET)


@contextmanager
def cluster(places, port=8786):
    """A scheduler on the first host and a worker on each of the others; their processes."""
    running = []

    def start(place, *words):
        name, address, _ = place
        inside = ["ip", "netns", "exec", name] if name else []
        command = [sys.executable, "-m", *words, "--host", address, "--no-dashboard"]
        running.append(subprocess.Popen([*inside, *command], **QUIET))

    try:
        at = f"tcp://{places[0][1]}:{port}"
        start(places[0], "distributed.cli.dask_scheduler", "--port", str(port))
        for place in places[1:]:
            start(place, "distributed.cli.dask_worker", at, "--no-nanny", "--nthreads", "1", "--memory-limit", "0")
        from distributed import Client

        with Client(at, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(len(places) - 1, timeout=30)
        yield at, running
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_host_is_cut_off(votes, monkeypatch):
    """The cable of one of three workers is pulled in mid-fit: the right end all the same."""
    monkeypatch.setattr(shard_map, "RESPONSE_TIMEOUT", 2.0)
    monkeypatch.setattr(shard_map, "HEARTBEAT", 0.5)
    model = crowdsift.model("sift", tolerance=1e-3)
    with hosts(4) as places, cluster(places) as (address, _):
        made = engine(votes, 1, scheduler=address, shards=3)
        cut = []

        def progress(number, measure):
            if number == 2 and not cut:
                cut.append(ip("link", "set", places[-1][2], "down"))

        found = model.estimate(made, progress).scores
        assert made.traffic.recovered >= 1
        made.close()
    np.testing.assert_allclose(found, model.estimate(cpu.engine(votes, 1)).scores, atol=1e-6)


def test_the_scheduler_dies(votes, monkeypatch, tmp_path):
    """Killed in mid-fit: an error that says so within 30 s, and a checkpoint to go on from."""
    monkeypatch.setattr(shard_map, "RESPONSE_TIMEOUT", 2.0)
    monkeypatch.setattr(shard_map, "HEARTBEAT", 0.5)
    place = ("", "127.0.0.1", "")
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    model = crowdsift.model("bora-em", tolerance=1e-10, accelerate=False)
    with cluster([place, place, place], port=20_000 + os.getpid() % 30_000) as (address, running):
        killed = []

        def kill():
            killed.append(time.monotonic())
            running[0].send_signal(signal.SIGKILL)

        def progress(number, measure):
            if number == 2 and not killed:
                threading.Timer(0.0, kill).start()

        options = {"scheduler": address, "shards": 2, "checkpoint": tmp_path}
        with pytest.raises(ResourceError, match=r"(the scheduler .* is gone|no worker).*--start"):
            crowdsift.fit(votes, model, engine="dask", engine_options=options, progress=progress)
        assert time.monotonic() - killed[0] < 30.0
    whole = crowdsift.fit(votes, model)
    found = crowdsift.fit(votes, model, start=tmp_path)
    assert found.summary["iterations"] < whole.summary["iterations"]
    np.testing.assert_allclose(found.item_table["score"], whole.item_table["score"], atol=1e-6)
