"""Marginals of posteriors over types, checked against the posteriors themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.fused import SummedSites
from crowdsift.engines.grid import TypePosteriors, WorkerPriors
from crowdsift.solvers.ep.summaries import chosen_types, quantiles


def check_marginals(
    sites: SummedSites, prior: NDArray[np.float64], result: TypePosteriors, own: WorkerPriors | None
) -> None:
    """Marginals are sums of the posteriors themselves, and quantiles those of NumPy."""
    half = len(result.points) // 2
    points, masses = result.points[half:], result.masses[half:]
    found = sites.marginals(prior, slice(half, None), 5, own)
    np.testing.assert_array_equal(found.points, points)
    widths, count = found.width.shape[1], points.shape[1]
    regular = masses[:, : widths * count].reshape(len(points), widths, count)
    np.testing.assert_allclose(found.reliability, regular.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.width, regular.sum(axis=2), rtol=1e-12)
    np.testing.assert_array_equal(found.side_only, masses[:, widths * count :])
    np.testing.assert_array_equal(found.chosen, chosen_types(masses, 5))
    levels, atom = np.array([0.05, 0.5, 0.95]), found.side_only.sum(axis=1)
    limits = sites.quantiles(found.points, found.reliability, levels, atom)
    wanted = quantiles(found.points, found.reliability, levels, atom)
    np.testing.assert_allclose(limits, wanted, rtol=1e-9, atol=1e-9)
