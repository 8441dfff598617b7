"""Options of reading votes: one record, checked once, before any file is opened."""

from __future__ import annotations

import codecs
import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from crowdsift.errors import RequestError
from crowdsift.io.formats import PLAIN, format_names, known_formats
from crowdsift.io.resources import size_of
from crowdsift.io.sql import require_condition
from crowdsift.votes.labels import By
from crowdsift.votes.pseudonyms import Hiding

# The roles of our own columns, and further roles of formats.
ROLES = ("winner", "loser", "left", "right", "first", "second", "outcome", "worker", "weight")
_OF_FORMATS = ("context", "item", "rank", "task")
MEANINGS = ("left", "right", "tie", "both bad")
_NO_ANSWER = ("", "empty", "none", "skip")
_NONE: Mapping[str, str] = MappingProxyType({})
_REMEMBERED = (
    *("columns", "format", "values", "where", "unique", "sides", "partitions"),
    *("worker_from_path", "worker_columns", "encoding", "hide_workers"),
)


@dataclass(frozen=True)
class ReadOptions:
    """The options of `crowdsift.read`; `by` is a text for one column, a tuple for several."""

    columns: Mapping[str, str] = field(default_factory=lambda: _NONE)
    format: str = "auto"
    values: Mapping[str, str] = field(default_factory=lambda: _NONE)
    where: str = ""
    unique: tuple[str, ...] = ()
    workers: bool = True
    sides: bool | None = None
    hide_workers: Any = None
    covariates: tuple[str, ...] = ()
    by: By = ""
    skip_bad: bool | str | os.PathLike[str] = False
    partitions: bool = False
    worker_from_path: bool | str = False
    worker_columns: tuple[str, ...] = ()
    style_control: bool = False
    encoding: str = ""
    query: str = ""
    memory: str = ""
    threads: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__  # a frozen dataclass allows no other way to normalise its fields
        for name, checked in _CHECKS.items():
            put(self, name, checked(getattr(self, name), name))
        put(self, "format", self.format or "auto")
        if self.hide_workers is not None:
            put(self, "hide_workers", None if self.hide_workers is False else Hiding.of(self.hide_workers))
        for name in ("workers", "partitions", "style_control"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, "True or False", getattr(self, name))
        if self.sides is not None and not isinstance(self.sides, bool):
            raise _wrong("sides", "True, False or None", self.sides)
        if not isinstance(self.skip_bad, bool | str | os.PathLike):
            raise _wrong("skip_bad", "True, False or the path of a file", self.skip_bad)
        pattern = self.worker_from_path
        if not isinstance(pattern, bool | str):
            raise _wrong("worker_from_path", "True, False or a pattern", pattern)
        if isinstance(pattern, str) and pattern.count("{worker}") != 1:
            raise RequestError(
                f"--worker-from-path {pattern!r:.80} (worker_from_path=) needs {{worker}} once, "
                "where the path names the worker, such as 'verdicts/{worker}/result.json'"
            )
        named = [name for name in ("worker_from_path", "worker_columns") if getattr(self, name)]
        if named and (len(named) > 1 or "worker" in self.columns or not self.workers):
            raise RequestError(
                f"{' and '.join(named)}: the worker of a vote is named once, by its column, by the path of its file "
                "(worker_from_path) or by the columns of the answers (worker_columns)"
            )
        if self.threads is not None and (isinstance(self.threads, bool) or not isinstance(self.threads, int)):
            raise _wrong("threads", "a whole number", self.threads)
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        if self.format_name not in ("auto", PLAIN.name) and self.format_name not in format_names():
            names = ", ".join(format_names())
            close = difflib.get_close_matches(self.format_name, format_names(), 1, 0.4)
            hint = f"did you mean {close[0]}? " if close else ""
            raise RequestError(f"unknown format {self.format!r}; {hint}the formats are auto, {names}")
        for role in set(self.columns) - {*ROLES, *_OF_FORMATS}:
            if not any(role in each.columns for each in known_formats()):
                raise RequestError(f"columns maps {role!r}, which is no column of votes; these are {', '.join(ROLES)}")
        _ = self.meanings
        if self.where:
            require_condition(self.where)
        if self.memory:
            size_of(self.memory)

    @property
    def format_name(self) -> str:
        """Return the name of the format as formats spell theirs."""
        return self.format.replace("_", "-").lower()

    @property
    def meanings(self) -> dict[str, str]:
        """Return the meaning of answers: left, right, tie, "both bad", or "" for no answer."""
        known = {}
        for answer, meaning in self.values.items():
            word = meaning.strip().lower().replace("_", " ")
            if word not in (*MEANINGS, *_NO_ANSWER):
                raise RequestError(f"--values {answer}={meaning}: an answer means left, right, tie, both_bad or empty")
            known[answer.strip()] = "" if word in _NO_ANSWER else word
        return known

    @classmethod
    def of(cls, reading: Mapping[str, Any], threads: int | None) -> ReadOptions:
        """Return a record of keywords as users give them; raise an error for an unknown one."""
        known = [each.name for each in fields(cls)]
        if wrong := sorted(set(reading) - set(known)):
            raise RequestError(
                f"unknown option {', '.join(wrong)}; options of reading are {', '.join(sorted(known))}. Parameters of "
                "a method go into the model, as in method=crowdsift.Sift(tolerance=1e-6)"
            )
        return cls(**{**reading, "threads": threads})

    def remembered(self) -> dict[str, Any]:
        """Return the options that affect votes, if they were changed: an update uses them again."""
        # Contexts, workers and covariates follow from the votes themselves.
        kept = [name for name in self.changed() if name in _REMEMBERED]
        values = {name: getattr(self, name) for name in kept}
        if self.hide_workers is not None:
            values["hide_workers"] = self.hide_workers.to_json()
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}

    def changed(self) -> list[str]:
        """Return the names of the options that differ from their defaults, except resources."""
        return [
            each.name
            for each in fields(self)
            if each.name not in ("threads", "memory") and getattr(self, each.name) != getattr(_DEFAULTS, each.name)
        ]


def _mapping(given: Any, name: str) -> Mapping[str, str]:
    if given is None:
        return _NONE
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        example = "{'winner': 'chosen'}" if name == "columns" else "{'A': 'left', 'B': 'right'}"
        raise _wrong(name, f"a mapping such as {example}", given)
    if not all(isinstance(value, str) for value in given.values()):
        raise _wrong(name, "a mapping from text to text", given)
    return MappingProxyType(dict(given))


def _names(given: Any, name: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Sequence | Iterable) or isinstance(given, bytes | Mapping):
        raise _wrong(name, "the names of columns", given)
    try:
        names = tuple(given)
    except TypeError:  # an array without dimensions
        raise _wrong(name, "the names of columns", given) from None
    if not all(isinstance(each, str) for each in names):
        raise _wrong(name, "the names of columns", given)
    return names


def _contexts(given: Any, name: str) -> By:
    names = _names(given, name)
    return names if len(names) > 1 else "".join(names)


def _text(given: Any, name: str) -> str:
    if given is not None and not isinstance(given, str):
        raise _wrong(name, "text", given)
    return given or ""


def _encoding(given: Any, option: str) -> str:
    name = _text(given, option)
    if not name or name.lower() == "auto":
        return ""
    try:
        "x".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise RequestError(
            f"--encoding (encoding=) is {name!r:.60}, which is not known; common ones are utf-8, "
            "cp1252 (Windows, Western Europe), latin-1, utf-16, cp1251 and shift_jis"
        ) from None


def _wrong(name: str, wanted: str, given: Any) -> RequestError:
    shown = repr(given)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return RequestError(f"{name} must be {wanted}, not {shown}")


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("columns", "values"), _mapping),
    **dict.fromkeys(("unique", "covariates", "worker_columns"), _names),
    **dict.fromkeys(("format", "where", "query", "memory"), _text),
    "by": _contexts,
    "encoding": _encoding,
}
_DEFAULTS = ReadOptions()
