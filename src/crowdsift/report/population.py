"""What a report says of the workers: sides, influence, and the distribution of reliabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.distributions import half_width, normal_quantiles
from crowdsift.results.data import model_of
from crowdsift.results.reasons import Reason, random_level, reasons
from crowdsift.results.worker_table import side_shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.results.record import FitRecord
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["FLAGGED", "VERDICTS", "Population", "describe_population", "reliability_density"]

# The verdicts in the order in which a report names them, and those that mark votes to doubt.
VERDICTS = ("reliable", "weak", "undecided", "random", "one-sided", "adversarial")
FLAGGED = ("random", "one-sided", "adversarial")


@dataclass(frozen=True)
class Population:
    """The workers of a fit, in the order of its table.

    Attributes
    ----------
    verdict
        A word each; empty where the method judges nobody.
    flagged
        Whose votes are to be doubted.
    votes
        Votes each, weights counted.
    influence
        Each worker's share of what moved the scores: votes times squared reliability.
    left_share, decided
        Share of the left item among decided votes, NaN where sides are unknown; their number.
    reasons
        Why each has its verdict.
    level
        The reliability of a worker who clicks at random.
    density
        Points and heights of the distribution of reliabilities, or None.
    """

    verdict: NDArray[np.str_]
    flagged: NDArray[np.bool_]
    votes: NDArray[np.float64]
    influence: NDArray[np.float64]
    left_share: NDArray[np.float64]
    decided: NDArray[np.float64]
    reasons: list[list[Reason]]
    level: float
    density: tuple[NDArray[np.float64], NDArray[np.float64]] | None

    @property
    def judged(self) -> bool:
        """Whether the method gives verdicts."""
        return bool((self.verdict != "").any())

    @property
    def flagged_share(self) -> float:
        """Share of the votes that come from flagged workers."""
        total = float(self.votes.sum())
        return float(self.votes[self.flagged].sum()) / total if total else 0.0


def describe_population(fit: FitRecord, votes: Comparisons | None) -> Population:
    """What can be said of the workers of a fit, with its votes or without."""
    table = fit.worker_table
    count = table["comparisons"].astype(np.float64)
    level = random_level(model_of(fit))
    left, decided = side_shares(votes, table.height)
    verdict = table["verdict"].astype(str)
    information = (
        count * np.nan_to_num(table["reliability"].astype(np.float64) - level, nan=1.0) ** 2
    )
    return Population(
        verdict=verdict,
        flagged=np.isin(verdict, FLAGGED),
        votes=count,
        influence=information / max(float(information.sum()), 1e-300),
        left_share=left,
        decided=decided,
        reasons=reasons(table, level),
        level=level,
        density=reliability_density(fit),
    )


def reliability_density(
    fit: FitRecord, points: int = 121
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The distribution of reliabilities in the crowd: the mean of all workers' posteriors.

    In `sift` this is, but for its small prior part, the distribution that was learned.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report.population import reliability_density
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> at, height = reliability_density(crowdsift.fit(votes))
    >>> bool(abs((height[1:] * (at[1:] - at[:-1])).sum() - 1) < 0.02)
    True
    """
    table = fit.worker_table
    mean = table["reliability"].astype(np.float64)
    spread = None if fit.posterior is None else fit.posterior.quantiles
    if spread is None:
        sd = 0.5 * (table["upper"] - table["lower"]) / half_width(fit.level)
        known = np.isfinite(mean) & np.isfinite(sd)
        if not known.any():
            return None
        spread = normal_quantiles(mean[known], sd[known])
    values = np.sort(spread, axis=None)
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    low, high = np.quantile(values, [0.001, 0.999])
    # About half of Silverman's width: posteriors are spread already, and peaks should stay peaks.
    quartiles = np.quantile(values, [0.25, 0.75])
    scale = min(float(values.std()), float(quartiles[1] - quartiles[0]) / 1.34 or np.inf)
    width = max(0.5 * scale * len(mean) ** -0.2, (high - low) / 200.0, 1e-6)
    at = np.linspace(low - 3.0 * width, high + 3.0 * width, points)
    # Bins much narrower than the kernel stand for the values.
    count, edges = np.histogram(values, 1000, (at[0], at[-1]))
    centre = 0.5 * (edges[1:] + edges[:-1])
    kernel = np.exp(-0.5 * ((at[:, None] - centre[None, :]) / width) ** 2)
    height = kernel @ count / (count.sum() * width * np.sqrt(2.0 * np.pi))
    return at, height
