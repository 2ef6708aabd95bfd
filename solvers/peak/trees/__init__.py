"""Least memory on trees with a datum for each edge: published algorithms."""
