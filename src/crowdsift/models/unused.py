"""What a method has no use for, or cannot do without, is refused before any work."""

from __future__ import annotations

from crowdsift.errors import RequestError
from crowdsift.models.base import Model
from crowdsift.votes.comparisons import Comparisons

WITHOUT_WORKERS = "bt"  # the method for votes without workers, unless another one is named

# What takes columns and classes among our own methods; what others do with them is their matter.
_TAKES = {
    "covariates": ("sift", "factor-bt"),
    "classes": ("barp",),
    "item-features": ("sift", "bora-map"),
}


def refuse_unused(
    chosen: Model, known: bool, *, covariates: bool, classes: bool, tune: bool, items: bool = False
) -> None:
    """Refuse options that change nothing.

    Parameters
    ----------
    chosen
        The model.
    known
        Whether it is one of our own methods.
    covariates, classes, tune, items
        Whether these were asked for.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.models.unused import refuse_unused
    >>> refuse_unused(crowdsift.Sift(), True, covariates=False, classes=False, tune=True)
    Traceback (most recent call last):
    ...
    crowdsift.errors.RequestError: sift has no penalty to tune: the evidence decides; ...
    """
    requested = {"covariates": covariates, "classes": classes, "item-features": items}
    for option, methods in _TAKES.items():
        if known and requested[option] and chosen.name not in methods:
            raise RequestError(
                f"{chosen.name} does not use {option} (--{option}), which would be ignored; leave "
                f"the option away, or use the method {' or '.join(methods)}"
            )
    if tune and not chosen.tuned:
        raise RequestError(
            f"{chosen.name} has no penalty to tune: the evidence decides; leave --tune away"
        )


def refuse_votes(chosen: Model, votes: Comparisons, *, dependent: bool) -> None:
    """Refuse a method of workers for votes without workers, and terms that it cannot combine."""
    chosen.refuse_votes(votes, dependent=dependent)
    if chosen.uses_workers and not votes.has_workers:
        raise RequestError(
            f"{chosen.name} learns who can be trusted and needs a worker for every vote; "
            f"use method {WITHOUT_WORKERS!r} for votes without workers"
        )
