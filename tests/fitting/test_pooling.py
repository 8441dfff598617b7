"""Contexts that learn from each other: the algebra, its limits, and what it finds."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reference_engine.building_blocks import laplacian

import crowdsift
from crowdsift import RequestError, cli
from crowdsift.engines.grid import SiteSystem
from crowdsift.solvers.ep.terms import boards as module
from crowdsift.solvers.ep.terms.boards import BoardPrior, Boards


def rows_in_contexts(
    deviation: float, votes: int = 150, contexts: int = 4, items: int = 8, seed: int = 0
) -> tuple[dict[str, list[Any]], np.ndarray]:
    """Votes in contexts whose scores deviate from common ones, and the scores by context."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, items) + rng.normal(0, deviation, (contexts, items))
    rows: dict[str, list[Any]] = {name: [] for name in ("first", "second", "outcome", "worker", "topic")}
    for context in range(contexts):
        for _ in range(votes):
            i, j = rng.choice(items, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(scores[context, j] - scores[context, i]))
            row = (f"i{i}", f"i{j}", float(won), f"w{rng.integers(20)}", f"t{context}")
            for name, value in zip(rows, row, strict=True):
                rows[name].append(value)
    return rows, scores


def boards_and_system(rng: np.random.Generator) -> tuple[Boards, SiteSystem, np.ndarray]:
    """Three boards of 4, 3 and 5 of 5 items, with sites on all pairs of a board."""
    chosen = [np.array([0, 1, 2, 3]), np.array([1, 3, 4]), np.arange(5)]
    item, board = np.concatenate(chosen), np.repeat(np.arange(3), [4, 3, 5])
    pairs = [(i, j) for i in range(12) for j in range(i + 1, 12) if board[i] == board[j]]
    low, high = np.array(pairs).T
    pull = rng.normal(size=len(low))
    rhs = np.bincount(low, pull, 12) - np.bincount(high, pull, 12)
    system = SiteSystem(laplacian(12, low, high, rng.uniform(0, 2, len(low))), rhs, 0.0)
    return Boards(item, board, 5), system, system.laplacian.multiply(np.eye(12))


def evidence(prior: BoardPrior, L: np.ndarray, b: np.ndarray, v: float, s: np.ndarray) -> float:
    Z = np.eye(prior.count)[prior.item]
    C = v * Z @ Z.T + np.diag(s[prior.group])
    sigma = np.linalg.inv(L + np.linalg.inv(C))
    return float(0.5 * b @ sigma @ b - 0.5 * np.linalg.slogdet(np.eye(len(b)) + L @ C)[1])


def test_boards_are_those_of_dense_matrices():
    boards, system, L = boards_and_system(np.random.default_rng(1))
    prior = BoardPrior(boards)
    prior._set(np.log([0.05, 0.3, 1.5]))
    v, s, b = prior.common, prior.deviations, system.rhs
    assert np.mean(v + s[boards.board]) == pytest.approx(1.0)
    Z = np.eye(5)[boards.item]
    C = v * Z @ Z.T + np.diag(s[boards.board])
    sigma = np.linalg.inv(L + np.linalg.inv(C))
    np.testing.assert_allclose(prior.solve(system, np.zeros(12), 0.0), sigma @ b, atol=1e-12)
    sites = SimpleNamespace(set_pair_variances=lambda _: None)
    run: Any = SimpleNamespace(system=system, pair_sites=sites, means=sigma @ b)
    found = prior.pair_variances(run)
    np.testing.assert_allclose(found.items, np.diag(sigma), atol=1e-12)
    determinant = np.linalg.slogdet(np.eye(12) + L @ C)[1]
    assert found.log_determinant == pytest.approx(determinant, abs=1e-11)
    inner, trace = prior.forms(run)
    assert inner == pytest.approx(b @ sigma @ np.linalg.inv(C) @ sigma @ b)
    assert trace == pytest.approx(np.trace(np.linalg.inv(C) @ sigma))
    common = v * Z.T @ np.linalg.inv(C)
    np.testing.assert_allclose(prior.item_means, common @ sigma @ b, atol=1e-12)
    r_given = v * np.eye(5) - common @ Z * v
    np.testing.assert_allclose(prior.covariance, r_given + common @ sigma @ common.T, atol=1e-12)
    for board in range(3):
        step = 1e-5 * np.eye(3)[board]
        up, down = (evidence(prior, L, b, v, s + sign * step) for sign in (1, -1))
        assert prior.slopes[board] == pytest.approx((up - down) / 2e-5, rel=1e-5)


def test_learning_ends_where_the_evidence_with_its_prior_is_largest():
    """Steps in all v and s, scale included, come to rest where the penalised evidence is flat."""
    boards, system, L = boards_and_system(np.random.default_rng(4))
    strong = SiteSystem(system.laplacian, 3.0 * system.rhs, 0.0)
    prior = BoardPrior(boards)
    for _ in range(400):
        prior.solve(strong, np.zeros(12), 0.0)
        prior.learn(SimpleNamespace())  # type: ignore[arg-type]
    assert prior.at_rest

    def value(x: np.ndarray) -> float:
        v = 1.0 / (1.0 + np.exp(x)[boards.board].mean())
        mean = x.mean()
        before = np.sum((x - mean) ** 2) / module._APART**2
        z = (mean - np.log(module._TYPICAL)) / module._UNKNOWN
        before += (module._FREEDOM + 1) * np.log1p(z**2 / module._FREEDOM)
        return evidence(prior, L, strong.rhs, v, v * np.exp(x)) - 0.5 * before

    x = np.log(prior.deviations / prior.common)
    assert x.max() > np.log(module._TYPICAL) + 0.5  # the votes had their say
    for step in 1e-4 * np.eye(3):
        assert (value(x + step) - value(x - step)) / 2e-4 == pytest.approx(0.0, abs=0.01)


def test_complete_pooling_is_a_fit_without_contexts():
    rows, _ = rows_in_contexts(0.5)
    model = crowdsift.Sift(contexts=False, pair_effect=False, sides=False)
    apart = crowdsift.fit(rows, model, by="topic", pooling="complete")
    whole = crowdsift.fit({k: v for k, v in rows.items() if k != "topic"}, model)
    for context in ("t0", "t3"):
        same = apart.scores_of([(context, item) for item in whole.labels])
        np.testing.assert_allclose(same, whole.items["score"], atol=2e-3)
    np.testing.assert_allclose(apart.overall["score"], whole.items["score"], atol=2e-3)
    np.testing.assert_allclose(apart.overall["upper"], whole.items["upper"], atol=2e-3)
    assert apart.summary["evidence"] == pytest.approx(whole.summary["evidence"], abs=0.05)


def test_without_anything_in_common_every_context_is_alone(monkeypatch):
    rows, _ = rows_in_contexts(0.5)
    model = crowdsift.Sift(contexts=False, pair_effect=False, sides=False)
    alone = crowdsift.fit(rows, model, by="topic", pooling="none")
    monkeypatch.setattr("crowdsift.solvers.ep.terms.boards._COMPLETE", 1e7)
    apart = crowdsift.fit(rows, model, by="topic", pooling="complete")
    np.testing.assert_allclose(apart.scores_of(alone.labels), alone.items["score"], atol=2e-3)
    widths = dict(zip(apart.labels, apart.items["upper"] - apart.items["lower"], strict=True))
    expected = alone.items["upper"] - alone.items["lower"]
    np.testing.assert_allclose([widths[x] for x in alone.labels], expected, rtol=0.01)
    assert apart.summary["evidence"] == pytest.approx(alone.summary["evidence"], abs=0.05)


@pytest.mark.parametrize("seed", [2, 9, 35])
def test_a_start_from_contexts_without_anything_in_common_ends_as_the_whole_fit(seed):
    votes = crowdsift.simulate(40, 8, 240, reliability=(-0.6, 1.2), seed=seed).comparisons()
    rng, count = np.random.default_rng(seed), votes.weight.astype(int)
    ends = np.where(votes.outcome == 1.0, (votes.first, votes.second), (votes.second, votes.first))
    columns = dict(zip(("winner", "loser"), np.asarray(votes.items)[ends], strict=True))
    columns |= {"worker": np.asarray(votes.workers)[votes.worker_codes()]}
    columns = {name: np.repeat(column, count) for name, column in columns.items()}
    columns["topic"] = np.array(["law", "art"])[rng.integers(0, 2, 240)][: count.sum()]
    order = rng.permutation(count.sum())
    part, rows = ({name: column[use].tolist() for name, column in columns.items()} for use in (order[:200], order))
    whole = crowdsift.fit(rows, by="topic", threads=1)
    found = crowdsift.fit(rows, by="topic", start=crowdsift.fit(part, by="topic", threads=1), threads=1)
    np.testing.assert_allclose(found.scores_of(whole.labels), whole.scores_of(whole.labels), atol=1e-3)


def test_planted_deviations_are_found_and_intervals_hold_the_truth():
    held, errors = [], {"auto": 0.0, "none": 0.0, "complete": 0.0}
    for seed in range(3):
        rows, scores = rows_in_contexts(0.4, votes=300, contexts=6, items=10, seed=seed)
        for pooling in errors:
            fit = crowdsift.fit(rows, by="topic", pooling=pooling, overall=False)
            logits = float(np.median(fit.workers["reliability"]))
            truth = np.array([scores[int(t[1:]), int(i[1:])] for t, i in fit.labels])
            level = np.array([scores[int(t[1:])].mean() for t, _ in fit.labels])
            wrong = fit.items["score"] * logits - (truth - level)
            errors[pooling] += float(np.mean(wrong**2))
            if pooling == "auto":
                assert 0.4 / 1.5 < fit.summary["context_deviation"] * logits < 0.4 * 1.5
                half = 0.5 * logits * (fit.items["upper"] - fit.items["lower"])
                held.append(np.mean(np.abs(wrong) < half))
    assert errors["auto"] < min(errors["none"], errors["complete"])
    assert 0.82 < np.mean(held) < 0.97


def test_overall_is_the_common_ranking_of_the_same_fit(tmp_path):
    rows, _ = rows_in_contexts(0.3)
    fit = crowdsift.fit(rows, by="topic")
    assert fit.summary["overall"]["evidence"] == fit.summary["evidence"]
    assert fit.overall["item"].tolist() != []
    mean = {item: np.mean([fit.scores_of([(f"t{c}", item)])[0] for c in range(4)]) for item in fit.overall["item"]}
    assert np.corrcoef(fit.overall["score"], list(mean.values()))[0, 1] > 0.99
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    np.testing.assert_array_equal(back.overall["score"], fit.overall["score"])
    assert back.summary["context_deviation"] == fit.summary["context_deviation"]
    assert back.better(fit.labels[0], fit.labels[1]) == pytest.approx(
        fit.better(fit.labels[0], fit.labels[1]), abs=1e-9
    )
    new = {"first": ["i0"], "second": ["i1"], "outcome": [1.0], "worker": ["w1"], "topic": ["t0"]}
    later = back.update(new)
    assert later.summary["context_deviation"] == pytest.approx(fit.summary["context_deviation"], rel=0.2)
    assert later.parameters["pooling"] == "auto"
    kept = crowdsift.fit(rows, by="topic", pooling="none").update(new)
    assert kept.parameters["pooling"] == "none"
    assert "context_deviation" not in kept.summary


def test_other_contexts_connect_islands():
    """Votes on a and b, and on c and d, are two islands; another context says how they compare."""
    rows = {
        "winner": ["a", "c"] * 9 + ["a", "b", "c"] * 9,
        "worker": ["v", "w", "u"] * 15,
        "loser": ["b", "d"] * 9 + ["b", "c", "d"] * 9,
        "topic": ["x"] * 18 + ["y"] * 27,
    }
    alone = crowdsift.fit(rows, by="topic", pooling="none")
    assert alone.summary["components"] == 3
    fit = crowdsift.fit(rows, by="topic")
    assert fit.summary["components"] == 2
    assert fit.better(("x", "a"), ("x", "c")) > 0.8
    with pytest.raises(RequestError, match="component"):
        fit.better(("x", "a"), ("y", "a"))


def test_contexts_without_shared_items_are_as_before():
    rows, _ = rows_in_contexts(0.5)
    for side in ("first", "second"):
        rows[side] = [f"{t}/{i}" for t, i in zip(rows["topic"], rows[side], strict=True)]
    auto, none = (crowdsift.fit(rows, by="topic", pooling=each) for each in ("auto", "none"))
    for name in auto.items:
        np.testing.assert_array_equal(auto.items[name], none.items[name])
    assert auto.summary["evidence"] == none.summary["evidence"]
    assert auto.overall is None


def test_too_many_shared_items_are_ranked_alone_and_that_is_said(monkeypatch):
    monkeypatch.setattr("crowdsift.solvers.ep.terms.boards.MAX_BOARD_ITEMS", 5)
    rows, _ = rows_in_contexts(0.5, votes=40)
    auto, none = (crowdsift.fit(rows, by="topic", pooling=each) for each in ("auto", "none"))
    np.testing.assert_array_equal(auto.items["score"], none.items["score"])
    assert any("too many to be pooled" in each for each in auto.warnings)
    assert not any("too many" in each for each in none.warnings)


@pytest.mark.parametrize("engine", ["disk", "dask"])
def test_other_engines_pool_alike(engine):
    if engine == "dask":
        pytest.importorskip("distributed")
    rows, _ = rows_in_contexts(0.3, votes=60)
    votes = crowdsift.read(rows, by="topic")
    here = crowdsift.fit(votes, engine="cpu")
    options = {"shards": 2} if engine == "dask" else None
    there = crowdsift.fit(votes, engine=engine, engine_options=options)
    np.testing.assert_allclose(there.scores_of(here.labels), here.items["score"], atol=1e-3)
    np.testing.assert_allclose(
        there.overall_ranking.scores_of(here.overall_ranking.labels), here.overall_ranking.items["score"], atol=1e-3
    )


def test_pooling_that_would_be_ignored_is_refused(tmp_path, capsys, monkeypatch):
    rows, _ = rows_in_contexts(0.3, votes=30)
    with pytest.raises(RequestError, match="name their column with --by"):
        crowdsift.fit(rows, pooling="none")
    with pytest.raises(RequestError, match="bt fits every context alone"):
        crowdsift.fit(rows, "bt", by="topic", pooling="complete")
    with pytest.raises(RequestError, match="pooling must be auto, none or complete, not 'some'"):
        crowdsift.fit(rows, by="topic", pooling="some")
    apart = {
        **rows,
        **{side: [f"{t}/{i}" for t, i in zip(rows["topic"], rows[side], strict=True)] for side in ("first", "second")},
    }
    with pytest.raises(RequestError, match="they share no items"):
        crowdsift.fit(apart, by="topic", pooling="complete")
    path = tmp_path / "votes.json"
    records = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    path.write_text(json.dumps(records))
    for arguments in (
        ["--pooling", "none"],
        ["--by", "topic", "--pooling", "some"],
        ["--by", "topic", "--pooling", "auto", "--method", "bt"],
    ):
        for file in (path, tmp_path / "no.json"):  # refused before votes are read
            monkeypatch.setattr("sys.argv", ["crowdsift", "fit", str(file), *arguments])
            with pytest.raises(SystemExit):
                cli.main()
            assert "pooling" in capsys.readouterr().err
