"""Whether votes of one group share more than their items explain: tried by evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdsift.engines.base import required
from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR, StoppingRule
from crowdsift.solvers.ep.effect_step import MIN_EFFECT
from crowdsift.solvers.ep.side_prior import PopulationSide
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.variances import Factorisation

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.solvers.convergence import Progress
    from crowdsift.solvers.ep.group_prior import GroupPrior
    from crowdsift.solvers.ep.state import Settings
    from crowdsift.solvers.ep.warm import WarmStart

__all__ = ["run_in_groups"]

# From so many passes on a trial ends where so many times its last rise would not lift it enough.
_PATIENCE, _LOOKAHEAD = 6, 10.0


def run_in_groups(
    engine: Engine,
    prior: GroupPrior,
    start: WarmStart,
    evidence: float,
    settings: Settings,
    progress: Progress | None = None,
) -> Propagation | None:
    """The run whose items may differ from group to group; None unless it has clearly more evidence.

    Parameters
    ----------
    engine
        Of votes in which an item in a group is an item.
    start, evidence
        Where the run without groups ended: scores and variances by item, what was learned of
        workers, and its evidence.
    """
    sites = required(engine.grid).sites(start.prior.types, 2.0)
    rule = StoppingRule("change of the standardised scores", settings.tolerance,
                        settings.most_iterations, progress)  # fmt: skip
    means, variances = start.means[prior.item], start.variances[prior.item]
    run = Propagation("groups", engine, sites, start.prior, means, settings, rule,
                      system=sites.system(sites.pair_sums()), variances=variances,
                      factorisation=Factorisation(engine), sides=PopulationSide(start.side),
                      item_prior=prior)  # fmt: skip
    first, second = sites.pair_posteriors(means)[:2]
    sites.set_pair_variances(variances[first] + variances[second] + 2.0 * prior.variance)
    run.iterate()
    run.clip = settings.clip  # near its end a run may be in stage 2 at once
    wanted = evidence + MIN_LOG_BAYES_FACTOR
    while not run.done:
        run.iterate()
        rise = run.evidence[-1] - run.evidence[-2]
        hopeless = run.evidence[-1] + _LOOKAHEAD * max(rise, 0.0) < wanted
        if prior.variance <= MIN_EFFECT or (len(run.evidence) >= _PATIENCE and hopeless):
            return None
    run.finish()
    return run if run.settled and run.evidence[-1] > wanted else None
