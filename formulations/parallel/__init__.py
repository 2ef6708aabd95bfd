"""Formulations of `parallel-memory` and `memory-edges`: what any parallel schedule can need."""
