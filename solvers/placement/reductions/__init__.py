"""What makes one question of another: modes, orders, indirect tiers, latencies, demands, processors."""
