"""Methods that solve a formulation, and the plans of their solutions."""
