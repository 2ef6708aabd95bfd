"""Work counted in steps instead of seconds, and a clock that is up after so many looks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(call: Callable[[], object]) -> int:
    """Return how many lines of Python a call carries out; each turn of a loop on one line counts."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


class Looks:
    """A clock that is up from look `last` on; `count` are the looks so far."""

    def __init__(self, last: int) -> None:
        self.last, self.count = last, 0

    def __call__(self) -> bool:
        self.count += 1
        return self.count >= self.last
