"""TMOF's form: swaps in slots of ops."""
