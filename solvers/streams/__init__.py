"""Methods of the streams problem."""
