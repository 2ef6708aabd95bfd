"""Formulations of the partition problem."""
