"""What the plain and the compiled pass of the beam search share: what they find, and when they give up."""

from __future__ import annotations

from dataclasses import dataclass

HOPELESS = 8
"""A pass gives up early if at the same rate it would look at so many times the steps allowed: the sets of a
step first grow in number, and become fewer towards the end."""

MEMORY = 2**32
"""Bytes that a search may hold if nobody says."""


@dataclass(frozen=True, kw_only=True)
class BeamPass:
    """What one pass found.

    Attributes
    ----------
    order
        An order with a peak within the limit, or None.
    bound
        A proved lower bound on every peak, or None: there is one only if there is no order.
    gave_up
        The step, from 1, that it did not finish; None if it got to the end.
    out_of_memory
        Whether it gave up for lack of memory.
    """

    order: tuple[int, ...] | None = None
    bound: int | None = None
    gave_up: int | None = None
    out_of_memory: bool = False


def gives_up(looked_at: int, step: int, n: int, most: int | None) -> bool:
    """Return whether a pass that is done with `step` of n steps has looked at too many, or is about to."""
    if most is None:
        return False
    return looked_at > most or (step > n // 16 and looked_at * n > HOPELESS * most * step)
