"""Contradictions between records, and the best values known."""
