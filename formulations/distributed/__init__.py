"""Formulations of the problem `distributed`: processors with memories of their own."""
