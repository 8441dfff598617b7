"""Figures of a fit for papers and notebooks: short names for `crowdsift.report.plots`."""

from crowdsift.report.plots import *  # noqa: F403
from crowdsift.report.plots import __all__ as __all__
from crowdsift.report.plots import require_ending as require_ending
