"""AutoTM's form: rounds by prices and the model itself."""
