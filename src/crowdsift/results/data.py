"""The fields of a fit, and what can be read off them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crowdsift.numeric.distributions import LEVEL

if TYPE_CHECKING:
    from crowdsift.models.diagnostics import Diagnostic
    from crowdsift.models.feature_weights import FeatureEstimate
    from crowdsift.results.posterior import Posterior
    from crowdsift.results.tables import Table
    from crowdsift.solvers.ep.kept_sites import SavedSites
    from crowdsift.votes.comparisons import Comparisons
    from crowdsift.votes.source import Backend

__all__ = ["FitData"]


@dataclass(frozen=True, eq=False)
class FitData:
    """What a fit holds, in memory or on disk; see `crowdsift.Fit`."""

    item_table: Table
    worker_table: Table
    summary: dict[str, Any]
    parameters: dict[str, Any]
    trace: tuple[float, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    backend: Backend | None = None
    posterior: Posterior | None = None
    population: dict[str, Any] | None = None
    sites: SavedSites | None = None
    votes: Comparisons | None = None
    taken: tuple[str, ...] = ()  # fingerprints of the files of votes, after an update
    shown: Table | None = None  # the items on a scale that was asked for
    features: FeatureEstimate | None = None  # what features of items say of their scores

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.summary["method"])

    @property
    def converged(self) -> bool:
        """Whether the method reached its tolerance."""
        return bool(self.summary["converged"])

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return float(self.summary.get("level") or LEVEL)

    @property
    def shown_items(self) -> Table:
        """The items on the scale that was asked for; `item_table` has the method's own."""
        return self.item_table if self.shown is None else self.shown

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look."""
        return tuple(self.summary["warnings"])

    @property
    def labels(self) -> list[Any]:
        """The labels of the items, the best first; with a context (value, item) each.

        Examples
        --------
        >>> import crowdsift
        >>> crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"]), "bt").labels
        ['a', 'b']
        """
        items = self.item_table["item"].tolist()
        context = self.summary.get("by")
        if not context:
            return items  # type: ignore[no-any-return]
        return list(zip(self.item_table[context].tolist(), items, strict=True))
