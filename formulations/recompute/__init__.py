"""Formulations of `recompute`: which ops run again."""
