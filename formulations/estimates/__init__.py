"""Formulas of what training takes on each device, and FlexGen's program of inference."""
