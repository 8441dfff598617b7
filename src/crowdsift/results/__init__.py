"""The record of a fit: tables, ranks, verdicts, predictions, and its folder on disk."""

from typing import TYPE_CHECKING

from crowdsift.io import offered

if TYPE_CHECKING:
    from crowdsift.results.leaderboard import EXCEL_FILES, form_of, write_excel_safe, write_leaderboard
    from crowdsift.results.predict import labels_of_workers, predictions
    from crowdsift.results.scales import require_scale
    from crowdsift.results.store import FIT_FILES, require_target
    from crowdsift.results.words import CONTROLS, plain_text

# The names that commands use, by module. Each module is loaded on first use (PEP 562).
_HOMES = {
    "leaderboard": "EXCEL_FILES form_of write_excel_safe write_leaderboard",
    "predict": "labels_of_workers predictions",
    "scales": "require_scale",
    "store": "FIT_FILES require_target",
    "words": "CONTROLS plain_text",
}
__all__ = [
    "CONTROLS",
    "EXCEL_FILES",
    "FIT_FILES",
    "form_of",
    "labels_of_workers",
    "plain_text",
    "predictions",
    "require_scale",
    "require_target",
    "write_excel_safe",
    "write_leaderboard",
]
__getattr__ = offered(__name__, _HOMES)
