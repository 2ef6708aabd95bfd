"""Largest cuts of a graph that gets edges: from scratch at first, then with the flow from before.

The first ones are found by OR-tools, which needs no compiler; when there have been many, the compiled kernel
takes over the last flow and adds to it what each edge lets through. Both find the same set: the events that
more flow could reach, the smallest of the largest closed sets.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...models.arrays import Integers
from .closure import Closure, largest_closure
from .growing import Growing

FROM_SCRATCH = 64
"""Cuts that are made from scratch first: loading the compiled flow takes longer than these."""


class GrowingFlow:
    """Finds the largest closed set of a growing graph again and again.

    Parameters
    ----------
    growing
        The graph; edges are added to it between the calls.
    from_scratch
        How many cuts are found from scratch.
    augment
        The kernel, or its plain function; None: the compiled one, imported when it is needed.
    """

    def __init__(
        self,
        growing: Growing,
        from_scratch: int = FROM_SCRATCH,
        augment: Callable[..., None] | None = None,
    ) -> None:
        self.growing = growing
        self._left = from_scratch
        self._augment = augment
        self._last: Closure | None = None
        self._kept: _Residual | None = None

    def largest(self) -> Closure:
        """Return the smallest of the largest closed sets, with its flow."""
        if self._left > 0 or self._last is None:
            self._left -= 1
            self._last = largest_closure(self.growing.cut())
            return self._last
        if self._kept is None:
            self._kept = _Residual(self.growing, self._last)
        if self._augment is None:
            from .growing_kernel import augment

            return self._kept.largest(self.growing, augment)
        return self._kept.largest(self.growing, self._augment)


class _Residual:
    """Arcs and flow in arrays with room for more; see `growing_kernel.augment`."""

    def __init__(self, growing: Growing, last: Closure) -> None:
        cut, room = growing.cut(), 2 * len(growing.network.orders) + 16
        events = cut.network.n_events
        self.count = 0
        self.first = np.full(events, -1, np.int64)
        self.following = np.full(2 * room, -1, np.int64)
        self.target = np.zeros(2 * room, np.int64)
        self.carried = np.zeros(room, np.int64)
        known = len(last.carried)
        self.carried[:known] = last.carried
        surplus = cut.gains.copy()
        np.subtract.at(surplus, cut.orders[:known, 1], last.carried)
        np.add.at(surplus, cut.orders[:known, 0], last.carried)
        self.supply, self.take = np.maximum(surplus, 0), np.maximum(-surplus, 0)
        self.layer = np.zeros(events, np.int64)
        self.current = np.zeros(events, np.int64)
        self.queue = np.zeros(events, np.int64)

    def largest(self, growing: Growing, augment: Callable[..., None]) -> Closure:
        cut = growing.cut()
        self._link(cut.orders)
        augment(
            self.first,
            self.following,
            self.target,
            self.carried,
            self.supply,
            self.take,
            self.layer,
            self.current,
            self.queue,
        )
        happened = self.layer != -1
        n = cut.network.n_ops
        return Closure(
            happened=happened,
            gain=cut.constant + int(cut.gains[happened].sum()),
            running=int((happened[: 2 * n : 2] & ~happened[1 : 2 * n : 2]).sum()),
            carried=self.carried[: len(cut.orders)].copy(),
            price=0,
            scale=1,
        )

    def _link(self, orders: Integers) -> None:
        """Put the orders that are new into the lists of arcs."""
        if len(orders) > len(self.carried):
            more = 2 * len(orders) - len(self.carried)
            self.carried = np.concatenate([self.carried, np.zeros(more, np.int64)])
            self.target = np.concatenate([self.target, np.zeros(2 * more, np.int64)])
            self.following = np.concatenate([self.following, np.full(2 * more, -1, np.int64)])
        for k in range(self.count, len(orders)):
            u, v = int(orders[k, 0]), int(orders[k, 1])
            for arc, at, to in ((2 * k, v, u), (2 * k + 1, u, v)):
                self.target[arc], self.following[arc], self.first[at] = to, self.first[at], arc
        self.count = len(orders)
