"""Features of items as numbers: blocks, standardised over the items of the votes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Vector

_TINY = 1e-9  # variation relative to a column's size below which it is constant


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Features that share one variance of their weights.

    A feature x counts as (x - centre)/scale·factor: columns with different units are divided by their standard
    deviations, those of an embedding or of n-grams are not, and the factor makes the mean square norm of a row 1.

    `kind`: "columns" (numbers in any units), "list" (an embedding), "ngrams" or "readability"; `columns`: the columns
    of the items' table that it is made of; `names`: of the features; `rarity`: for n-grams: the weight of every column,
    which is larger the fewer texts have it; `values`: the standardised features, one row per item of the votes; empty
    where they were not kept.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    centre: Vector
    scale: Vector
    factor: float
    rarity: Vector | None = None
    values: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def standardise(self, raw: NDArray[Any]) -> Vector:
        """Return features of other items in the units of these; NaN (unknown) becomes the mean."""
        scaled = (np.asarray(raw, np.float64) - self.centre) / self.scale * self.factor
        return np.asarray(np.nan_to_num(scaled, nan=0.0))


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """All blocks, and notes on them."""

    blocks: tuple[FeatureBlock, ...]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(len(block.names) for block in self.blocks)

    def without_values(self) -> ItemFeatures:
        """Return the same blocks without the values of items."""
        empty = np.empty((0, 0), np.float32)
        return replace(self, blocks=tuple(replace(block, values=empty) for block in self.blocks))


def standardised_block(
    name: str,
    kind: str,
    columns: tuple[str, ...],
    names: tuple[str, ...],
    raw: NDArray[Any],
    rarity: Vector | None = None,
) -> FeatureBlock:
    """Return a block of raw features, one row per item; NaN means unknown."""
    raw = np.asarray(raw, np.float64)
    known = np.isfinite(raw)
    count = np.maximum(known.sum(axis=0), 1)
    centre = np.where(known, raw, 0.0).sum(axis=0) / count
    about = np.where(known, raw - centre, 0.0)
    spread = np.sqrt((about**2).sum(axis=0) / count)
    varies = spread > _TINY * np.maximum(np.abs(centre), 1.0)
    own_units = kind in ("columns", "readability")
    scale = np.where(varies, spread, 1.0) if own_units else np.ones(len(spread))
    about = np.where(varies, about / scale, 0.0)
    # A column that is constant here has no information, and must not affect other items either.
    scale = np.where(varies, scale, np.inf)
    square = float((about**2).sum(axis=1).mean())
    factor = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
    values = (about * factor).astype(np.float32)
    return FeatureBlock(name, kind, columns, names, centre, scale, factor, rarity, values)
