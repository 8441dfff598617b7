"""Runs the benchmarks of speed; those of quality take longer: ``python -m benchmarks.quality``."""

from benchmarks import foundation, table

foundation.main([])
table.main()
