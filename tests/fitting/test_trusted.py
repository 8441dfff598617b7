"""Trusted votes: scores of one panel, learned from its votes and from biased judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift import RequestError, cli
from crowdsift.report.checks import headline, run_checks
from crowdsift.report.facts import gather
from crowdsift.results.predict import vote_probability
from crowdsift.solvers.ep import panels
from crowdsift.solvers.ep.panels import panel_posterior
from crowdsift.votes.panels import in_panels

ITEMS, BIAS = 8, 1.2


def drawn_panel(seed: int = 0, people: int = 400) -> tuple[dict[str, list[Any]], np.ndarray]:
    """Votes of people and of two LLM judges, who overrate item i0; with the quality of items."""
    rng = np.random.default_rng(seed)
    quality, bias = rng.normal(0, 0.8, ITEMS), np.zeros(ITEMS)
    bias[0] = BIAS
    rows: dict[str, list[Any]] = {n: [] for n in ("left", "right", "winner", "worker", "panel")}
    for panel, worker, count, slope in (
        ("human", "p", people, 1.0),
        ("llm", "gpt", 2500, 1.5),
        ("llm", "claude", 2500, 0.8),
    ):
        for _ in range(count):
            i, j = rng.choice(ITEMS, 2, replace=False)
            d = quality[i] - quality[j] + (bias[i] - bias[j]) * (panel == "llm")
            name = f"{worker}{rng.integers(4)}" if panel == "human" else worker
            won = rng.random() < 1 / (1 + np.exp(-slope * d))
            row = (f"i{i}", f"i{j}", "left" if won else "right", name, panel)
            for key, value in zip(rows, row, strict=True):
                rows[key].append(value)
    return rows, quality


@pytest.fixture(scope="module")
def fitted() -> tuple[dict[str, list[Any]], np.ndarray, crowdsift.Fit]:
    rows, quality = drawn_panel()
    return rows, quality, crowdsift.fit(rows, trusted={"panel": "human"})


def errors(fit: crowdsift.Fit, quality: np.ndarray) -> float:
    """Root mean square error in logits."""
    found = fit.on_scale("logit")
    truth = np.array([quality[int(item[1:])] for item in found.labels])
    return float(np.sqrt(np.mean((found.items["score"] - (truth - truth.mean())) ** 2)))


def test_scores_are_those_of_the_trusted_panel(fitted):
    rows, quality, fit = fitted
    human = np.array(rows["panel"]) == "human"
    people = {name: np.array(column)[human] for name, column in rows.items()}
    assert errors(fit, quality) < errors(crowdsift.fit(people), quality)
    assert errors(fit, quality) < errors(crowdsift.fit(rows), quality)
    assert fit.items["item"].tolist() == fit.labels
    assert set(fit.workers["panel"]) == {"human", "llm"}


def test_the_planted_bias_is_found_and_said(fitted):
    _, _, fit = fitted
    table = fit.panel_bias
    assert list(table) == ["panel", "item", "bias", "lower", "upper"]
    row = list(table["item"]).index("i0")
    assert table["lower"][row] > 0.5
    about = fit.summary["trusted"]
    assert "i0" in about["panels"][0]["items"]
    assert about["votes"] == 400
    # Judges tell an item's score up to their bias: at most as much as votes whose variance is that of the biases.
    information = 2 * about["votes"] / ITEMS * 0.25
    assert 0.0 < about["worth"] < about["votes"] / information / (BIAS**2 / ITEMS * (1 - 1 / ITEMS))
    said = " ".join(fit.panel_sentences)
    assert "Scores are those of panel=human (400 votes)." in said
    assert f"clearly for i0 ({table['bias'][row]:+.2f})" in said
    assert f"worth {about['worth']:,.0f} independent votes of panel=human" in said


def test_predictions_for_a_judge_have_the_bias_of_its_panel(fitted):
    _, quality, fit = fitted
    d = quality[0] - quality[1]
    for worker, slope, bias in (("gpt", 1.5, BIAS), ("claude", 0.8, BIAS), ("p0", 1.0, 0.0), (None, 1.0, 0.0)):
        found = fit.predict("i0", "i1", worker=worker)
        assert found == pytest.approx(1 / (1 + np.exp(-slope * (d + bias))), abs=0.1)
    p = vote_probability(fit, fit.votes)
    judge = fit.votes.workers[fit.votes.worker_codes()] == "gpt"
    first, second = fit.votes.items[fit.votes.first[judge]], fit.votes.items[fit.votes.second[judge]]
    np.testing.assert_allclose(p[judge], fit.predict(first, second, worker="gpt"), atol=0.02)


def test_judges_that_would_be_a_panel_each_are_one_panel(fitted):
    rows, _, _ = fitted
    people = np.where(np.array(rows["panel"]) == "human", "people", rows["worker"]).astype(object)
    own = crowdsift.fit({**rows, "worker": people}, trusted={"worker": "people"})
    assert [each["panel"] for each in own.summary["trusted"]["panels"]] == ["others"]
    assert "Every other worker has one judge" in own.panel_sentences[1]
    assert set(own.workers["panel"]) == {"people", "gpt", "claude"}
    same = crowdsift.fit({**rows, "worker": people}, trusted={"panel": "human"})
    np.testing.assert_allclose(own.scores_of(same.labels), same.items["score"])
    assert own.predict("i0", "i1", worker="gpt") == same.predict("i0", "i1", worker="gpt")


def test_the_size_of_biases_lies_in_its_interval():
    held, ratio = [], []
    for seed in range(6):
        rows, _ = drawn_panel(seed)
        about = crowdsift.fit(rows, trusted={"panel": "human"}).summary["trusted"]["panels"][0]
        planted = BIAS * np.sqrt((1 - 1 / ITEMS) / ITEMS)
        held.append(about["lower"] <= planted <= about["upper"])
        ratio.append(about["deviation"] / planted)
    assert sum(held) >= 4
    assert 0.8 < np.mean(ratio) < 1.4


def test_planted_biases_lie_in_their_intervals():
    held = []
    for seed in range(4):
        rows, _ = drawn_panel(seed)
        table = crowdsift.fit(rows, trusted={"panel": "human"}).panel_bias
        truth = np.where(table["item"] == "i0", BIAS, 0.0) - BIAS / ITEMS
        held.append(np.mean((table["lower"] <= truth) & (truth <= table["upper"])))
    assert np.mean(held) >= 0.75


def test_a_trusted_fit_is_saved_loaded_and_updated(fitted, tmp_path):
    rows, _, fit = fitted
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    for name in fit.panel_bias:
        assert list(back.panel_bias[name]) == pytest.approx(list(fit.panel_bias[name]))
    assert back.votes.panels == fit.votes.panels
    np.testing.assert_allclose(back.on_scale("logit").items["score"], fit.on_scale("logit").items["score"])
    new = {name: column[:1] for name, column in rows.items()}
    new["worker"] = ["somebody"]
    later = back.update(new)
    assert later.summary["trusted"]["votes"] == 401
    assert later.votes.panels.of["somebody"] == "human"
    without = {name: column for name, column in new.items() if name != "panel"}
    with pytest.raises(crowdsift.CrowdsiftError, match="panel"):
        back.update({**without, "worker": ["another"], "left": ["i1"], "right": ["i2"]})


def test_hidden_workers_stay_in_their_panels(fitted):
    hidden = fitted[2].hide_workers()
    assert sorted(hidden.votes.panels.of.values()) == sorted(fitted[2].votes.panels.of.values())
    assert set(hidden.votes.panels.of) == set(hidden.votes.workers)


@pytest.mark.parametrize("engine", ["disk", "dask"])
def test_other_engines_trust_alike(fitted, engine):
    if engine == "dask":
        pytest.importorskip("distributed")
    rows, _, fit = fitted
    there = crowdsift.fit(rows, trusted={"panel": "human"}, engine=engine)
    np.testing.assert_allclose(there.scores_of(fit.labels), fit.items["score"], atol=0.01)


def test_without_biases_all_judges_are_one_crowd():
    """Many sites of judges that agree with the trusted ones: the scores are those of all sites."""
    rng = np.random.default_rng(2)
    truth = rng.normal(size=6)
    truth -= truth.mean()
    one = np.eye(6) - 1 / 6
    L = np.stack([40.0 * one, 4000.0 * one])
    found = panel_posterior(L, L @ truth, np.zeros(1, np.int64))
    np.testing.assert_allclose(found.mean, truth, atol=0.12)
    assert np.trace(found.covariance) < np.trace(found.alone)


def test_a_judge_far_off_is_not_believed():
    """A judge that contradicts strong trusted sites leaves them as they are."""
    rng = np.random.default_rng(3)
    truth, other = rng.normal(size=(2, 6)) @ (np.eye(6) - 1 / 6)
    one = np.eye(6) - 1 / 6
    L = np.stack([400.0 * one, 4000.0 * one])
    found = panel_posterior(L, np.stack([L[0] @ truth, L[1] @ other]), np.zeros(1, np.int64))
    alone = np.linalg.inv(L[0] + np.eye(6)) @ L[0] @ truth
    np.testing.assert_allclose(found.mean, alone, atol=0.05)


def reference(L: np.ndarray, b: np.ndarray, draws: int) -> tuple[np.ndarray, ...]:
    """Mean and variance of r and mean of u for judges of one panel, by weighted draws of all but r, u and w."""
    rng, (boards, K) = np.random.default_rng(1), b.shape
    tau, sigma, own = (np.abs(rng.standard_cauchy((draws, n))) for n in (1, 1, boards - 1))
    m = np.exp(panels._LEVEL * rng.normal(size=(draws, 1)))
    sigma, own = tau * sigma, own / m
    freedom = panels._FREEDOM[rng.integers(len(panels._FREEDOM), size=(draws, 1))]
    df = np.broadcast_to(freedom, (draws, K))
    u = (panels._SHARED * sigma) ** 2 * df / rng.chisquare(df)
    c = np.ones((draws, boards))
    c[:, 1:] = m * np.maximum(rng.normal(1.0, panels._SLOPE, (draws, boards - 1)), 0.05)
    judge, eye = np.diag(np.ones(boards)), np.eye(K)
    judge[0, 0] = 0.0
    both = np.outer(judge.sum(axis=0), judge.sum(axis=0))
    of_u = np.einsum("xy,nk,kl->nxkyl", both, u, eye)
    C = of_u + np.einsum("n,xy,kl->nxkyl", tau[:, 0] ** 2, np.ones((boards, boards)), eye)
    C[:, 1:, :, 1:] += np.einsum("nx,xy,kl->nxkyl", (panels._OWN * own) ** 2, np.eye(boards - 1), eye)
    W = np.einsum("nx,xkl,xy->nxkyl", c**2, L, np.eye(boards))
    C, W, of_u = (each.reshape(draws, boards * K, boards * K) for each in (C, W, of_u))
    h = (c[:, :, None] * b).reshape(draws, -1)
    inner = np.linalg.inv(np.eye(boards * K) + W @ C)
    S = C @ inner
    log = 0.5 * (np.einsum("ni,nij,nj->n", h, S, h) + np.linalg.slogdet(inner)[1])
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 2_000
    centring = eye - 1.0 / K
    mean = np.einsum("nij,nj->ni", S, h)[:, :K] @ centring
    biases = np.einsum("nij,njk,nk->ni", of_u, inner, h)[:, K : 2 * K] @ centring
    variance = np.einsum("kl,nlm,km->nk", centring, S[:, :K, :K], centring)
    average = weight @ mean
    return average, weight @ (variance + (mean - average) ** 2), weight @ biases


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_the_posterior_is_that_of_the_stated_model(bias):
    rng, K = np.random.default_rng(5), 4
    quality, shared = rng.normal(size=K), np.array([0.0, 0.0, 0.0, bias])
    L, b = np.zeros((3, K, K)), np.zeros((3, K))
    for each, size in enumerate((3.0, 12.0, 8.0)):
        weight = np.triu(rng.uniform(0, size / 2, (K, K)), 1)
        weight += weight.T
        L[each] = np.diag(weight.sum(axis=1)) - weight
        b[each] = L[each] @ (quality + shared * (each > 0) + rng.normal(0, 0.2, K))
    mean, variance, biases = reference(L, b, 60_000)
    found = [panels.panel_posterior(L, b, np.zeros(2, np.int64), seed) for seed in range(6)]
    np.testing.assert_allclose(np.mean([each.mean for each in found], axis=0), mean, atol=0.04)
    np.testing.assert_allclose(np.diag(np.mean([each.covariance for each in found], axis=0)), variance, rtol=0.1)
    np.testing.assert_allclose(np.mean([each.bias[:, 0].mean(axis=0) for each in found], axis=0), biases, atol=0.04)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_how_strongly_judges_react_is_learned_from_trusted_votes(factor):
    """Judges with very many votes who react half or twice as strongly: trusted scores stay, with their uncertainty."""
    rng, K = np.random.default_rng(4), 8
    one = np.eye(K) - 1 / K
    truth = rng.normal(size=K) @ one
    L = np.stack([20.0 * one, 20_000.0 * one, 30_000.0 * one])
    seen = [truth + one @ rng.normal(0, size, K) for size in (20**-0.5, 0.2, 0.2)]
    b = np.stack([each @ scores for each, scores in zip(L, seen, strict=True)])
    same = panel_posterior(L, b, np.zeros(2, np.int64))
    by = np.array([1.0, factor, factor])[:, None, None]
    found = panel_posterior(L / by**2, b / by[:, 0], np.zeros(2, np.int64))
    np.testing.assert_allclose(found.mean, same.mean, atol=0.08)
    np.testing.assert_allclose(np.trace(found.covariance), np.trace(same.covariance), rtol=0.2)
    in_scale = truth @ same.covariance @ truth / (truth @ truth)
    assert in_scale > 0.5 / 20  # most of what is known of the scale is known from trusted votes


def test_sites_of_negative_precision_give_finite_scores():
    """Nearly no votes: the sites of a judge have a negative precision, which is taken as none."""
    L = np.zeros((2, 5, 5))
    L[1] = -0.3 * (5 * np.eye(5) - 1)
    found = panel_posterior(L, np.zeros((2, 5)), np.zeros(1, np.int64))
    assert np.isfinite(found.mean).all()
    assert (np.linalg.eigvalsh(found.covariance) > -1e-9).all()


def test_robustness_of_trusted_votes_is_refused(fitted, monkeypatch, capsys):
    with pytest.raises(RequestError, match="panels of the votes"):
        fitted[2].robustness()
    given = ["fit", "no.csv", "--trusted", "panel=human", "--robustness"]
    monkeypatch.setattr("sys.argv", ["crowdsift", *given])
    with pytest.raises(SystemExit):
        cli.main()
    assert "omit --robustness or --trusted" in " ".join(capsys.readouterr().err.split())


def test_gold_is_not_counted_and_one_number_settles_first_place():
    rows, _ = drawn_panel(people=60)
    gold = {"winner": ["i2", "i3"], "loser": ["i1", "i4"]}
    fit = crowdsift.fit(rows, trusted={"panel": "human"}, gold=gold)
    assert fit.summary["trusted"]["votes"] == 60
    assert (fit.items["rank_lower"] == 1).sum() > 1
    assert not [line for line in headline(fit) if "more votes" in line]
    assert len([line for line in fit.panel_sentences if "more votes of panel=human" in line]) == 1


def test_trusted_workers_who_answer_at_random_do_not_settle_the_sign():
    """Four careful people with 60 votes each among six who answer at random with 150: the median of all is noise."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        quality = np.sort(rng.normal(size=10))[::-1]
        beta = np.repeat([2.5, 0.0, 2.0], [4, 6, 4])
        who = np.repeat(np.arange(14), np.repeat([60, 150, 60], [4, 6, 4]))
        one = rng.integers(10, size=len(who))
        two = (one + rng.integers(1, 10, len(who))) % 10
        won = rng.random(len(who)) < 1 / (1 + np.exp(-beta[who] * (quality[one] - quality[two])))
        rows = {"first": one, "second": two, "outcome": won.astype(float), "worker": who}
        rows["panel"] = np.where(who < 10, "human", "llm")
        for gold in (None, {"winner": [0], "loser": [9]}):
            fit = crowdsift.fit(rows, trusted={"panel": "human"}, gold=gold, dimensions=1)
            assert np.corrcoef(fit.scores_of(range(10)), quality)[0, 1] > 0.5
            assert not (fit.workers["verdict"] == "adversarial").any()


def test_judges_beyond_the_limit_share_their_panel(monkeypatch):
    monkeypatch.setattr("crowdsift.votes.panels.MAX_JUDGES", 1)
    rows, _ = drawn_panel(people=50)
    votes = crowdsift.fit(rows, trusted={"panel": "human"}).votes
    split = in_panels(votes)
    assert split.panel.tolist() == [0, 0]
    assert len(np.unique(split.board)) == 3


def test_what_cannot_be_trusted_is_refused(tmp_path, capsys, monkeypatch):
    rows, _ = drawn_panel(people=30)
    human = np.array(rows["panel"]) == "human"
    apart = {
        **rows,
        "left": [f"{i}{p}" for i, p in zip(rows["left"], rows["panel"], strict=True)],
        "right": [f"{i}{p}" for i, p in zip(rows["right"], rows["panel"], strict=True)],
    }
    one = {name: np.array(column)[human] for name, column in rows.items()}
    both = {**rows, "worker": ["same"] * len(human)}
    for table, given, options, message in (
        (rows, {"panel": "people"}, {}, "no vote has panel=people; the column 'panel' holds"),
        (rows, {"judge": "human"}, {}, "no column 'judge'"),
        (rows, {"panel": "human", "worker": "gpt"}, {}, "names one column"),
        (rows, {"panel": "human"}, {"method": "bt"}, "bt has no trusted votes"),
        (rows, {"panel": "human"}, {"dependent_by": "worker"}, "not both at once"),
        (apart, {"panel": "human"}, {}, "votes on 0 common items"),
        (one, {"panel": "human"}, {}, "there is no other panel to correct"),
        (both, {"panel": "human"}, {}, "a judge belongs to one panel"),
    ):
        with pytest.raises(crowdsift.CrowdsiftError, match=message):
            crowdsift.fit(table, trusted=given, **options)
    with pytest.raises(RequestError, match="read already"):
        crowdsift.fit(crowdsift.read(rows), trusted={"panel": "human"})
    path = tmp_path / "votes.csv"
    lines = [",".join(rows), *(",".join(row) for row in zip(*rows.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    absent = str(tmp_path / "no.csv")
    for file, given, message in (
        (str(path), ["panel"], "--trusted takes COLUMN=VALUE"),
        (str(path), ["panel=x"], "no vote has"),
        (absent, ["panel=human", "--method", "bt"], "bt has no trusted votes"),  # before votes are read
        (absent, ["panel=human", "--by", "left"], "not both at once"),
    ):
        monkeypatch.setattr("sys.argv", ["crowdsift", "fit", file, "--trusted", *given])
        with pytest.raises(SystemExit):
            cli.main()
        assert message in capsys.readouterr().err
    arguments = ["fit", str(path), "--trusted", "panel=human", "--out", str(tmp_path / "fit")]
    monkeypatch.setattr("sys.argv", ["crowdsift", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    assert "Scores are those of panel=human" in capsys.readouterr().out
    assert (tmp_path / "fit" / "panel_bias.csv").exists()


def test_contexts_are_refused_before_panels_are_compared():
    rows, _ = drawn_panel(people=50)
    with pytest.raises(RequestError, match=r"trusted votes \(.*or contexts .*not both"):
        crowdsift.fit(rows, trusted={"panel": "human"}, by="panel")


def test_the_report_and_the_suggestions_know_the_panels(fitted):
    """Biases limit the influence of a judge, the trusted panel determines the sign, and only people are paid."""
    fit = fitted[2]
    checks = {check.key: check for check in run_checks(gather(fit, refit=False))}
    assert "one-worker" not in checks
    assert checks["sign"].state == "good"
    suggested = dict(zip(fit.workers["worker"], fit.workers["suggestion"], strict=True))
    assert {suggested["gpt"], suggested["claude"]} <= {"use", "leave out", "review"}
    assert {suggested[f"p{n}"] for n in range(4)} <= {"pay", "review", "block"}
