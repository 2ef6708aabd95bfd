"""Engines, algorithms, the registry of methods, and `solve`."""
