"""Label Studio: tasks with their annotations, as its JSON and JSON-MIN exports write them."""

from collections.abc import Mapping
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.formats import SIDE_WORDS, TIE_WORDS, Format, Unfolded, side_columns
from crowdsift.votes.source import Source


def unfold_annotations(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return one row per annotation; cancelled ones are set aside, and those without a result are empty."""
    names = ("left", "right", "winner", "worker", "annotation", "task")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    row: list[int] = []
    aside: dict[int, str] = {}
    wanted = ["data", "annotations", *(["id"] if "id" in table.names else [])]
    table.load(wanted, condition=condition)
    for number, (data, notes, *task) in enumerate(table.rows(wanted)):
        if not isinstance(data, dict) or not isinstance(notes, list | None):
            raise table.fault(
                number,
                None,
                "a task of Label Studio has an object 'data' and a list 'annotations'; export the project as JSON",
            )
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


# Columns of JSON-MIN other than the data of a task and the answers.
_MIN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")


def unfold_min(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return one row per annotation of JSON-MIN, which has data, answer and annotator in one object."""
    names = [name for name in table.names if name not in _MIN]
    wanted = [*names, "annotator", "annotation_id"]
    columns: dict[str, list[Any]] = {name: [] for name in ("left", "right", "winner", "worker", "annotation")}
    table.load(wanted, condition=condition)
    for number, entries in enumerate(table.rows(wanted)):
        data = dict(zip(names, entries[: len(names)], strict=True))
        winner = roles.get("winner") or _answered(data)
        answer = data.pop(winner, None)
        left, right = _sides(table, number, data, roles)
        *_, person, note = entries
        row = (data.get(left), data.get(right), _selected(answer), person, note)
        for name, entry in zip(columns, row, strict=True):
            columns[name].append(entry)
    return Unfolded(columns, range(len(columns["left"])), range(len(columns["left"])))


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
    unfold=unfold_min,
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
