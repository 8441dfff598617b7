"""Names that must be shown as text wherever they appear."""

from __future__ import annotations

import numpy as np

from crowdsift import Comparisons

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "javascript:alert(4)",
    '=HYPERLINK("http://example.invalid","x")',
    "{{ 7*7 }}{% raw %}",
    "שלום עולם \u202eevil",
    "&lt;b&gt;\u2028line\nbreak\x07",
    "x" * 500,
)


def hostile_votes(seed: int = 0) -> Comparisons:
    """Votes in which every item and worker has a hostile name."""
    rng = np.random.default_rng(seed)
    first = rng.integers(len(HOSTILE), size=600)
    second = (first + rng.integers(1, len(HOSTILE), size=600)) % len(HOSTILE)
    names = np.array(HOSTILE, dtype=object)
    better = first < second
    won, lost = np.where(better, first, second), np.where(better, second, first)
    return Comparisons.from_arrays(names[won], names[lost], worker=names[rng.integers(len(HOSTILE), size=600)])
