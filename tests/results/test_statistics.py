"""Statistics of fit against plain NumPy and by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

import crowdsift
from crowdsift.lab.spam import add_spammers
from crowdsift.results.scales import typical_reliability
from crowdsift.results.statistics import agreement_alpha, separation
from crowdsift.results.triads import count_triads


@pytest.fixture(scope="module")
def votes() -> crowdsift.Comparisons:
    return crowdsift.simulate(items=8, workers=7, comparisons=900, seed=4).comparisons()


def rows(votes: crowdsift.Comparisons) -> list[tuple[int, int, int, float, float]]:
    """Worker, first, second, outcome and weight of every row, as plain numbers."""
    who = votes.worker_codes()
    return [
        (int(who[i]), int(votes.first[i]), int(votes.second[i]), float(votes.outcome[i]),
         float(votes.weight[i]))
        for i in range(len(votes))
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["bt", "sift", "bora-map"])
def test_infit_and_outfit(votes: crowdsift.Comparisons, method: str) -> None:
    fit = crowdsift.fit(votes, method)
    found = fit.statistics()
    score = dict(zip(fit.items["item"], fit.items["score"], strict=True))
    b = 1.0 if method == "bt" else typical_reliability(fit)
    squares: dict[object, list[tuple[float, float]]] = {}
    for who, first, second, y, weight in rows(votes):
        one, two = votes.items[first], votes.items[second]
        p = 1 / (1 + np.exp(-b * (score[one] - score[two])))
        for label in (("worker", votes.workers[who]), ("item", one), ("item", two)):
            squares.setdefault(label, []).extend([((y - p) ** 2, p * (1 - p))] * int(weight))
    for kind, table in (("worker", found.workers), ("item", found.items)):
        for row in table.records():
            square, variance = np.array(squares[kind, row[kind]]).T
            assert row["outfit"] == pytest.approx((square / variance).mean(), abs=1e-6)
            assert row["infit"] == pytest.approx(square.sum() / variance.sum(), abs=1e-6)
            sd = np.sqrt((variance - 4 * variance**2).sum()) / variance.sum()
            assert row["infit_z"] == pytest.approx((row["infit"] - 1) / sd, abs=1e-6)
    assert found.items["item"].tolist() == fit.items["item"].tolist()


def test_separation(votes: crowdsift.Comparisons) -> None:
    for method in ("bt", "sift"):
        fit = crowdsift.fit(votes, method, level=0.95)
        sd = (fit.items["upper"] - fit.items["lower"]) / 2 / norm.ppf(0.975)
        spread, error = fit.items["score"].var(ddof=1), (sd**2).mean()
        found = separation(fit)
        assert found is not None
        true = spread - error if method == "bt" else spread
        share = true / spread if method == "bt" else spread / (spread + error)
        assert found.reliability == pytest.approx(share, abs=1e-6)
        assert found.ratio == pytest.approx(np.sqrt(true / error), abs=1e-6)
        assert fit.summary["separation_reliability"] == pytest.approx(share, abs=1e-6)


def test_separation_tells_the_share_of_variance_that_is_true() -> None:
    """Squared correlation with the truth, over simulated boards, for both kinds of scores."""
    for method in ("bt", "bora-map"):
        result, true = [], []
        for seed in range(30):
            drawn = crowdsift.simulate(40, 10, 400, reliability=(1.0, 1.0), seed=seed)
            fit = crowdsift.fit(drawn.comparisons(), method, threads=1)
            found = separation(fit)
            assert found is not None
            result.append(found.reliability)
            score = fit.scores_of(drawn.items)
            true.append(np.corrcoef(score, drawn.scores)[0, 1] ** 2)
        error = np.std(np.subtract(result, true), ddof=1) / np.sqrt(30)
        assert np.mean(result) == pytest.approx(np.mean(true), abs=0.03 + 2 * error)


def test_alpha_by_counting_pairs() -> None:
    drawn = crowdsift.simulate(items=5, workers=6, comparisons=80, seed=2).comparisons()
    outcome = np.where(np.arange(len(drawn)) % 5 == 0, 0.5, drawn.outcome)
    board = crowdsift.Comparisons.from_arrays(
        drawn.items[drawn.first], drawn.items[drawn.second], outcome=outcome, weight=drawn.weight,
        worker=drawn.workers[drawn.worker_codes()],
    )  # fmt: skip
    units: dict[tuple[int, int], list[float]] = {}
    for _, first, second, y, weight in rows(board):
        units.setdefault((first, second), []).extend([y] * int(weight))
        units.setdefault((second, first), []).extend([1 - y] * int(weight))
    kept = [np.array(values) for values in units.values() if len(values) > 1]
    pooled = np.concatenate(kept)
    observed = sum(((v[:, None] - v[None, :]) ** 2).sum() / (len(v) - 1) for v in kept)
    expected = ((pooled[:, None] - pooled[None, :]) ** 2).sum() / (len(pooled) - 1)
    assert agreement_alpha(board) == pytest.approx(1 - observed / expected, abs=1e-9)


def test_alpha_of_chance_is_0_and_lacks_without_repeats() -> None:
    rng = np.random.default_rng(0)
    first, second = np.full(4000, "a"), np.full(4000, "b")
    coin = crowdsift.Comparisons.from_arrays(first, second, outcome=rng.integers(0, 2, 4000))
    assert agreement_alpha(coin) == pytest.approx(0.0, abs=0.005)
    assert agreement_alpha(crowdsift.Comparisons.from_arrays(["a"], ["b"])) is None


def test_triads_by_counting(votes: crowdsift.Comparisons) -> None:
    for seed in range(5):
        board = crowdsift.simulate(items=8, workers=4, comparisons=60, seed=seed).comparisons()
        wins = np.zeros((8, 8))
        for _, first, second, y, weight in rows(board):
            wins[first, second] += y * weight
            wins[second, first] += (1 - y) * weight
        above = wins > wins.T
        whole = circles = 0
        for a, b, c in combinations(range(8), 3):
            if all(above[i, j] or above[j, i] for i, j in ((a, b), (b, c), (a, c))):
                whole += 1
                circles += above[a, b] == above[b, c] == above[c, a]
        found = count_triads(board, np.full(len(board), 0.5))
        assert found is not None
        assert (found.triads, found.intransitive) == (whole, circles)
        assert found.expected == pytest.approx(whole / 4)  # of coins: two of eight orders


def test_expected_triads_are_those_of_the_model() -> None:
    """Over 200 boards drawn from known scores the count is what these scores expect."""
    counts, expected = [], []
    for seed in range(200):
        drawn = crowdsift.simulate(7, 3, 60, reliability=(1.0, 1.0), seed=seed)
        board = drawn.comparisons()
        gap = drawn.scores[board.first] - drawn.scores[board.second]
        found = count_triads(board, 1 / (1 + np.exp(-gap)))
        assert found is not None
        counts.append(found.intransitive)
        expected.append(found.expected)
    error = np.std(np.subtract(counts, expected), ddof=1) / np.sqrt(200)
    assert np.mean(counts) == pytest.approx(np.mean(expected), abs=3 * error)


def test_split_half_foretells_a_second_crowd() -> None:
    """Two crowds of ten agree as much as the halves of one say, stepped up to ten."""
    result, seen = [], []
    for seed in range(12):
        crowds = [
            crowdsift.simulate(25, 20, 1200, reliability=(0.8, 0.8), seed=seed).comparisons(),
        ]
        who = crowds[0].worker_codes()
        halves = [crowds[0].select(who % 2 == side) for side in (0, 1)]
        fits = [crowdsift.fit(half, "bt") for half in halves]
        result.append(fits[0].statistics(halves=6).split_half)
        seen.append(
            np.corrcoef(*(fit.scores_of(crowds[0].items) for fit in fits))[0, 1],
        )
    assert np.mean([x for x in result if x is not None]) == pytest.approx(np.mean(seen), abs=0.04)


def test_random_clickers_are_named_and_nobody_else() -> None:
    clean = crowdsift.simulate(20, 30, 6000, reliability=(1.0, 1.0), seed=3).comparisons()
    assert crowdsift.fit(clean, "bt").statistics().misfitting == []
    spammed = add_spammers(clean, "random", 10, seed=1)
    added = set(spammed.workers.tolist()) - set(clean.workers.tolist())
    found = set(crowdsift.fit(spammed, "sift").statistics().misfitting)
    assert found == added


def test_statistics_go_with_the_summary(tmp_path: object) -> None:
    drawn = crowdsift.simulate(items=8, workers=7, comparisons=300, seed=4)
    fit = crowdsift.fit(drawn.comparisons(), "bt").with_statistics(halves=1)
    fit.save(str(tmp_path))
    saved = crowdsift.load(str(tmp_path))
    assert saved.summary["statistics"]["split_half_reliability"] is not None
    again = saved.statistics() if saved.votes is not None else fit.statistics()
    assert again.workers["infit"] == pytest.approx(fit.statistics().workers["infit"])
    with pytest.raises(crowdsift.RequestError, match="does not hold its votes"):
        crowdsift.Fit(**{**vars(fit), "votes": None}).statistics()


def test_votes_without_workers_and_intervals() -> None:
    board = crowdsift.Comparisons.from_arrays(["a", "b", "a"], ["b", "c", "c"])
    found = crowdsift.fit(board, "rank-centrality").statistics(halves=2)
    assert found.separation is None
    assert found.split_half is None
    assert found.workers.height == 0
