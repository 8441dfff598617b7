"""Votes beyond a device: shards that are on it only while they are passed give the same fits."""

from __future__ import annotations

import numpy as np
import pytest

from crowdsift import simulate
from crowdsift.errors import ResourceError
from crowdsift.models import model

torch = pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")

from crowdsift.engines.torch import device, engine, streamed  # noqa: E402

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
    if method == "bora-map":  # shards that stay give the same
        made._plan.map._resident = 2
        np.testing.assert_array_equal(chosen.estimate(made).scores, found.scores)
        assert any(t.numel() for t in streamed.tensors(made._shards[0]))
        streamed.leave(*made._shards)
    held = [t for shard in made._shards for t in streamed.tensors(shard)]
    assert len(held) > 15
    assert all(t.numel() == 0 for t in held)  # all that is left is with the host
    assert sum(t.kept.numel() for t in held) > 3 * len(votes())


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
    assert made == [1, 5]  # with known sides sift holds 165 bytes a vote, others 40
    monkeypatch.setenv("CROWDSIFT_MEMORY", "10kB")
    with pytest.raises(ResourceError, match=r"more than the host has to stream them from, 0\.0"):
        streamed.streamed_engine(given, place, "grid")
