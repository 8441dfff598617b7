"""The effect of groups of votes: its algebra against dense matrices, and what it finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reference_engine.building_blocks import laplacian

import crowdsift
from crowdsift.engines.grid import SiteSystem
from crowdsift.solvers.ep.items import scoring_step
from crowdsift.solvers.ep.terms.dependent import GroupPrior

S = 0.3


def nodes(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Leaves of 9 groups of one to four of 5 items, and the pairs within groups."""
    item, group, low, high = [], [], [], []
    for g in range(9):
        chosen = np.sort(rng.choice(5, 1 + g % 4, replace=False))
        start = len(item)
        item += chosen.tolist()
        group += [g] * len(chosen)
        for i in range(len(chosen)):
            for j in range(i + 1, len(chosen)):
                low.append(start + i)
                high.append(start + j)
    return tuple(np.array(each) for each in (item, group, low, high))


def system_of(weight: np.ndarray, rhs: np.ndarray, low: np.ndarray, high: np.ndarray) -> SiteSystem:
    return SiteSystem(laplacian(len(rhs), low, high, weight), rhs, 0.0)


def log_evidence(C: np.ndarray, L: np.ndarray, b: np.ndarray) -> float:
    """log of the mean of exp(-uᵀLu/2 + bᵀu) over u ~ N(0, C)."""
    sigma = np.linalg.inv(L + np.linalg.inv(C))
    return float(0.5 * b @ sigma @ b - 0.5 * np.linalg.slogdet(np.eye(len(b)) + L @ C)[1])


@pytest.mark.parametrize("smallest", [0.0, -0.2])  # sites of negative precision, too
def test_nodes_integrated_out_block_by_block_are_those_of_dense_matrices(smallest: float) -> None:
    rng = np.random.default_rng(3)
    item, group, low, high = nodes(rng)
    n, weight = len(item), rng.uniform(smallest, 2.0, len(low))
    pull = rng.normal(size=len(low))
    b = np.bincount(low, pull, n) - np.bincount(high, pull, n)
    prior = GroupPrior(item, group, 5)
    prior.variance = S
    system = system_of(weight, b, low, high)
    Z = np.eye(5)[item]
    L = system.laplacian.multiply(np.eye(n))
    C = Z @ Z.T + S * np.eye(n)
    sigma = np.linalg.inv(L + np.linalg.inv(C))
    prior.solve(system_of(weight + 0.5, b, low, high), np.zeros(n), 0.0)  # of other sites before
    np.testing.assert_allclose(prior.solve(system, np.zeros(n), 0.0), sigma @ b, atol=1e-12)
    kept: list[Any] = []
    sites = SimpleNamespace(set_pair_variances=kept.append)
    found = prior.pair_variances(SimpleNamespace(system=system, pair_sites=sites))  # type: ignore[arg-type]
    assert found.definite
    np.testing.assert_allclose(found.items, np.diag(sigma), atol=1e-12)
    apart = np.diag(sigma)[low] + np.diag(sigma)[high] - 2.0 * sigma[low, high]
    np.testing.assert_allclose(kept[0], apart, atol=1e-12)
    determinant = np.linalg.slogdet(np.eye(n) + L @ C)[1]
    assert found.log_determinant == pytest.approx(determinant, abs=1e-11)
    of_items = Z.T @ np.linalg.inv(C) @ sigma @ b  # E[r] = ZᵀC⁻¹E[u]
    np.testing.assert_allclose(prior.item_means, of_items, atol=1e-12)
    np.testing.assert_allclose(prior.precision.sum(axis=1), 1.0, atol=1e-12)
    step, h = float(prior.slopes.sum()), 1e-5
    one = np.eye(n)
    up, down = (log_evidence(C + e * one, L, b) for e in (h, -h))
    assert step == pytest.approx((up - down) / (2 * h), rel=1e-6)
    unexplained = L - L @ sigma @ L
    information = 0.5 * np.sum(unexplained[group[:, None] == group] ** 2)
    prior.learn(SimpleNamespace())  # type: ignore[arg-type]
    assert prior.variance == pytest.approx(scoring_step(step, information, S), rel=1e-9)
    prior.variance = S
    prior.rescale(2.0)
    assert prior.variance == pytest.approx(S / 4.0)
    size = (prior.item_means @ prior.item_means + np.trace(prior.covariance)) / 5.0
    assert prior.drift(SimpleNamespace()) == pytest.approx(np.sqrt(size))  # type: ignore[arg-type]


def test_groups_of_one_pair_have_the_algebra_of_the_pair_effect() -> None:
    a, H = 1.7, 0.9
    prior = GroupPrior(np.array([0, 1]), np.zeros(2, int), 2)
    prior.variance = S
    system = system_of(np.array([a]), np.array([H, -H]), np.array([0]), np.array([1]))
    prior.solve(system, np.zeros(2), 0.0)
    assert -prior.precision[0, 1] == pytest.approx(a / (1 + 2 * S * a), abs=1e-12)
    assert prior.item_means[0] == pytest.approx(H / (1 + 2 * S * a + 2 * a), abs=1e-12)


def test_sites_without_a_proper_gaussian_are_said_to_be_improper() -> None:
    prior = GroupPrior(np.array([0, 1]), np.zeros(2, int), 2)
    system = system_of(np.array([-9.0]), np.zeros(2), np.array([0]), np.array([1]))
    found = prior.pair_variances(SimpleNamespace(system=system))  # type: ignore[arg-type]
    assert not found.definite


def grouped(seed: int, s: float, several: bool) -> dict[str, list[str]]:
    """800 votes in 100 groups, drawn from the model: on one pair a group, or on several."""
    rng = np.random.default_rng(seed)
    scores = np.linspace(1.0, -1.0, 6) * np.sqrt(25.0 / 14.0)  # of mean square 5/6, as in a fit
    rows: dict[str, list[str]] = {name: [] for name in ("winner", "loser", "worker", "prompt")}
    for g in range(100):
        u = scores + np.sqrt(s) * rng.normal(size=6)
        a, b = rng.choice(6, 2, replace=False)
        for _ in range(8):
            if several:
                a, b = rng.choice(6, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(-1.5 * (u[a] - u[b])))
            rows["winner"].append(f"i{a if won else b}")
            rows["loser"].append(f"i{b if won else a}")
            rows["worker"].append(f"w{rng.integers(15)}")
            rows["prompt"].append(f"p{g}")
    return rows


@pytest.mark.parametrize("several", [False, True])
def test_an_effect_of_groups_is_found_at_its_size_and_only_where_there_is_one(several: bool) -> None:
    found = [crowdsift.fit(grouped(seed, 0.6, several), dependent_by="prompt") for seed in range(3)]
    sizes = [fit.summary["group_effect"] for fit in found]
    assert np.exp(np.mean(np.log(sizes))) == pytest.approx(0.6, rel=0.35)
    assert all(fit.converged for fit in found)
    if several:  # else a pair effect widens intervals already without groups
        assert all(fit.summary["design_effect"] > 1.05 for fit in found)
    none = crowdsift.fit(grouped(3, 0.0, several), dependent_by="prompt")
    assert not none.summary.get("group_effect")
    assert none.summary["design_effect"] == pytest.approx(1.0, abs=0.35)  # the sandwich


def test_with_an_effect_of_groups_predictions_are_for_a_new_group_and_survive_a_folder(tmp_path: Any) -> None:
    rows = grouped(1, 1.5, False)
    fit = crowdsift.fit(rows, dependent_by="prompt")
    turned = {name: values[::-1] for name, values in rows.items()}
    same = crowdsift.fit(turned, dependent_by="prompt")
    assert same.items["score"].tobytes() == fit.items["score"].tobytes()
    s = fit.summary["group_effect"]
    d = fit.items["score"][0] - fit.items["score"][-1]
    top, last = fit.items["item"][0], fit.items["item"][-1]
    beta = fit.posterior.points.reliability
    smooth = np.sqrt(1.0 + np.pi / 8.0 * 2.0 * s * beta**2)
    expected = np.mean(1.0 / (1.0 + np.exp(-beta * d / smooth)))
    assert fit.predict(top, last) == pytest.approx(expected, abs=1e-6)
    fit.save(tmp_path / "fit")
    again = crowdsift.load(tmp_path / "fit")
    assert again.predict(top, last) == pytest.approx(expected, abs=1e-3)
    assert again.items["upper"].tolist() == pytest.approx(fit.items["upper"].tolist())
