"""Formulations of `placement`: where each tensor lives and when it moves."""
