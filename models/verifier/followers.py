"""What must follow what: the precedence of a graph for the verifier, asked about many pairs at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ..arrays import Booleans, Integers

_TARGETS = 8192
"""Ops of which one sweep over the graph says who must precede them."""


def distinct(numbers: Integers) -> Integers:
    """Return the different numbers, ascending; `numpy.unique` hashes them, which takes longer."""
    numbers = np.sort(numbers)
    return np.concatenate([numbers[:1], numbers[1:][numbers[1:] != numbers[:-1]]])


def among(known: Integers, wanted: Integers) -> Booleans:
    """Return which numbers are among some that ascend."""
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return known[at] == wanted if len(known) else np.zeros(len(wanted), np.bool_)


class Followers:
    """What must follow each of n ops: the direct pairs (i, j) as ``i n + j``, ascending."""

    def __init__(self, n: int, pairs: Integers) -> None:
        self.n, self.pairs = n, pairs
        self._from, self._to = pairs // max(n, 1), pairs % max(n, 1)

    @cached_property
    def later(self) -> list[list[int]]:
        """The ops that directly follow each op."""
        return _lists(self._from, self._to, self.n)

    @cached_property
    def earlier(self) -> list[list[int]]:
        """The ops that each op directly follows."""
        return _lists(self._to, self._from, self.n)

    @cached_property
    def _order(self) -> Sequence[int]:
        """The ops, each behind those that it follows; fewer of them if there is a cycle."""
        if bool((self._from < self._to).all()):
            return range(self.n)
        waits = np.bincount(self._to, minlength=self.n).tolist()
        order = [i for i in range(self.n) if not waits[i]]
        for i in order:
            for j in self.later[i]:
                waits[j] -= 1
                if not waits[j]:
                    order.append(j)
        return order

    @property
    def acyclic(self) -> bool:
        """Whether there is no cycle."""
        return len(self._order) == self.n

    def has(self, i: Integers, j: Integers) -> Booleans:
        """Return of pairs of ops whether j must follow i."""
        known = among(self.pairs, i * self.n + j)
        if known.all():
            return known
        order = self._order
        place = np.empty(self.n, np.int64)
        place[np.asarray(order, np.int64)] = np.arange(self.n)
        asked = np.flatnonzero(~known & (place[i] < place[j]))
        asked = asked[np.argsort(place[j[asked]], kind="stable")]
        targets, bits = np.unique(place[j[asked]], return_inverse=True)
        for low in range(0, len(targets), _TARGETS):
            # bit k of the mask of an op: it is target k of these or must precede it
            part = asked[(bits >= low) & (bits < low + _TARGETS)]
            masks = [0] * self.n
            for k, at in enumerate(targets[low : low + _TARGETS].tolist()):
                masks[order[at]] = 1 << k
            ends = int(place[i[part]].min()), int(place[j[part]].max())
            for x in reversed(order[ends[0] : ends[1]]):
                mask = masks[x]
                for y in self.later[x]:
                    mask |= masks[y]
                masks[x] = mask
            numbers = np.searchsorted(targets, place[j[part]]) - low
            pairs = zip(i[part].tolist(), numbers.tolist(), strict=True)
            known[part] = [masks[x] >> k & 1 == 1 for x, k in pairs]
        return known


def _lists(at: Integers, to: Integers, n: int) -> list[list[int]]:
    lists: list[list[int]] = [[] for _ in range(n)]
    for i, j in zip(at.tolist(), to.tolist(), strict=True):
        lists[i].append(j)
    return lists
