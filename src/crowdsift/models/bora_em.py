"""BoRaEM: Boltzmann-rational workers by Pólya-Gamma EM.

"Finding the Signal in the Spam: Jointly Learning Rewards and Worker Reliability from Pairwise Comparisons", UAI 2026.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, Start, WorkerEstimate
from crowdsift.models.bora_map import BoltzmannModel
from crowdsift.models.covariance import ScorePrecision
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.solvers.em import polya_gamma_em

MOST_ALTERNATIONS = 1_000


@dataclass(frozen=True)
class BoraEM(BoltzmannModel):
    """P(w beats l | s) = σ(β_s (r_w - r_l)), β_s free in sign.

    The number of alternations is part of the definition: the scaling to unit root mean square is not neutral to the
    priors, so the fixed point depends on it.

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
    tolerance
        Stop when the mean log-likelihood moves by at most this.
    most_iterations
        The largest number of iterations; a fit that needs more ends unconverged.
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
    tolerance: float = 1e-6
    most_iterations: int = 2_000
    accelerate: bool = True

    name: ClassVar[str] = "bora-em"
    needs: ClassVar[str] = "em"
    tuned: ClassVar[str] = "item_ridge"
    of_any_sign: ClassVar[tuple[str, ...]] = ("start_reliability",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alternations > MOST_ALTERNATIONS:  # no stopping rule ends alternations early
            raise RequestError(f"bora-em: alternations must be at most {MOST_ALTERNATIONS:,}, not {self.alternations}")

    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        """Run EM from scores 0; standard deviations come from the curvature at the end."""
        rule = StoppingRule("change of the mean log-likelihood", self.tolerance, self.most_iterations, progress)
        facts = engine.facts
        slopes = np.full(facts.n_workers, self.start_reliability)
        if start is not None and start.workers is not None:
            slopes = start.workers
        state, trace = polya_gamma_em(
            required(engine.em),
            np.zeros(facts.n_items) if start is None else start.scores,
            slopes,
            total_weight=facts.total_weight,
            alternations=self.alternations,
            item_ridge=self.item_ridge,
            worker_ridge=self.reliability_sd**-2,
            rule=rule,
            depth=5 if self.accelerate else 0,
        )
        notes: tuple[Diagnostic, ...] = ()
        if not state.scores.any():
            nothing = "the votes hold no information: all scores and reliabilities are 0"
            notes = (Diagnostic(Kind.INFORMATION, nothing),)
        if not state.solved:
            unsolved = "the linear solves did not reach their tolerance"
            notes += (Diagnostic(Kind.CONVERGENCE, unsolved),)
        shift = self.item_ridge * max(state.e_step.precision / facts.total_weight, 1e-12)
        at = required(engine.slopes).curvature(state.scores, state.slopes)
        return Estimate(
            scores=state.scores,
            log_likelihood=state.e_step.log_likelihood,
            rule=rule,
            trace=trace,
            precision=ScorePrecision.of(lambda: at.laplacian, facts, shift),
            theta=state.slopes[:, None],
            workers=WorkerEstimate(state.slopes, 1.0 / np.sqrt(at.information + self.reliability_sd**-2)),
            diagnostics=notes,
        )
