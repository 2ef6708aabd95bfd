"""How a writer ends without a proof, other than by giving up for lack of effort or time."""

from __future__ import annotations


class OutOfMemory(Exception):
    """More effort needs more memory than is allowed."""


class TooHigh(Exception):
    """An order has a peak below the bound: there is no proof."""
