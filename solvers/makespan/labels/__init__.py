"""Exact makespan within a memory: labels on the sets of ops that have started."""
