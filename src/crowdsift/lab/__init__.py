"""Simulated votes, spammers, public data sets, and methods compared with a truth."""

from typing import TYPE_CHECKING

from crowdsift.io import offered

if TYPE_CHECKING:
    from crowdsift.lab.demonstration import demonstrate
    from crowdsift.lab.evaluation import chosen_models
    from crowdsift.lab.spam import write_votes

# The names that commands use, by module. Each module is loaded on first use (PEP 562).
_HOMES = {"demonstration": "demonstrate", "evaluation": "chosen_models", "spam": "write_votes"}
__all__ = ["chosen_models", "demonstrate", "write_votes"]
__getattr__ = offered(__name__, _HOMES)
