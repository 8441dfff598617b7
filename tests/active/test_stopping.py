"""Stopping holds its error although one looks after every vote; plans hold the need."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import crowdsift
from crowdsift.active.beliefs import Joint
from crowdsift.active.plan import Plan, plan
from crowdsift.active.stopping import Goal, sentence, stopping
from crowdsift.errors import RequestError
from crowdsift.numeric.distributions import log_evidence, median_size, settling_precision
from crowdsift.numeric.likelihoods import sigmoid


def test_evidence_is_a_bayes_factor():
    """Against a plain sum: the likelihood ratio, summed over d > 0 by the prior of |d|."""
    m, v = 0.6, 0.2  # the posterior of the prior N(0, 2) and a Gaussian likelihood
    precision = 1.0 / v - 0.5
    centre = m / v / precision
    d = np.linspace(0.0, 12.0, 400_001)
    prior = np.exp(-(d**2) / 4.0) / np.sqrt(np.pi)
    ratio = np.exp(-0.5 * precision * ((d - centre) ** 2 - centre**2))
    expected = np.log((prior * ratio).sum() * (d[1] - d[0]))
    assert log_evidence(np.array([m]), np.array([v]))[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("precision", [0.1, 3.0, 1_000.0])
def test_the_evidence_of_equal_items_is_1_on_average(precision):
    """So Ville's inequality bounds a wrong claim by the whole 1 - confidence, and not by a part of it."""
    total = np.linspace(-9.0, 9.0, 200_001) * np.sqrt(precision + 2.0 * precision**2)  # the sum of the observations
    log_density = -0.5 * (total**2 / precision + np.log(2.0 * np.pi * precision))
    variance = 1.0 / (precision + 0.5)
    evidence = log_evidence(variance * total, np.full(total.shape, variance))
    assert np.exp(evidence + log_density).sum() * (total[1] - total[0]) == pytest.approx(1.0, abs=1e-6)


def test_a_difference_is_settled_at_the_settling_precision():
    differences = np.array([0.02, 0.3, 1.0, 4.0])
    needed = settling_precision(differences, 0.95)
    assert log_evidence(differences, 1.0 / needed)[:3] == pytest.approx(np.log(20.0), abs=1e-9)
    assert needed[3] == 0.5  # the precision before any vote
    assert (settling_precision(differences, 0.99) > needed)[:3].all()
    assert settling_precision(np.zeros(1))[0] > 1e15


def test_half_of_a_normal_variable_is_nearer_to_0_than_its_median_size():
    mean, sd = np.array([0.0, 0.3, -1.0, 5.0]), np.array([2.0, 0.3, 0.5, 0.1])
    size = median_size(mean, sd)
    drawn = np.abs(mean + sd * np.random.default_rng(1).standard_normal((400_000, 4)))
    assert (drawn < size).mean(axis=0) == pytest.approx([0.5] * 4, abs=0.004)
    assert size[0] == pytest.approx(2.0 * 0.6744898, abs=1e-6)


def test_the_evidence_of_equal_items_rarely_grows_large():
    """Two equal items, looked at after every one of 200 votes: Ville's bound holds for a claim of either."""
    random, claims, runs = np.random.default_rng(5), [0, 0], 100
    for _ in range(runs):
        belief = Joint(np.zeros(2), np.eye(2))
        for won in random.random(200) < 0.5:
            variance = float(belief.variance(np.array([0]), np.array([1]))[0])
            step, shrink, _ = crowdsift.active.beliefs.answer(
                float(belief.mean[0] - belief.mean[1]), variance, float(won), np.ones(1), np.ones(1)
            )
            belief.move(0, 1, step, shrink)
            if (state := stopping(belief, Goal(1), 0.9)).settled:
                claims[int(state.claim[0])] += 1
                break
    assert max(claims) <= 0.1 * runs


def test_goals_are_claims_about_sets_and_orders():
    belief = Joint(np.array([0.0, 2.0, 1.9, -2.0]), 0.02 * np.eye(4))
    first, two, order = (stopping(belief, Goal(top)) for top in (1, 2, 0))
    assert (first.settled, two.settled, order.settled) == (False, True, False)
    assert sorted(two.claim.tolist()) == [1, 2]
    assert two.confidence > 0.95 > first.confidence
    said = sentence(Goal(2), two, ["b", "c"], 0.95)
    assert said == "The top two are settled with 95 % confidence: b, c."


def test_a_selector_stops_on_the_truth_and_chooses_for_the_goal():
    truth, random = np.array([1.5, 0.3, 0.0, -1.0]), np.random.default_rng(2)
    selector = crowdsift.Selector(items=range(4), workers=["x", "y"], goal="first", threads=1)
    asked, votes = np.zeros(4), 0
    while not selector.stopping().settled and votes < 600:
        row = selector.choose(1)
        a, b = int(row["first"][0]), int(row["second"][0])
        asked[[a, b]] += 1
        won = float(random.random() < sigmoid(truth[a] - truth[b]))
        selector.add(a, b, "x" if random.random() < 0.5 else "y", won)
        votes += 1
    assert votes < 600
    assert selector.stopping().claim.tolist() == [0]
    assert asked[0] > 0.6 * votes  # at random an item is in half of the pairs
    assert selector.stopping("top-2").claim.tolist()[0] == 0


@pytest.mark.parametrize("goal", ["first", "ranking"])
def test_a_claim_is_that_of_the_scores_and_not_settled_where_plain_counts_contradict_it(goal):
    """One worker gives most votes and turns the order round: the scores see that, plain counts do not."""
    rows = [("a", "b"), ("b", "c"), ("a", "c")]
    votes = [(won, lost, worker) for worker in "vwxyz" for won, lost in rows * 8]
    votes += [(lost, won, "odd") for won, lost in rows * 150]
    winner, loser, worker = (list(column) for column in zip(*votes, strict=True))
    selector = crowdsift.Selector(crowdsift.Comparisons.from_arrays(winner, loser, worker=worker), goal=goal, threads=1)
    assert selector.items[np.argsort(-selector.pooled().scores)].tolist() == ["c", "b", "a"]
    state = selector.stopping()
    assert selector.items[state.claim].tolist() == ["a", "b", "c"][: len(state.claim)]
    assert (state.settled, state.confidence) == (False, 0.0)


def test_a_pair_that_is_odd_does_not_get_all_votes():
    """Items 1 and 2 are equal by their direct votes, and 1 is better by votes against all others.

    Without the discount for repeated votes 87 % of the votes are on that pair, and the others tell ever less.
    """
    random, asked = np.random.default_rng(3), np.zeros((5, 5))
    scores = np.array([0.5, 0.3, 0.1, -0.6, -1.0])
    selector = crowdsift.Selector(items=range(5), goal="first", threads=1, refit=0)
    for _ in range(1_500):
        row = selector.choose(1)
        a, b = int(row["first"][0]), int(row["second"][0])
        asked[a, b] += 1
        odds = 0.0 if {a, b} == {0, 1} else scores[a] - scores[b]
        selector.add(a, b, None, float(random.random() < sigmoid(odds)))
    assert (asked + asked.T).max() < 0.5 * asked.sum()


@pytest.mark.parametrize(
    ("goal", "message"), [("best", "--goal is first"), ("top-0", "at least 1"), ("top-3", "below the 3 items")]
)
def test_goals_that_make_no_sense_are_refused(goal, message):
    with pytest.raises(RequestError, match=message):
        Goal.of(goal, 3)


def test_a_plan_holds_the_need_of_studies_from_its_assumptions():
    """Needs of further studies from the same prior lie within the interval in 80 % at least.

    Studies end at 200 votes here, so that the upper end says little: benchmarks/ask.py checks both.
    """
    items = [f"i{n}" for n in range(5)]
    made = plan(items=items, goal="first", runs=39, most=200, seed=1)
    low, middle, high = made.interval
    assert 0 < low < middle <= high <= 200
    others = plan(items=items, goal="first", runs=59, most=200, seed=2).needs
    inside = np.mean((others >= low) & (others <= high))
    assert inside >= 0.8


def test_a_limit_only_cuts_studies_short():
    """Plans that differ in the most votes simulate the same studies, so their sentences agree."""
    short, long = (plan(items="abcd", runs=19, most=most, seed=3).needs for most in (60, 400))
    assert (short < 60).any()
    assert (long > 60).any()
    np.testing.assert_array_equal(short, np.minimum(long, 60))


def test_more_votes_of_the_same_kind_leave_a_smaller_need():
    pairs = [("a", "b"), ("b", "c"), ("a", "c")] * 3 + [("b", "a"), ("c", "b"), ("c", "a")]
    needs = []
    for times in (1, 5):
        winner, loser = zip(*(pairs * times), strict=True)
        votes = crowdsift.Comparisons.from_arrays(winner, loser)
        made = plan(votes, goal="first", runs=19, most=400)
        assert made.votes == 12 * times
        needs.append(made.interval[1])
    assert needs[1] < needs[0]


def test_the_page_of_a_study_states_the_need_that_a_plan_of_its_votes_has(monkeypatch):
    from crowdsift.ask import background

    monkeypatch.setattr(background, "_PLAN_SECONDS", 600.0)
    votes = crowdsift.simulate(items=4, workers=5, comparisons=60, seed=1).comparisons()
    selector = crowdsift.Selector(crowdsift.fit(votes), goal="first", refit=0)
    made = plan(votes, goal="first")
    assert background._expected(selector, Goal(1), False, 0.95)["more"] == made.words[1]
    assert made.words[1] in made.sentence


def test_plans_in_words():
    made = Plan(Goal(3), 0.95, 120, np.array([10] * 3 + [38] * 54 + [5_000] * 2), 5_000)
    assert made.sentence == (
        "About 38 more votes are expected to settle the top three with 95 % confidence; 90 % "
        "of such studies need 10 to 38."
    )
    assert Plan(Goal(1), 0.95, 9, np.zeros(19), 100).sentence.startswith("No more votes")


def test_the_command_plans_before_and_after_votes(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from crowdsift.cli import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.csv").write_text("item\na\nb\nc\n")
    votes = "winner,loser,worker\n" + "a,b,x\nb,c,y\na,c,x\n" * 12
    (tmp_path / "votes.csv").write_text(votes)
    before = CliRunner().invoke(app, ["plan", "items.csv", "--plot", "needs.png", "--most", "100"])
    assert before.exit_code == 0, before.output
    assert "Assumed before any vote" in before.output
    assert (tmp_path / "needs.png").stat().st_size > 1_000
    after = CliRunner().invoke(app, ["plan", "votes.csv", "--json", "--most", "100"])
    assert after.exit_code == 0
    assert '"votes": 36' in after.output


@pytest.mark.parametrize("words", [("--plot", "x.bmp"), ("--goal", "best"), ("--goal", "top-3"), ("--confidence", "2")])
def test_a_bad_plan_is_refused_before_anything_is_said(tmp_path, words):
    (tmp_path / "items.csv").write_text("item\na\nb\nc\n")
    done = subprocess.run(
        [sys.executable, "-m", "crowdsift", "plan", "items.csv", *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr.startswith("crowdsift: error: ")
    assert done.stderr.count("\n") == 1
    assert "internal" not in done.stderr
    assert not done.stdout


def test_a_plan_of_one_item_assumes_nothing_before_it_is_refused(tmp_path):
    (tmp_path / "items.csv").write_text("item\na\na\n")
    done = subprocess.run(
        [sys.executable, "-m", "crowdsift", "plan", "items.csv"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (
        1,
        "crowdsift: error: at least two items are needed; give votes, or items\n",
    )


def test_a_plan_is_made_within_one_context():
    votes = {"winner": ["a", "c"], "loser": ["b", "d"], "worker": [1, 1], "prompt": [1, 2]}
    for given in (crowdsift.read(votes, by="prompt"), crowdsift.fit(votes, by="prompt")):
        with pytest.raises(RequestError, match="within one context"):
            plan(given)
    assert plan(crowdsift.read({**votes, "prompt": [1, 1]}, by="prompt"), runs=19, most=50).votes


def test_prices_of_panels_count(tmp_path, monkeypatch):
    """Two workers of whom nothing is known: the cheap one is asked, unless money does not count."""
    from typer.testing import CliRunner

    from crowdsift.cli import app

    selector = crowdsift.Selector(items=range(30), workers=["h", "m"], threads=1)
    cheap = selector.choose(40, workers=["h", "m"], prices={"h": 1.0, "m": 0.01})
    assert set(cheap["worker"].tolist()) == {"m"}
    with pytest.raises(RequestError, match="every worker needs a price above 0"):
        selector.choose(1, workers=["h", "m"], prices={"h": 1.0})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.csv").write_text("winner,loser,worker\n" + "a,b,h\nb,c,m\na,c,h\n" * 4)
    (tmp_path / "workers.csv").write_text("worker,panel\nh2,human\nm2,llm\n")
    words = ["next", "votes.csv", "--pairs", "3", "--workers", "workers.csv", "--quiet", "--price"]
    done = CliRunner().invoke(app, [*words, "human=1,llm=0.01"])
    assert done.exit_code == 0, done.output
    assert done.output.count(",m2,") == 3
    with pytest.raises(crowdsift.InputError, match="row 2, column 'panel': the panel 'llm' has no"):
        CliRunner().invoke(app, [*words, "human=1"], catch_exceptions=False)
