"""The simulator: what a set of decisions costs, as an exact plan."""
