"""The engine on the compiled core: threads over ranges of workers on one machine."""

from crowdsift.engines.cpu.engine import CpuEngine, engine

__all__ = ["CpuEngine", "engine"]
