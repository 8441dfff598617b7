"""Dimensions downstream of a fit, from estimates made by hand: tables, verdicts, words, folders."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torture import sentences

import crowdsift
from crowdsift import Comparisons, InputError, RequestError, Sift, cli
from crowdsift.active.beliefs import vote_precision
from crowdsift.checks.leftout import predicted_probability
from crowdsift.engines.grid import WorkerPoints
from crowdsift.models import MODELS
from crowdsift.models.base import Estimate, WorkerEstimate
from crowdsift.models.dimensions import DimensionEstimate, Trial
from crowdsift.report.figures import draw, map_chart
from crowdsift.results.build import FitBuilder
from crowdsift.results.dimensions import dimension_sentences, direction_sentence
from crowdsift.results.predict import vote_probability
from crowdsift.results.summary import gold_sentence, gold_to_check
from crowdsift.solvers.convergence import StoppingRule

ITEMS, WORKERS = 6, 8
NONE = np.zeros((WORKERS, 64))


def votes(seed: int = 1) -> Comparisons:
    """Votes by the weights and positions of `dimensions`, 80 a worker."""
    rng, known = np.random.default_rng(seed), dimensions()
    first = rng.integers(ITEMS, size=80 * WORKERS)
    second = (first + rng.integers(1, ITEMS, size=80 * WORKERS)) % ITEMS
    worker = np.repeat(np.arange(WORKERS), 80)
    z = ((known.positions[first] - known.positions[second]) * known.weights[worker]).sum(axis=1)
    return Comparisons.from_arrays(
        [f"i{i}" for i in first],
        [f"i{i}" for i in second],
        worker=[f"w{s}" for s in worker],
        outcome=(rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(float),
    )


def dimensions(**changes) -> DimensionEstimate:
    """Six workers follow axis 0, the last two axis 1, one each way."""
    x = np.stack([np.linspace(1, -1, ITEMS), np.resize([1.0, -1.0], ITEMS)], axis=1)
    a = np.stack([[2.0] * 6 + [0.0, 0.0], [0.0] * 6 + [2.0, -1.0]], axis=1)
    one = 0.01 * np.eye(2)
    made = DimensionEstimate(
        positions=x,
        position_covariance=np.tile(one, (ITEMS, 1, 1)),
        weights=a,
        weight_covariance=np.tile(one, (WORKERS, 1, 1)),
        mean=np.array([1.5, 0.1]),
        mean_covariance=one,
        covariance=np.diag([0.5, 1.0]),
        direction="common",
        has_common=True,
        trials=(Trial(1, -300.0, 0.62), Trial(2, -250.0, 0.55), Trial(3, -252.0, np.nan)),
        distinct=np.array([0.0] * 6 + [0.97, 0.95]),
        component_size=np.full(ITEMS, ITEMS),
    )
    return replace(made, **changes)


def estimate(found: DimensionEstimate | None = None, classes=None) -> Estimate:
    found = found or dimensions()
    beta = found.weights[:, 0]
    if classes is None:
        classes = np.tile([-20.0, -8.0, 0.0], (WORKERS, 1))
    rule = StoppingRule("change", 1e-3, 9)
    rule.history.append(1e-4)
    spread = beta[:, None] + 0.1 * np.linspace(-1.6, 1.6, 64)
    quantiles = beta[:, None] + 0.1 * np.linspace(-1.6, 1.6, 16)
    return Estimate(
        scores=found.positions[:, 0],
        log_likelihood=-300.0,
        rule=rule,
        trace=[-300.0],
        score_sd=np.full(ITEMS, 0.1),
        theta=quantiles,
        points=WorkerPoints(spread, NONE, NONE, NONE),
        workers=WorkerEstimate(
            reliability=beta,
            reliability_sd=np.full(WORKERS, 0.1),
            reliability_lower=beta - 0.16,
            reliability_upper=beta + 0.16,
            quantiles=quantiles,
            typical=2.0,
            class_evidence=np.asarray(classes, float),
        ),
        details={"pair_effect": 0.0},
        dimensions=found,
        component=np.zeros(ITEMS, np.uint32),
    )


def fit(found: DimensionEstimate | None = None, classes=None) -> crowdsift.Fit:
    return FitBuilder(votes(), Sift(), estimate(found, classes), threads=1).build(1.0, 0.0)


def test_tables_hold_positions_and_weights():
    made, known = fit(), dimensions()
    code = [int(item[1:]) for item in made.item_table["item"]]
    np.testing.assert_array_equal(made.item_table["position_2"], known.positions[code, 1])
    half = 1.6448536 * 0.1
    np.testing.assert_allclose(made.item_table["position_2_upper"] - made.item_table["position_2"], half)
    np.testing.assert_array_equal(made.worker_table["weight_2"], known.weights[:, 1])
    np.testing.assert_allclose(made.worker_table["weight_2"] - made.worker_table["weight_2_lower"], half)
    summary = made.summary
    assert (summary["dimensions"], summary["direction"], summary["has_common"]) == (2, "common", True)
    assert [each["left_out_loss"] for each in summary["trials"]] == [0.62, 0.55, None]


def test_workers_explained_by_another_dimension_are_distinct_and_paid():
    made = fit()
    assert made.worker_table["verdict"].tolist() == ["reliable"] * 6 + ["distinct"] * 2
    assert set(made.decisions()["suggestion"]) == {"pay"}
    text = made.decisions()["reason"][-1]
    assert "weigh other things than those of most workers." in text
    assert "weigh other things than those of most workers:" in made.report(refit=False).html


@pytest.mark.parametrize(("direction", "what"), [("gold", "gold pairs"), ("trusted", "trusted votes")])
def test_distinct_workers_differ_from_what_the_score_follows(direction, what):
    made = fit(dimensions(direction=direction))
    assert f"weigh other things than the {what} do." in made.decisions()["reason"][-1]
    page = made.report(refit=False).html
    assert f"weigh other things than the {what} do:" in page
    assert "those of most workers" not in page


@pytest.mark.parametrize(
    ("evidence", "distinct", "expected"),
    [
        ((-20.0, -8.0, 0.0), 0.89, "undecided"),  # not clear where it lies
        ((-20.0, -2.9, 0.0), 0.97, "undecided"),  # not explained
        ((0.0, -8.0, -5.0), 0.97, "distinct"),  # mirrored, but along another dimension
        ((-20.0, 0.0, -4.0), 0.97, "random"),
    ],
)
def test_the_rule_of_distinct(evidence, distinct, expected):
    probability = dimensions().distinct.copy()
    probability[-1] = distinct
    classes = np.tile([-20.0, -8.0, 0.0], (WORKERS, 1))
    classes[-1] = evidence
    made = fit(dimensions(distinct=probability), classes)
    assert made.worker_table["verdict"][-1] == expected


def test_of_two_workers_neither_differs_from_most():
    rng = np.random.default_rng(4)
    x, a = rng.normal(size=(12, 2)), np.array([[3.0, 0.0], [0.2, 1.0], [3.0, 0.2]])
    first = rng.integers(0, 12, 1800)
    second = (first + rng.integers(1, 12, 1800)) % 12
    worker = rng.integers(0, 3, 1800)
    z = ((x[first] - x[second]) * a[worker]).sum(axis=1)
    won = (rng.random(1800) < 1 / (1 + np.exp(-z))).astype(float)
    verdicts = []
    for used in (worker < 3, worker < 2):
        rows = crowdsift.Comparisons.from_arrays(first[used], second[used], worker=worker[used], outcome=won[used])
        two = crowdsift.fit(rows, dimensions=2)
        verdicts.append(two.worker_table["verdict"].tolist())
    assert verdicts[0] == ["reliable", "distinct", "reliable"]
    assert two.worker_table["p_distinct"].max() >= 0.9
    assert "distinct" not in verdicts[1]


def test_agreement_counts_what_other_dimensions_explain():
    weights = dimensions().weights.copy()
    weights[:6, 0], weights[6] = 0.4, (1.5, 4.0)
    x = dimensions().positions
    pairs = np.array([(i, j) for i in range(ITEMS) for j in range(i)] * 20)
    first, second = np.tile(pairs, (WORKERS, 1)).T
    worker = np.repeat(np.arange(WORKERS), len(pairs))
    z = ((x[first] - x[second]) * weights[worker]).sum(axis=1)
    given = Comparisons.from_arrays(
        [f"i{i}" for i in first],
        [f"i{i}" for i in second],
        worker=[f"w{s}" for s in worker],
        outcome=(np.random.default_rng(1).random(len(z)) < 1 / (1 + np.exp(-z))).astype(float),
    )
    made = FitBuilder(given, Sift(), estimate(dimensions(weights=weights)), threads=1).build(1.0, 0.0)
    own = given.worker_codes() == 6
    right = (x[given.first[own], 0] > x[given.second[own], 0]) == (given.outcome[own] > 0.5)
    assert made.worker_table["agreement"][6] == pytest.approx(np.average(right, weights=given.weight[own]), abs=0.01)


def test_without_a_common_direction_nobody_is_adversarial_and_nothing_is_a_ranking():
    weights = dimensions().weights.copy()
    weights[:3, 0] = -2.0  # as many for as against
    classes = np.array([[0.0, -8.0, -8.0]] * 3 + [[-8.0, -8.0, 0.0]] * 3 + [[0.0, -8.0, 0.0]] * 2)
    made = fit(dimensions(weights=weights, has_common=False), classes)
    assert "adversarial" not in made.worker_table["verdict"]
    assert made.warnings[0].startswith("there is no common ranking")
    assert direction_sentence(made).startswith("There is no common ranking")
    assert not gold_sentence(made.summary)
    gold = fit(dimensions(weights=weights, has_common=False, direction="gold"), classes)
    assert "gold pairs" in direction_sentence(gold)
    assert not any("no common ranking" in each for each in gold.warnings)


def test_sentences_say_who_weighs_a_dimension_and_what_it_is_worth():
    (text,) = dimension_sentences(fit())
    assert "1 of 8 workers (w6) gives more to i0, i2 and i4 than to i5, i3 and i1" in text
    assert "1 worker the other way round" in text
    assert "0.5500 instead of 0.6200" in text
    assert direction_sentence(fit()) == (
        "Scores are positions along the direction on which voters agree; workers also weigh 1 further dimension."
    )


def test_no_sentence_contradicts_the_tables():
    sentences.check(fit())
    sentences.check(fit(dimensions(has_common=False)))


def test_a_dimension_is_named_by_the_covariate_it_follows():
    given = votes()
    at = dimensions().positions[:, 1]
    column = at[given.first] - at[given.second]
    named = replace(given, features=column[:, None].astype(np.float32), feature_names=("chars",))
    made = FitBuilder(named, Sift(), estimate(), threads=1).build(1.0, 0.0)
    assert made.summary["dimension_names"] == ["more chars"]
    assert dimension_sentences(made)[0].startswith("Dimension 2 (more chars): 1 of 8 workers (w6) gives more to i0,")
    weights = dimensions().weights * [1.0, -1.0]
    weights[5, 1] = -1.0  # more workers prefer the other end, from which the sentence sees it
    made = FitBuilder(named, Sift(), estimate(dimensions(weights=weights)), threads=1).build(1.0, 0.0)
    assert made.summary["dimension_names"] == ["more chars"]
    assert " (less chars): 2 of 8 workers (w6 and w5) give more to i1," in dimension_sentences(made)[0]


def as_rows(given: Comparisons) -> dict[str, np.ndarray]:
    won = given.outcome > 0.5
    ends = np.where(won, given.first, given.second), np.where(won, given.second, given.first)
    rows = {name: given.items[codes] for name, codes in zip(("winner", "loser"), ends, strict=True)}
    return rows | {"worker": given.workers[given.worker_codes()], "weight": given.weight}


@pytest.mark.parametrize("what", ["covariates", "items"])
def test_features_and_covariates_name_the_dimensions_asked_for(what):
    at, rows = dict(zip([f"i{i}" for i in range(ITEMS)], dimensions().positions[:, 1], strict=True)), as_rows(votes())
    if what == "covariates":
        options = {"covariates": "chars"}
        rows |= {f"{end}_chars": np.exp([at[item] for item in rows[end]]) for end in ("winner", "loser")}
    else:
        options = {"items": {"item": [*at, "i9"], "chars": [*at.values(), 0.0]}}
    made = crowdsift.fit(rows, dimensions=2, **options)
    assert made.summary["dimension_names"][0] in ("more chars", "less chars")
    assert "name the dimensions; scores do not depend on them" in " ".join(made.warnings)
    assert f"Dimension 2 ({made.summary['dimension_names'][0]}): " in dimension_sentences(made)[0]
    place = [at.get(item, 0.0) for item in made.labels]
    assert abs(np.corrcoef(made.item_table["position_2"], place)[0, 1]) > 0.9
    assert crowdsift.fit(rows, dimensions=1, **options).summary["dimensions"] == 1


def test_features_of_no_use_do_not_hide_further_dimensions():
    rows = as_rows(votes())
    noise = {"item": [f"i{i}" for i in range(ITEMS)], "noise": [0.3, 0.1, 0.2, 0.9, 0.2, 0.6]}
    plain, made = crowdsift.fit(rows), crowdsift.fit(rows, items=noise)
    assert plain.summary["dimensions"] == made.summary["dimensions"] == 2
    assert plain.worker_table["verdict"].tolist() == made.worker_table["verdict"].tolist()


def test_gold_to_check_is_the_divergence_of_the_two_shares():
    rng = np.random.default_rng(1)
    for reliability in (0.3, 0.7, 0.95):
        true, other = rng.normal(0, 1, (2, 200_000))
        seen = np.sqrt(reliability) * true + np.sqrt(1 - reliability) * other
        q = np.mean(np.sign(true) == np.sign(seen))  # differences of Gaussian scores
        p = q - 0.2
        nats = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        assert gold_to_check(reliability) == pytest.approx(3.0 / nats, abs=1.1)
    assert f"{fit().summary['gold_to_check']} gold pairs" in gold_sentence(fit().summary)


def plain_probability(known: DimensionEstimate, beta, worker: int, i: int, j: int) -> float:
    """σ(βd + offset), smoothed by the variance of the offset, averaged over β."""
    offset, variance = (float(x) for x in known.offsets(worker, i, j))
    z = beta[worker] * (known.positions[i, 0] - known.positions[j, 0]) + offset
    return float(np.mean(1 / (1 + np.exp(-z / np.sqrt(1 + np.pi * variance / 8)))))


def test_predictions_use_the_offsets():
    made, known = fit(), dimensions()
    beta = np.asarray(made.posterior.points.reliability)
    for worker, i, j in ((0, 0, 5), (6, 0, 1), (7, 0, 1), (7, 4, 3)):
        expected = plain_probability(known, beta, worker, i, j)
        found = made.predict(f"i{i}", f"i{j}", f"w{worker}")
        assert found == pytest.approx(expected, abs=1e-8)
        outcomes = made.predict_outcomes(f"i{i}", f"i{j}", f"w{worker}")
        assert outcomes["win"][0] == pytest.approx(expected, abs=1e-8)
    crowd = np.mean([plain_probability(known, beta, s, 0, 1) for s in range(WORKERS)])
    assert made.predict("i0", "i1") == pytest.approx(crowd, abs=1e-8)
    place = made.labels.index
    matrix = made.win_matrix()
    assert matrix[place("i0"), place("i1")] == pytest.approx(crowd, abs=1e-8)
    assert matrix[place("i1"), place("i0")] == pytest.approx(1 - crowd, abs=1e-8)
    assert 0 < made.predict("i0", "new", "who", unknown="prior") < 1


def test_left_out_votes_are_predicted_with_the_offsets():
    known, given = dimensions(), votes()
    found = estimate()
    p = predicted_probability(given, Sift(), found)
    row = int(np.flatnonzero(given.worker_codes() == 6)[0])
    i, j = int(given.first[row]), int(given.second[row])
    offset, variance = (float(x) for x in known.offsets(6, i, j))
    beta = found.points.reliability[6]
    z = beta * (known.positions[i, 0] - known.positions[j, 0]) + offset
    v = beta**2 * 2 * 0.1**2 + variance
    assert p[row] == pytest.approx(np.mean(1 / (1 + np.exp(-z / np.sqrt(1 + np.pi * v / 8)))), abs=1e-8)


def test_a_saved_fit_keeps_its_dimensions(tmp_path: Path):
    made = fit()
    made.save(tmp_path / "fit")
    loaded = crowdsift.load(tmp_path / "fit")
    known, back = made.posterior.dimensions, loaded.posterior.dimensions
    for name in (
        "positions",
        "position_covariance",
        "weights",
        "weight_covariance",
        "mean",
        "mean_covariance",
        "covariance",
        "distinct",
        "component_size",
    ):
        np.testing.assert_array_equal(getattr(back, name), getattr(known, name))
    assert back.trials[:2] == known.trials[:2]
    assert np.isnan(back.trials[2].left_out_loss)
    pair = ["i0", "i3"], ["i1", "i4"], ["w6", None]
    np.testing.assert_array_equal(loaded.predict(*pair), made.predict(*pair))
    assert dimension_sentences(loaded) == dimension_sentences(made)
    hidden = loaded.hide_workers()
    order = [int(each[1:]) for each in sorted(made.worker_table["worker"])]
    assert sorted(hidden.posterior.dimensions.weights[:, 1]) == sorted(known.weights[order, 1])
    name = hidden.worker_table["worker"][int(np.argmax(hidden.worker_table["weight_2"]))]
    assert hidden.predict("i0", "i1", name) == made.predict("i0", "i1", "w6")


def test_a_folder_of_format_3_loads_and_stays_one_dimensional(tmp_path: Path):
    shutil.copytree(Path(__file__).parent / "saved_format_3", tmp_path / "old")
    old = crowdsift.load(tmp_path / "old")
    assert old.predict("i0", "i3", "w1") == pytest.approx(0.4065088091678903, abs=1e-12)
    assert old.parameters["dimensions"] == 1
    assert not direction_sentence(old)
    old.save(tmp_path / "new")
    assert '"format": 4' in (tmp_path / "new" / "summary.json").read_text()
    assert crowdsift.load(tmp_path / "new").parameters["dimensions"] == 1


def test_votes_are_explained_in_all_dimensions_by_checks():
    """Workers who share another taste neither misfit nor look as if they copied."""
    made, known = fit(), dimensions()
    p = vote_probability(made, made.votes)
    who, one, two = made.votes.worker_codes(), made.votes.first, made.votes.second
    z = ((known.positions[one] - known.positions[two]) * known.weights[who]).sum(axis=1)
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-z)), atol=1e-12)
    w = made.votes.weight
    square, variance = w * (made.votes.outcome - p) ** 2, w * p * (1.0 - p)
    infit = np.bincount(who, square) / np.bincount(who, variance)
    found = made.statistics().workers
    np.testing.assert_allclose(np.asarray(found["infit"], float), infit, atol=1e-9)
    assert not np.asarray(found["misfit"]).any()


def test_questions_count_what_other_dimensions_add():
    """The precision of a vote about the score is that of a plain integral over the offset."""
    made, known = fit(), dimensions()
    selector = crowdsift.Selector(made)
    state, (a, b) = selector._state, (np.array([0]), np.array([1]))
    offset = state.offset(6, a, b)
    np.testing.assert_allclose(np.ravel(offset), np.ravel(known.offsets(6, 0, 1)))
    rng, beta = np.random.default_rng(1), np.array([1.5])
    found = vote_precision(np.array([0.4]), np.array([0.1]), beta, np.ones(1), (0.5, 0.4))
    drawn = 1.5 * rng.normal(0.4, np.sqrt(0.1), 400_000) + rng.normal(0.5, np.sqrt(0.4), 400_000)
    p = 1 / (1 + np.exp(-drawn))
    assert found[0] == pytest.approx(1.5**2 * np.mean(p * (1 - p)), rel=0.05)
    query = selector.choose(3, workers=["w0", "w6"])
    assert set(query["worker"]) <= {"w0", "w6"}
    before = selector.scores
    selector.add("i0", "i1", "w0")
    assert selector.scores[0] > before[0]


def test_the_map_shows_items_as_points_and_workers_as_directions():
    made = fit()
    chart = map_chart(made)
    assert chart is not None
    rays = {mark.kind: mark for mark in chart.marks if mark.shape == "rays"}
    assert len(rays["v-reliable"].x) == 6
    np.testing.assert_allclose(rays["v-distinct"].x, 0.0, atol=1e-12)
    assert (np.sign(rays["v-distinct"].y) == [1, -1]).all()
    longest = max(np.hypot(mark.x, mark.y).max() for mark in rays.values() if len(mark.x))
    assert longest <= chart.x.high + 1e-12
    for width in (970, 360):
        picture = draw(chart, width)
        assert picture.count('class="ray v-') == 2
        assert picture.count("item-dot") == ITEMS
    assert map_chart(crowdsift.fit(votes(), "bt")) is None


def test_the_report_and_the_plots_have_the_map():
    html = fit().report(refit=False).html
    assert "What workers weigh differently" in html
    assert dimension_sentences(fit())[0] in html
    assert "direction on which voters agree" in html
    pytest.importorskip("matplotlib").use("Agg")
    axes = crowdsift.plots.preference_map(fit())
    assert axes.get_ylabel() == "dimension 2"
    with pytest.raises(RequestError, match="one dimension"):
        crowdsift.plots.preference_map(crowdsift.fit(votes(), "bt"))


def test_without_a_common_ranking_none_is_printed():
    made = fit(dimensions(has_common=False))
    text, html = sentences.printed(made), made.report(refit=False).html
    assert "no common ranking" in text
    assert "┃ rank" not in text
    assert "rank\n" not in str(made)
    assert "Items; there is no common ranking" in html
    assert "A higher score is better" not in html
    assert 'data-check="first" data-state="bad"' in html


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dimensions": "two"}, "a whole number above 0 or 'auto', not 'two'"),
        ({"dimensions": 0}, "a whole number above 0 or 'auto', not 0"),
        ({"dimensions": 1.5}, "a whole number above 0 or 'auto', not 1.5"),
        ({"dimensions": 2, "method": "bora-em"}, "bora-em has one dimension; --dimensions"),
        ({"dimensions": 6}, "6 items and 8 workers, which can carry 5"),
    ],
)
def test_dimensions_that_are_refused(given, message):
    with pytest.raises(RequestError, match=message):
        crowdsift.fit(votes(), given.get("method"), dimensions=given["dimensions"])
    with pytest.raises(RequestError, match=message):
        crowdsift.evaluate(votes(), methods=given.get("method", "bt,sift"), dimensions=given["dimensions"])


@pytest.mark.parametrize("method", sorted(set(MODELS) - {"sift"}))
def test_methods_with_one_dimension_refuse_a_number(method):
    with pytest.raises(RequestError, match=f"{method} has one dimension; --dimensions"):
        crowdsift.fit(votes(), method, dimensions=2)


def test_gold_that_contradicts_itself_is_refused_in_several_dimensions():
    both = {"winner": ["i0", "i1"], "loser": ["i1", "i0"]}
    with pytest.raises(InputError, match="the gold contradicts row 1"):
        crowdsift.fit(votes(), dimensions=2, gold=both)
    cycle = {"winner": ["i0", "i1", "i2"], "loser": ["i1", "i2", "i0"]}
    with pytest.raises(InputError, match=r"the gold contradicts itself: .* \(rows 1, 2, 3\)"):
        crowdsift.fit(votes(), dimensions=2, gold=cycle)


def test_dimensions_need_workers():
    with pytest.raises(RequestError, match="bt has one dimension"):
        crowdsift.fit({"winner": ["a", "b"], "loser": ["b", "c"]}, dimensions=2, workers=False)


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_the_command_line_refuses_dimensions_before_it_reads(command, monkeypatch, capsys):
    name = "--method" if command == "fit" else "--methods"
    words = ["crowdsift", command, "no-such-file.csv", name, "bt", "--dimensions", "2"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit):
        cli.main()
    assert "bt has one dimension" in capsys.readouterr().err
