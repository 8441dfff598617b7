"""Bradley and Terry (1952), penalised: every worker counts the same."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.models.base import Estimate, Model, Start
from crowdsift.models.covariance import MOST_ITEMS, ScorePrecision, exact_items
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.solvers.newton import minimise
from crowdsift.solvers.slopes import CommonSlope
from crowdsift.votes.comparisons import Comparisons


@dataclass(frozen=True)
class BradleyTerry(Model):
    """P(w beats l) = σ(r_w - r_l), by maximum likelihood with the penalty ½λ‖r‖².

    The penalty makes the maximum exist where an item never lost, and where the graph of comparisons is not connected.
    Rankings have the likelihood of Plackett and Luce, best-worst answers that of max-diff.

    Parameters
    ----------
    penalty
        λ, the precision of the Gaussian prior on scores.
    tolerance
        Stop when the gradient would move no score by more than this.
    most_iterations
        The largest number of Newton steps; a fit that needs more ends unconverged.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
    >>> fit = crowdsift.fit(votes, method="bt")
    >>> fit.items["item"].tolist(), fit.items["score"].round(3).tolist()
    (['a', 'b'], [0.344, -0.344])
    """

    penalty: float = 0.01
    tolerance: float = 1e-6
    most_iterations: int = 200

    name: ClassVar[str] = "bt"
    rankings: ClassVar[str] = "likelihood"
    needs: ClassVar[str] = "slopes"
    free_sign: ClassVar[bool] = False
    uses_workers: ClassVar[bool] = False
    bytes_a_comparison: ClassVar[int] = 12

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """Return one comparison per pair, since counts are sufficient, if this halves the votes at least."""
        if comparisons.elsewhere is not None:  # other machines hold the votes, split by worker; the answer is the same
            return comparisons
        pairs = comparisons.n_items * (comparisons.n_items - 1) // 2
        return comparisons.pooled() if 2 * pairs <= len(comparisons) else comparisons

    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        """Take Newton steps; the objective is strictly convex."""
        objective = CommonSlope(engine, self.penalty, tolerance=self.tolerance)
        rule = StoppingRule("largest step of a score", self.tolerance, self.most_iterations, progress)
        first = objective.first_scores() if start is None else start.scores
        scores, trace = minimise(objective, first, rule, objective.largest_step)
        ones = np.ones(engine.facts.n_workers)
        precision = ScorePrecision.of(
            lambda: required(engine.slopes).curvature(scores, ones).laplacian, engine.facts, self.penalty
        )
        return Estimate(
            scores=np.asarray(scores - scores.mean()),
            log_likelihood=objective.profile(scores).value,
            rule=rule,
            trace=[-value / engine.facts.total_weight for value in trace],
            precision=precision,
        )

    def estimate_votes(self, engine: Engine, votes: Comparisons, progress: Progress | None = None) -> Estimate:
        """Fit pairs, or rankings by the likelihood of their choices (Plackett-Luce, max-diff)."""
        if votes.choices is None:
            return super().estimate_votes(engine, votes, progress)
        from crowdsift.solvers.choices import ChoiceObjective

        objective = ChoiceObjective(votes.choices, votes.n_items, self.penalty)
        tolerance = 0.01 * self.tolerance  # one more Newton step, for 1e-6 of the maximum
        rule = StoppingRule("largest step of a score", tolerance, self.most_iterations, progress)
        scores, trace = minimise(objective, np.zeros(votes.n_items), rule, objective.largest_step)
        component, precision = engine.facts.component, None
        if exact_items(component).all() and votes.n_items <= MOST_ITEMS:
            pairs = objective.pairs(scores)
            precision = ScorePrecision(*pairs, component, self.penalty)
        total = float(votes.choices.weight.sum())
        return Estimate(
            scores=np.asarray(scores - scores.mean()),
            log_likelihood=objective.log_likelihood(scores),
            rule=rule,
            trace=[-value / total for value in trace],
            precision=precision,
        )

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        ones = np.ones(engine.facts.n_workers)
        return required(engine.slopes).log_likelihood(estimate.scores, ones)

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        return sigmoid(difference)
