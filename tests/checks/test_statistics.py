"""Statistics of fit against plain NumPy and by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, norm

import crowdsift
from crowdsift.checks.statistics import agreement_alpha, count_triads, scale_separation
from crowdsift.lab.spam import add_spammers
from crowdsift.models.diagnostics import Kind
from crowdsift.report.terminal import show_fit
from crowdsift.results.scales import typical_reliability
from crowdsift.results.summary import separation_of


@pytest.fixture(scope="module")
def votes() -> crowdsift.Comparisons:
    return crowdsift.simulate(items=8, workers=7, comparisons=900, seed=4).comparisons()


def rows(votes: crowdsift.Comparisons) -> list[tuple[int, int, int, float, float]]:
    """Worker, first, second, outcome and weight of every row, as plain numbers."""
    who = votes.worker_codes()
    return [
        (int(who[i]), int(votes.first[i]), int(votes.second[i]), float(votes.outcome[i]), float(votes.weight[i]))
        for i in range(len(votes))
    ]


@pytest.mark.parametrize("method", ["bt", "sift", "bora-map"])
def test_infit_and_outfit(votes: crowdsift.Comparisons, method: str) -> None:
    """Workers by typical reliability; items by each worker's own, calibrated by its votes."""
    fit = crowdsift.fit(votes, method)
    found = fit.statistics()
    score = dict(zip(fit.items["item"], fit.items["score"], strict=True))
    own = dict(zip(fit.workers["worker"], fit.workers["reliability"], strict=True))
    typical = 1.0 if method == "bt" else typical_reliability(fit)
    of_worker: dict[object, list[tuple[float, float, float]]] = {}
    for who, first, second, y, weight in rows(votes):
        slope = 1.0 if method == "bt" else own[votes.workers[who]]
        gap = slope * (score[votes.items[first]] - score[votes.items[second]])
        of_worker.setdefault(votes.workers[who], []).append((gap, y, weight))

    def loss(factor: float, seen: list[tuple[float, float, float]]) -> float:
        total = sum(w * (np.logaddexp(0, factor * g) - y * factor * g) for g, y, w in seen)
        return float(total + 0.5 * (factor - 1) ** 2)

    factor = {
        who: minimize_scalar(loss, bounds=(-5, 9), args=(seen,), options={"xatol": 1e-9}).x
        for who, seen in of_worker.items()
    }
    squares: dict[object, list[tuple[float, float]]] = {}
    for who, first, second, y, weight in rows(votes):
        one, two, label = votes.items[first], votes.items[second], votes.workers[who]
        slope = factor[label] * (1.0 if method == "bt" else own[label])
        for key, b in ((("worker", label), typical), (("item", one), slope), (("item", two), slope)):
            p = 1 / (1 + np.exp(-b * (score[one] - score[two])))
            squares.setdefault(key, []).extend([((y - p) ** 2, p * (1 - p))] * int(weight))
    for kind, table in (("worker", found.workers), ("item", found.items)):
        for row in table.records():
            square, variance = np.array(squares[kind, row[kind]]).T
            assert row["outfit"] == pytest.approx((square / variance).mean(), abs=1e-6)
            assert row["infit"] == pytest.approx(square.sum() / variance.sum(), abs=1e-6)
            sd = np.sqrt((variance - 4 * variance**2).sum()) / variance.sum()
            assert row["infit_z"] == pytest.approx((row["infit"] - 1) / sd, abs=1e-5)
            z = norm.ppf(0.95)
            apart = np.sqrt((1 / variance - 4).sum()) / len(variance)
            for name, q in (("infit", sd), ("outfit", apart)):
                for end, side in (("lower", 1), ("upper", -1)):
                    limit = row[name] / (1 - q**2 / 9 + side * z * q / 3) ** 3
                    assert row[f"{name}_{end}"] == pytest.approx(limit, rel=1e-5)
    assert found.items["item"].tolist() == fit.items["item"].tolist()


def judged(seed: int, bad: int, odd: bool = False) -> crowdsift.Comparisons:
    """40 workers with 100 votes on 20 items; the first ones click at random.

    An odd item, 0, beats the upper half of the items and loses to the lower half.
    """
    rng = np.random.default_rng(seed)
    score, who = rng.normal(size=20), np.repeat(np.arange(40), 100)
    one = rng.integers(0, 20, len(who))
    two = (one + rng.integers(1, 20, len(who))) % 20
    slope = np.where(who < bad, 0.0, 1.0)
    won = rng.random(len(who)) < 1 / (1 + np.exp(-slope * (score[one] - score[two])))
    if odd:
        upper = score > np.median(score)
        won = np.where(one == 0, upper[two], np.where(two == 0, ~upper[one], won))
    winner, loser = np.where(won, one, two), np.where(won, two, one)
    return crowdsift.Comparisons.from_arrays(winner, loser, worker=who)


@pytest.mark.parametrize("method", ["bora-map", "sift"])
@pytest.mark.parametrize("bad", [0, 4])
def test_items_do_not_misfit_because_of_bad_workers(bad: int, method: str) -> None:
    """Issue 32, fault 6: of 50 crowds 5 % may name an item, or a worker who is not bad."""
    items = workers = noticed = 0
    for seed in range(50):
        found = crowdsift.fit(judged(seed, bad), method, threads=1).statistics()
        items += bool(found.items["misfit"].any())
        workers += bool(set(found.misfitting) - set(range(bad)))
        noticed += len(set(range(bad)) & set(found.misfitting))
    assert noticed >= 0.95 * 50 * bad
    most = binom.ppf(0.99, 50, 0.05)
    assert items <= most
    assert workers <= most


@pytest.mark.parametrize("bad", [0, 4])
def test_an_item_that_no_score_explains_misfits(bad: int) -> None:
    for seed in range(4):
        found = crowdsift.fit(judged(seed, bad, odd=True), "bora-map", threads=1).statistics()
        assert found.items["item"][found.items["misfit"]].tolist() == [0]


def test_separation(votes: crowdsift.Comparisons) -> None:
    for method in ("bt", "sift"):
        fit = crowdsift.fit(votes, method, level=0.95)
        sd = (fit.items["upper"] - fit.items["lower"]) / 2 / norm.ppf(0.975)
        spread, error = fit.items["score"].var(ddof=1), (sd**2).mean()
        found = separation_of(fit.item_table, fit.method, fit.level)
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
            found = separation_of(fit.item_table, fit.method, fit.level)
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
        drawn.items[drawn.first],
        drawn.items[drawn.second],
        outcome=outcome,
        weight=drawn.weight,
        worker=drawn.workers[drawn.worker_codes()],
    )
    units: dict[tuple[int, int], list[float]] = {}
    for _, first, second, y, weight in rows(board):
        units.setdefault((first, second), []).extend([y] * int(weight))
        units.setdefault((second, first), []).extend([1 - y] * int(weight))
    kept = [np.array(values) for values in units.values() if len(values) > 1]
    pooled = np.concatenate(kept)
    observed = sum(((v[:, None] - v[None, :]) ** 2).sum() / (len(v) - 1) for v in kept)
    expected = ((pooled[:, None] - pooled[None, :]) ** 2).sum() / (len(pooled) - 1)
    found = agreement_alpha(board)
    assert found is not None
    assert found.alpha == pytest.approx(1 - observed / expected, abs=1e-9)
    assert found.lower < found.alpha < found.upper


def test_alpha_of_chance_is_0_and_lacks_without_repeats() -> None:
    rng = np.random.default_rng(0)
    first, second = np.full(4000, "a"), np.full(4000, "b")
    coin = crowdsift.Comparisons.from_arrays(first, second, outcome=rng.integers(0, 2, 4000))
    found = agreement_alpha(coin)
    assert found is not None
    assert found.alpha == pytest.approx(0.0, abs=0.005)
    assert agreement_alpha(crowdsift.Comparisons.from_arrays(["a"], ["b"])) is None


def test_alpha_of_one_pair_says_next_to_nothing() -> None:
    """Issue 32, fault 6: alpha was 1.00 from one pair that was judged twice."""
    for pairs, low, high in ((1, -1.0, 0.0), (100, 0.9, 1.0)):
        left = [f"a{i // 2}" for i in range(2 * pairs)]
        right = [f"b{i // 2}" for i in range(2 * pairs)]
        board = crowdsift.Comparisons.from_arrays(left, right, worker=[1, 2] * pairs)
        found = crowdsift.fit(board, "bt").statistics()
        assert found.agreement is not None
        assert found.agreement.alpha == found.agreement.upper == 1.0
        assert low < found.agreement.lower < high
        assert found.to_json()["alpha_lower"] == found.agreement.lower


def test_the_interval_of_alpha_covers_it() -> None:
    """Pairs with random log odds, whose share of votes that differ is known."""
    rng = np.random.default_rng(0)
    grid = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    p = 1 / (1 + np.exp(-grid))
    true, covered = 1 - 2 * np.mean(2 * p * (1 - p)), 0
    unit = np.repeat(np.arange(60), 3)
    for _ in range(200):
        chance = 1 / (1 + np.exp(-rng.normal(size=60)))
        board = crowdsift.Comparisons.from_arrays(
            [f"a{u}" for u in unit],
            [f"b{u}" for u in unit],
            worker=np.tile(np.arange(3), 60),
            outcome=(rng.random(180) < chance[unit]).astype(float),
        )
        found = agreement_alpha(board)
        assert found is not None
        covered += found.lower <= true <= found.upper
    assert binom.ppf(0.01, 200, 0.9) <= covered


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
        crowds = [crowdsift.simulate(25, 20, 1200, reliability=(0.8, 0.8), seed=seed).comparisons()]
        who = crowds[0].worker_codes()
        halves = [crowds[0].select(who % 2 == side) for side in (0, 1)]
        fits = [crowdsift.fit(half, "bt") for half in halves]
        result.append(fits[0].statistics(halves=6).split_half)
        seen.append(np.corrcoef(*(fit.scores_of(crowds[0].items) for fit in fits))[0, 1])
    assert np.mean([x for x in result if x is not None]) == pytest.approx(np.mean(seen), abs=0.04)


def test_random_clickers_are_named_and_nobody_else() -> None:
    clean = crowdsift.simulate(20, 30, 6000, reliability=(1.0, 1.0), seed=3).comparisons()
    assert crowdsift.fit(clean, "bt").statistics().misfitting == []
    spammed = add_spammers(clean, "random", 10, seed=1)
    added = set(spammed.workers.tolist()) - set(clean.workers.tolist())
    found = set(crowdsift.fit(spammed, "sift").statistics().misfitting)
    assert found == added


def test_a_long_chain_of_items_has_no_scale_separation() -> None:
    # Its scores would span thousands of logits; conjugate gradients for them took minutes.
    labels = np.arange(5_000)
    chain = crowdsift.Comparisons.from_arrays(labels[:-1], labels[1:], worker=labels[:-1])
    assert scale_separation(chain) is None


@pytest.mark.parametrize(("panel", "published"), [("peer", 0.899), ("teachers", 0.884)])
def test_scale_separation_is_that_of_the_literature(data_dir, panel, published) -> None:
    """The figures of McMahon and Jones (2014); ours to 1e-4 by a plain fixed point as well."""
    path = data_dir / f"cj_mcmahon2014_{panel}.csv"
    roles = {"worker": "judge", "winner": "candidate_chosen", "loser": "candidate_not_chosen"}
    votes = crowdsift.read(path, columns=roles)
    found = scale_separation(votes)
    assert found == pytest.approx(published, abs=0.002)
    n = votes.n_items
    won, lost = np.zeros((n, n)), np.zeros((n, n))
    np.add.at(won, (votes.first, votes.second), votes.weight * votes.outcome)
    np.add.at(won, (votes.second, votes.first), votes.weight * (1 - votes.outcome))
    lost, total = won.T, (won + won.T).sum(axis=1)
    wins = 0.3 + (total - 0.6) / total * won.sum(axis=1)
    score = np.zeros(n)
    for _ in range(400):
        p = 1 / (1 + np.exp(score[None, :] - score[:, None]))
        information = ((won + lost) * p * (1 - p)).sum(axis=1)
        score += 0.5 * (wins - ((won + lost) * p).sum(axis=1)) / information
        score -= score.mean()
    plain = 1 - (1 / information).mean() / score.var(ddof=1)
    assert found == pytest.approx(plain, abs=1e-4)


def test_intervals_of_infit_hold_one_where_the_model_holds() -> None:
    held = []
    for seed in range(10):
        table = crowdsift.fit(judged(900 + seed, 0), "bora-map", threads=1).statistics().workers
        for name in ("infit", "outfit"):
            held.append((table[f"{name}_lower"] <= 1) & (table[f"{name}_upper"] >= 1))
    assert 0.86 < np.mean(held) < 0.95


def test_statistics_are_printed_and_in_the_tables(tmp_path, capsys) -> None:
    drawn = crowdsift.simulate(items=8, workers=7, comparisons=900, seed=4)
    fit = crowdsift.fit(drawn.comparisons(), "sift", scale="elo", level=0.95).with_statistics()
    show_fit(fit)
    printed = capsys.readouterr().out
    for words in ("Reliability of the scores: 0.", "Krippendorff's alpha", "triads go round", "misfit"):
        assert words in printed
    fit.save(tmp_path / "fit")
    saved = crowdsift.load(tmp_path / "fit")
    for one, two in ((fit.items, saved.items), (fit.workers, saved.workers)):
        assert list(one)[-7:] == list(two)[-7:]
        for name in ("infit", "infit_lower", "infit_upper", "outfit", "outfit_lower", "misfit"):
            assert two[name] == pytest.approx(np.asarray(one[name], float), nan_ok=True)
    for each in (fit, saved):  # on the scale that is shown
        width = each.items["upper"] - each.items["lower"]
        assert each.items["se"] == pytest.approx(width / (2 * norm.ppf(0.975)))
    exact = np.sqrt(np.diag(fit.posterior.covariance))
    by_label = dict(zip(fit.posterior.items, exact, strict=True))
    own = fit.on_scale("standard").items
    assert own["se"] == pytest.approx([by_label[item] for item in own["item"]], rel=1e-6)


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


@pytest.mark.parametrize("seed", [17, 32])
def test_nothing_misfits_where_nothing_was_learned(seed):
    """Every vote of these crowds is a coin; without the cure a worker of each was named."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 12, 1500)
    b = (a + rng.integers(1, 12, 1500)) % 12
    fit = crowdsift.fit({"winner": a, "loser": b, "worker": rng.integers(0, 25, 1500)})
    assert any(each.kind is Kind.INFORMATION for each in fit.diagnostics)
    found = fit.statistics()
    assert found.misfitting == []
    assert not found.items["misfit"].any()
    assert found.workers["infit_z"].max() > 2.8
