"""The passes over votes that are too many for Python: compiled, or else in NumPy.

This is the one door of the compiled core to the votes. Without it votes are read, checked and
counted all the same, slower.
"""

from __future__ import annotations

try:
    from crowdsift._core import (
        collapse,
        components,
        find_fault,
        judged_by_one,
        pool_pairs,
        tally,
    )

    COMPILED = True
except ImportError:  # no wheel for this machine, or a source tree that was not built
    from crowdsift.votes.numpy_kernels import (
        collapse,
        components,
        find_fault,
        judged_by_one,
        pool_pairs,
        tally,
    )

    COMPILED = False

__all__ = [
    "COMPILED",
    "collapse",
    "components",
    "find_fault",
    "judged_by_one",
    "pool_pairs",
    "tally",
]
