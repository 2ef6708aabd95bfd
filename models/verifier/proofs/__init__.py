"""Checkers of proofs: each derives what it needs from the raw fields of the graph, and trusts nothing."""
