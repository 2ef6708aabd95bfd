"""Searches over executed sets."""
