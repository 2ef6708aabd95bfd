"""Closed formulas of what training takes on each device; no plan is behind them."""
