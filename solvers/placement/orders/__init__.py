"""Placements whose order of ops is free: searches over orders, and all orders in turn."""
