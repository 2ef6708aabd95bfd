"""Committed experiments: a folder each, with its script, its rows and its pages."""
