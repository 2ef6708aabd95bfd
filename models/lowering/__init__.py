"""From an answer to a plan: an order, starts on processors, a traversal, actions with recomputation."""
