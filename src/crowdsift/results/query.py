"""Helpers for queries of a fit: find labels by their keys, and the model behind the fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.models import Model, model
from crowdsift.numeric import Indices
from crowdsift.votes.labels import LabelError, key_of, plain

if TYPE_CHECKING:
    from crowdsift.results.fit import Fit


def is_sequence(value: Any) -> bool:
    """Return whether an argument is several labels; a text or a tuple is one label."""
    if isinstance(value, str | bytes | tuple):
        return False
    return hasattr(value, "__iter__") and getattr(value, "ndim", 1) > 0


def as_list(value: Any) -> list[Any]:
    """Return the labels of an argument as a list."""
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
    """Return the index of every label in a list, by its key."""
    return {key: place for place, key in enumerate(keys_of(labels))}


def positions(wanted: Iterable[Any], labels: Iterable[Any], *, missing: int | None = None) -> Indices:
    """Return the indices of wanted labels in a list."""
    # `missing` is the index for labels that are not there; without it they raise a KeyError.
    place = places_of(labels)
    keys = keys_of(wanted)
    if missing is None:
        return np.array([place[key] for key in keys], np.int64)
    return np.array([place.get(key, missing) for key in keys], np.int64)


def model_of(fit: Fit) -> Model:
    """Return the method of a fit as a model with the hyper-parameters of that fit."""
    return model(fit.method, **fit.parameters)
