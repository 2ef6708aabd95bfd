"""What planner and simulator share: chunks of tensors, numbers of channels, and the plan of a log."""
