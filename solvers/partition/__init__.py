"""Methods of the partition problem."""
