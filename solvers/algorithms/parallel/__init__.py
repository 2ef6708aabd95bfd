"""Algorithms for the memory of parallel schedules: largest cuts by flow, and branch and bound on them."""
