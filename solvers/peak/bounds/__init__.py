"""Lower bounds on the peak."""
