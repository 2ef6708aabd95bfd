"""Bounds on the time of any placement."""
