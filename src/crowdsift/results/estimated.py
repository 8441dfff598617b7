"""What a model estimates of votes: those that it takes, the estimate, and what to warn of."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crowdsift.errors import ConvergenceWarning, SignWarning
from crowdsift.io.resources import require_memory
from crowdsift.models.diagnostics import Kind
from crowdsift.models.mirror import mirror
from crowdsift.results.fitted import Fitted, centre
from crowdsift.results.sign import count_gold, voters
from crowdsift.results.start import estimate_from

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.io.gold import Gold
    from crowdsift.models import Model
    from crowdsift.results.record import FitRecord
    from crowdsift.solvers.convergence import Progress
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["estimated", "prepared_votes", "warn_of"]


def prepared_votes(model: Model, votes: Comparisons, gold: Gold | None) -> Comparisons:
    """The votes in the form that the model needs, gold included; refused where memory lacks."""
    if gold is not None and model.takes_gold:
        votes = votes.with_gold(gold.winner, gold.loser)
    prepared = model.prepare(votes)
    require_memory(
        0 if prepared.on_disk or prepared.elsewhere is not None else model.memory(prepared),
        f"fitting {model.name} to {len(prepared):,} comparisons",
    )
    return prepared


def estimated(
    model: Model, engine: Engine, votes: Comparisons, prepared: Comparisons,
    gold: Gold | None, start: Any, progress: Progress | None,
) -> Fitted:  # fmt: skip
    """The estimate, centred, of the sign that gold gives where the method leaves it free."""
    given = votes if votes.features is None else prepared  # with rows of gold
    estimate = estimate_from(start, model, engine, given, gold, progress)
    estimate = voters(estimate, votes.n_workers)
    component = engine.facts.component if estimate.component is None else estimate.component
    estimate = replace(estimate, scores=centre(estimate.scores, component))
    found = None if gold is None else count_gold(estimate.scores, component, gold)
    if found is not None and found.opposed and model.free_sign and not model.takes_gold:
        estimate, found = mirror(model, estimate), found.turned()
    return Fitted(votes, model, estimate, component, found, counts=engine.counts, known=gold)


def warn_of(result: FitRecord) -> None:
    """Warn whoever called `fit` of what is unsettled or not done."""
    whole = result.overall_ranking
    done = result.converged and (whole is None or whole.converged)
    for each in result.diagnostics:
        if each.kind is Kind.SIGN:
            warnings.warn(each.message, SignWarning, stacklevel=3)
        elif each.kind is Kind.CONVERGENCE and not done:
            warnings.warn(each.message, ConvergenceWarning, stacklevel=3)
