"""Tensor placement where ops use a slower memory in place: every plan, by prices."""
