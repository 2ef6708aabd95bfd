"""Depth-first post-orders: an op follows what it needs, needs are visited in a given order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def post_order(roots: Iterable[int], needs: Callable[[int], Sequence[int]], n: int) -> tuple[int, ...]:
    """Return the ops 0 to n - 1 that are reached from the roots, each after what it needs.

    Examples
    --------
    >>> post_order([3], [(), (0,), (0,), (2, 1)].__getitem__, 4)
    (0, 2, 1, 3)
    """
    order: list[int] = []
    entered = [False] * n
    for root in roots:
        stack = [root]
        while stack:
            v = stack.pop()
            if v < 0:
                order.append(~v)
            elif not entered[v]:
                entered[v] = True
                stack.append(~v)
                stack.extend(reversed(needs(v)))
    return tuple(order)
