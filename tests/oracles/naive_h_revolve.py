"""H-Revolve's recurrences as published (Herrmann and Pallez, ACM TOMS 46, 2020), call by call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def naive_h_revolve(
    l: int,  # noqa: E741
    slots: Sequence[int],
    write: Sequence[int],
    read: Sequence[int],
    uf: int,
    ub: int,
) -> int | float:
    """Return O_{K-1}(l, c_{K-1}): l forwards of uf, l + 1 backwards of ub, tier 0 with its costs too."""
    never = float("inf")

    @cache
    def in_work(k: int, n: int, m: int) -> int | float:
        if n == 0:
            return ub
        if k == 0:
            return write[0] + stored(0, n, m) if m else never
        below = in_work(k - 1, n, slots[k - 1])
        return min(below, write[k] + stored(k, n, m)) if m else below

    @cache
    def stored(k: int, n: int, m: int) -> int | float:
        if n == 0:
            return ub
        if k == 0:
            best: int | float = (n + 1) * ub + n * (n + 1) // 2 * uf + n * read[0]
            splits = range(1, n + 1 if m > 1 else 1)
        else:
            best, splits = in_work(k - 1, n, slots[k - 1]), range(1, n + 1)
        for j in splits:
            best = min(best, j * uf + in_work(k, n - j, m - 1) + read[k] + stored(k, j - 1, m))
        return best

    return in_work(len(slots) - 1, l, slots[-1])
