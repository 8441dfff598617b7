"""Hyper-parameters chosen by left-out votes."""

from dataclasses import dataclass, replace

from crowdsift.engines import MAPS
from crowdsift.errors import RequestError
from crowdsift.fitting.estimate import Resources, estimate_votes, open_votes
from crowdsift.models.base import Model
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import folds

# Ratio of neighbouring values of a tuned hyper-parameter.
_FACTOR = 10**0.5
_HERE = Resources()
_WIDEST = 1e4  # largest factor to the default value, up or down


def left_out_log_likelihood(
    votes: Comparisons, model: Model, resources: Resources = _HERE, count: int = 5, seed: int = 0
) -> float:
    """Return the mean log-likelihood of votes that were left out of the fit."""
    if resources.engine in tuple(MAPS):
        raise RequestError(f"engine {resources.engine!r} can only run complete fits; it cannot be used for tuning")
    total = 0.0
    for kept, left_out in folds(votes, count, seed):
        estimate = estimate_votes(model, kept, resources)
        with open_votes(model, left_out, resources) as others:
            total += model.left_out_votes(others.engine, left_out, estimate)
    return total / votes.total_weight


@dataclass(frozen=True)
class Tuning:
    """The model with the chosen hyper-parameter, and the left-out log-likelihoods tried."""

    model: Model
    parameter: str
    value: float
    tried: tuple[tuple[float, float], ...]


def tune(
    votes: Comparisons, model: Model, *, count: int = 5, seed: int = 0, engine: str = "auto", threads: int | None = None
) -> Tuning:
    """Choose the model's penalty by left-out votes.

    The value changes by factors of √10, up or down from the given one, while the mean log-likelihood of left-out votes
    rises. The same votes are left out every time.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
    >>> chosen = crowdsift.tune(votes, crowdsift.BradleyTerry())
    >>> chosen.parameter, max(chosen.tried, key=lambda pair: pair[1])[0] == chosen.value
    ('penalty', True)
    """
    return tuned(votes, model, Resources(engine, None, threads), count=count, seed=seed)


def tuned(votes: Comparisons, model: Model, resources: Resources, *, count: int = 5, seed: int = 0) -> Tuning:
    """Choose the model's penalty as `tune` does, on an engine with its options."""
    if not isinstance(model, Model):
        raise RequestError(f"give a model such as crowdsift.BradleyTerry(), not {model!r:.60}")
    if not model.tuned:
        raise RequestError(f"{model.name} has no penalty to choose: the evidence decides")
    start = float(getattr(model, model.tuned))
    tried: dict[int, float] = {}

    def quality(step: int) -> float:
        if step not in tried:
            penalised = replace(model, **{model.tuned: start * _FACTOR**step})
            tried[step] = left_out_log_likelihood(votes, penalised, resources, count, seed)
        return tried[step]

    best = 0
    for direction in (1, -1):
        while quality(best + direction) > quality(best) and _FACTOR ** abs(best) < _WIDEST:
            best += direction
        if best:
            break
    value = start * _FACTOR**best
    return Tuning(
        replace(model, **{model.tuned: value}),
        model.tuned,
        value,
        tuple((start * _FACTOR**step, tried[step]) for step in sorted(tried)),
    )
