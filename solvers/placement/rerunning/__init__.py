"""Searches for which ops run again, beside copies."""
