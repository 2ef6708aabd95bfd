"""The slot model: bytes, whole tensors, and plans in whole bytes and nanoseconds near its solution."""
