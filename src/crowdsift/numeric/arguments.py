"""Numbers as users give them: checked where they come in, refused with their name."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from crowdsift.errors import RequestError


def whole_number(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """The value as an int, if it is a whole number in the range.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.numeric.arguments import whole_number
    >>> whole_number("seed", np.int32(3))
    3
    >>> whole_number("seed", -1)
    Traceback (most recent call last):
    crowdsift.errors.RequestError: seed must be at least 0, not -1
    """
    try:
        found = operator.index(value) if not isinstance(value, bool | np.bool_) else None
    except TypeError:
        found = None
    wanted = None
    if found is None:
        wanted = "a whole number"
    elif found < least:
        wanted = f"at least {least}"
    elif found > most:
        wanted = f"at most {most}"
    if found is None or wanted:
        raise RequestError(f"{name} must be {wanted}, not {_shown(value)}")
    return found


def number(name: str, value: Any) -> float:
    """The value as a float, if it is a finite real number.

    Examples
    --------
    >>> from crowdsift.numeric.arguments import number
    >>> number("reliability", 1)
    1.0
    """
    real = isinstance(value, int | float | np.integer | np.floating)
    if not real or isinstance(value, bool) or not np.isfinite(float(value)):
        raise RequestError(f"{name} must be a finite number, not {_shown(value)}")
    return float(value)


def yes_or_no(name: str, value: Any) -> bool:
    """The value, if it is True or False.

    Examples
    --------
    >>> from crowdsift.numeric.arguments import yes_or_no
    >>> yes_or_no("tune", True)
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise RequestError(f"{name} must be True or False, not {_shown(value)}")
    return bool(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
