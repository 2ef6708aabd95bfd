"""Minimum peak memory: orders, bounds, and searches over executed sets."""
