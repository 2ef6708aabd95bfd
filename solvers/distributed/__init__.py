"""Methods of the problem `distributed`."""
