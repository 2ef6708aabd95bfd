"""Offset allocation: bounds, heuristics and searches over placements."""
