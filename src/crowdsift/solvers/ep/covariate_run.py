"""Votes with covariates: a run in which workers have coefficients, each kept by evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from crowdsift.engines.covariates.engine import CovariateEngine, JointFactorisation
from crowdsift.engines.covariates.sites import CovariateSites
from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.run import complete
from crowdsift.solvers.ep.side_prior import PopulationSide
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.worker_prior import WorkerPrior
from crowdsift.votes.covariates import SIDE

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import WorkerTypes
    from crowdsift.votes.covariates import Design

__all__ = ["CovariateRun", "with_covariates"]


@dataclass(frozen=True)
class CovariateRun:
    """A run, the covariates that it has, and what each adds to the evidence, dropped ones too."""

    run: Propagation
    design: Design | None
    gains: dict[str, float]
    by_items: tuple[str, ...] = ()

    @property
    def sites(self) -> CovariateSites:
        """The sites of the run."""
        return cast("CovariateSites", self.run.sites)


def with_covariates(
    base: Propagation, engine: Engine, given: Design, plain: WorkerTypes, sided: WorkerTypes
) -> CovariateRun:
    """The run with those covariates that the evidence clearly supports, else the base.

    All are tried at once; then the one that adds least is left out as long as it does not add
    more than 3 nats. What is left when all but the side are gone is the base.

    Parameters
    ----------
    base
        The run without covariates.
    engine
        Over the votes of the design.
    given
        All covariates.
    plain, sided
        Worker types without and with side-only ones.
    """
    design, gains = given, dict.fromkeys(given.names, 0.0)
    constant = tuple(n for n, is_so in zip(given.names, given.by_items, strict=True) if is_so)
    if not set(given.names) - {SIDE}:
        return CovariateRun(base, None, {})
    run = _run(base, base, engine, design, plain, sided)
    while True:
        trials = {}
        for column, name in enumerate(design.names):
            rest = design.without(column)
            if not rest.names:
                trials[name] = CovariateRun(base, None, {})
            else:  # the side alone, too: its evidence is held against one of the same kind
                found = _run(run, base, engine, rest, plain, sided)
                trials[name] = CovariateRun(found, rest, {})
            gains[name] = run.evidence[-1] - trials[name].run.evidence[-1]
        worst = min(design.names, key=lambda name: gains[name])
        if gains[worst] > MIN_LOG_BAYES_FACTOR:
            return CovariateRun(run, design, gains, constant)
        left = trials[worst]
        if left.design is None or left.design.names == (SIDE,):
            return CovariateRun(base, None, gains, constant)
        run, design = left.run, left.design


def _run(
    start: Propagation, base: Propagation, engine: Engine, design: Design, plain: WorkerTypes,
    sided: WorkerTypes,
) -> Propagation:  # fmt: skip
    """A run with these covariates, to its end, from the scores and types of another."""
    types = sided if SIDE in design.names else plain
    machine: Any = CovariateEngine(engine, design.votes, ~design.by_items)
    exact: Any = JointFactorisation()
    levels = start.prior.levels
    run = Propagation.begin("flat", machine, levels, _settings(base), types, base.rule.progress,
                            exact)  # fmt: skip
    assert run is not None
    run.prior, run.means = _prior(start.prior, types), start.means.copy()
    run.sides = PopulationSide()
    cast("CovariateSites", run.sites).set_item_variances(start.variances)
    complete(run)
    return run


def _settings(base: Propagation) -> Any:
    return replace(base.settings, contexts=False, pair_effect=False, starts=("flat",))


def _prior(prior: WorkerPrior, types: WorkerTypes) -> WorkerPrior:
    """A distribution over these types, near the one given."""
    if prior.types.sides == types.sides:
        return prior
    if not types.sides:
        return prior.without_sides(types)
    regular = prior.by_width(prior.masses).ravel()
    share = 1.0 / (2.0 + 2.0 * len(types.side_only))
    only = np.full(len(types.side_only), share)
    return replace(prior, masses=np.concatenate([regular * (1.0 - only.sum()), only]), types=types)
