"""An engine over votes with covariates, around one over the same votes without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.engines.base import required
from crowdsift.engines.covariates.laplace import NumpyPasses
from crowdsift.engines.covariates.sites import CovariateSites
from crowdsift.engines.grid import PairVariances
from crowdsift.numeric.dense import inverse_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import WorkerTypes
    from crowdsift.engines.kinds import Operator
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["CovariateEngine", "JointFactorisation"]


class CovariateGrid:
    """Expectation propagation with covariates; see `crowdsift.engines.grid.Grid`."""

    def __init__(self, inner: Engine, votes: Comparisons, free: NDArray[np.bool_]) -> None:
        self._inner, self._votes, self._free = required(inner.grid), votes, free
        self._passes = getattr(inner, "covariate_passes", NumpyPasses)

    def sites(self, types: WorkerTypes, variance: float) -> CovariateSites:
        """New sites; see the protocol."""
        return CovariateSites(self._votes, types, variance, self._free, self._passes)

    def correlations(self) -> Operator:
        """Those of the votes without covariates."""
        return self._inner.correlations()


class CovariateEngine:
    """Counts, slopes and facts of the engine within; `votes` are those it holds, with covariates.

    Parameters
    ----------
    inner
        An engine over the same votes.
    votes
        Whose features are the covariates, of unit mean square.
    free
        Which covariates may have a mean in the crowd.
    """

    em = likelihood = None

    def __init__(self, inner: Engine, votes: Comparisons, free: NDArray[np.bool_]) -> None:
        self._inner, self.facts, self.counts = inner, inner.facts, inner.counts
        self.slopes, self.votes = inner.slopes, votes
        self.grid: Any = CovariateGrid(inner, votes, free)

    @property
    def passes(self) -> float:
        """Passes of the engine within."""
        return self._inner.passes

    def by_context(self, enough: float = 0.0) -> None:
        """Workers are the same in every context here."""
        return


class JointFactorisation:
    """Exact variances under the joint Gaussian of scores and coefficients."""

    def variances(
        self, sites: CovariateSites, laplacian: Operator, *, exact: bool, factor: float = 1.0
    ) -> PairVariances:
        """See `crowdsift.solvers.ep.variances.Factorisation`."""
        size = len(laplacian.diagonal())
        matrix = laplacian.multiply(np.eye(size)) + np.eye(size)
        try:
            log_determinant = inverse_root(matrix)[1]
        except np.linalg.LinAlgError:
            return PairVariances(np.ones(size), 0.0, False)
        return sites.joint_variances(log_determinant)
