"""The specification of the passes in plain NumPy: slow, dense, and easy to read."""

from crowdsift.engines.reference.engine import ReferenceEngine, engine

__all__ = ["ReferenceEngine", "engine"]
