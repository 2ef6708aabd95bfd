"""Adapters of CP-SAT and HiGHS: limits, seeds, logs, honest statuses."""
