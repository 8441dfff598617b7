"""Runs all benchmarks."""

from benchmarks import foundation

foundation.main()
