"""What planner and simulator share: chunks of tensors."""
