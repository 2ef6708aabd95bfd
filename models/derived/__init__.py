"""Arrays that follow from a graph or a plan; made once, used by methods, never by the verifier."""
