"""What a report asks of a fit beyond its tables: joint statements, statistics, copied answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crowdsift.errors import CrowdsiftError
from crowdsift.results.copying import copying
from crowdsift.results.joint import joint_table
from crowdsift.results.statistics import fit_statistics

if TYPE_CHECKING:
    from crowdsift.results.copying import Copying
    from crowdsift.results.record import FitRecord
    from crowdsift.results.statistics import FitStatistics
    from crowdsift.results.tables import Table

__all__ = ["MOST_ITEMS", "Evidence", "joint_of"]

MOST_ITEMS = 300  # of which joint statements are made for a page
_MOST_VOTES = 2_000_000  # whose statistics are computed for a page


class Evidence(NamedTuple):
    """None where something is not known, or would take long.

    Attributes
    ----------
    joint
        What holds for all items at once, in the order of the table of items.
    statistics
        Separation, agreement, triads and misfit.
    copying
        Who answers too much alike.
    """

    joint: Table | None = None
    statistics: FitStatistics | None = None
    copying: Copying | None = None

    @classmethod
    def of(cls, fit: FitRecord) -> Evidence:
        """All that is cheap to find out of a fit that holds its votes."""
        joint = joint_of(fit)
        if fit.votes is None or len(fit.votes) > _MOST_VOTES:
            return cls(joint)
        try:
            statistics = fit_statistics(fit)
        except CrowdsiftError:
            statistics = None
        try:
            return cls(joint, statistics, copying(fit))
        except CrowdsiftError:
            return cls(joint, statistics)


def joint_of(fit: FitRecord) -> Table | None:
    """Joint statements about all items; None of many, or of a method without intervals."""
    if fit.item_table.height > MOST_ITEMS:
        return None
    try:
        return joint_table(fit)
    except CrowdsiftError:
        return None
