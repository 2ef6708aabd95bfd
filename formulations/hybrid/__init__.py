"""Formulations of the hybrid problem."""
