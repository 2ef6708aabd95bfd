"""Graphs as chains of blocks of ops: programs within the blocks, and one over them."""
