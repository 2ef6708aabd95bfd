"""POFO: chains whose values are kept, offloaded beside the ops, or made again."""
