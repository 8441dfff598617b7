"""The specification of the passes in plain NumPy: slow, dense, and easy to read."""

from reference_engine.engine import ReferenceEngine, engine

__all__ = ["ReferenceEngine", "engine"]
