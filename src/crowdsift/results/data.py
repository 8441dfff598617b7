"""The fields of a fit, and what can be read off them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crowdsift.models import model
from crowdsift.numeric.distributions import LEVEL
from crowdsift.results.tables import Table
from crowdsift.votes.labels import context_names

if TYPE_CHECKING:
    from crowdsift.io.items import GoldLabels
    from crowdsift.models import Model
    from crowdsift.models.diagnostics import Diagnostic
    from crowdsift.models.feature_weights import FeatureEstimate
    from crowdsift.results.posterior import Posterior
    from crowdsift.solvers.ep.state import SavedSites
    from crowdsift.votes.comparisons import Comparisons
    from crowdsift.votes.labels import By
    from crowdsift.votes.source import Backend

__all__ = ["FitData", "model_of"]


_PRINTED = 5  # items
_WHERE_NEXT = (
    "See .items, .workers, .summary; .better(a, b), .predict(a, b), .first_place(), .report(FILE)"
)


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
    shown: Table | None = None  # the items on a scale other than the standard one
    features: FeatureEstimate | None = None  # what features of items say of their scores
    overall_ranking: FitData | None = None  # of items over all contexts
    coefficients: Table | None = None  # of workers, for covariates of votes
    gold: GoldLabels | None = None  # the pairs of known order that the fit was given
    folder: str = ""  # from which the fit was loaded

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

    def __str__(self) -> str:
        """What `print` shows: how it went, the best items, the verdicts, warnings, where to go on.

        Examples
        --------
        >>> import crowdsift
        >>> drawn = crowdsift.simulate(items=8, workers=9, comparisons=900, seed=1)
        >>> print(crowdsift.fit(drawn.comparisons()))
        Fit(sift: 8 items, 9 workers, 900 votes; converged in ... iterations)
        item ...
        ... 8 rows
        workers: 5 reliable, 3 undecided, 1 random
        See .items, .workers, .summary; .better(a, b), .predict(a, b), .first_place(), .report(FILE)
        """
        items, verdicts = self.shown_items, self.worker_table["verdict"]
        names = [*self.context_columns, "item", "score", "lower", "upper", "rank"]
        lines = [repr(self), repr(Table({name: items[name][:_PRINTED] for name in names}))]
        if items.height > _PRINTED:
            lines.append(f"... {items.height} rows")
        counts = [(int((verdicts == word).sum()), word) for word in dict.fromkeys(verdicts) if word]
        if counts:
            words = ", ".join(f"{count} {word}" for count, word in sorted(counts, reverse=True))
            lines.append(f"workers: {words}")
        lines += [f"warning: {note}" for note in self.warnings]
        lines.append(_WHERE_NEXT)
        return "\n".join(lines)

    @property
    def shown_items(self) -> Table:
        """The items on the scale of the fit; `item_table` has the method's own."""
        return self.item_table if self.shown is None else self.shown

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look."""
        return tuple(self.summary["warnings"])

    @property
    def labels(self) -> list[Any]:
        """The labels of the items, the best first; with a context (value, item) each.

        The value is a tuple where there are several context columns.

        Examples
        --------
        >>> import crowdsift
        >>> crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"]), "bt").labels
        ['a', 'b']
        """
        items: list[Any] = self.item_table["item"].tolist()
        values = [self.item_table[name].tolist() for name in self.context_columns]
        if not values:
            return items
        contexts = values[0] if len(values) == 1 else list(zip(*values, strict=True))
        return list(zip(contexts, items, strict=True))

    @property
    def by(self) -> By:
        """The column of contexts, a tuple of several, or "", as it is in the votes."""
        names = self.context_columns
        return names if len(names) > 1 else "".join(names)

    @property
    def context_columns(self) -> tuple[str, ...]:
        """The names of the context columns; empty where there are none.

        Examples
        --------
        >>> import crowdsift
        >>> rows = {"winner": ["a", "b"], "loser": ["b", "a"], "topic": ["law", "art"]}
        >>> crowdsift.fit(rows, "bt", by="topic", workers=False).context_columns
        ('topic',)
        """
        return context_names(self.summary.get("by"))


def model_of(fit: FitData) -> Model:
    """The method of a fit as a model, with the hyper-parameters that it had."""
    return model(fit.method, **fit.parameters)
