"""Checkpointing schedules of chains: closed forms, dynamic programs, strategies."""
