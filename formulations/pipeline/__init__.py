"""Formulations of the pipeline problem."""
