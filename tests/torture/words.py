"""Random labels: ordinary ones, and those that break readers, pages and terminals."""

from __future__ import annotations

import random

AWKWARD = (
    "01",
    "1",
    "1.0",
    "1e5",
    "-0",
    "nan",
    "NaN",
    "inf",
    "None",
    "null",
    "true",
    "NA",
    "N/A",
    "left",
    "right",
    "tie",
    "winner",
    "worker",
    "=1+1",
    "@SUM(A1)",
    "+1",
    "-1",
    "a,b",
    'say "x"',
    "'",
    '"',
    '""',
    "semi;colon",
    "tab\tted",
    "line\nfeed",
    "carriage\rreturn",
    "both\r\nends",
    "#comment",
    "\\",
    "\\N",
    "%s",
    "{0}",
    "$(id)",
    "../../etc",
    "C:\\x",
    "é",
    "e\u0301",
    "ß",
    "İ",
    "答え",
    "🙂",
    "\u202eevil",
    "\ufeffmark",
    "x\u2028y",
    "\x1b[31mred",
    "\x07",
    "\x7f",
    "<script>alert(1)</script>",
    "</script>",
    "&amp;",
    "<b>",
    "x" * 300,
    "a b",
    "0x10",
    "1_000",
    "2024-01-01",
    "12:30",
    "1,5",
    "٣",
    "\U0010ffff",
)


def label(rng: random.Random) -> str:
    """One label; never blank, never with NUL, which no text file can hold."""
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(AWKWARD)
    if kind < 0.8:
        return f"item {rng.randrange(50)}"
    while True:
        ends = (rng.choice((128, 0x3000, 0x110000)) for _ in range(rng.randrange(1, 8)))
        points = (rng.randrange(1, end) for end in ends)
        text = "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)
        if text.strip():
            return text


def labels(rng: random.Random, count: int) -> list[str]:
    """So many different labels."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[label(rng)] = None
    return list(found)


def result(error: Exception) -> None:
    """An error of ours says something, and not more than a screen."""
    assert 0 < len(str(error)) < 4000
