"""An estimate beside its votes: what tables and summary are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.distributions import LEVEL
from crowdsift.results.ranking import ranks, table_order
from crowdsift.votes.outcomes import tie_rates
from crowdsift.votes.tally import Tally, tally, tally_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Counts
    from crowdsift.io.items import Gold
    from crowdsift.models import Estimate, Model
    from crowdsift.models.sign import SignSupport
    from crowdsift.numeric import Vector
    from crowdsift.results.sign import Agreement
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Fitted", "centre"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, its votes, the estimate of them, and what is counted and ranked once.

    Attributes
    ----------
    component
        The connected component of every item, by code.
    gold
        How gold pairs and scores found without them go together; None without gold or where it was
        not compared.
    known
        The gold pairs themselves.
    """

    votes: Comparisons
    model: Model
    estimate: Estimate
    component: NDArray[np.uint32]
    gold: Agreement | None = None
    level: float = LEVEL  # of intervals
    seed: int = 0
    threads: int | None = None
    engine: tuple[str, str] = ("", "")  # which one ran, and why
    counts: Counts | None = None  # of votes whose rows are on other machines
    known: Gold | None = None

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The codes of items in the order of their table."""
        return table_order(self.estimate.scores, self.component)

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """The rank of every item within its component, by code."""
        return ranks(self.estimate.scores, self.component, self.order)

    @cached_property
    def counted(self) -> Tally:
        """What is counted of the votes."""
        if self.votes.elsewhere is not None:
            assert self.counts is not None
            return tally_of(self.counts.tally(self.rank.astype(np.float64)))
        return tally(self.votes, self.rank, self.threads)

    @cached_property
    def tie_rates(self) -> tuple[Vector, float]:
        """The tie rate of every worker, and that of all."""
        return tie_rates(self.votes)

    @cached_property
    def score_sd(self) -> Vector | None:
        """Standard deviations of the scores, by code."""
        estimate = self.estimate
        if estimate.covariance is None:
            return estimate.score_sd
        return estimate.covariance.deviations(estimate.score_sd)

    @cached_property
    def sign(self) -> SignSupport | None:
        """How clearly the workers settle the sign; None where a method cannot say."""
        if self.estimate.sign is not None:
            return self.estimate.sign
        return self.estimate.workers.sign_support(self.votes.loads)

    @cached_property
    def stated_sign(self) -> SignSupport | None:
        """Return the workers' support of the sign where they alone settle it; else None."""
        free = self.model.free_sign and self.known is None and self.estimate.scores.any()
        return self.sign if free else None

    @cached_property
    def compared_once(self) -> bool:
        """Whether no item is in two votes: no vote can then be compared with another."""
        votes = self.votes
        if 2 * len(votes) > votes.n_items:  # more ends than items
            return False
        if votes.elsewhere is not None:
            return bool(self.counted.appearances.max() <= 1)
        rows = sum(np.bincount(codes, minlength=1).max() for codes in (votes.first, votes.second))
        if rows > 2:
            return False
        both = np.concatenate([votes.first, votes.second])
        return bool(np.bincount(both).max() <= 1)


def centre(scores: Vector, component: NDArray[np.uint32]) -> Vector:
    """Scores about the means of their components, if there are several.

    A single component is centred by its method already, and stays as it is to the last bit.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.fitted import centre
    >>> centre(np.array([3.0, 1.0, 5.0]), np.array([0, 0, 1], np.uint32))
    array([ 1., -1.,  0.])
    """
    size = np.bincount(component)
    if len(size) == 1:
        return scores
    return np.asarray(scores - (np.bincount(component, scores) / size)[component])
