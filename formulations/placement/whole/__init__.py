"""Plans of whole tensors, as intervals on processor and channels."""
