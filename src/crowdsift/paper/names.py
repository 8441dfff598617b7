"""The names that experiments share: what a record holds, the methods of the paper, the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdsift.models import DEFAULT

__all__ = ["DEFAULT", "EARLIER", "EIGHT", "FIGURES", "METRICS", "Record", "Setting"]

Setting = Mapping[str, Any]
Record = dict[str, Any]  # setting, method, figures, seconds, note

EIGHT = ("bt", "rank-centrality", "crowd-bt", "factor-bt", "barp", "htcv", "hbtl", "bora-em")
#: The note of a figure that was taken over from the tables of an earlier version.
EARLIER = "of an earlier version"
METRICS = ("accuracy", "weighted_accuracy", "kendall_tau")
FIGURES = (*METRICS, *(f"{name}_up_to_sign" for name in METRICS))
