"""Published exact and heuristic algorithms."""
