"""The slot model in bytes and in whole tensors, and the models in whole numbers near its solution."""
