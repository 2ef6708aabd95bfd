"""Published orders and searches for minimum peak memory, as their sources state them."""
