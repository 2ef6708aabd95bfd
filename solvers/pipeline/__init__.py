"""Methods of the pipeline problem."""
