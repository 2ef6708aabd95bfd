"""AutoTM's form: a walk through the tiers for each tensor."""
