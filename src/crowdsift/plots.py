"""Figures of a fit for papers and notebooks: those of `crowdsift.report.plots`, by a short name."""

from crowdsift.report.plots import *  # noqa: F403
from crowdsift.report.plots import __all__ as __all__
from crowdsift.report.plots import require_ending as require_ending
