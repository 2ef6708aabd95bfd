"""Makespan under a memory bound: bounds, list scheduling that never gets stuck, local search."""
