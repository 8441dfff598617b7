"""Label Studio: tasks with their annotations, as its JSON export writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdsift.errors import InputError
from crowdsift.io.formats.base import Format, side_columns
from crowdsift.io.formats.unfolded import Unfolded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdsift.votes.source import Source


def unfold_annotations(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """One row an annotation; cancelled ones are set aside, those without a result are empty."""
    names = ("left", "right", "winner", "worker", "annotation", "task")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    row: list[int] = []
    aside: dict[int, str] = {}
    wanted = ["data", "annotations", *(["id"] if "id" in table.names else [])]
    table.load(wanted, condition=condition)
    for number, (data, notes, *task) in enumerate(table.rows(wanted)):
        if not isinstance(data, dict) or not isinstance(notes, list | None):
            raise table.fault(number, None, "a task of Label Studio has an object 'data' and a "
                              "list 'annotations'; export the project as JSON")  # fmt: skip
        left, right = _sides(table, number, data, roles)
        for note in notes or []:
            if not isinstance(note, dict):
                raise table.fault(number, "annotations", "an annotation that is not an object")
            if note.get("was_cancelled"):
                aside[len(row)] = "cancelled"
            entries = (
                *(data.get(left), data.get(right), _answer(note), _person(note)),
                *(note.get("id"), task[0] if task else number),
            )
            for name, entry in zip(columns, entries, strict=True):
                columns[name].append(entry)
            row.append(number)
    if not row:
        raise InputError("no annotations in any task", source=table.source)
    return Unfolded(columns, range(len(row)), row, aside)


def _sides(
    table: Source, number: int, data: dict[str, Any], roles: Mapping[str, str]
) -> tuple[str, str]:
    if "left" in roles and "right" in roles:
        return roles["left"], roles["right"]
    found = side_columns(data)
    if len(found) == 1:
        return found[0]
    if len(data) == 2:
        one, two = data
        return one, two
    raise table.fault(
        number, "data",
        f"which two of {', '.join(list(data)[:12])} were compared? Say so with --columns "
        "left=NAME,right=NAME",
    )  # fmt: skip


def _answer(note: dict[str, Any]) -> Any:
    """The side that was selected; None where there is no result."""
    for result in note.get("result") or []:
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict):
            choices = value.get("choices")
            answer = value.get("selected") or (choices[0] if choices else None)
            if answer:
                return answer
    return None


def _person(note: dict[str, Any]) -> Any:
    """Who annotated: a number, or an object with an address."""
    person = note.get("completed_by")
    if isinstance(person, dict):
        return person.get("email") or person.get("id")
    return person


LABEL_STUDIO = Format(
    name="label-studio",
    title="JSON export of Label Studio",
    marks=("data", "annotations"),
    unique=("task", "annotation"),
    words=True,
    unfold=unfold_annotations,
)
