"""What the torch engine has beside the contract: errors, exact sums, choice of the device."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from crowdsift import Comparisons, engines, fit, model, simulate
from crowdsift.engines import choose_engine, engine_choice, fastest_engine
from crowdsift.engines.base import SlopePrior, required
from crowdsift.engines.dimensions import Crowd
from crowdsift.errors import RequestError, ResourceError
from crowdsift.models import MODELS
from crowdsift.models.sift_dimensions import with_dimensions

torch = pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")
pytest.importorskip("triton", reason="Triton is not installed")

SOURCE = Path(__file__).resolve().parents[2] / "src"


def votes() -> Comparisons:
    return simulate(6, 4, 60, seed=4).comparisons()


def test_sums_do_not_depend_on_the_order():
    from crowdsift.engines.torch.sums import exact_sum

    rng = np.random.default_rng(1)
    index, values = rng.integers(0, 5, 1000), rng.normal(size=1000) * 10.0 ** rng.integers(-9, 9)
    found = set()
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(1000)
        sums = exact_sum(torch.tensor(index[order]), torch.tensor(values[order]), 5, 1000)
        found.add(sums.numpy().tobytes())
    assert len(found) == 1
    np.testing.assert_allclose(sums.numpy(), np.bincount(index, values, 5), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-280, 1e-30, 1.0, 1e30, 1e250])
def test_sums_of_any_size(size):
    from crowdsift.engines.torch.sums import exact_sum

    values = torch.tensor([size, -3.0 * size, 0.5 * size], dtype=torch.float64)
    found = exact_sum(torch.tensor([0, 1, 0]), values, 3, 2)
    np.testing.assert_allclose(found.numpy(), [1.5 * size, -3.0 * size, 0.0], rtol=1e-14)


def test_a_sum_of_what_is_no_number_is_none():
    from crowdsift.engines.torch.sums import exact_sum

    values = torch.tensor([1.0, torch.nan], dtype=torch.float64)
    assert torch.isnan(exact_sum(torch.tensor([0, 1]), values, 2, 1)).any()


# Triton's interpreter takes a second for an iteration of these: a few must do.
FEW_ITERATIONS = {
    "bora-em": model("bora-em", most_iterations=1),
    "sift": model("sift", most_iterations=2, starts=("flat",), pair_effect=False),
}


@pytest.mark.filterwarnings("ignore::crowdsift.errors.ConvergenceWarning")
@pytest.mark.parametrize("method", MODELS)
def test_fits_are_those_of_the_cpu_and_the_same_every_time(method):
    given = votes()
    chosen = FEW_ITERATIONS.get(method, model(method)).relax(given)[0]
    ours = [fit(given, chosen, engine="torch", threads=1) for _ in range(2)]
    theirs = fit(given, chosen, engine="cpu", threads=1)
    scores = [np.asarray(each.items["score"]) for each in (*ours, theirs)]
    assert scores[0].tobytes() == scores[1].tobytes()
    np.testing.assert_allclose(scores[0], scores[2], atol=2e-4)


def tastes() -> Comparisons:
    """Votes of workers who weigh two properties of the items differently."""
    rng, s = np.random.default_rng(0), np.repeat(np.arange(12), 25)
    x, a = rng.normal(size=(6, 2)), rng.normal([1.0, 0.0], 1.0, (12, 2))
    i = rng.integers(6, size=len(s))
    j = (i + rng.integers(1, 6, len(s))) % 6
    p = 1.0 / (1.0 + np.exp(-(a[s] * (x[i] - x[j])).sum(axis=1)))
    return Comparisons.from_arrays(i, j, worker=s, outcome=(rng.random(len(s)) < p).astype(float))


def test_two_dimensions_are_those_of_the_cpu():
    given = tastes()
    torch_engine, cpu_engine = (choose_engine(name, given) for name in ("torch", "cpu"))
    one = model("sift", dimensions=1).estimate(cpu_engine)
    ours, theirs = (with_dimensions(one, each, 2) for each in (torch_engine, cpu_engine))
    for name in ("positions", "weights", "position_covariance", "weight_covariance"):
        found, wanted = (getattr(each.dimensions, name) for each in (ours, theirs))
        np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-5)  # the second axis has no sign
    np.testing.assert_allclose(ours.score_sd, theirs.score_sd, atol=1e-5)
    np.testing.assert_allclose(ours.evidence, theirs.evidence, atol=1e-3)
    np.testing.assert_allclose(ours.workers.class_evidence, theirs.workers.class_evidence, atol=1e-4)


def test_passes_in_two_dimensions_give_the_same_bytes_every_time():
    given, rng = tastes(), np.random.default_rng(1)
    x, a = rng.normal(size=(6, 2)), rng.normal(size=(12, 2))
    crowd = Crowd(np.ones(2), np.eye(2), np.log(np.full(4, 0.25)), 0.1, 0.1)
    state = x, np.tile(np.eye(2), (6, 1, 1)), crowd, a, a[:, :, None] * a[:, None, :] + np.eye(2)
    passes = required(choose_engine("torch", given).dimensions)
    found = [passes.update(*state, np.zeros(12), False, 0, 1.0) for _ in range(2)]
    for name in ("weights", "second", "population", "rhs"):
        assert getattr(found[0], name).tobytes() == getattr(found[1], name).tobytes()
    products = [each.system.multiply(x).tobytes() for each in found]
    assert products[0] == products[1]


def test_a_slope_for_which_newtons_steps_go_in_circles():
    """One vote against a large difference of scores: plain steps leap to and fro."""
    given = Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    scores, start = np.array([-2.5, 2.9]), np.array([1.8])
    found = []
    for name in ("torch", "reference"):
        slopes = required(choose_engine(name, given).slopes)
        found.append(slopes.profile(scores, start, SlopePrior(0.8, 2.0, 1e-9)).slopes)
    np.testing.assert_allclose(found[0], found[1], atol=1e-8)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "no device 'gpu'"),
        ("meta", "runs on cuda devices, not on 'meta'"),
        pytest.param(
            "cuda:0",
            "device 'cuda:0' cannot be used: PyTorch .* finds no CUDA device",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_devices_that_are_not_there(device, message):
    from crowdsift.engines.torch import engine

    with pytest.raises(RequestError, match=message):
        engine(votes(), 1, device=device)


def test_without_a_gpu_the_compiled_core_serves(monkeypatch):
    """One sentence says so; a device by name, and no PyTorch, are errors."""
    given = votes()
    monkeypatch.delenv("TRITON_INTERPRET")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ran = fit(given, "bt", engine="torch")
    assert ran.summary["engine"] == "cpu"
    reason = ran.summary["engine_reason"]
    assert reason.startswith("engine 'torch' cannot run, so the compiled core ran: PyTorch ")
    assert reason in ran.warnings
    with pytest.raises(RequestError, match="finds no CUDA device"):
        fit(given, "bt", engine="torch", engine_options={"device": "cuda:0"})
    with pytest.raises(RequestError, match="runs on GPUs alone: use engine 'cpu'"):
        fit(given, "bt", engine_options={"device": "cpu"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (6, 1))
    assert engine_choice("torch", given).reason.endswith("is 6.1, and Triton needs 7.0 or higher")
    with pytest.raises(RequestError, match="there are 1 GPUs, numbered from cuda:0"):
        choose_engine("torch", given, device="cuda:1")
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "triton" else name)
    assert engine_choice("torch", given).reason.endswith("Triton is not installed")


def test_the_summary_names_the_engine_and_why():
    given = votes()
    ran = fit(given, "bt", engine="torch", engine_options={"device": "cpu"}).summary
    assert (ran["engine"], ran["engine_reason"]) == ("torch", "it was asked for")
    ran = fit(given, "bt", engine_options={"device": "cpu"}).summary
    assert ran["engine_reason"] == "device cpu was asked for"
    ran = fit(given, "bt").summary
    assert ran["engine"] == "cpu"
    assert "s on a GPU, its start included" in ran["engine_reason"]
    with pytest.raises(RequestError, match="with engine 'cpu' leave it out"):
        fit(given, "bt", engine="cpu", engine_options={"device": "cuda:0"})


def test_memory_is_foreseen_and_its_end_has_figures(monkeypatch):
    from crowdsift.engines.torch import device

    place = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda at: (30 * 2**30, 40 * 2**30))
    for name in ("memory_reserved", "memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda at: 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    device.require_device_memory(place, 2**29, 60)
    with pytest.raises(
        ResourceError,
        match=r"about 30\.5 GiB on cuda:0, which has 40\.0 GiB, 30\.0 GiB of them free: use engine "
        "'disk' or engine 'dask'",
    ):
        device.require_device_memory(place, 2**29, 61)
    with pytest.raises(ResourceError, match="fit fewer votes"), device.memory_errors(place, 2**29):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_memory_that_ends_in_mid_fit(monkeypatch):
    """Nothing of a fit is left, and the message has figures."""
    from crowdsift.engines.torch.slopes import TorchSlopes

    def full(*given, **named):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda at: (2**30, 2**31))
    for name in ("memory_reserved", "memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda at: 0)
    monkeypatch.setattr(TorchSlopes, "profile", full)
    with pytest.raises(ResourceError, match=r"has 2\.0 GiB, 1\.0 GiB of them free"):
        fit(votes(), "bora-map", engine="torch")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("The NVIDIA driver on your system is too old (found version 11040).", "update the driver"),
        ("Found no NVIDIA driver on your system.", "there is no NVIDIA driver"),
        ("CUDA unknown error\nmore", "CUDA does not start: CUDA unknown error$"),
        (None, "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_what_is_wrong_with_a_driver(monkeypatch, said, message):
    from crowdsift.engines.torch.device import gpu_fault

    def start():
        if said is not None:
            raise RuntimeError(said)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", start)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(gpu_fault())
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "one for the CPU" in gpu_fault()


def test_a_gpu_is_used_where_it_is_expected_to_be_faster(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H")
    assert fastest_engine(10**9, 2, "grid").name == "torch"
    assert fastest_engine(10**9, 2, "slopes").name == "torch"
    for needs in ("slopes", "em", "likelihood", "grid"):
        name, reason = fastest_engine(10**5, 2, needs)
        assert name == "cpu"
        assert "expected to be faster" in reason
    first = next(n for n in range(20) if fastest_engine(2**n * 10**5, 2, "grid").name == "torch")
    later = next(n for n in range(20) if fastest_engine(2**n * 10**5, 16, "grid").name == "torch")
    assert first < later  # more threads make the CPU faster


def test_quantiles_are_those_of_the_host():
    from crowdsift.engines.torch.sites import quantiles as there
    from crowdsift.solvers.ep.summaries import quantiles

    rng = np.random.default_rng(0)
    points = np.sort(rng.normal(size=(50, 9)), axis=1)
    masses, levels = rng.dirichlet(np.full(9, 0.2), 50) * 0.9, np.linspace(0.05, 0.95, 7)
    for atom in (np.zeros(50), np.full(50, 0.1)):
        found = there(points, masses, levels, atom, torch.device("cpu"))
        np.testing.assert_allclose(found, quantiles(points, masses, levels, atom), atol=1e-12)


def test_codes_out_of_range_are_refused():
    from dataclasses import replace

    given = votes()
    first = given.first.copy()
    first[3] = given.n_items
    with pytest.raises(RequestError, match="item code 6, but there are 6"):
        choose_engine("torch", replace(given, first=first))


def test_without_torch_the_message_names_the_extra():
    program = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import crowdsift
votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
try:
    crowdsift.fit(votes, "bt", engine="torch")
except crowdsift.RequestError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": str(SOURCE), "PATH": ""},
    )
    assert "crowdsift[gpu]" in run.stdout, run.stderr


def test_workers_at_scores_beyond_all_numbers_stay_where_they_are():
    """A trial step may go so far that probabilities are 0; it is taken back, and nothing fails."""
    from dataclasses import replace

    given = replace(votes(), features=np.ones((len(votes()), 1), np.float32))
    theta, centre = np.tile([0.7, 0.0], (4, 1)), np.array([0.7, 0.0])
    rest = {"centre": centre, "penalty": 1.0, "bounds": (-np.inf, np.inf)}
    ours, theirs = (required(choose_engine(name, given).likelihood) for name in ("torch", "cpu"))
    far = np.linspace(-1.0, 1.0, 6) * 1e200
    found = ours.fit_workers("led-logit", far, theta, **rest)
    np.testing.assert_allclose(found, theirs.fit_workers("led-logit", far, theta, **rest), atol=1e-6)
    nowhere = ours.fit_workers("led-logit", np.full(6, np.nan), theta, **rest)
    np.testing.assert_array_equal(nowhere, theta)


@pytest.mark.parametrize("method", ["bora-map", "bora-em", "sift"])
def test_nothing_of_a_fit_stays_on_the_device(method):
    """Votes, and what passes made of them, are let go of at once, not by a search for cycles."""
    gc.collect()
    gc.disable()
    try:
        engine = choose_engine("torch", votes())
        held = weakref.ref(engine)
        estimate = FEW_ITERATIONS.get(method, model(method)).estimate(engine)
        del engine
        assert held() is None
        assert estimate.rule.iterations > 0
    finally:
        gc.enable()


def test_pairs_in_ranges_of_items_are_the_same_pairs(monkeypatch):
    """As with millions of items: the order of pairs is another."""
    from crowdsift.engines.torch import engine, rows

    given, chosen = votes(), FEW_ITERATIONS["sift"]
    plain = engine(given, 1, device="cpu")
    wanted = chosen.estimate(plain)
    pairs = plain.grid._rows[False].pairs
    monkeypatch.setattr(rows, "_NEAR", 2)
    ranges = engine(given, 1, device="cpu")
    found = chosen.estimate(ranges)
    other = ranges.grid._rows[False].pairs
    assert set(zip(pairs.low.tolist(), pairs.high.tolist(), strict=True)) == set(
        zip(other.low.tolist(), other.high.tolist(), strict=True)
    )
    assert pairs.low.tolist() != other.low.tolist()
    assert (torch.diff(torch.div(other.high, 2, rounding_mode="floor")) >= 0).all()
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-9)
    assert chosen.left_out(ranges, found) == pytest.approx(chosen.left_out(plain, wanted))


@pytest.mark.parametrize("parameters", [2, 3])
def test_newton_steps_of_workers_take_eigenvalues_as_positive(parameters: int) -> None:
    """In closed form or in parts: |H + damping|⁻¹ g, by NumPy's decomposition of each H."""
    from crowdsift.engines.torch.likelihood import _AT_ONCE, _newton_step

    rng = np.random.default_rng(5)
    count = _AT_ONCE + 3
    half = rng.normal(size=(count, parameters, parameters))
    hessian = half + half.transpose(0, 2, 1)
    hessian[0], hessian[1] = 2.0 * np.eye(parameters), 0.0
    hessian[2] = np.diag(np.arange(parameters) - 0.5)
    damping, slope = rng.exponential(size=count), rng.normal(size=(count, parameters))
    values, vectors = np.linalg.eigh(hessian)
    size = np.maximum(np.abs(values), 1e-8) + damping[:, None]
    wanted = np.einsum("sij,sj,skj,sk->si", vectors, 1.0 / size, vectors, slope)
    found = _newton_step(*(torch.from_numpy(each) for each in (hessian, damping, slope)))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-12)
