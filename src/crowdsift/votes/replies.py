"""Replies as items: the label of a long text is its beginning and its hash.

A label such as ``I am sorry, but I cannot... #5f3a0c1b2d4e6f70`` costs 69 characters however long the text is, can be
searched for by its beginning, and is the same in every file. `crowdsift.io` makes the same labels in SQL.
"""

import hashlib
import json
from typing import Any

LONG = 60  # characters; a longer text is cut
BEGINNING, HASH = 48, 16  # characters of the text and of its hash that are kept
MARK = "... #"
_BLANKS = str.maketrans("\t\n\r", "   ")


def cut(text: str) -> str:
    """Return the label of a text: itself if short, else its beginning and its hash (MD5)."""
    if len(text) <= LONG:
        return text
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    return one_line(text[:BEGINNING] + MARK + digest.hexdigest()[:HASH])


def one_line(label: str) -> str:
    """Return the label of a long text on one line; other labels stay unchanged."""
    return label.translate(_BLANKS) if is_cut(label) else label


def is_cut(label: Any) -> bool:
    """Return whether a label stands for a long text."""
    whole = isinstance(label, str) and len(label) == BEGINNING + len(MARK) + HASH
    return whole and label[BEGINNING:].startswith(MARK)


def messages_of(value: Any) -> list[Any] | None:
    """Return the messages of a chat, given as a list or as JSON; None for other values."""
    if isinstance(value, str):
        rest = value[1:].lstrip() if value.startswith("[") else ""
        if not rest.startswith("{") and rest != "]":
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, list | tuple) else None


def reply_text(value: Any) -> str | None:
    """Return the text of a reply: the value itself, or the last message of a chat if it is the assistant's."""
    messages = messages_of(value)
    if messages is None:
        return value if value is None or isinstance(value, str) else str(value)
    last = messages[-1] if messages else None
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return None
    content = last.get("content")
    return content if content is None or isinstance(content, str) else json.dumps(content)


def prompt_label(value: Any) -> str | None:
    """Return the label of a prompt, text or messages; None if there is none."""
    if value is None or isinstance(value, str):
        return None if value is None else cut(value)
    messages = messages_of(value)
    return cut(str(value) if messages is None else json.dumps(messages, ensure_ascii=False))


def reply_label(value: Any) -> str | None:
    """Return the label of a reply; None if there is none."""
    text = reply_text(value)
    return None if text is None else cut(text)


def label_of(text: str, whole: dict[str, str]) -> str:
    """Return the label of a text, and store the whole text if the label is cut."""
    label = cut(text)
    if label != text:
        whole[label] = text
    return label
