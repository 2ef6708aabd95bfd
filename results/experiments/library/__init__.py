"""The pool and the sets of the library."""
