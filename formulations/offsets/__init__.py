"""Formulations of `offsets`: an address for every buffer."""
