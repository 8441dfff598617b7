"""Votes beyond a device: shards that are on it only while they are passed give the same fits."""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
import pytest

from crowdsift import simulate
from crowdsift.engines import shards
from crowdsift.errors import ResourceError
from crowdsift.models import model

torch = pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from crowdsift.engines.torch import (  # noqa: E402
    device,
    em,
    engine,
    grid,
    likelihood,
    operators,
    pairs,
    rows,
    sites,
    slopes,
    streamed,
    vectors,
)

CPU = torch.device("cpu")


def votes():
    return simulate(12, 9, 500, seed=4).comparisons()


@pytest.mark.parametrize("method", ["bora-map", "bora-em", "crowd-bt", "sift"])
def test_fits(monkeypatch, method):
    monkeypatch.setattr(streamed, "_SMALL", 0)  # nothing stays
    chosen = model(method)
    made = streamed.streamed_engine(votes(), CPU, chosen.needs, shards=3)
    assert made.describe().endswith("in 3 shards")
    found = chosen.estimate(made)
    wanted = chosen.estimate(engine(votes(), 1, device="cpu"))
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-4)
    held = [t for shard in made._shards for t in streamed.tensors(shard)]
    assert len(held) > 15
    assert all(t.numel() == 0 for t in held)  # all that is left is with the host
    assert sum(t.kept.numel() for t in held) > 3 * len(votes())


class Allocations(TorchDispatchMode):
    """Bytes that tensors hold, and the most of them; copies for the host apart."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self._known, self._host = {}, False

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing is compiled here, and to say so at every call is half of its time

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else (found,):
            if isinstance(tensor, torch.Tensor) and not self._host:
                self._count(tensor.untyped_storage())
        return found

    def _count(self, storage):
        if storage._cdata not in self._known:
            self._known[storage._cdata] = storage.nbytes()
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._gone, storage._cdata)

    def _gone(self, key):
        self.now -= self._known.pop(key)

    def to_host(self, tensor):
        self._host = True
        kept = tensor.clone()
        self._host = False
        return kept


@pytest.fixture
def small_card(monkeypatch):
    """A device of so many bytes; what is counted there."""

    def of(room):
        counted = Allocations()
        monkeypatch.setattr(streamed, "free_memory", lambda place: room)
        monkeypatch.setattr(streamed, "allocated", lambda place: counted.now)
        monkeypatch.setattr(streamed, "from_device", counted.to_host)
        monkeypatch.setattr(streamed, "_SMALL", 256)
        # On a card kernels hold nothing of votes and types, and no matrix over items is dense.
        monkeypatch.setattr(rows, "_NUMBERS", {"cpu": 1 << 13})
        monkeypatch.setattr(operators, "_DENSE", 0)
        for module in (em, grid, likelihood, operators, pairs, sites, slopes, vectors):
            if hasattr(module, "to_host"):  # an array of the host that is no tensor's, too
                monkeypatch.setattr(module, "to_host", lambda x: x.double().numpy().copy())
        return counted

    return of


LIMITED = [
    (model("bora-map", most_iterations=2), 0.8),
    (model("bora-map", most_iterations=2), 0.4),
    (model("crowd-bt", most_iterations=1, start_reliability=1.0), 0.8),
    (model("sift", starts=("flat",), most_iterations=2, pair_effect=False, refine=False), 0.8),
]


@pytest.mark.parametrize(("chosen", "share"), LIMITED)
def test_a_device_is_never_asked_for_more_than_it_has(small_card, chosen, share):
    given = replace(simulate(30, 200, 3_000, seed=4).comparisons(), sides_known=False)
    wanted = chosen.estimate(engine(given, 1, device="cpu"))
    room = int(share * len(given) * device.bytes_a_vote(chosen.needs, given))
    counted = small_card(room)
    with counted:
        made = streamed.streamed_engine(given, CPU, chosen.needs)
        found = chosen.estimate(made)
    assert len(made._shards) >= 6
    assert " in part" in made.staying()
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-4)
    assert 0.3 * room < counted.most <= room


@pytest.mark.parametrize("most", [1_000_000, 150])
def test_pairs_that_shards_share_are_found_in_parts(most):
    given = votes()
    parts = [shards.of_workers(given, begin, end) for begin, end in ((0, 3), (3, 4), (4, 9))]
    wanted = shards.shared_pairs(parts)
    found = streamed._shared_pairs(parts, CPU, most)
    assert found[2] == wanted[2] > 10
    for one, two in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
        for ours, theirs in zip(one, two, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_what_is_changed_no_more_is_sent_once(monkeypatch):
    """Votes come back from the device never, and go there once a pass."""
    monkeypatch.setattr(streamed, "_SMALL", 0)
    made = streamed.streamed_engine(votes(), CPU, "slopes", shards=2)
    first = [shard._votes.first for shard in made._shards]
    kept = [t.kept for t in first]
    sent: list[int] = []
    plain = streamed.staged
    monkeypatch.setattr(streamed, "staged", lambda t, d: sent.append(id(t)) or plain(t, d))
    for _ in range(2):
        made.slopes.log_likelihood(np.zeros(12), np.ones(9))
    assert [sent.count(id(t)) for t in kept] == [2, 2]
    assert all(t.kept is same for t, same in zip(first, kept, strict=True))


def test_how_many_shards_and_where_even_that_fails(monkeypatch):
    place, free = torch.device("cuda:0"), [30 * 2**30]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda at: (free[0], 40 * 2**30))
    for name in ("memory_reserved", "memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda at: 0)
    given = votes()
    made = []
    monkeypatch.setattr(streamed, "worker_ranges", lambda at, shards: made.append(shards) or [])
    monkeypatch.setenv("CROWDSIFT_MEMORY", "1MB")
    free[0] = 10 * len(given) * device.bytes_a_vote("slopes", given)
    with pytest.raises(ValueError, match="empty"):  # no shards were made: how many is all we ask
        streamed.streamed_engine(given, place, "slopes")
    with pytest.raises(IndexError):
        streamed.streamed_engine(given, place, "grid")
    assert made == [1, 4]  # with known sides sift holds 165 bytes a vote, others 40
    monkeypatch.setenv("CROWDSIFT_MEMORY", "10kB")
    with pytest.raises(ResourceError, match=r"more than the host has to stream them from, 0\.0"):
        streamed.streamed_engine(given, place, "grid")
