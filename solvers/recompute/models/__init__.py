"""Methods that solve a formulation, and what rounds their solutions."""
