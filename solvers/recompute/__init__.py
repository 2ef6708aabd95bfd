"""Methods of `recompute`: which ops run again, within a memory."""
