"""What questions to a fit need: labels found by their keys, and the model of the fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.models import model
from crowdsift.votes.labels import LabelError, key_of, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.models import Model
    from crowdsift.results.fit import Fit


def is_sequence(value: Any) -> bool:
    """Return whether many labels are meant: a text or a tuple is one label, as it can be a label."""
    if isinstance(value, str | bytes | tuple):
        return False
    return hasattr(value, "__iter__") and getattr(value, "ndim", 1) > 0


def as_list(value: Any) -> list[Any]:
    """Return the labels that are meant."""
    if is_sequence(value):
        return list(value)
    return [value.item() if isinstance(value, np.ndarray) else value]


def keys_of(labels: Iterable[Any]) -> list[Any]:
    """Return the keys by which labels are distinguished; see `crowdsift.votes.labels`."""
    try:
        keys = list(map(key_of, plain(labels)))
        hash(tuple(keys))
    except LabelError as error:
        raise RequestError(error.message) from None
    except TypeError:
        raise RequestError("labels are texts, numbers or dates, not lists or arrays") from None
    return keys


def places_of(labels: Iterable[Any]) -> dict[Any, int]:
    """Return the place of every label in a list, by its key."""
    return {key: place for place, key in enumerate(keys_of(labels))}


def positions(wanted: Iterable[Any], labels: Iterable[Any], *, missing: int | None = None) -> NDArray[np.int64]:
    """Where wanted labels stand in a list."""
    # `missing` stands for those that are not there; without it one that is not there is a KeyError.
    place = places_of(labels)
    keys = keys_of(wanted)
    if missing is None:
        return np.array([place[key] for key in keys], np.int64)
    return np.array([place.get(key, missing) for key in keys], np.int64)


def model_of(fit: Fit) -> Model:
    """Return the method of a fit as a model, with the hyper-parameters that it had."""
    return model(fit.method, **fit.parameters)
