"""The kinds of a pass's arguments and results, read from the annotations of its protocol."""

from __future__ import annotations

import builtins
import inspect
import sys
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin, get_type_hints

from crowdsift.engines.kinds import Kind

__all__ = ["Form", "PassSignature", "attributes", "signature"]


@dataclass(frozen=True)
class Form:
    """What an argument or result is made of.

    A `kind`, or parts of a record (a named tuple, or a tuple where `record` is `tuple`), or a
    `protocol`: something that lives with the votes and has passes of its own.
    """

    kind: Kind = Kind.SAME
    record: type | None = None
    parts: tuple[Form, ...] = ()
    protocol: type | None = None


@dataclass(frozen=True)
class PassSignature:
    """The forms of a pass; `first` where the first shard alone does it."""

    names: tuple[str, ...]
    arguments: dict[str, Form] = field(hash=False)
    result: Form
    first: bool


@cache
def signature(protocol: type, name: str) -> PassSignature:
    """The forms of a method of a protocol.

    Examples
    --------
    >>> from crowdsift.engines.base import Slopes
    >>> from crowdsift.engines.signature import signature
    >>> found = signature(Slopes, "log_likelihood")
    >>> {name: form.kind.name for name, form in found.arguments.items()}, found.result.kind.name
    ({'scores': 'ITEMS', 'slopes': 'WORKERS'}, 'TOTAL')
    """
    method = getattr(protocol, name)
    hints = _hints(method, protocol)
    result = _form(hints.pop("return", None), protocol)
    arguments = {key: _form(hint, protocol) for key, hint in hints.items()}
    names = tuple(inspect.signature(method).parameters)[1:]
    return PassSignature(names, arguments, result, getattr(method, "first_shard", False))


@cache
def attributes(protocol: type) -> dict[str, Form]:
    """The forms of what a protocol holds beside its methods."""
    return {key: _form(hint, protocol) for key, hint in _hints(protocol, protocol).items()}


class _Names(dict[str, Any]):
    """The names of a module; those that are there for type checkers only are of no kind."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _hints(of: Any, protocol: type) -> dict[str, Any]:
    names = _Names(vars(sys.modules[protocol.__module__]))
    return get_type_hints(of, globalns={}, localns=names, include_extras=True)


def _form(hint: Any, protocol: type) -> Form:
    """The form of an annotation: its kind, or the record or protocol that it names."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
        return _form(hint, protocol)
    if origin is Annotated:
        return Form(next(part for part in get_args(hint) if isinstance(part, Kind)))
    if origin is tuple:
        return Form(record=tuple, parts=tuple(_form(part, protocol) for part in get_args(hint)))
    if hint is Self:
        return Form(protocol=protocol)
    if isinstance(hint, type) and getattr(hint, "_is_protocol", False):
        return Form(protocol=hint)
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        parts = _hints(hint, hint)
        return Form(record=hint, parts=tuple(_form(parts[name], hint) for name in hint._fields))
    return Form()
