"""Algorithms for `recompute`: on graphs, and (`chains`) checkpointing schedules of chains."""
