"""Least memory where the memory is additive: dominant orders of series-parallel graphs."""
