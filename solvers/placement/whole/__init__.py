"""Plans of whole tensors: intervals, batches and event orders."""
