"""Rank centrality: the stationary distribution of a walk towards winners."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.models.base import Estimate, Model, Start
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.votes.comparisons import Comparisons


@dataclass(frozen=True)
class RankCentrality(Model):
    """Scores are log π, π stationary under steps to winners (Negahban, Oh and Shah, 2017).

    From item i the walk goes to j ≠ i at the rate (wins of j over i + a)/(n_ij + 2a), one half where the two were never
    compared, all divided by the largest row sum; it stays for the rest. One half for every pair is a rank-one matrix,
    and what the votes add to it is antisymmetric and sparse, so no K x K matrix is ever formed.

    Parameters
    ----------
    prior
        a, the votes each way that every compared pair is given.
    tolerance
        Stop when no entry of π moves by more than this share of itself.
    most_iterations
        The largest number of iterations; a fit that needs more ends unconverged.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.Comparisons.from_arrays(["a", "b"], ["b", "c"])
    >>> crowdsift.fit(votes, "rank-centrality").items["item"].tolist()
    ['a', 'b', 'c']
    """

    prior: float = 1.0
    tolerance: float = 1e-9
    most_iterations: int = 10_000

    name: ClassVar[str] = "rank-centrality"
    by_worker: ClassVar[bool] = False  # pairs are counted over all workers
    needs: ClassVar[str] = "slopes"
    free_sign: ClassVar[bool] = False
    uses_workers: ClassVar[bool] = False
    tuned: ClassVar[str] = "prior"

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """Return one comparison per pair: the walk depends on counts only."""
        return comparisons.pooled()

    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        """Run power iteration; the walk mixes fast, because every pair has a rate near one half."""
        k = engine.facts.n_items
        margins = engine.counts.margins(self.prior)
        rows = 0.5 * (k - 1) - margins.multiply(np.ones(k))
        largest = rows.max()
        pi = np.full(k, 1.0 / k) if start is None else np.exp(start.scores)
        rule = StoppingRule("largest relative change", self.tolerance, self.most_iterations, progress)
        rule.iterate = lambda: {"scores": np.log(pi)}
        while True:
            arrives = 0.5 * (pi.sum() - pi) + margins.multiply(pi)
            moved = pi + (arrives - rows * pi) / largest
            moved /= moved.sum()
            change = float(np.max(np.abs(moved - pi) / pi))
            pi = moved
            if rule.stop(change):
                break
        scores = np.log(pi) - np.log(pi).mean()
        value = self._log_likelihood(engine, scores)
        return Estimate(scores, value, rule, trace=[])

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Return the log-likelihood of other votes with P(i over j) = π_i/(π_i + π_j)."""
        return self._log_likelihood(engine, estimate.scores)

    @staticmethod
    def _log_likelihood(engine: Engine, scores: Vector) -> float:
        return required(engine.slopes).log_likelihood(scores, np.ones(engine.facts.n_workers))

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        """Return π_i/(π_i + π_j) = σ(d)."""
        return sigmoid(difference)
