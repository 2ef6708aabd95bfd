"""A pool of addresses, for policies whose systems depend on where tensors lie."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

WORKSPACE = -1
"""The number that owns a workspace in the pool, in place of a tensor's."""


class Pool:
    """Blocks of bytes by address, each with its owner; holes are between them."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.blocks: list[tuple[int, int, int]] = []

    def holes(self) -> Iterator[tuple[int, int, int]]:
        """Yield the number of the block behind each hole, its first address and its end, from low to high."""
        low = 0
        for at, (start, end, _) in enumerate([*self.blocks, (self.nbytes, 0, 0)]):
            if low < start:
                yield at, low, start
            low = end

    def place(self, owner: int, nbytes: int) -> bool:
        """Put a block into the tightest hole, the lowest of several; return whether there is one."""
        fitting = [(end - low, at, low) for at, low, end in self.holes() if nbytes <= end - low]
        if fitting:
            _, at, low = min(fitting)
            self.blocks.insert(at, (low, low + nbytes, owner))
        return bool(fitting)

    def place_at_end(self, owner: int, nbytes: int, *, high: bool) -> bool:
        """Put a block into the first hole that is large enough from one end; return whether there is one."""
        holes = [*self.holes()]
        for at, low, end in reversed(holes) if high else holes:
            if nbytes <= end - low:
                start = end - nbytes if high else low
                self.blocks.insert(at, (start, start + nbytes, owner))
                return True
        return False

    def drop(self, owner: int) -> None:
        """Release a block."""
        self.blocks = [block for block in self.blocks if block[2] != owner]

    def restart(self) -> None:
        """Put all blocks one behind the other."""
        old, self.blocks, low = self.blocks, [], 0
        for start, end, owner in old:
            self.blocks.append((low, low + end - start, owner))
            low += end - start

    def cheapest(self, nbytes: int, pinned: set[int], use: Callable[[int], int]) -> list[int] | None:
        """Return whose release frees so many bytes in a row: the fewest bytes, then the furthest next use.

        Parameters
        ----------
        nbytes
            Wanted.
        pinned
            Owners of blocks that may not go.
        use
            Returns the next use of a block's owner.
        """
        best: tuple[int, int, list[int]] | None = None
        low, window, released = 0, deque[tuple[int, int, int]](), 0
        for start, end, owner in [*self.blocks, (self.nbytes, self.nbytes, WORKSPACE)]:
            while window and start - low >= nbytes:
                if best is None or released <= best[0]:
                    owners = [i for _, _, i in window]
                    found = (released, -min(map(use, owners)), owners)
                    best = found if best is None else min(best, found)
                first, low, _ = window.popleft()
                released -= low - first
            window.append((start, end, owner))
            released += end - start
            if owner in pinned:
                low, released = end, 0
                window.clear()
        return best[2] if best else None
