"""Heuristics on graphs: eviction rules, segments, annealing of sequences of runs."""
