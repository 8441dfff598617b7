"""Rankings and best-worst answers against plain likelihoods, and planted crowds."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, permutations

import numpy as np
import pytest
from scipy.optimize import minimize

import crowdsift

Row = tuple[str, list[list[int]], list[int]]  # worker, groups of tied items, items below them


def drawn(seed: int, count: int = 60, items: int = 8) -> list[Row]:
    """Full, partial and top-k rankings with ties of two and three items."""
    rng = np.random.default_rng(seed)
    truth, rows = rng.normal(size=items), []
    for number in range(count):
        shown = rng.choice(items, rng.integers(3, 7), replace=False)
        order = shown[np.argsort(-(rng.gumbel(size=len(shown)) + truth[shown]))].tolist()
        groups = [[item] for item in order]
        if number % 5 == 0:
            groups = [order[:1], order[1:3], *groups[3:]]
        if number % 11 == 0:
            groups = [order[:3], *groups[3:]] if number % 5 else groups
        below = [item for group in groups[2:] for item in group] if number % 3 == 0 else []
        rows.append((f"w{number % 5}", groups[:2] if below else groups, below))
    return rows


def table(rows: list[Row]) -> dict[str, list[str]]:
    text = [">".join("=".join(map(str, group)) for group in groups) for _, groups, _ in rows]
    shown = ["|".join(str(i) for i in [*chain(*groups), *below]) for _, groups, below in rows]
    return {"worker": [row[0] for row in rows], "ranking": text, "items": shown}


def plackett_luce(rows: list[Row], score: np.ndarray) -> float:
    """The log-likelihood by its definition; a tie is the mean over all orders."""
    total = 0.0
    for _, groups, below in rows:
        rest = [*chain(*groups), *below]
        for group in groups:
            orders = list(permutations(group))
            for order in orders:
                left = list(rest)
                for item in order:
                    total += (score[item] - np.log(np.exp(score[left]).sum())) / len(orders)
                    left.remove(item)
            rest = [item for item in rest if item not in group]
    return total


def max_diff(rows: list[tuple[int, int, list[int]]], score: np.ndarray) -> float:
    return sum(
        score[best] - score[worst] - np.log(sum(np.exp(score[i] - score[j]) for i in shown for j in shown if i != j))
        for best, worst, shown in rows
    )


def best_worst(seed: int, items: int = 8, count: int = 80):
    rng = np.random.default_rng(seed)
    truth, rows = rng.normal(size=items), []
    for _ in range(count):
        shown = rng.choice(items, rng.integers(3, 6), replace=False)
        odds = np.exp(truth[shown][:, None] - truth[shown])
        np.fill_diagonal(odds, 0)
        best, worst = divmod(rng.choice(odds.size, p=(odds / odds.sum()).ravel()), len(shown))
        rows.append((int(shown[best]), int(shown[worst]), shown.tolist()))
    columns = {
        "worker": [f"w{i % 5}" for i in range(count)],
        "best": [str(row[0]) for row in rows],
        "worst": [str(row[1]) for row in rows],
        "items": ["|".join(map(str, row[2])) for row in rows],
    }
    return rows, crowdsift.read(columns)


def assert_is_maximum(fit, likelihood, items: int = 8) -> None:
    """Scores to 1e-6, and standard errors by a numerical curvature."""
    found = minimize(lambda x: 0.005 * x @ x - likelihood(x), np.zeros(items), options={"gtol": 1e-9})
    order = np.argsort(fit.items["item"].astype(int))
    assert fit.items["score"][order] == pytest.approx(found.x - found.x.mean(), abs=1e-6)
    assert fit.summary["log_likelihood"] == pytest.approx(likelihood(found.x), abs=1e-6)
    step, eye, hessian = 1e-4, np.eye(items), np.zeros((items, items))
    for i in range(items):
        for j in range(items):
            hessian[i, j] = -sum(
                one * two * likelihood(found.x + step * (one * eye[i] + two * eye[j]))
                for one in (1, -1)
                for two in (1, -1)
            ) / (4 * step**2)
    centre = eye - 1 / items
    covariance = centre @ np.linalg.inv(hessian + 0.01 * eye) @ centre
    assert fit.items["se"][order] == pytest.approx(np.sqrt(np.diag(covariance)), abs=1e-5)


def test_bt_maximises_the_likelihood_of_plackett_and_luce():
    rows = drawn(1)
    fit = crowdsift.fit(table(rows), "bt")
    assert_is_maximum(fit, lambda x: plackett_luce(rows, x))
    assert not fit.warnings


def test_bt_maximises_the_likelihood_of_max_diff():
    rows, votes = best_worst(2)
    assert_is_maximum(crowdsift.fit(votes, "bt"), lambda x: max_diff(rows, x))


def test_best_of_n_is_one_multinomial_choice():
    rng = np.random.default_rng(4)
    shown = [rng.choice(6, rng.integers(3, 6), replace=False) for _ in range(70)]
    rows = [("w", [[int(items[0])]], items[1:].tolist()) for items in shown]
    columns = {
        "worker": ["w"] * 70,
        "best": [str(i[0]) for i in shown],
        "items": [[str(x) for x in sorted(i)] for i in shown],
    }
    fit = crowdsift.fit(columns, "bt")
    assert_is_maximum(fit, lambda x: plackett_luce(rows, x), 6)


def test_extreme_and_single_rankings():
    """One ranking, islands, all tied, an item that always wins, and scores of 700 logits."""
    for texts in (["a>b"], ["a>b", "c>d>e"], ["a=b=c=d"] * 3, ["a>b>c"] * 50):
        for method in ("bt", "sift"):
            fit = crowdsift.fit({"worker": ["w"] * len(texts), "ranking": texts}, method)
            assert np.isfinite(fit.items["score"]).all()
            if "=" in texts[0]:
                assert fit.items["score"] == pytest.approx(0, abs=1e-6)
    votes = crowdsift.read({"worker": ["w"], "ranking": ["a>b>c"]})
    for scores in (np.array([700.0, 0, -700]), np.array([-700.0, 0, 700]), np.zeros(3)):
        p, logs = votes.choices.probabilities(scores)
        assert np.isfinite(p).all()
        assert np.isfinite(logs).all()
        assert np.isfinite(votes.choices.pair_weights(votes, scores, np.ones(1))).all()


@pytest.mark.parametrize("kind", ["ranking", "best-worst"])
def test_reweighted_pairs_have_the_gradient_of_the_choices(kind):
    """In scores and in slopes of workers, by finite differences; ties aside."""
    rng = np.random.default_rng(7)
    votes = (
        best_worst(3)[1]
        if kind == "best-worst"
        else crowdsift.read(table([(who, [[i] for g in groups for i in g], below) for who, groups, below in drawn(5)]))
    )
    choices, who = votes.choices, votes.worker_codes()
    score, slope = rng.normal(size=votes.n_items), rng.uniform(0.3, 2, votes.n_workers)
    weight = choices.pair_weights(votes, score, slope)

    def likelihood(score, slope):
        return choices.weight @ choices.probabilities(score, slope)[1]

    gap = score[votes.first] - score[votes.second]
    residual = weight * (votes.outcome - 1 / (1 + np.exp(-slope[who] * gap)))
    of_items = sum(
        sign * np.bincount(end, residual * slope[who], votes.n_items)
        for sign, end in ((1, votes.first), (-1, votes.second))
    )
    h = 1e-6
    for i, row in enumerate(np.eye(votes.n_items) * h):
        slope_of = (likelihood(score + row, slope) - likelihood(score - row, slope)) / (2 * h)
        assert of_items[i] == pytest.approx(slope_of, abs=1e-6)
    of_workers = np.bincount(who, residual * gap, votes.n_workers)
    for i, row in enumerate(np.eye(votes.n_workers) * h):
        slope_of = (likelihood(score, slope + row) - likelihood(score, slope - row)) / (2 * h)
        assert of_workers[i] == pytest.approx(slope_of, abs=1e-6)


def test_sift_on_planted_rankings_covers_the_truth_and_finds_spammers():
    """100 workers, 20 of whom rank at random, 3 to 8 items; weighted pairs beside it."""
    covered, wrong, found, blamed = [], [], 0, 0
    for seed in range(10):
        rng = np.random.default_rng(100 + seed)
        truth = rng.normal(size=30)
        truth = (truth - truth.mean()) * np.sqrt((1 - 1 / 30) / truth.var())
        slope = rng.uniform(1, 3, 100)
        slope[:20] = 0
        who = np.repeat(np.arange(100), 8)
        shown = [rng.choice(30, rng.integers(3, 9), replace=False) for _ in who]
        text = [
            ">".join(map(str, s[np.argsort(-(rng.gumbel(size=len(s)) + slope[w] * truth[s]))]))
            for w, s in zip(who, shown, strict=True)
        ]
        votes = crowdsift.read({"worker": who, "ranking": text})
        for each, result in ((votes, covered), (replace(votes, choices=None), wrong)):
            fit = crowdsift.fit(each, threads=1, dimensions=1)
            true = truth[fit.items["item"].astype(int)]
            inside = (fit.items["lower"] <= true) & (true <= fit.items["upper"])
            result.append((inside.mean(), ((fit.items["score"] - true) ** 2).mean()))
            if each.choices is not None:
                named = fit.workers["worker"][fit.workers["verdict"] == "random"]
                found, blamed = found + (named < 20).sum(), blamed + (named >= 20).sum()
    share, error = np.mean(covered, axis=0)
    pairs_share, pairs_error = np.mean(wrong, axis=0)
    assert 0.86 < share < 0.94
    assert pairs_share > 0.95  # too wide
    assert error < 0.95 * pairs_error
    assert found >= 0.85 * 10 * 20
    assert blamed <= 2


def test_other_methods_take_weighted_pairs_and_say_so():
    votes = crowdsift.read(table(drawn(3)))
    pairs = replace(votes, choices=None)
    for method in ("bora-em", "crowd-bt", "rank-centrality"):
        fit = crowdsift.fit(votes, method)
        assert any("takes rankings as weighted pairs" in each for each in fit.warnings)
        plain = crowdsift.fit(pairs, method)
        assert fit.items["score"] == pytest.approx(plain.items["score"])


@pytest.mark.parametrize("method", ["bt", "sift"])
def test_rankings_are_kept_updated_hidden_and_selected(tmp_path, method):
    rows = drawn(6, 80)
    whole, first, rest = (crowdsift.read(table(part)) for part in (rows, rows[:60], rows[60:]))
    fit = crowdsift.fit(whole, method)
    crowdsift.fit(first, method).save(tmp_path / "fit")
    updated = crowdsift.load(tmp_path / "fit").update(rest, again=True)
    order = np.argsort(updated.items["item"]), np.argsort(fit.items["item"])
    close = {"abs": 1e-6 if method == "bt" else 0.02}
    assert updated.items["score"][order[0]] == pytest.approx(fit.items["score"][order[1]], **close)
    hidden = crowdsift.load(tmp_path / "fit").hide_workers()
    again = crowdsift.fit(hidden.votes, method)
    assert again.items["score"] == pytest.approx(crowdsift.fit(first, method).items["score"])
    one = whole.select(whole.worker_codes() == 1)
    assert len(one.choices) == (whole.choices.worker == 1).sum()
    assert whole.select(np.arange(len(whole)) > 0).choices is None
    plain = crowdsift.Comparisons.from_arrays(["1", "2"], ["2", "3"], worker=["w1", "w2"], outcome=[1, 0.5])
    pairs = crowdsift.read({"worker": ["w1", "w2"], "ranking": ["1>2", "2=3"]})
    together, wanted = (crowdsift.fit(whole.extended(each), "bt") for each in (plain, pairs))
    assert together.items["score"] == pytest.approx(wanted.items["score"], abs=1e-7)
    with pytest.raises(crowdsift.InputError, match="soft outcomes"):
        whole.extended(crowdsift.Comparisons.from_arrays(["1"], ["2"], worker=["w1"], outcome=[0.7]))
    with pytest.raises(crowdsift.RequestError, match="rankings"):
        fit.robustness()


def test_row_order_does_not_matter_and_equal_rankings_are_counted():
    rows = drawn(8)
    one, two = (crowdsift.read(table(each)).choices for each in (rows, rows[::-1]))
    for name in ("plus", "minus", "tied", "offsets", "worker", "weight"):
        assert (getattr(one, name) == getattr(two, name)).all()
    twice = crowdsift.read({"worker": ["w", "w"], "ranking": ["a>b", "a>b"]}).choices
    assert twice.weight.tolist() == [2]


def test_arenas_set_answers_without_a_best_model_aside():
    models = {"model_a": ["x"] * 3, "model_b": ["y"] * 3, "model_c": ["z"] * 3}
    votes = crowdsift.read({"judge": ["w"] * 3, **models, "winner": ["x", "tie", "both_bad"]})
    assert votes.intake.reasons == (("answers without a best item", 2),)


LAYOUTS = {
    "long": {"worker": ["w"] * 5, "task": [1] * 4 + [2], "item": [*"abcd", "a"], "rank": [1, 2, 2, None, 1]},
    "strings": {"worker": ["w"], "ranking": ["a > b=c"], "items": ["d|c|b|a"]},
}


def test_layouts_mean_the_same():
    long, strings = (crowdsift.read(each) for each in LAYOUTS.values())
    assert long.intake.reasons == (("rankings of one item", 1),)
    for name in ("plus", "offsets", "weight", "tied"):
        assert (getattr(long.choices, name) == getattr(strings.choices, name)).all()
    wide = {"worker": ["w"], "rank_1": ["a"], "rank_2": ["b"], "rank_3": ["c"]}
    text = {"worker": ["w"], "ranking": ["a>b>c"]}
    pair = [crowdsift.read(each).choices for each in (wide, text)]
    assert (pair[0].plus == pair[1].plus).all()
    arena = {"judge": ["w"], "model_a": ["x"], "model_b": ["y"], "model_c": ["z"], "winner": ["model_b"]}
    best = {"worker": ["w"], "best": ["y"], "items": [["x", "y", "z"]]}
    found = [crowdsift.read(each).choices for each in (arena, best)]
    assert (found[0].plus == found[1].plus).all()
    assert found[0].plus[0] == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"ranking": ["a>b>c", "c>b>a", "b>a>c", "a>c>b"]},
        {"rank_1": list("acba"), "rank_2": list("bbac"), "rank_3": list("cacb")},
        {"best": list("acba"), "worst": list("cacb"), "items": ["a|b|c"] * 4},
        {"model_a": ["a"] * 4, "model_b": ["b"] * 4, "model_c": ["c"] * 4, "winner": list("acba")},
        {"left": list("acba"), "right": list("bbac"), "rating": [1, 5, 2, 4]},
    ],
)
def test_other_columns_stay_for_contexts_and_conditions(columns):
    rows = {"worker": list("wwvv"), **columns, "language": ["en", "en", "pl", "pl"]}
    by = crowdsift.read(rows, by="language")
    assert {label[0] for label in by.items} == {"en", "pl"}
    plain = crowdsift.read({name: column[2:] for name, column in rows.items() if name != "language"})
    some = crowdsift.read(rows, where="language = 'pl'")
    assert some.rows == plain.rows
    assert (some.first == plain.first).all()


def test_a_ranking_is_a_list_too_also_in_json():
    text = crowdsift.read({"worker": ["w"] * 2, "ranking": ["a>b=c", "b>a>c"]})
    for lists in (['["a", ["b", "c"]]', '["b", "a", "c"]'], [["a", ["b", "c"]], ["b", "a", "c"]]):
        same = crowdsift.read({"worker": ["w"] * 2, "ranking": lists})
        for name in ("plus", "tied", "offsets", "weight"):
            assert (getattr(same.choices, name) == getattr(text.choices, name)).all()


def test_other_columns_of_long_rankings_stay():
    rows = {"worker": ["w"] * 6, "task": [1, 1, 1, 2, 2, 2], "item": list("abcabc"), "rank": [1, 2, 3, 3, 2, 1]}
    by = crowdsift.read({**rows, "language": ["en"] * 3 + ["pl"] * 3}, by="language")
    assert {label[0] for label in by.items} == {"en", "pl"}


def test_rankings_and_graded_votes_are_not_put_together():
    fit = crowdsift.fit({"worker": ["w", "v"], "ranking": ["a>b>c", "b>a>c"]})
    graded = {"left": ["a", "b"], "right": ["b", "c"], "winner": ["A>>B", "A>B"], "worker": ["w", "v"]}
    with pytest.raises(crowdsift.InputError, match="rankings and graded votes cannot be combined"):
        fit.update(graded)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ranking": ["a>b", "a>b>a"]}, r"row 2, column 'ranking': the item 'a' is twice"),
        ({"ranking": ["a>b", "a>>b"]}, r"row 2, column 'ranking': .* empty place"),
        ({"ranking": ["a"]}, "no ranking of two items or more"),
        ({"ranking": ["a>b", "a<b<c"]}, r"row 2, column 'ranking': 'a<b<c' reads as one item"),
        ({"ranking": ["a, b, c"]}, r"row 1, column 'ranking': 'a, b, c' reads as one item"),
        ({"task": [1, 1], "item": ["a", None], "rank": [1, 2]}, r"row 2, column 'item': no item"),
        ({"task": [1, 1], "item": ["a", "b"], "rank": [1, "first"]}, r"row 2, column 'rank': 'first' is not a number"),
        ({"ranking": ["a>b"], "items": ["b|c"]}, r"row 1, column 'items': the ranked item 'a'"),
        ({"best": ["a"], "worst": ["a"], "items": ["a|b|c"]}, r"row 1, column 'worst': the best"),
        ({"best": ["x"], "worst": ["a"], "items": ["a|b|c"]}, r"row 1, column 'best': 'x' is none"),
        ({"best": ["a"], "worst": ["b"], "items": ["a|b|a"]}, r"row 1, column 'items': .* twice"),
        ({"task": [1, 1], "item": ["a", "a"], "rank": [1, 1]}, "row 2, column 'item': the item"),
    ],
)
def test_bad_rankings_are_refused_with_their_place(columns, message):
    rows = len(next(iter(columns.values())))
    with pytest.raises(crowdsift.InputError, match=message):
        crowdsift.read({"worker": ["w"] * rows, **columns})


@pytest.mark.parametrize("name", ["weight", "importance"])
def test_weights_of_rankings_are_not_left_out_in_silence(name):
    rows = {"worker": ["w", "v"], "ranking": ["a>b>c", "b>a>c"], name: [0.5, 2.0]}
    votes = crowdsift.read(rows, columns={} if name == "weight" else {"weight": name})
    assert any(f"the column {name!r} is not used" in note for note in votes.intake.notes)
