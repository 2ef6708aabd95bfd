"""Formulations of `tiles`: which groups of ops to run."""
