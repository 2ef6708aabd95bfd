"""Methods of the problem `tiles`."""
