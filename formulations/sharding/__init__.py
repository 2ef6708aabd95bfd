"""Formulations of the sharding problem."""
