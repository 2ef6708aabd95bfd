"""Orders: heuristics, and what compilers and frameworks publish."""
