"""Methods side by side against a known truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.comparisons import Comparisons
from crowdsift.errors import InputError, RequestError
from crowdsift.fitting import fit
from crowdsift.ingest import match_items, read, read_item_values
from crowdsift.metrics import measure, measure_up_to_sign
from crowdsift.models import MODELS, Model, model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.result import Fit

__all__ = ["chosen_models", "evaluate"]


def evaluate(
    votes: Any,
    truth: Any,
    methods: str | Sequence[str | Model] = "all",
    *,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> list[dict[str, Any]]:
    """Fit methods to the same votes and compare each order with the truth.

    Parameters
    ----------
    votes
        Whatever `crowdsift.read` takes.
    truth
        A file or frame with the columns item and score, or a mapping from items to scores.
    methods
        "all", names separated by commas, or a sequence of names and models.
    columns, workers, sides
        As in `crowdsift.read`.
    engine, threads
        As in `crowdsift.fit`.

    Returns
    -------
    list of dict
        One record a method: method, accuracy, weighted_accuracy, kendall_tau, the same three
        with _up_to_sign (of the better of the two signs of the scores), seconds, note.

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
    if not isinstance(votes, Comparisons):
        votes = read(votes, columns=columns, workers=workers, sides=sides)
    known, target = _truth(votes, truth)
    code = {label: place for place, label in enumerate(votes.items)}
    records = []
    for chosen in models:
        result = fit(votes, chosen, engine=engine, threads=threads)
        scores = np.empty(votes.n_items)
        places = [code[label] for label in result.item_table["item"]]
        scores[places] = result.item_table["score"]
        records.append(_record(result, scores[known], target))
    return records


def chosen_models(methods: str | Sequence[str | Model]) -> list[Model]:
    """The models that are meant by "all", by names separated by commas, or by a sequence."""
    if isinstance(methods, str):
        methods = list(MODELS) if methods == "all" else [m.strip() for m in methods.split(",")]
    if not methods:
        raise RequestError(f"no method given; the methods are {', '.join(MODELS)}")
    return [model(entry) if isinstance(entry, str) else entry for entry in methods]


def _record(
    result: Fit, scores: NDArray[np.float64], target: NDArray[np.float64]
) -> dict[str, Any]:
    either = asdict(measure_up_to_sign(scores, target))
    return {
        "method": result.method,
        **asdict(measure(scores, target)),
        **{f"{name}_up_to_sign": value for name, value in either.items()},
        "seconds": result.summary["seconds"],
        "note": "; ".join(result.warnings),
    }


def _truth(votes: Comparisons, truth: Any) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which items have a known truth, and that truth."""
    if isinstance(truth, Mapping) and "item" not in truth:
        labels = np.empty(len(truth), dtype=object)
        labels[:] = list(truth)
        values = np.array(list(truth.values()), dtype=np.float64)
    else:
        labels, values = read_item_values(truth)
    place = match_items(votes, labels)
    known = place >= 0
    if known.sum() < 2:
        raise InputError(
            f"only {int(known.sum())} of the {votes.n_items} items of the votes are in the truth "
            f"(for example {votes.items[0]!r} is not like {labels[0]!r}); items must be named alike"
        )
    return known, values[place[known]]
