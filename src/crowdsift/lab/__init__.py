"""Simulated votes, spammers, data sets, and the experiments of the paper."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdsift.lab.demonstration import demonstrate
    from crowdsift.lab.evaluation import chosen_models
    from crowdsift.lab.spam import write_votes

# The names that commands use, by module. Each is loaded on first use (PEP 562).
_HOMES = {
    "demonstration": "demonstrate", "evaluation": "chosen_models", "spam": "write_votes",
}  # fmt: skip
__all__ = [
    "chosen_models", "demonstrate", "write_votes",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
