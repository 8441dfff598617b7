"""Label Studio: tasks with their annotations, as its JSON and JSON-MIN exports write them."""

from collections.abc import Mapping
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.formats import SIDE_WORDS, TIE_WORDS, Format, Unfolded, side_columns
from crowdsift.votes.source import Source

# Columns of JSON-MIN other than the data of a task and the answers.
_MIN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")


def unfold_annotations(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return one row per annotation; cancelled ones are set aside, and those without a result are empty."""
    # JSON-MIN has data, answer and annotator in one object for each annotation.
    nested = "annotations" in table.names
    own = [name for name in table.names if name not in _MIN]
    wanted = ["data", "annotations", *(["id"] if "id" in table.names else [])] if nested else [*own, *_MIN[1:3]]
    columns: dict[str, list[Any]] = {name: [] for name in ("left", "right", "winner", "worker", "annotation", "task")}
    row: list[int] = []
    aside: dict[int, str] = {}
    table.load(wanted, condition=condition)
    for number, entries in enumerate(table.rows(wanted)):
        given = dict(zip(wanted, entries, strict=True))
        if nested:
            data, notes = _task(table, number, given)
        else:
            data = {name: given[name] for name in own}
            notes = [(_selected(data.pop(roles.get("winner") or _answered(data), None)), *entries[-2:], False)]
        left, right = _sides(table, number, data, roles)
        for answer, person, note, cancelled in notes:
            if cancelled:
                aside[len(row)] = "cancelled"
            entry = (data.get(left), data.get(right), answer, person, note, given.get("id", number))
            for name, value in zip(columns, entry, strict=True):
                columns[name].append(value)
            row.append(number)
    if not row:
        raise InputError("no annotations in any task", source=table.source)
    return Unfolded(columns, range(len(row)), row, aside)


def _task(table: Source, number: int, given: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """Return the data of a task, and the answer, person, number and cancellation of every annotation."""
    data, notes = given["data"], given["annotations"]
    if not isinstance(data, dict) or not isinstance(notes, list | None):
        reason = "a task of Label Studio has an object 'data' and a list 'annotations'; export the project as JSON"
        raise table.fault(number, None, reason)
    if not all(isinstance(note, dict) for note in notes or []):
        raise table.fault(number, "annotations", "an annotation that is not an object")
    return data, [(_answer(x), _person(x), x.get("id"), x.get("was_cancelled")) for x in notes or []]


def _sides(table: Source, number: int, data: dict[str, Any], roles: Mapping[str, str]) -> tuple[str, str]:
    if "left" in roles and "right" in roles:
        return roles["left"], roles["right"]
    found = side_columns(data)
    if len(found) == 1:
        return found[0]
    if len(data) == 2:
        one, two = data
        return one, two
    raise table.fault(
        number,
        "data",
        f"which two of {', '.join(list(data)[:12])} were compared? Say so with --columns left=NAME,right=NAME",
    )


def _answer(note: dict[str, Any]) -> Any:
    for result in note.get("result") or []:
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict) and (answer := _selected(value)):
            return answer
    return None


def _person(note: dict[str, Any]) -> Any:
    """Return the annotator: a number, or an object with an address."""
    person = note.get("completed_by")
    if isinstance(person, dict):
        return person.get("email") or person.get("id")
    return person


def _answered(data: dict[str, Any]) -> str:
    """Return the name of the column with the answer, which is neither of the two sides."""
    words = {*(word for pair in SIDE_WORDS for word in pair), *TIE_WORDS}
    for name, value in data.items():
        choice = _selected(value)
        if isinstance(value, list | dict) or str(choice).casefold() in words:
            return name
    return next((name for name, value in data.items() if value is None), "")


def _selected(value: Any) -> Any:
    """Return the choice in a value of JSON-MIN: the value itself, or a list of objects."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        choices = value.get("choices")
        return value.get("selected") or (choices[0] if choices else None)
    return value


_MIN_EXPORT = Format(
    name="label-studio",
    title="JSON-MIN export of Label Studio",
    columns={"worker": ("annotator",)},
    marks=("annotator", "annotation_id", "lead_time"),
    unique=("annotation",),
    words=True,
    unfold=unfold_annotations,
)
_EXPORT = Format(
    name="label-studio",
    title="JSON export of Label Studio",
    marks=("data", "annotations"),
    unique=("task", "annotation"),
    words=True,
    unfold=unfold_annotations,
)
LABEL_STUDIO = (_EXPORT, _MIN_EXPORT)
