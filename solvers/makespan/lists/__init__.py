"""List scheduling that never gets stuck, and local search over its rankings."""
