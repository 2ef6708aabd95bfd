"""The planner: plans made forward in time by a ranking of what to move."""
