"""Methods side by side against a known truth."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import ConvergenceWarning, InputError, RequestError, SignWarning
from crowdsift.fitting import fit
from crowdsift.io.classes import with_classes
from crowdsift.io.ingest import read_votes
from crowdsift.io.item_features import with_item_features
from crowdsift.io.item_values import match_items, read_item_values
from crowdsift.io.options import ReadOptions
from crowdsift.lab.crossvalidation import cross_validate
from crowdsift.models import MODELS, Model, model
from crowdsift.numeric.metrics import Metrics, measure, measure_up_to_sign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["chosen_models", "evaluate"]


def evaluate(
    votes: Any,
    truth: Any = None,
    methods: str | Sequence[str | Model] = "all",
    *,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    covariates: Sequence[str] = (),
    classes: Any = None,
    items: Any = None,
    item_text: Any = None,
    item_features_missing: str = "error",
    tune: bool = False,
    engine: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Fit methods to the same votes and compare each order with the truth, or with left-out votes.

    A method that needs more than the votes hold runs in a reduced form, or not at all, and its
    note says so.

    Parameters
    ----------
    votes
        Whatever `crowdsift.read` takes.
    truth
        A file or frame with the columns item and score, or a mapping from items to scores. Without
        one votes are left out and predicted; see `crowdsift.lab.crossvalidation.cross_validate`.
    methods
        "all", names separated by commas, or a sequence of names and models.
    columns, workers, sides, covariates
        As in `crowdsift.read`.
    classes, items, item_text, item_features_missing, tune, engine, threads, seed
        As in `crowdsift.fit`.
    progress
        Called with the name of every method before it runs.

    Returns
    -------
    list of dict
        One record per method: method, accuracy, weighted_accuracy, kendall_tau, the same three
        with _up_to_sign (of the better of the two signs of the scores), seconds, note. Figures
        that do not exist are None. Without a truth one record per method and what is left out
        (votes, workers, pairs), with log_loss, brier, calibration, accuracy and behind.

    Examples
    --------
    >>> import crowdsift
    >>> drawn = crowdsift.simulate(items=20, workers=10, comparisons=4000, seed=1)
    >>> truth = dict(zip(drawn.items, drawn.scores))
    >>> for row in crowdsift.evaluate(drawn.comparisons(), truth, "bt,bora-em"):
    ...     print(row["method"], row["accuracy"] > 0.9)
    bt True
    bora-em True
    """
    models = chosen_models(methods)
    options = ReadOptions(
        columns=columns or {},
        workers=workers,
        sides=sides,
        covariates=tuple(covariates),
        threads=threads,
    )
    comparisons = with_classes(read_votes(votes, options), classes)
    comparisons = with_item_features(comparisons, items, item_text, item_features_missing)
    if truth is None:
        return cross_validate(
            comparisons, models, tune=tune, engine=engine, threads=threads, seed=seed,
            progress=progress,
        )  # fmt: skip
    known, target = _truth(comparisons, truth)
    records = []
    for chosen in models:
        if progress is not None:
            progress(chosen.name)
        relaxed, note = chosen.relax(comparisons)
        notes = [note] if note else []
        if not known.all():
            notes.append(f"{int((~known).sum())} items without truth left aside")
        if relaxed.uses_workers and not comparisons.has_workers:
            records.append(_record(chosen.name, None, None, None, ["not run: needs workers"]))
            continue
        with warnings.catch_warnings():  # what it warns of stands in the note
            for kind in (ConvergenceWarning, SignWarning):
                warnings.simplefilter("ignore", kind)
            result = fit(comparisons, relaxed, tune=tune, engine=engine, threads=threads, seed=seed)
        if tune and relaxed.tuned:
            notes.append(f"{relaxed.tuned} {result.parameters[relaxed.tuned]:.3g}")
        notes.extend(result.warnings)
        scores = result.scores_of(comparisons.items)[known]
        records.append(_record(chosen.name, scores, target, result.summary["seconds"], notes))
    return records


def chosen_models(methods: str | Sequence[str | Model]) -> list[Model]:
    """The models that are meant by "all", by names separated by commas, or by a sequence."""
    if isinstance(methods, str):
        methods = list(MODELS) if methods == "all" else [m.strip() for m in methods.split(",")]
    if not isinstance(methods, Sequence) or not methods:
        raise RequestError(f"no method given; the methods are {', '.join(MODELS)}")
    return [entry if isinstance(entry, Model) else model(entry) for entry in methods]


def _record(
    method: str,
    scores: NDArray[np.float64] | None,
    target: NDArray[np.float64] | None,
    seconds: float | None,
    notes: list[str],
) -> dict[str, Any]:
    nothing = float("nan")
    plain = either = Metrics(nothing, nothing, nothing)
    if scores is not None and target is not None:
        plain, either = measure(scores, target), measure_up_to_sign(scores, target)
    figures = {
        **asdict(plain),
        **{f"{name}_up_to_sign": value for name, value in asdict(either).items()},
    }
    return {
        "method": method,
        **{name: None if isnan(value) else value for name, value in figures.items()},
        "seconds": seconds,
        "note": "; ".join(notes),
    }


def _truth(votes: Comparisons, truth: Any) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which items have a known truth, and that truth."""
    if isinstance(truth, Mapping) and set(truth) != {"item", "score"}:
        labels = np.empty(len(truth), dtype=object)
        labels[:] = list(truth)
        try:
            values = np.array(list(truth.values()), dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("the scores of the truth are not numbers") from None
    else:
        labels, values = read_item_values(truth)
    place = match_items(votes, labels)
    known = place >= 0
    if known.sum() < 2:
        raise InputError(
            f"only {int(known.sum())} of the {votes.n_items} items of the votes are in the truth "
            f"(for example {votes.items[0]!r} is not like "
            f"{labels[0] if len(labels) else 'nothing'!r}); items must be named alike"
        )
    return known, values[place[known]]
