"""The engine over the compiled core: threads over ranges of workers, one machine."""

from crowdsift.engines.cpu.engine import CpuEngine, engine

__all__ = ["CpuEngine", "engine"]
