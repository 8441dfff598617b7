"""What a run asks of a prior of scores that is not N(0, I)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crowdsift.engines.grid import GridSites, PairVariances, SiteSystem
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.variances import Factorisation

__all__ = ["ItemPrior", "ItemsState"]


class ItemsState(Protocol):
    """What a prior needs to know of a run."""

    means: Vector
    sites: GridSites
    system: SiteSystem
    factorisation: Factorisation
    exact: bool
    messages: Vector | None


class ItemPrior:
    """Scores ~ N(0, C), C with parameters that are learned as the run goes.

    Attributes
    ----------
    n_items
        The number of scores.
    at_rest
        Whether the parameters have settled.
    """

    n_items: int
    at_rest: bool = False  # whether the parameters have settled

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        """Means of the scores: (L + C⁻¹) m = b."""
        raise NotImplementedError

    def pair_variances(self, run: ItemsState) -> PairVariances:
        """Of items and, in the engine, of pairs; log|L + C⁻¹| + log|C|."""
        raise NotImplementedError

    def learn(self, run: ItemsState) -> None:
        """A step of the parameters towards more evidence."""
        raise NotImplementedError

    def forms(self, run: ItemsState) -> tuple[float, float]:
        """mᵀC⁻¹m and tr C⁻¹Σ."""
        m, system = run.means, run.system
        inner = float(m @ (system.rhs - system.laplacian.multiply(m)))
        return inner, self.n_items - self._explained(run)

    def drift(self, run: ItemsState) -> float:
        """By how much scores are too large for their prior: 1 where E[uᵀC⁻¹u] is their number."""
        return float(max(sum(self.forms(run)) / self.n_items, 0.25) ** 0.5)

    def rescale(self, scale: float) -> None:
        """Parameters for scores divided by `scale`; C of mean diagonal 1 has none."""

    def _explained(self, run: ItemsState) -> float:
        """Tr LΣ = Σ over pairs of weight times variance."""
        weight = run.system.laplacian.pairs()[2]
        return float(weight @ run.sites.pair_posteriors(run.means).variance)
