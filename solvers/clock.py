"""The clock of a piece of work, which stands still while the work is paused."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False, kw_only=True)
class Clock:
    """Counts the seconds in which the work has its turn.

    Attributes
    ----------
    whole
        The clock of the work that this one is a part of; None: the world's.
    ends
        On the clock of the whole: when this work must have ended.
    turn_ends
        On its own: when its turn is over.
    paused
        Seconds of the whole's clock that it has waited so far.
    pause
        Waits for the next turn; called by `look` where a turn is over.
    source
        The world's time, in seconds.
    """

    whole: Clock | None = None
    ends: float = math.inf
    turn_ends: float = math.inf
    paused: float = 0.0
    pause: Callable[[], None] | None = None
    source: Callable[[], float] = time.perf_counter

    def now(self) -> float:
        """Return the time on this clock."""
        return (self.source() if self.whole is None else self.whole.now()) - self.paused

    @property
    def turn_over(self) -> bool:
        """Whether its turn is over."""
        return self.now() >= self.turn_ends

    def look(self) -> float:
        """Return the seconds until the work must have ended, pausing first where its turn is over."""
        if self.pause is not None and self.turn_over:
            self.pause()
        return self.left()

    def left(self) -> float:
        """Return the seconds until the work, or what it is a part of, must have ended."""
        if self.whole is None:
            return math.inf
        return min(self.ends - self.whole.now(), self.whole.left())

    def turn_left(self) -> float:
        """Return the seconds until its turn, or that of what it is a part of, is over."""
        left = self.turn_ends - self.now()
        return left if self.whole is None else min(left, self.whole.turn_left())
