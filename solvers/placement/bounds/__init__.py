"""Lower bounds on the time."""
