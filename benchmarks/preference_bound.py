"""What preference rows can tell of annotators: an oracle's verdicts, and how open the scale is.

Run with ``python -m benchmarks.preference_bound [--seeds N] [--first N] [--adversaries KIND]``. The rows are those of
``benchmarks.features preferences``: every answer is in one pair, judged once. The oracle knows the true weights of the
features, their share of the variance and the distribution of reliabilities; what an answer has beyond its features is
integrated over, by quadrature. It says its words by the rule of `crowdsift.results.verdicts`: 3 nats between classes of
types. Nobody who sees these votes can do better by that rule but by luck.

Then the evidence for shares of the features at the true direction of the weights, distributions of reliabilities
learned as sift learns them, integrals exact: by how much the best share is above the true one, and the reliabilities
that go with it.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import gamma

from benchmarks.features import ADVERSARIES, Preferences, preference_rows
from crowdsift.engines.grid import mirrored
from crowdsift.results.verdicts import words_of
from crowdsift.solvers.ep.summaries import typical_reliability
from crowdsift.solvers.ep.workers import WorkerPrior, power_grid

CAREFUL = gamma(8, scale=0.25)
SHARES = (0.37, 0.4, 0.43, 0.46, 0.5, 0.54, 0.58, 0.65, 0.75, 0.9)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(31)


def log_likelihoods(drawn: Preferences, share: float, points: np.ndarray) -> np.ndarray:
    """Of every annotator's votes, a column per reliability: Σ log ∫ σ(β(d + e)) N(e; 0, 2s).

    An answer is in one vote, so that what it has of its own, of the variance s = 1 - share, is integrated vote by vote.
    Integrals are interpolated in d.
    """
    d = np.sqrt(share) * drawn.by_features
    at = np.linspace(d.min() - 0.01, d.max() + 0.01, 600)
    shifted = at[:, None] + np.sqrt(2.0 * (1.0 - share)) * NODES
    found = np.empty((len(drawn.beta), len(points)))
    for column, beta in enumerate(points):
        p = 1.0 / (1.0 + np.exp(-beta * shifted)) @ (WEIGHTS / WEIGHTS.sum())
        found[:, column] = np.bincount(drawn.who, np.interp(d, at, np.log(p)), len(found))
    return found


def words(L: np.ndarray, points: np.ndarray, masses: np.ndarray, typical: float) -> np.ndarray:
    """Verdicts from likelihoods averaged over classes, and from intervals of the posterior."""
    zone, top = 0.25 * typical, L.max(axis=1, keepdims=True)
    classes = (points < -zone, np.abs(points) <= zone, points > zone)
    shares = np.stack([np.exp(L - top) @ (masses * own) for own in classes], axis=1)
    evidence = np.log(np.maximum(shares / [(masses * own).sum() for own in classes], 1e-300))
    useful = shares[:, 2] / shares.sum(axis=1)
    reached = np.cumsum(np.exp(L - top) * masses, axis=1)
    reached /= reached[:, -1:]
    limits = tuple(points[(reached < at).sum(axis=1)] for at in (0.05, 0.95))
    votes, unknown = np.full(len(L), np.inf), np.full(len(L), np.nan)
    return words_of(evidence, useful, typical, [limits], votes, unknown, unknown, np.zeros(len(L), bool))


def oracle(drawn: Preferences, adversaries: str) -> np.ndarray:
    """Verdicts of one who knows all but the annotators and what answers have of their own."""
    up = np.linspace(0.05, 7.0, 140)
    careful = CAREFUL.pdf(up) / CAREFUL.pdf(up).sum()
    opposite = careful if adversaries == "opposite" else np.isclose(up, 1.5).astype(float)
    points = np.concatenate([-up[::-1], [0.0], up])
    masses = np.concatenate([0.05 * opposite[::-1], [0.15], 0.8 * careful])
    return words(log_likelihoods(drawn, 0.5, points), points, masses, float(CAREFUL.median()))


def at_share(drawn: Preferences, share: float) -> tuple[float, float, np.ndarray]:
    """Evidence, the typical reliability and verdicts, the distribution of types being learned."""
    levels = power_grid(49)
    points = mirrored(levels)
    L = log_likelihoods(drawn, share, points)
    top = L.max(axis=1, keepdims=True)
    likelihood = np.exp(L - top)

    def counts(masses: np.ndarray) -> np.ndarray:
        q = likelihood * masses
        return np.asarray((q / q.sum(axis=1, keepdims=True)).sum(axis=0))

    prior = WorkerPrior.start(levels, 1.0, 0.5).learned(counts, 300, 1e-6, extrapolate=True)
    evidence = float((np.log(likelihood @ prior.masses) + top[:, 0]).sum())
    typical = typical_reliability(prior)
    return evidence, typical, words(L, points, prior.masses, typical)


def found(verdict: np.ndarray) -> np.ndarray:
    """Adversaries and random ones found, careful ones flagged."""
    flagged = np.isin(verdict[:80], ["adversarial", "random"])
    return np.array([(verdict[95:] == "adversarial").sum(), (verdict[80:95] == "random").sum(), flagged.sum()])


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--adversaries", choices=ADVERSARIES, default=ADVERSARIES[0])
    options = parser.parse_args()
    names = ("oracle", "true share", "share by evidence")
    total = {name: np.zeros(3, int) for name in names}
    behind, ratio = [], []
    for seed in range(options.first, options.seeds):
        drawn = preference_rows(seed, options.adversaries)
        profile = {share: at_share(drawn, share) for share in SHARES}
        best = max(SHARES, key=lambda share: profile[share][0])
        verdicts = (oracle(drawn, options.adversaries), profile[0.5][2], profile[best][2])
        counted = dict(zip(names, map(found, verdicts), strict=True))
        for name, each in counted.items():
            total[name] += each
        behind.append(profile[best][0] - profile[0.5][0])
        ratio.append(profile[best][1] / float(np.median(drawn.beta[:80])))
        within = [share for share in SHARES if profile[share][0] > profile[best][0] - 3.0]
        print(
            f"seed {seed}: adversarial, random found, careful flagged "
            + ", ".join(f"{name} {each.tolist()}" for name, each in counted.items())
            + f"; best share {best}, {behind[-1]:.1f} nats above .5, typical reliability "
            f"{ratio[-1]:.2f} times the true one; {within[0]} to {within[-1]} within 3 nats",
            flush=True,
        )
    print(
        {name: each.tolist() for name, each in total.items()},
        f"of {5 * len(ratio)}, {15 * len(ratio)}, {80 * len(ratio)}; nats {np.mean(behind):.2f}, "
        f"ratio {min(ratio):.2f} to {max(ratio):.2f}, mean {np.mean(ratio):.2f}",
    )


if __name__ == "__main__":
    main()
