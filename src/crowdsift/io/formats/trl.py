"""TRL and Hugging Face preferences: a prompt, the chosen reply and the rejected one.

Replies are text or lists of chat messages. Their prompt is their context: equal texts under two prompts are two items.
Without a column of prompts, the prompt is the common beginning of both conversations.
"""

import json
from collections.abc import Mapping
from typing import Any

from crowdsift.io.formats import Format, Unfolded
from crowdsift.votes.replies import cut, messages_of, reply_label
from crowdsift.votes.source import Source

_COLUMNS = {
    "winner": ("chosen",),
    "loser": ("rejected",),
    "context": ("prompt", "question", "instruction"),
    "worker": ("annotator", "annotator_id", "worker_id", "worker", "labeler", "user_id"),
    "weight": ("weight",),
}
# The beginning of the assistant's turn in a conversation that is one text.
_TURNS = ("\n\nAssistant:", "<|assistant|>", "<|im_start|>assistant", "[/INST]")


def implicit_prompts(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return one row per vote, with the prompt that chosen and rejected share."""
    given = [role for role in ("winner", "loser", "worker", "weight") if role in roles]
    names = [roles[role] for role in given]
    columns: dict[str, list[Any]] = {role: [] for role in (*given, "prompt")}
    table.load(names, condition=condition)
    for entries in table.rows(names):
        prompt, one, two = _split(*entries[:2])
        for role, entry in zip(columns, (one, two, *entries[2:], prompt), strict=True):
            columns[role].append(entry)
    rows = range(len(columns["winner"]))
    if not any(columns["prompt"]):  # replies without a conversation
        columns.pop("prompt")
    context = "prompt" if "prompt" in columns else ""
    return Unfolded(columns, rows, rows, context=context, in_place={r: roles[r] for r in given})


def _split(chosen: Any, rejected: Any) -> tuple[str, str | None, str | None]:
    one, two = messages_of(chosen), messages_of(rejected)
    if one is not None and two is not None:
        shared = 0
        while shared < min(len(one), len(two)) - 1 and one[shared] == two[shared]:
            shared += 1
        prompt = json.dumps(one[:shared], ensure_ascii=False) if shared else ""
        return cut(prompt), _rest(one, shared), _rest(two, shared)
    if not isinstance(chosen, str) or not isinstance(rejected, str):
        return "", reply_label(chosen), reply_label(rejected)
    common = _beginning(chosen, rejected)
    ends = [common.rfind(turn) + len(turn) for turn in _TURNS if turn in common]
    if not ends:
        return "", reply_label(chosen), reply_label(rejected)
    end = max(ends)
    return cut(chosen[:end]), cut(chosen[end:].strip()), cut(rejected[end:].strip())


def _beginning(one: str, two: str) -> str:
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return one[:low]


def _rest(messages: list[Any], shared: int) -> str | None:
    if len(messages) - shared == 1 or reply_label(messages) is None:
        return reply_label(messages)
    return cut(json.dumps(messages[shared:], ensure_ascii=False))


TRL = (
    Format(
        name="trl", title="preferences of TRL", columns=_COLUMNS, needs=("context", "winner", "loser"), replies=True
    ),
    Format(
        name="trl",
        title="preferences of TRL with implicit prompts",
        columns=_COLUMNS,
        needs=("winner", "loser"),
        without=_COLUMNS["context"],
        unfold=implicit_prompts,
    ),
)
