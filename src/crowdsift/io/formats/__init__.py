"""Formats of votes that other tools write: their description, and the list of known ones.

A format defines the columns by which it is recognised, their roles, and the meaning of answers. Ours are listed below;
other packages add theirs by entry points of the group `crowdsift.formats` (docs/extending.md, "Add a format"). Either
way a name such as "package.module:NAME" leads to a `Format` or to several in a tuple, which is imported only when votes
are not in our own columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from crowdsift.errors import RequestError
from crowdsift.votes.source import Source

__all__ = ["ASSUMED", "PEOPLE", "PLAIN", "Format", "Found", "Unfolded", "format_names", "known_formats", "side_columns"]

GROUP = "crowdsift.formats"
# In the order in which they are tried; those of other packages follow.
OURS = {
    "alpaca-eval": "crowdsift.io.formats.judges:ALPACA_EVAL",
    "arena-hard": "crowdsift.io.formats.judges:ARENA_HARD",
    "pandalm": "crowdsift.io.formats.judges:PANDALM",
    "verdicts": "crowdsift.io.formats.judges:VERDICTS",
    "comparative-judgement": "crowdsift.io.formats.judges:COMPARATIVE_JUDGEMENT",
    "arena-n": "crowdsift.io.formats.rankings:ARENA_N",
    "mtbench": "crowdsift.io.formats.arena:MTBENCH",
    "arena": "crowdsift.io.formats.arena:ARENA",
    "trl": "crowdsift.io.formats.trl:TRL",
    "mturk": "crowdsift.io.formats.platforms:MTURK",
    "toloka": "crowdsift.io.formats.platforms:TOLOKA",
    "crowd-kit": "crowdsift.io.formats.platforms:CROWD_KIT",
    "label-studio": "crowdsift.io.formats.label_studio:LABEL_STUDIO",
    "argilla": "crowdsift.io.formats.rankings:ARGILLA",
    "rankings": "crowdsift.io.formats.rankings:RANKINGS",
    "ratings": "crowdsift.io.formats.rankings:RATINGS",
    "best-worst": "crowdsift.io.formats.rankings:BEST_WORST",
    "evalica": "crowdsift.io.formats.arena:EVALICA",
    "pairs": "crowdsift.io.formats.arena:PAIRS",
}
ASSUMED = "pairs"  # the format whose columns are assumed, as a note says
# What tools call the column of the person or model that judged.
PEOPLE = (
    *("judge", "judge_id", "judge_name", "judge_model", "judge_hash", "username", "user_id", "assessor", "assessor_id"),
    *("worker", "worker_id", "annotator", "annotator_id", "rater", "rater_id", "evaluator", "evaluator_id", "labeler"),
    *("participant", "participant_id", "respondent", "subject_id", "subject_code", "subject_no", "email"),
    *("judge_email", "assessor_r"),
)
# The two sides as they appear in columns and answers.
SIDE_WORDS = (("left", "right"), ("a", "b"), ("1", "2"), ("first", "second"), ("one", "two"), ("0", "1"), ("x", "y"))
TIE_WORDS = ("tie", "equal", "draw", "same", "both", "neither")
# Graded answers: the side, and by how much it is better (docs/formats.md, "Graded answers").
GRADED = {
    "a>>>b": ("left", 3),
    "b>>>a": ("right", 3),
    **dict.fromkeys(("a>>b", "b<<a"), ("left", 2)),
    **dict.fromkeys(("a>b", "b<a"), ("left", 1)),
    **dict.fromkeys(("a=b", "b=a"), ("tie", 0)),
    **dict.fromkeys(("b>a", "a<b"), ("right", 1)),
    **dict.fromkeys(("b>>a", "a<<b"), ("right", 2)),
}


@dataclass(frozen=True)
class Format:
    """A format of votes, which is recognised by its columns.

    `name`, `title`: for ``--format``, and for messages; `columns`: for every role (those of our own layouts, and
    ``context``) the possible names of its column, the first one present counts; `needs`: the roles it must have;
    `marks`, `without`: further columns that must be present (* stands for any letters) or absent; `values`: the meaning
    of answers: left, right, tie, "both bad", or "" for none; `unique`: columns that identify a row, which may be
    repeated; `noted`: a column, a value, and words for the rows with that value, which are counted; `workers`,
    `pooled`: whether there are workers, and whether votes without one are pooled; `span`: the outcomes by which the
    first and the second item win, if not 1 and 0, and their name; `draws`: further numbers that mean a tie;
    `sets_aside`: whether rows that compare an item with itself, or lack an item or a worker, are counted instead of
    refused; `seconds`: the column of the time an answer took; `dependent`: a column of which equal values mark
    dependence; `replies`: whether items are replies to a prompt, their context; `pairs`, `answers`: how names of
    columns of items and of the answer begin; `nouns`: for a format that takes any two columns of items, their possible
    names without the word for the side; `words`: whether answers are words for sides, such as A, B and equal;
    `decode`: finds the answer in a cell such as JSON, None if the cell is it; `unfold`: makes votes of nested rows,
    given the table, the roles and a condition, None if a row is a vote.
    """

    name: str
    title: str
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    unique: tuple[str, ...] = ()
    noted: tuple[str, str, str] | None = None
    workers: bool = True
    pooled: bool = False
    span: tuple[float, float, str] | None = None
    draws: tuple[float, ...] = ()
    sets_aside: bool = False
    seconds: str = ""
    dependent: str = ""
    replies: bool = False
    pairs: str = ""
    answers: str = ""
    nouns: tuple[str, ...] = ()
    words: bool = False
    decode: Callable[[str], str] | None = None
    unfold: Callable[[Source, Mapping[str, str], str], Unfolded] | None = None

    @property
    def is_nested(self) -> bool:
        """Return whether the columns that a user names are inside records."""
        return self.unfold is not None and bool(self.marks)

    def find(self, names: Sequence[str], mapped: Mapping[str, str]) -> Found:
        """Return the columns of the format among names; `mapped` are roles that a user gave."""
        roles = dict(mapped)
        there_as = {folded(name): name for name in reversed(names)}
        for role, known in self.columns.items():
            exact = (name for name in known if name in names)
            there = next(exact, None) or next(filter(None, map(there_as.get, map(folded, known))), None)
            if role not in roles and there is not None:
                roles[role] = there
        if (self.pairs or self.nouns) and "left" not in roles and "right" not in roles:
            pair = _item_columns([name for name in names if name.startswith(self.pairs)], self.nouns)
            roles |= dict(zip(("left", "right"), pair, strict=False))
        if self.answers and "winner" not in roles:
            answers = [name for name in names if name.startswith(self.answers)]
            if len(answers) == 1:
                roles["winner"] = answers[0]
        lacking = [self._shown(role) for role in self.needs if role not in roles]
        met = {mark: bool(filter_names(names, mark)) for mark in self.marks}
        lacking += [mark for mark, is_met in met.items() if not is_met]
        present = [roles[role] for role in self.needs if role in roles]
        present += [mark for mark, is_met in met.items() if is_met]
        return Found(self, roles, tuple(present), tuple(lacking))

    def fits(self, names: Sequence[str], mapped: Mapping[str, str]) -> bool:
        """Return whether all columns are there, and the roles given by a user are roles of the format."""
        own = {*self.columns, *self.needs, "worker", "weight"}
        if set(mapped) - own or set(self.without) & set(names):
            return False
        same = all(
            role in ("worker", "weight") or name in self.columns.get(role, (name,)) for role, name in mapped.items()
        )
        return same and not self.find(names, mapped).lacking

    def _shown(self, role: str) -> str:
        if role in ("left", "right") and self.pairs:
            return f"{self.pairs}* for {role}"
        if role == "winner" and self.answers:
            return f"{self.answers}*"
        known = self.columns.get(role, (role,))
        return " or ".join(known[:3]) + (" or the like" if len(known) > 3 else "")


@dataclass(frozen=True)
class Found:
    """The columns of a format that are present, by role, and the missing ones."""

    format: Format
    roles: Mapping[str, str]
    there: tuple[str, ...]
    lacking: tuple[str, ...]


@dataclass(frozen=True)
class Unfolded:
    """Columns of votes, and for each vote the number of its record.

    `record` is the record of every vote, `row` the source row of every record, `aside` the void records with reasons,
    `empty` the records without an answer, `context` the column of contexts ("" for none), `texts` the whole texts of
    cut labels. `in_place` maps our columns to those of the source if every row is one vote. For rankings, `ranks` holds
    the ranks of both items of a vote, and `max_diff` says whether records are best-worst choices (ranks 0, 1, 2).
    """

    columns: Mapping[str, Sequence[Any]]
    record: Sequence[int]
    row: Sequence[int]
    aside: Mapping[int, str] = field(default_factory=dict)
    empty: Sequence[int] = ()
    context: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    in_place: Mapping[str, str] = field(default_factory=dict)
    ranks: Sequence[tuple[float, float]] = ()
    max_diff: bool = False


PLAIN = Format(name="plain", title="our own columns")


@cache
def known_formats() -> tuple[Format, ...]:
    """Return all formats except our own columns, in the order in which they are tried."""
    from importlib.metadata import EntryPoint, entry_points  # its import takes 20 ms, which a plain fit avoids

    ours = [EntryPoint(name, value, GROUP) for name, value in OURS.items()]
    others = sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value))
    return tuple(form for entry in (*ours, *others) for form in _loaded(entry))


def format_names() -> tuple[str, ...]:
    """Return the names that ``--format`` accepts besides "auto"."""
    return tuple(dict.fromkeys(form.name for form in (PLAIN, *known_formats())))


def _loaded(entry: EntryPoint) -> tuple[Format, ...]:
    """Return the formats of an entry point; raise an error with its place for anything else."""
    try:
        found: Any = entry.load()
    except Exception as error:  # the code of another package
        fault = f"it cannot be imported ({type(error).__name__}: {error})"
    else:
        forms = found if isinstance(found, tuple) else (found,)
        if all(isinstance(form, Format) for form in forms):
            return forms
        fault = "it is neither a crowdsift.io.formats.Format nor a tuple of them"
    raise RequestError(
        f"the format {entry.name!r} ({entry.value}, entry point of {GROUP}): {fault}; update or remove the package "
        "that adds it, or read with --format plain and --columns"
    )


def folded(name: str) -> str:
    """Return a name without case and punctuation: Candidate.Chosen becomes candidate_chosen."""
    return re.sub(r"[\W_]+", "", name).casefold()


def filter_names(names: Iterable[str], mark: str) -> list[str]:
    """Return the names that match a pattern."""
    return [name for name in names if fnmatchcase(name, mark)]


def side_columns(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of names that differ only in the word for the side."""
    words = {name: _words(name) for name in names}
    found = []
    for one, first in words.items():
        for two, second in words.items():
            if len(first) != len(second):
                continue
            apart = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
            if len(apart) == 1 and apart[0] in SIDE_WORDS:
                found.append((one, two))
    return found


def _item_columns(names: Sequence[str], nouns: Sequence[str]) -> tuple[str, ...]:
    """Return the only pair of columns that differ in the word for the side, or that of the first noun which has one."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one, two in side_columns(names):
        shared = [word for word, other in zip(_words(one), _words(two), strict=True) if word == other]
        found.setdefault("".join(shared) if nouns else "", []).append((one, two))
    return next((found[noun][0] for noun in nouns or ("",) if len(found.get(noun, ())) == 1), ())


def _words(name: str) -> list[str]:
    """Return the words of a name: image_a, imageA and image-A give "image" and "a"."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+", name)
    return [part.casefold() for part in parts]
