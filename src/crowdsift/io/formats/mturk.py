"""Amazon Mechanical Turk: the results of a batch, as its page offers them for download.

Answers are columns (Answer.choice), or JSON in one cell (Answer.taskAnswers), as forms made of
crowd elements give them.

Rejected assignments are kept: they are votes like others, and what they are worth is for the fit
to say. The intake counts them, and ``--where "AssignmentStatus != 'Rejected'"`` leaves them out.
"""

from __future__ import annotations

import json
from typing import Any

from crowdsift.io.formats.base import Format


def task_answer(text: str) -> str:
    """The answer in a cell of JSON; other text, and several answers, as they are.

    Examples
    --------
    >>> from crowdsift.io.formats.mturk import task_answer
    >>> task_answer('[{"choice": {"A": false, "B": true}}]'), task_answer('[{"nicer": "A"}]')
    ('B', 'A')
    >>> task_answer('[{"category": {"label": "tie"}}]'), task_answer("A")
    ('tie', 'A')
    """
    if text[:1] not in ("[", "{"):
        return text
    try:
        found = _answers(json.loads(text))
    except (ValueError, RecursionError):
        return text
    return found[0] if len(found) == 1 else "" if not found else text


def _answers(value: Any, name: str = "") -> list[str]:
    """The leaves of an answer: texts and numbers as they are, names of buttons that are on."""
    if isinstance(value, bool):
        return [name] if value else []
    if isinstance(value, list):
        return [leaf for each in value for leaf in _answers(each)]
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in _answers(each, str(key))]
    return [] if value is None or not str(value).strip() else [str(value)]


MTURK = Format(
    name="mturk",
    title="results of a Mechanical Turk batch",
    columns={"worker": ("WorkerId",)},
    needs=("left", "right", "winner", "worker"),
    marks=("AssignmentId",),
    unique=("AssignmentId",),
    noted=("AssignmentStatus", "Rejected", "rejected assignments"),
    pairs="Input.",
    words=True,
    answers="Answer.",
    decode=task_answer,
)
