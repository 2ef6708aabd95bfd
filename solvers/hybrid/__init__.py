"""Methods of the hybrid problem."""
