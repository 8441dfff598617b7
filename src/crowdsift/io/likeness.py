"""Labels that a reader would take for the same: they differ in blanks or Unicode form only."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from crowdsift.votes.labels import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["alike"]


def alike(labels: Iterable[Any], what: str, named: Callable[[str], str] = shown) -> tuple[str, ...]:
    """Return a warning if text labels differ only in blanks or Unicode form.

    `named` is how the warning names a label.

    Examples
    --------
    >>> from crowdsift.io.likeness import alike
    >>> alike(["gpt-4", "gpt-4 ", "other"], "items")
    ("the items 'gpt-4' and 'gpt-4 ' differ only in blanks or Unicode form; ...",)
    """
    texts = [label for label in labels if isinstance(label, str)]
    odd = [text for text in texts if not text.isascii() or text != " ".join(text.split())]
    if not odd:
        return ()
    by_form: dict[str, list[str]] = {}
    for text in odd:
        by_form.setdefault(_form(text), []).append(text)
    for text in set(texts).difference(odd):
        if text in by_form:
            by_form[text].insert(0, text)
    groups = [sorted(group) for group in by_form.values() if len(group) > 1]
    if not groups:
        return ()
    first = " and ".join(named(text) for text in min(groups)[:3])
    more = f" ({len(groups)} such groups)" if len(groups) > 1 else ""
    return (
        f"the {what} {first} differ only in blanks or Unicode form{more}; they count as different "
        f"{what}: write them alike if they are the same",
    )


def _form(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())
