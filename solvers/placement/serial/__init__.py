"""Depth-first search for any plan: one op or copy after the other."""
