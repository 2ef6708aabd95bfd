"""Maximum closures by flow."""
