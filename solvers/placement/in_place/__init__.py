"""Methods for memory that ops use in place."""
