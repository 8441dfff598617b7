"""The estimates of the workers of a run of sift, and its diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.models.base import WorkerEstimate
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.search import null_evidence
from crowdsift.solvers.ep.terms.contexts import MOST_SPREAD, ContextSites

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import WorkerTypes
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.state import Propagation
    from crowdsift.solvers.ep.summaries import TypeSummary

__all__ = ["run_diagnostics", "worker_estimate"]

_FAINT = 0.5  # mean square of scores, 1 before any vote, under which they may be nothing
_COPIED = 3.0  # a pair effect larger than the difference of two scores, whose variance is 2


def worker_estimate(
    summary: TypeSummary, types: WorkerTypes, typical: float, classes: Vector
) -> WorkerEstimate:
    """Reliabilities, side biases and tie widths of workers with their uncertainty."""
    return WorkerEstimate(
        reliability=summary.mean,
        reliability_sd=summary.sd,
        reliability_lower=summary.lower,
        reliability_upper=summary.upper,
        quantiles=summary.spread,
        side_bias=summary.side if types.sides else None,
        side_sd=summary.side_sd if types.sides else None,
        one_sided=summary.p_side_only if types.sides else None,
        typical=typical,
        class_evidence=classes,
        extra={"tie_width": summary.width} if types.ties else {},
    )


def run_diagnostics(run: Propagation, engine: Engine) -> Iterator[Diagnostic]:
    """What deserves a look at the end of a run."""
    if float(np.mean(run.means**2)) < _FAINT:
        gain = run.evidence[-1] - null_evidence(engine, run.prior, run.sides.prior)
        if gain < MIN_LOG_BAYES_FACTOR:
            yield Diagnostic(
                Kind.INFORMATION,
                "the votes hold no information: the evidence for any worker seeing which item is "
                f"better is {gain:z.1f} nats",
            )
    if run.pair_effect > _COPIED:
        yield Diagnostic(
            Kind.COPIED,
            "votes on the same pair agree far beyond what scores of items explain (pair effect "
            f"{run.pair_effect:.1f}): answers may be copied, and scores say little",
        )
    if isinstance(run.sites, ContextSites) and run.sites.reliability_spread > 0.99 * MOST_SPREAD:
        yield Diagnostic(
            Kind.CONTEXTS,
            "reliabilities differ from context to context as much as can be: some workers are of "
            "another kind in some contexts, which makes those of all others uncertain. Fit the "
            "contexts one by one to find them",
        )
    if run.indefinite:
        yield Diagnostic(
            Kind.INTERVALS,
            "votes of workers of unknown sign were held at precision 0 to keep the scores' "
            "posterior proper; intervals may be too narrow",
        )
