"""Figures in words, the same everywhere in a report. Halves are rounded up, not to even, as in the page's script."""

import re
from collections.abc import Callable, Sequence
from math import floor
from typing import Any

# Characters that control a terminal (C0 except line feeds, C1) or the direction of text, that end lines of JavaScript,
# and halves of surrogate pairs.
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MOST_DIGITS = 9  # most decimals of an interval
_LEAST_PREFIX = 6  # least length of a common beginning of labels that is abbreviated


def count(number: float) -> str:
    """Return a number of votes, items or workers, with commas."""
    return f"{number:,.1f}".removesuffix(".0")


def many(number: float, noun: str) -> str:
    """Return a number and its noun."""
    counted = count(number)
    return f"{counted} {noun}{'' if counted == '1' else 's'}"


def percent(share: float) -> str:
    r"""Return a share as a percentage; never 0 % or 100 % unless it is exactly that."""
    if share != share:
        return "an unknown share"
    rounded = floor(100.0 * share + 0.5)
    if rounded == 0 and share > 0.0:
        return "under 1\u00a0%"
    if rounded == 100 and share < 1.0:
        return "over 99\u00a0%"
    return f"{rounded}\u00a0%"


def chance(probability: float) -> str:
    r"""Return a probability as a percentage, but never 0 % or 100 %, since votes make nothing certain."""
    return percent(min(max(probability, 1e-9), 1.0 - 1e-9))


def decimal(value: float, digits: int = 2) -> str:
    """Return a number with this many decimals and a true minus sign."""
    size = floor(abs(value) * 10**digits + 0.5) / 10**digits
    return f"{'−' if value < 0 and size else ''}{size:.{digits}f}"


def interval_text(low: float | None, high: float | None, digits: int = 2, nothing: float | None = None) -> str:
    """Return an interval with enough decimals to see its width; a dash if there is none."""
    # `nothing` is the value without information, that of a worker who clicks at random; decimals also suffice to see on
    # which side of it a limit is. A worker whose votes contain no information has no interval.
    if low is None or high is None:
        return "–" if nothing is None else "not informative"
    if low == high:
        return "not informative" if low == nothing else decimal(low, digits)
    ends = [low, high] if nothing is None else [low, high, nothing]
    while digits < _MOST_DIGITS and len({decimal(end, digits) for end in ends}) < len(set(ends)):
        digits += 1
    if decimal(low, digits) == decimal(high, digits):
        return f"{low:.2e} to {high:.2e}"
    return f"{decimal(low, digits)} to {decimal(high, digits)}"


def texts(write: Callable[..., str], *columns: Sequence[Any]) -> list[str]:
    """Return the text of every row of some columns; missing values become an en dash."""
    return ["–" if None in row else write(*row) for row in zip(*columns, strict=True)]


def label(value: Any) -> str:
    r"""Return the text of a label with control characters made visible."""
    return CONTROLS.sub(lambda found: _VISIBLE.get(found[0], "�"), str(value)).replace("\n", "⏎")


def plain_text(text: str) -> str:
    r"""Return a text with control characters, such as those of terminals, shown as \xNN."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def item_label(value: Any, by: Any) -> str:
    """Return the text of an item's label; with a context, the item and its context."""
    if not by:
        return label(value)
    where = value[0] if isinstance(value[0], tuple) else (value[0],)
    return f"{label(value[1])} ({', '.join(map(label, where))})"


def shortened(text: str, most: int) -> str:
    """Return at most `most` characters, with an ellipsis in place of the rest."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def abbreviated(texts: Sequence[str], most: int) -> list[str]:
    """Return labels shortened to at most `most` characters that stay distinct."""
    # If one is too long, the beginning that all labels share is left out, up to the end of a folder, a word or a part
    # of a name. A label that is still too long is cut in its middle.
    longest = max(map(len, texts), default=0)
    if longest <= most:
        return list(texts)
    shared = _shared_beginning(min(texts), max(texts))
    for ends in ("/", " ", "_-.:|"):
        at = 1 + max(shared.rfind(mark) for mark in ends)
        if at >= _LEAST_PREFIX and (longest - at < most or ends == "_-.:|"):
            texts = ["…" + text[at:] for text in texts]
            break
    return [_middle_cut(text, most) for text in texts]


def _shared_beginning(low: str, high: str) -> str:
    if low == high:
        return ""
    return next((low[:i] for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), low)


def _middle_cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return text[: most - 1 - tail].rstrip() + "…" + text[len(text) - tail :].lstrip()


_VISIBLE = {"\r": "⏎", "\t": "→"}
