"""Formulations of `makespan`: the fastest schedule within a memory bound."""
