"""Formulations of the streams problem."""
