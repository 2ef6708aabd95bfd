"""Methods of the arena problem."""
