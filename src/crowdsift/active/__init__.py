"""Next steps after a fit: which votes to ask for, and which to train on."""

from crowdsift.active.stopping import Goal, checked_confidence

__all__ = ["Goal", "checked_confidence"]
