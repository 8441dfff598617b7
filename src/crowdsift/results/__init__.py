"""The record of a fit: tables, ranks, verdicts, predictions, and its folder on disk."""

from typing import TYPE_CHECKING

from crowdsift.io import offered

if TYPE_CHECKING:
    from crowdsift.results.leaderboard import EXCEL_FILES as EXCEL_FILES
    from crowdsift.results.leaderboard import form_of as form_of
    from crowdsift.results.leaderboard import write_excel_safe as write_excel_safe
    from crowdsift.results.leaderboard import write_leaderboard as write_leaderboard
    from crowdsift.results.predict import labels_of_workers as labels_of_workers
    from crowdsift.results.predict import predictions as predictions
    from crowdsift.results.scales import require_scale as require_scale
    from crowdsift.results.store import FIT_FILES as FIT_FILES
    from crowdsift.results.store import require_target as require_target
    from crowdsift.results.words import CONTROLS as CONTROLS
    from crowdsift.results.words import plain_text as plain_text

# The names that commands use, by module. Each module is loaded on first use (PEP 562).
_HOMES = {
    "leaderboard": "EXCEL_FILES form_of write_excel_safe write_leaderboard",
    "predict": "labels_of_workers predictions",
    "scales": "require_scale",
    "store": "FIT_FILES require_target",
    "words": "CONTROLS plain_text",
}
__getattr__ = offered(__name__, _HOMES)
