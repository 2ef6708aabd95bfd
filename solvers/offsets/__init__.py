"""Methods of `offsets`: bounds, heuristics and searches over placements."""
