"""The counts of all rows that were read: used, empty, duplicate, set aside or left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

_COUNTS = (
    *("rows", "used", "empty", "duplicates", "set_aside", "left_out"),
    *("votes", "both_bad", "known", "repeated"),
)


@dataclass(frozen=True)
class Intake:
    """The count of every row of a source; the five kinds add up to the rows read.

    `format`: the format in which the votes were read, "plain" for our own columns; `rows`: rows read; of nested formats
    the annotations or rankings in them; `used`: rows that became votes; `empty`: rows without an answer; `duplicates`:
    rows equal to an earlier one in the columns that identify a row; `known`: those among them that the updated fit
    already has; `repeated`: of the rows used, those that equal earlier ones beyond chance: perhaps votes that were
    uploaded twice; `set_aside`: rows that cannot be used, or that the format marks as void; `left_out`: rows that a
    condition (``where``) leaves out; `votes`: votes made of the rows used: more than these where a row is a ranking;
    `both_bad`: votes that call both items bad; they count as ties; `reasons`: of the rows set aside, what was wrong and
    how often; `notes`: other remarks: labels that look alike, kept rows that might be unwanted;
    `work_seconds`: the median time that each worker took for a vote, where the source has a column of these times
    (WorkTimeInSeconds of Mechanical Turk).
    """

    format: str = "plain"
    rows: int = 0
    used: int = 0
    empty: int = 0
    duplicates: int = 0
    set_aside: int = 0
    left_out: int = 0
    votes: int = 0
    both_bad: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()
    work_seconds: Mapping[Any, float] = field(default_factory=dict, compare=False)
    known: int = 0
    repeated: int = 0

    def __post_init__(self) -> None:
        found = self.used + self.empty + self.duplicates + self.set_aside + self.left_out
        if found != self.rows:
            raise AssertionError(f"{self.rows} rows were read and {found} accounted for")

    def __str__(self) -> str:
        duplicates = f"{self.duplicates:,} duplicate{'' if self.duplicates == 1 else 's'}"
        if self.known:
            duplicates += f" ({self.known:,} in the fit already)"
        line = (
            f"{self.format}: {self.rows:,} rows read, {self.used:,} used, {self.empty:,} "
            f"empty, {duplicates}, {self.set_aside:,} set aside"
        )
        if self.reasons:
            shown = [f"{count:,} {reason}" for reason, count in self.reasons[:3]]
            line += f" ({', '.join(shown)}{', ...' if len(self.reasons) > 3 else ''})"
        if self.left_out:
            line += f", {self.left_out:,} left out by the condition"
        if self.votes != self.used:
            line += f"; {self.votes:,} votes made of them"
        if self.repeated:
            line += f"; {self.repeated:,} rows used repeat earlier ones"
        if self.both_bad:
            line += f"; {self.both_bad:,} both bad, counted as ties"
        return line

    def __add__(self, other: Intake) -> Intake:
        reasons = Counter(dict(self.reasons))
        reasons.update(dict(other.reasons))
        return Intake(
            format=self.format if self.format == other.format else "several",
            reasons=tuple(reasons.most_common()),
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTS},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record for a summary."""
        names = [each.name for each in fields(self) if each.name != "work_seconds"]
        record = {name: getattr(self, name) for name in names}
        return {**record, "reasons": dict(self.reasons), "notes": list(self.notes)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Intake:
        """Return the intake of a summary."""
        reasons, notes = tuple(record["reasons"].items()), tuple(record["notes"])
        return cls(**{**record, "reasons": reasons, "notes": notes})
