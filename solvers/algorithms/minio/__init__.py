"""Trees whose outputs pass through a memory and a storage: orders, evictions, bounds."""
