"""What a model estimates of votes: those that it takes, the estimate, and what to warn of."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import ConvergenceWarning, SignWarning
from crowdsift.io.items import Gold
from crowdsift.io.resources import require_memory
from crowdsift.models.base import mirror
from crowdsift.models.diagnostics import Kind
from crowdsift.results.fitted import Fitted, centre
from crowdsift.results.sign import Agreement, gold_differences, signed_without_each, voters
from crowdsift.results.start import estimate_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from crowdsift.engines.base import Engine
    from crowdsift.models import Model
    from crowdsift.results.record import FitRecord
    from crowdsift.solvers.convergence import Progress
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["estimated", "prepared_votes", "warn_of", "with_gold_left_out"]

_FOLDS = 5  # of gold, each left out of one fit


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
    """Return the estimate, centred, of the sign that gold gives where the method leaves it free.

    Gold that settles no more than the sign is compared with the scores at once: each pair with the
    sign that the others give.
    """
    given = votes if votes.features is None else prepared  # with rows of gold
    estimate = estimate_from(start, model, engine, given, gold, progress)
    estimate = voters(estimate, votes.n_workers)
    component = engine.facts.component if estimate.component is None else estimate.component
    estimate = replace(estimate, scores=centre(estimate.scores, component))
    made = Fitted(votes, model, estimate, component, counts=engine.counts, known=gold)
    if gold is None or model.takes_gold:
        return made
    difference = gold_differences(estimate.scores, component, gold)
    if not model.free_sign:
        return replace(made, gold=Agreement.of(difference))
    if Agreement.of(difference).opposed:
        made = replace(made, estimate=mirror(model, estimate))
    return replace(made, gold=Agreement.of(signed_without_each(difference)))


def with_gold_left_out(
    fitted: Fitted, open_engine: Callable[[Comparisons], AbstractContextManager[Engine]]
) -> Fitted:
    """Compare gold pairs with scores that were found without them, where the fit uses gold.

    The pairs are left out in at most five folds, each with a fit of its own from the beginning.
    """
    gold, model, votes = fitted.known, fitted.model, fitted.votes
    if gold is None or not model.takes_gold:
        return fitted
    fold = np.arange(len(gold)) % _FOLDS
    difference = np.full(len(gold), np.nan)
    for number in range(min(len(gold), _FOLDS)):
        out = fold == number
        rest = None if out.all() else Gold(gold.winner[~out], gold.loser[~out])
        prepared = prepared_votes(model, votes, rest)
        with open_engine(prepared) as engine:
            found = estimated(model, engine, votes, prepared, rest, None, None)
        left_out = Gold(gold.winner[out], gold.loser[out])
        difference[out] = gold_differences(found.estimate.scores, found.component, left_out)
    return replace(fitted, gold=Agreement.of(difference))


def warn_of(result: FitRecord) -> None:
    """Warn whoever called `fit` of what is unsettled or not done."""
    whole = result.overall_ranking
    done = result.converged and (whole is None or whole.converged)
    for each in result.diagnostics:
        if each.kind is Kind.SIGN:
            warnings.warn(each.message, SignWarning, stacklevel=3)
        elif each.kind is Kind.CONVERGENCE and not done:
            warnings.warn(each.message, ConvergenceWarning, stacklevel=3)
