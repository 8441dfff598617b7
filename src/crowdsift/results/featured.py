"""A record that scores items by what they are, voted on or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdsift.errors import RequestError
from crowdsift.io.files import replace_file
from crowdsift.results.checked import CheckedRecord
from crowdsift.results.feature_table import head_bytes, score_items, weight_table

if TYPE_CHECKING:
    import os

    from crowdsift.results.tables import Table

__all__ = ["FeaturedRecord"]


@dataclass(frozen=True, eq=False, repr=False)
class FeaturedRecord(CheckedRecord):
    """A fit with what features say of scores; see `crowdsift.Fit`."""

    def score(self, items: Any) -> Table:
        """Scores of items by their features alone, also of such that nobody compared.

        Columns item, score, lower and upper, on the method's own scale; 0 is the mean of the
        fitted items. An interval holds what weights leave open and what an item has of its own.

        Parameters
        ----------
        items
            A table as it was given to `fit`, with the same columns; where features were one group
            of numbers also a matrix with one row per item.

        Examples
        --------
        >>> import crowdsift, numpy as np
        >>> drawn = crowdsift.simulate(items=60, workers=20, comparisons=4000, seed=1)
        >>> table = {"item": drawn.items, "x": drawn.scores, "y": -drawn.scores**3}
        >>> fit = crowdsift.fit(drawn.comparisons(), items=table)
        >>> found = fit.score({"item": ["new", "other"], "x": [1.0, -1.0], "y": [-1.0, 1.0]})
        >>> bool(found["score"][0] > found["score"][1])
        True
        """
        return score_items(self.features, items, self.level)

    def feature_weights(self) -> Table:
        """The weights of features with intervals: score = Σ weight·(x - mean)/scale.

        Columns group, feature, weight, lower, upper, mean and scale; empty where features have no
        part in the scores. Without n-grams of texts, which mean nothing one by one.

        Examples
        --------
        >>> import crowdsift
        >>> drawn = crowdsift.simulate(items=60, workers=20, comparisons=4000, seed=1)
        >>> fit = crowdsift.fit(
        ...     drawn.comparisons(), items={"item": drawn.items, "x": drawn.scores})
        >>> fit.feature_weights()["feature"].tolist()
        ['x']
        """
        if self.features is None:
            raise RequestError("this fit has no features of items that say anything of scores")
        return weight_table(self.features, self.level)

    def save_head(self, path: str | os.PathLike[str]) -> None:
        """Write the linear head (weight, weight_sd, mean, scale, names) as a safetensors file."""
        if self.features is None:
            raise RequestError("this fit has no features of items that say anything of scores")
        with replace_file(Path(path)) as temporary:
            temporary.write_bytes(head_bytes(self.features))
