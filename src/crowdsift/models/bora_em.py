"""BoRaEM: Boltzmann-rational workers by Pólya-Gamma EM.

"Finding the Signal in the Spam: Jointly Learning Rewards and Worker Reliability from Pairwise
Comparisons", UAI 2026.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, Model, WorkerEstimate
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.models.precision import ScorePrecision
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.solvers.em import EMState, polya_gamma_em
from crowdsift.solvers.side_term import SideTerm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines import Engine
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["BoraEM"]


@dataclass(frozen=True)
class BoraEM(Model):
    """P(w beats l | s) = σ(β_s (r_w - r_l)), β_s free in sign.

    The number of alternations is part of the definition: the scaling to unit root mean square
    is not neutral to the priors, so the fixed point depends on it.

    With `side_bias` it is σ(β_s (r_left - r_right) + γ_s) for the left item: γ_s is a habit of
    voting left. Pólya-Gamma EM stays in closed form, with two parameters a worker. This is not in
    the paper, and off by default.

    Parameters
    ----------
    alternations
        How often an M-step alternates between scores and reliabilities.
    item_ridge
        λ_base: the ridge on the scores is this times the mean of E[ω].
    reliability_sd
        σ_β: the standard deviation of the Gaussian prior on reliabilities.
    start_reliability
        β of every worker at the start. With 0 nothing can be learned.
    side_bias
        Whether every worker has a side habit γ; the votes must say what was shown on the left.
    side_sd
        σ_γ: the standard deviation of the Gaussian prior on side habits.
    tolerance
        Stop when the mean log-likelihood moves by at most this.
    most_iterations
        Stop unconverged after so many.
    accelerate
        Anderson acceleration: the same fixed point in a fraction of the iterations.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=20, workers=10, comparisons=2000, seed=1).comparisons()
    >>> fit = crowdsift.fit(votes, method=crowdsift.BoraEM(tolerance=1e-8))
    >>> fit.converged
    True
    """

    alternations: int = 10
    item_ridge: float = 1e-2
    reliability_sd: float = 1.0
    start_reliability: float = 0.8
    side_bias: bool = False
    side_sd: float = 1.0
    tolerance: float = 1e-6
    most_iterations: int = 2_000
    accelerate: bool = True

    name: ClassVar[str] = "bora-em"
    tuned: ClassVar[str] = "item_ridge"
    of_any_sign: ClassVar[tuple[str, ...]] = ("start_reliability",)

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """The comparisons as they are; a side habit needs sides."""
        if self.side_bias and not comparisons.sides_known:
            raise RequestError(
                "bora-em: side_bias needs to know what was shown on the left (columns "
                "left,right,winner, or --sides for first,second,outcome)"
            )
        return comparisons

    def relax(self, comparisons: Comparisons) -> tuple[Model, str]:
        """Without sides there is no side habit."""
        if self.side_bias and not comparisons.sides_known:
            return replace(self, side_bias=False), "sides unknown: no side bias"
        return self, ""

    def estimate(self, engine: Engine, progress: Progress | None = None) -> Estimate:
        """EM from scores 0; standard deviations from the curvature at the end."""
        rule = StoppingRule(
            "change of the mean log-likelihood", self.tolerance, self.most_iterations, progress
        )
        side = SideTerm(engine, self.side_sd**-2) if self.side_bias else None
        state, trace = polya_gamma_em(
            side or engine,
            np.zeros(engine.n_items),
            np.full(engine.n_workers, self.start_reliability),
            alternations=self.alternations,
            item_ridge=self.item_ridge,
            worker_ridge=self.reliability_sd**-2,
            rule=rule,
            # Habits live outside the iterate: a step is no function of it alone.
            depth=5 if self.accelerate and side is None else 0,
        )
        notes: tuple[Diagnostic, ...] = ()
        if not state.scores.any():
            nothing = "the votes hold no information: all scores and reliabilities are 0"
            notes = (Diagnostic(Kind.INFORMATION, nothing),)
        if not state.solved:
            unsolved = "the linear solves did not reach their tolerance"
            notes += (Diagnostic(Kind.CONVERGENCE, unsolved),)
        shift = self.item_ridge * max(state.precision / engine.total_weight, 1e-12)
        if side is None:
            workers = self._workers(engine, state)
        else:
            workers = self._sided_workers(engine, state, side.sides)
        columns = [state.slopes] if side is None else [state.slopes, side.sides]
        return Estimate(
            scores=state.scores,
            log_likelihood=state.log_likelihood,
            rule=rule,
            trace=trace,
            precision=ScorePrecision.of(engine, shift),
            theta=np.stack(columns, axis=1),
            workers=workers,
            diagnostics=notes,
        )

    def _workers(self, engine: Engine, state: EMState) -> WorkerEstimate:
        """Reliabilities and their curvature; refreshes the Laplacian with that of the scores."""
        information = engine.slope_information(state.scores, state.slopes)
        engine.score_derivatives(state.scores, state.slopes)
        return WorkerEstimate(state.slopes, 1.0 / np.sqrt(information + self.reliability_sd**-2))

    def _sided_workers(self, engine: Engine, state: EMState, sides: Vector) -> WorkerEstimate:
        """The same with sides: standard deviations from the inverse of the 2 x 2 curvature."""
        at = engine.side_passes().derivatives(state.scores, state.slopes, sides)
        prior = np.array([self.reliability_sd**-2, 0.0, self.side_sd**-2])
        a, b, c = (at.blocks + prior).T
        determinant = a * c - b * b
        return WorkerEstimate(
            state.slopes,
            np.sqrt(c / determinant),
            side_bias=sides,
            side_sd=np.sqrt(a / determinant),
        )

    def mirrored(self, theta: Vector, level: float) -> Vector:
        """-β; a side habit is the same whichever end is up."""
        return theta * ([-1.0, 1.0] if self.side_bias else -1.0)

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Log-likelihood of other votes."""
        slopes, *sides = np.ascontiguousarray(estimate.theta.T)
        if sides:
            return engine.side_passes().expect(estimate.scores, slopes, sides[0])[0]
        return engine.log_likelihood(estimate.scores, slopes)

    def probability(
        self, difference: NDArray[np.float64], reliability: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """σ(β d): what was shown on the left is not asked."""
        return sigmoid(reliability * difference)
