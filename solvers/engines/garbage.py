"""The garbage collector, made rarer while a solve runs.

A graph of 100,000 ops with a plan is millions of tuples and numbers that refer to each other in no circle.
Python's collector looks through them again and again as they grow, and finds nothing: half of the seconds of
lowering and of judging a plan of that size. What has no circles needs no collector to be freed.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from threading import Lock

ALLOCATIONS = 20_000
"""Objects between two looks at the youngest ones; CPython's own is 700 to 2,000. Circles that solvers'
models leave behind are still found: the young ones after so many objects, the old ones after 100 times as
many."""

_lock = Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds to go back to, as often as solves run."""


@contextlib.contextmanager
def collected_rarely() -> Iterator[None]:
    """Raise the collector's first threshold; the last of several solves at a time sets it back.

    A threshold that is 0 (no collector) or higher stays.
    """
    with _lock:
        _before.append(_before[0] if _before else gc.get_threshold())
        first, *others = gc.get_threshold()
        if 0 < first < ALLOCATIONS:
            gc.set_threshold(ALLOCATIONS, *others)
    try:
        yield
    finally:
        with _lock:
            first = _before.pop()[0]
            if not _before and gc.get_threshold()[0] == ALLOCATIONS:
                gc.set_threshold(first, *gc.get_threshold()[1:])
