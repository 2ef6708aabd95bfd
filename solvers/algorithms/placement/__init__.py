"""Algorithms for tensor placement across memory tiers."""
