"""Vectors of a device do what arrays do, and solvers that get them find the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from context_votes import draw_votes

from crowdsift import Comparisons, simulate
from crowdsift.engines import choose_engine
from crowdsift.engines.dimensions import Part
from crowdsift.models import model
from crowdsift.solvers.ep.terms import dimensions
from crowdsift.solvers.ep.terms.dimensions import Setting, begin, leading_residual, run

torch = pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")
pytest.importorskip("triton", reason="Triton is not installed")

from crowdsift.engines.torch import engine, vectors  # noqa: E402
from crowdsift.engines.torch.vectors import DeviceVector  # noqa: E402

A, B = np.array([3.0, -4.0, 0.5]), np.array([0.0, 2.0, 1.5])


def there(x: np.ndarray) -> DeviceVector:
    return DeviceVector(torch.tensor(x))


@pytest.mark.parametrize(
    "work",
    [
        lambda x, y: x + y,
        lambda x, y: 2.0 - x / np.maximum(y, 1.0),
        lambda x, y: np.float64(0.1) * x**2 - y * np.array(3),
        lambda x, y: np.log(np.exp(x) + 1) * (y > 0.0),
        lambda x, y: x @ y + np.linalg.norm(x) + np.abs(x).max(initial=7.0) + x.min(),
        lambda x, y: np.mean(x) + x.mean() + np.sum(x**2) + y.sum(),
        lambda x, y: np.clip(x, -1.0, 1.0)[:2],
        lambda x, y: np.concatenate([x, y])[::2],
        lambda x, y: [np.isfinite(x).all(), (x == y).any(), x.any(), len(x), x.size],
        lambda x, y: np.zeros_like(x) + np.ones_like(y),
        lambda x, y: np.divide(x, np.maximum(y, 0.5), out=np.empty_like(x)),
        lambda x, y: np.where(x > 0.0, x, y),  # what follows is done on the host
        lambda x, y: np.divide(x, y, out=np.zeros(3), where=np.asarray(y > 0)),
        lambda x, y: np.bincount([0, 1, 0], x),
        lambda x, y: np.arange(6.0).reshape(2, 3) @ x,
        lambda x, y: x[np.array([2, 0])] + x[0] + x[-1],
        lambda x, y: np.stack([x, y]).T,
        lambda x, y: x[:, None] * y,
        lambda x, y: np.add.reduce(x),
        lambda x, y: (x[:, None] * y - np.eye(3)).sum(axis=0),
        lambda x, y: np.linalg.norm(x[:, None] * y, axis=0) / np.maximum((x[:, None] + y).sum(axis=0), 1.0),
        lambda x, y: (x[:, None] * y)[1:, 0] + (x[:, None] * y).size + (x[:, None] * y).ndim,
        lambda x, y: np.eye(3)[:2] @ (x[:, None] * y),
        lambda x, y: np.stack([x, np.roll(x, 1)], axis=1) @ np.ones((2, 4)),
        lambda x, y: np.einsum("i,i->", x, x) + np.einsum("i,j->ij", x, x),
        lambda x, y: np.linalg.inv(np.eye(3) + x[:, None] * x) * np.linalg.slogdet(np.eye(3) + x[:, None] * x)[1],
    ],
)
def test_as_arrays(work):
    wanted = work(A.copy(), B.copy())
    for x, y in ((there(A), there(B)), (there(A), B.copy()), (A.copy(), there(B))):
        np.testing.assert_allclose(work(x, y), wanted, rtol=1e-14)


def test_in_place():
    x, array = there(A), A.copy()
    first, second = x, array
    x += B
    array += there(B)
    x *= 2.0
    array *= 2.0
    assert first is x
    assert second is array
    np.testing.assert_array_equal(np.asarray(x), array)
    kept = x.copy()
    x -= x
    assert not x.any()
    assert kept.any()


def cases() -> dict[str, Comparisons]:
    plain = simulate(6, 4, 60, seed=4).comparisons()
    apart = plain.first % 2 == plain.second % 2  # even items and odd ones are never compared
    contexts = draw_votes(0.3, 0.8, seed=3, each=3, workers=3, contexts=2, items=3)
    return {"plain": plain, "islands": plain.select(apart), "contexts": contexts}


@pytest.mark.parametrize(
    ("method", "name"),
    [
        *itertools.product(["bt", "bora-map", "sift"], ["plain", "islands"]),
        ("sift", "contexts"),  # which are known to sift alone
    ],
)
def test_fits_with_vectors_that_stay(monkeypatch, method, name):
    # Triton's interpreter takes a second for an iteration of sift: three must do.
    few = {"most_iterations": 3, "starts": ("flat",)} if method == "sift" else {}
    votes, chosen = cases()[name], model(method, **few)
    plain = chosen.estimate(engine(votes, 1, device="cpu"))
    made: list[int] = []
    monkeypatch.setattr(vectors, "stays", lambda device, length: not made.append(length))
    found = chosen.estimate(engine(votes, 1, device="cpu"))
    assert len(made) > 10
    for one in (found.scores, found.theta, found.workers.reliability_sd):
        assert one is None or type(one) is np.ndarray
    np.testing.assert_allclose(found.scores, plain.scores, atol=1e-8)
    np.testing.assert_allclose(found.theta, plain.theta, atol=1e-7)
    np.testing.assert_allclose(found.log_likelihood, plain.log_likelihood, rtol=1e-9)


def test_the_test_of_residuals_stays_on_the_device(monkeypatch):
    rng, votes = np.random.default_rng(2), simulate(9, 7, 150, seed=4).comparisons()
    positions, weights = rng.normal(size=(9, 1)), rng.normal(size=(7, 1))
    found = []
    for made in (choose_engine("cpu", votes), engine(votes, 1, device="cpu")):
        setting = Setting(made.dimensions, np.zeros(7), False, made.facts.component, Part.KEPT)
        found.append(leading_residual(setting, positions, weights))
        monkeypatch.setattr(vectors, "stays", lambda device, length: True)
    assert type(found[1][0]) is DeviceVector
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-5, atol=1e-6)


def test_positions_and_weights_stay_on_the_device(monkeypatch):
    rng, votes = np.random.default_rng(3), draw_votes(0.3, 0.8, seed=3, each=3, workers=3, contexts=2, items=4)
    K, S = votes.n_items, votes.n_workers
    one = begin(rng.normal(size=K), np.full(K, 0.3), rng.normal(size=(S, 2)), np.full((S, 2), 0.4))
    start = one.extended(rng.normal(size=K))
    monkeypatch.setattr(dimensions, "MAX_DENSE_ROWS", 0)
    found = []
    for made in (choose_engine("cpu", votes), engine(votes, 1, device="cpu")):
        setting = Setting(made.dimensions, np.zeros(S), False, made.facts.component)
        found.append(run(setting, start, most=3))
        monkeypatch.setattr(vectors, "stays", lambda device, length: True)
    for name in ("positions", "covariance", "weights", "second", "shares"):
        plain, there = (getattr(each, name) for each in found)
        assert type(there) is np.ndarray
        np.testing.assert_allclose(there, plain, rtol=1e-5, atol=1e-6)
    assert found[1].bound == pytest.approx(found[0].bound, rel=1e-6)
