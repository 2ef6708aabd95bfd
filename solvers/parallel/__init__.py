"""Methods of `parallel-memory` and `memory-edges`: largest cuts by flow, branch and bound on them."""
