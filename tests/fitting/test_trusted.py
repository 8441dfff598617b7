"""Trusted votes: scores of one panel, learned from its votes and from biased judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift import RequestError, cli
from crowdsift.report.checks import headline
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
    assert about["worth"] > 100
    said = " ".join(fit.panel_sentences)
    assert "Scores are those of panel=human (400 votes)." in said
    assert f"clearly for i0 ({table['bias'][row]:+.2f})" in said
    assert f"worth {about['worth']:,.0f} independent votes of panel=human" in said


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


def test_gibbs_draws_have_the_moments_of_the_dense_posterior(monkeypatch):
    """With all variances and slopes nearly fixed by their priors the posterior is one Gaussian."""
    module = "crowdsift.solvers.ep.panels."
    for name, value in (("_FREEDOM", 1e7), ("_SLOPE", 1e-4), ("_OUTLIER", 1.0)):
        monkeypatch.setattr(module + name, value)
    rng, K, s, own = np.random.default_rng(1), 5, 0.2**2, 0.1**2
    L, b = np.zeros((3, K, K)), np.zeros((3, K))
    for each, size in zip(range(3), (8.0, 60.0, 30.0), strict=True):
        pull, weight = rng.normal(size=(K, K)), rng.uniform(0, size, (K, K))
        weight = np.triu(weight, 1) + np.triu(weight, 1).T
        L[each] = np.diag(weight.sum(axis=1)) - weight
        b[each] = (pull - pull.T).sum(axis=1) * size / 10
    found = panel_posterior(L, b, np.zeros(2, np.int64))
    one, eye = np.eye(3), np.eye(K)
    judges = np.diag([0.0, 1.0, 1.0])
    shared = np.outer([0, 1, 1], [0, 1, 1])
    C = np.kron(np.ones((3, 3)) + s * shared + own * judges, eye)  # of y: r, r + u + w1, r + u + w2
    whole = np.zeros((3 * K, 3 * K))
    for each in range(3):
        whole += np.kron(np.outer(one[each], one[each]), L[each])
    sigma = C @ np.linalg.inv(np.eye(3 * K) + whole @ C)
    centring = eye - 1 / K
    mean, covariance = (sigma @ b.ravel())[:K], sigma[:K, :K]
    np.testing.assert_allclose(found.mean, centring @ mean, atol=0.01)
    np.testing.assert_allclose(found.covariance, centring @ covariance @ centring, atol=0.003)
    bias = np.kron([0.0, s, s], eye) @ np.linalg.inv(C) @ sigma @ b.ravel()
    np.testing.assert_allclose(found.bias[:, 0].mean(axis=0), centring @ bias, atol=0.01)


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
    gold = {"winner": ["i1", "i3"], "loser": ["i2", "i4"]}
    fit = crowdsift.fit(rows, trusted={"panel": "human"}, gold=gold)
    assert fit.summary["trusted"]["votes"] == 60
    assert (fit.items["rank_lower"] == 1).sum() > 1
    assert not [line for line in headline(fit) if "more votes" in line]
    assert len([line for line in fit.panel_sentences if "more votes of panel=human" in line]) == 1


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
    for given, message in (("panel", "--trusted takes COLUMN=VALUE"), ("panel=x", "no vote has")):
        monkeypatch.setattr("sys.argv", ["crowdsift", "fit", str(path), "--trusted", given])
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
