"""What covariates of votes did: coefficients of workers with intervals, those of the crowd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.numeric.distributions import half_width
from crowdsift.results.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdsift.models.coefficients import CovariateEstimate
    from crowdsift.results.build import FitBuilder

COEFFICIENTS = "coefficients.csv"


def coefficient_table(fitted: FitBuilder) -> Table | None:
    """Worker, covariate, coefficient and its limits; None where votes have no covariates."""
    found = fitted.estimate.covariates
    if found is None:
        return None
    workers, count = fitted.votes.workers, len(found.names)
    half = half_width(fitted.level) * found.sd
    names = np.empty(len(workers) * count, dtype=object)
    names[:] = list(found.names) * len(workers)
    return Table(
        {
            "worker": np.repeat(workers, count),
            "covariate": names,
            "coefficient": found.mean.ravel(),
            "lower": (found.mean - half).ravel(),
            "upper": (found.mean + half).ravel(),
        }
    )


def covariate_summary(fitted: FitBuilder) -> dict[str, Any]:
    """`covariates` of the summary: of each whether it is used, its evidence, and the crowd's."""
    found = fitted.estimate.covariates
    if found is None:
        return {}
    return {"covariates": [_record(found, name, fitted.level) for name in found.gains]}


def _record(found: CovariateEstimate, name: str, level: float) -> dict[str, Any]:
    used = name in found.names
    record: dict[str, Any] = {
        "name": name,
        "used": used,
        "evidence_gain": found.gains[name],
        "constant_for_items": name in found.by_items,
        "crowd": None,
        "lower": None,
        "upper": None,
        "spread": None,
    }
    if used:
        place = found.names.index(name)
        record["spread"] = float(found.spread[place])
        if name not in found.by_items:
            centre, half = found.crowd[place], half_width(level) * found.crowd_sd[place]
            limits = {"crowd": centre, "lower": centre - half, "upper": centre + half}
            record.update({key: float(value) for key, value in limits.items()})
    return record


def covariate_notes(fitted: FitBuilder) -> Iterator[str]:
    """What deserves a look."""
    found = fitted.estimate.covariates
    if found is None:
        return
    for name in found.nothing:
        yield f"the covariate {name} is 0 for every vote: it is not used"
    for name in found.by_items:
        yield (
            f"the covariate {name} is constant for an item: what the crowd makes of it cannot be "
            "separated from the scores, which include it; only how workers differ is estimated"
        )
    left = [name for name in found.gains if name not in found.names and name != "side"]
    if left:
        yield (
            f"the evidence does not support the covariate{'s' * (len(left) > 1)} "
            f"{', '.join(left)}: not used"
        )
