"""What covariates of votes are worth: coverage of planted coefficients, left-out votes of judges.

Run with ``python -m benchmarks.covariates NAME [--seeds N] [--data FOLDER]``; NAME is planted, noise, dimension or
llmfao. Seeds count from 0; means have standard errors.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np

import crowdsift
from benchmarks.features import mean
from crowdsift.engines import choose_engine
from crowdsift.engines.base import Engine, required
from crowdsift.models import sift_dimensions
from crowdsift.models.base import Estimate
from crowdsift.numeric.distributions import half_width
from crowdsift.solvers.ep.terms.dimensions import Setting, begin, run
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import folds

FOLDS = 10
GROUPS = ("all", "gpt3", "gpt4")


def drawn(
    seed: int, rho: float, crowd: float = 0.4, spread: float = 0.4, *, binary: bool = False
) -> tuple[Comparisons, np.ndarray, np.ndarray]:
    """30 judges with 150 votes on 40 items; length goes with quality by rho, vote by vote, or its sign if `binary`."""
    rng = np.random.default_rng(seed)
    r = rng.normal(size=40)
    r = (r - r.mean()) / r.std()
    who, a = np.repeat(np.arange(30), 150), rng.integers(0, 40, 4500)
    b = (a + rng.integers(1, 40, 4500)) % 40
    one, two = (rho * r[x] + np.sqrt(1 - rho**2) * rng.normal(size=4500) for x in (a, b))
    length = np.sign(one - two) if binary else one - two
    beta, gamma = rng.gamma(8, 0.2, 30), rng.normal(crowd, spread, 30)
    z = beta[who] * (r[a] - r[b]) + gamma[who] * length
    votes = Comparisons.from_arrays(
        a,
        b,
        worker=who,
        outcome=(rng.random(4500) < 1 / (1 + np.exp(-z))).astype(float),
        sides_known=True,
        features=length[:, None],
        feature_names=("length",),
    )
    return votes, r, gamma


def planted(options: argparse.Namespace) -> None:
    """Coverage of 90 % intervals of coefficients and scores."""
    for rho in (0.0, 0.6):
        inside: dict[str, list[float]] = {"coefficients": [], "crowd": [], "scores": []}
        for seed in range(options.seeds):
            votes, r, gamma = drawn(seed, rho)
            fit = crowdsift.fit(votes)
            (about,) = (c for c in fit.summary["covariates"] if c["name"] == "length")
            found, items = fit.coefficients, fit.item_table
            if found is None or not about["used"]:
                continue
            inside["coefficients"].append(float(np.mean((found["lower"] <= gamma) & (gamma <= found["upper"]))))
            inside["crowd"].append(float(about["lower"] <= 0.4 <= about["upper"]))
            true = r[items["item"].astype(int)]
            inside["scores"].append(float(np.mean((items["lower"] <= true) & (true <= items["upper"]))))
        print(f"correlation {rho}:", {name: mean(v) for name, v in inside.items()}, flush=True)


def noise(options: argparse.Namespace) -> None:
    """How often a covariate without any effect is used."""
    used = []
    for seed in range(options.seeds):
        votes, _, _ = drawn(seed, 0.6, 0.0, 0.0)
        about = crowdsift.fit(votes).summary["covariates"]
        used.append(any(each["used"] for each in about if each["name"] == "length"))
    print(f"noise: used in {sum(used)} of {len(used)}", flush=True)


def dimension(options: argparse.Namespace) -> None:
    """Coverage of 90 % intervals by expectation propagation, and by the passes of `--dimensions` with one dimension.

    The covariate is which of two items is longer. Those passes know no other covariate than the side, so their votes
    have the longer item on the left.
    """
    plain = crowdsift.Sift(dimensions=1)
    for rho in (0.0, 0.6):
        inside: dict[str, list[float]] = {}
        for seed in range(options.seeds):
            votes, r, gamma = drawn(seed, rho, binary=True)
            assert votes.features is not None
            longer = votes.features[:, 0] > 0.0
            first, second = np.where(longer, votes.first, votes.second), np.where(longer, votes.second, votes.first)
            worker, outcome = votes.worker_codes(), np.where(longer, votes.outcome, 1.0 - votes.outcome)
            sided = Comparisons.from_arrays(first, second, worker=worker, outcome=outcome, sides_known=True)
            marked = Comparisons.from_arrays(
                first,
                second,
                worker=worker,
                outcome=outcome,
                features=np.ones((len(longer), 1)),
                feature_names=("longer",),
            )
            engine, marked_engine = choose_engine("cpu", sided), choose_engine("cpu", marked)
            by_sites = plain.estimate_votes(marked_engine, marked)
            start = plain.estimate(engine)
            if by_sites.covariates is None or start.workers.side_bias is None:
                continue
            by_passes = in_one_dimension(start, engine)
            side, side_sd = by_passes.workers.side_bias, by_passes.workers.side_sd
            assert side is not None
            assert side_sd is not None
            about = by_sites.covariates
            for name, found, mean_, sd in (
                ("sites", by_sites, about.mean[:, 0], about.sd[:, 0]),
                ("passes", by_passes, side, side_sd),
            ):
                assert found.score_sd is not None
                for what, error, own in (
                    ("coefficients", mean_ - gamma, sd),
                    ("scores", found.scores - r[sided.items.astype(int)], found.score_sd),
                ):
                    covered = float(np.mean(np.abs(error) <= half_width(0.9) * own))
                    inside.setdefault(f"{what} by {name}", []).append(covered)
        print(f"correlation {rho}:", {name: mean(v) for name, v in inside.items()}, flush=True)


def in_one_dimension(start: Estimate, engine: Engine) -> Estimate:
    """Return the estimate of the passes of several dimensions, with one, from that of expectation propagation."""
    workers = start.workers
    assert workers.reliability is not None
    assert workers.reliability_sd is not None
    assert workers.side_bias is not None
    assert workers.side_sd is not None
    assert start.score_sd is not None
    weights = np.stack([workers.reliability, workers.side_bias], 1)
    sd = np.stack([workers.reliability_sd, workers.side_sd], 1)
    width = np.zeros(engine.facts.n_workers)
    setting = Setting(required(engine.dimensions), width, False, engine.facts.component)
    state = run(setting, begin(start.scores, start.score_sd**2, weights, sd))
    return sift_dimensions._estimate(start, engine, setting, state, ())


def fold_losses(votes: Comparisons, number: int) -> dict[str, dict[str, float]]:
    """Nats of the left-out votes of a fold, without length and with it, by judge; their weights."""
    model, loss = crowdsift.Sift(), dict[str, dict[str, float]]()
    kept, left_out = list(folds(votes, FOLDS, 0))[number]
    who = left_out.workers[left_out.worker_codes()]
    groups = {name: left_out if name == "all" else left_out.select(who == name) for name in GROUPS}
    for name, given in (("without", kept.with_features(None)), ("with", kept)):
        estimate = model.estimate_votes(choose_engine("cpu", given, 2), given)
        loss[name] = {
            group: -model.left_out_votes(choose_engine("cpu", some, 1), some, estimate)
            for group, some in groups.items()
        }
    loss["weight"] = {group: float(some.weight.sum()) for group, some in groups.items()}
    return loss


def llmfao(options: argparse.Namespace) -> None:
    """Left-out votes of people and of LLM judges, with and without length; ties are outcomes.

    Every fold is a line of the file, if one is given; what is there is not run again.
    """
    folder = Path(options.data or os.environ["CROWDSIFT_DATA"])
    votes = crowdsift.read(folder / "llmfao_covariates.csv", covariates="chars")
    if options.decided:
        votes = votes.select(votes.outcome != 0.5)
    done = {}
    if options.file and options.file.exists():
        done = {each["fold"]: each for each in map(json.loads, options.file.open())}
    for number in (*range(options.first, FOLDS), *range(options.first)):
        if number not in done:
            done[number] = {"fold": number, **fold_losses(votes, number)}
            if options.file:
                with options.file.open("a") as file:
                    file.write(json.dumps(done[number]) + "\n")
    for group in GROUPS:
        nats = {name: [done[k][name][group] for k in range(FOLDS)] for name in ("without", "with")}
        weight = [done[k]["weight"][group] for k in range(FOLDS)]
        gain = [(one - two) / n for one, two, n in zip(nats["without"], nats["with"], weight, strict=True)]
        each = {name: round(sum(values) / sum(weight), 4) for name, values in nats.items()}
        print(f"{group}: {sum(weight):.0f} votes, log loss {each}, less by {mean(gain)}")
    fit = crowdsift.fit(votes)
    print(fit.summary["covariates"])
    assert fit.coefficients is not None
    for row in zip(*(fit.coefficients[name] for name in fit.coefficients), strict=True):
        if row[0] in GROUPS:
            print(row)
    columns = ("item", "score", "score_as_is")
    for row in list(zip(*(fit.item_table[name] for name in columns), strict=True))[:10]:
        print(row)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("planted", "noise", "dimension", "llmfao"))
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="the first fold of llmfao to run")
    parser.add_argument("--file", type=Path, help="where folds of llmfao are kept")
    parser.add_argument("--decided", action="store_true", help="llmfao without its ties")
    parser.add_argument("--data")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    {"planted": planted, "noise": noise, "dimension": dimension, "llmfao": llmfao}[options.name](options)


if __name__ == "__main__":
    main()
