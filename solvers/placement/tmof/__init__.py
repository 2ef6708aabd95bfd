"""TMOF's model of swaps."""
