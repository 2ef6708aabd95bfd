"""Formulations of the arena problem: order and addresses together."""
