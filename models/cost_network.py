"""Cost networks with a limit on usage: the instances of the contest at ASPLOS 2025."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .checks import check_integer, check_sums, check_type
from .errors import InstanceError

FORBIDDEN = 10**18
"""Costs from here on stand for infinity: such a choice is forbidden, its cost is added to nothing."""


@dataclass(frozen=True, kw_only=True)
class CostNetwork:
    """Nodes that choose strategies; what choices cost, alone and in pairs; what they use, and when.

    Parameters
    ----------
    intervals
        By node, the time ``[start, end)`` in which it uses something; never, if both are equal.
    costs, usages
        By node and strategy; each node has at least one strategy. Costs from `FORBIDDEN` on are infinite.
    edges
        Pairs of different nodes (u, v); several may be of the same nodes.
    matrices
        By edge the costs of pairs of strategies, row by row: that of s and t is number
        ``s * len(costs[v]) + t``.
    limit
        What all nodes use together at any time at most.
    name, source
        For people, and what it was loaded from; not part of the content that `sha256` names.

    Raises
    ------
    InstanceError
        If shapes do not agree, a number is no integer or negative, an edge dangles or is of one node, or
        usages or finite costs add up to 2**62 or more.

    Examples
    --------
    >>> from lowtide.models.cost_network import CostNetwork
    >>> CostNetwork(
    ...     intervals=((0, 2), (1, 3)),
    ...     costs=((0, 5), (0, 5)),
    ...     usages=((4, 2), (4, 2)),
    ...     edges=((0, 1),),
    ...     matrices=((0, 1, 1, 0),),
    ...     limit=6,
    ... )
    CostNetwork('', 2 nodes, 1 edges, 4 strategies, limit 6)
    """

    intervals: tuple[tuple[int, int], ...]
    costs: tuple[tuple[int, ...], ...]
    usages: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, int], ...] = ()
    matrices: tuple[tuple[int, ...], ...] = ()
    limit: int = 0
    name: str = ""
    source: str | None = None

    def __post_init__(self) -> None:
        check_type(self.name, str, "network, name")
        check_type(self.source, (str, type(None)), "network, source", "a str or None")
        for key in ("intervals", "costs", "usages", "edges", "matrices"):
            rows: object = getattr(self, key)
            if not isinstance(rows, tuple | list) or not all(isinstance(row, tuple | list) for row in rows):
                raise InstanceError(f"network, {key}: found no rows of integers, expected a tuple of tuples")
            object.__setattr__(self, key, tuple(map(tuple, rows)))
        check_integer(self.limit, 0, "network, limit")
        n = len(self.costs)
        for key in ("intervals", "usages"):
            if len(getattr(self, key)) != n:
                raise InstanceError(
                    f"network, {key}: found {len(getattr(self, key))}, expected {n}, as costs"
                )
        if len(self.matrices) != len(self.edges):
            raise InstanceError(
                f"network, matrices: found {len(self.matrices)}, expected {len(self.edges)}, one of each edge"
            )
        _check_integers(self.intervals, "intervals", lambda v: 2)
        _check_integers(self.costs, "costs", lambda v: max(1, len(self.costs[v])))
        _check_integers(self.usages, "usages", lambda v: len(self.costs[v]))
        _check_integers(self.edges, "edges", lambda e: 2)
        for v, (start, end) in enumerate(self.intervals):
            if start > end:
                raise InstanceError(f"network, intervals, {v}: found end {end}, expected at least {start}")
        for e, (u, v) in enumerate(self.edges):
            if u == v or not max(u, v) < n:
                raise InstanceError(
                    f"network, edges, {e}: found {(u, v)}, expected two different nodes below {n}"
                )
        _check_integers(
            self.matrices,
            "matrices",
            lambda e: len(self.costs[self.edges[e][0]]) * len(self.costs[self.edges[e][1]]),
        )
        finite = sum(
            max((x for x in row if x < FORBIDDEN), default=0)
            for rows in (self.costs, self.matrices)
            for row in rows
        )
        check_sums({"network, usages": sum(map(max, self.usages)), "network, finite costs": finite})

    def __repr__(self) -> str:
        count = sum(map(len, self.costs))
        return (
            f"CostNetwork({self.name!r}, {len(self.costs)} nodes, {len(self.edges)} edges, "
            f"{count} strategies, limit {self.limit})"
        )

    @cached_property
    def sha256(self) -> str:
        """The content's name: hash of the canonical JSON of its rows, one after another."""
        digest = hashlib.sha256(f"lowtide/network 1 {self.limit}".encode())
        for key in ("intervals", "costs", "usages", "edges", "matrices"):
            digest.update(json.dumps(getattr(self, key), separators=(",", ":")).encode())
        return digest.hexdigest()


def _check_integers(rows: Sequence[Sequence[Any]], key: str, length: Callable[[int], int]) -> None:
    """Raise unless each row has integers >= 0, as many as expected."""
    for k, row in enumerate(rows):
        if len(row) != length(k):
            raise InstanceError(f"network, {key}, {k}: found {len(row)} numbers, expected {length(k)}")
        if {*map(type, row)} != {int} or min(row) < 0:
            wrong = next(x for x in row if type(x) is not int or x < 0)
            raise InstanceError(f"network, {key}, {k}: found {str(wrong)[:60]!r}, expected an integer >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """A strategy of each node, and the network that they are for.

    Parameters
    ----------
    choice
        By node, the index of its strategy: the list that the contest asks for.
    network_name, network_source, network_sha256
        Which network they belong to: its name, its specification, its hash.

    Examples
    --------
    >>> from lowtide.models.cost_network import Strategies
    >>> Strategies(choice=(0, 2)).choice
    (0, 2)
    """

    choice: tuple[int, ...]
    network_name: str = ""
    network_source: str | None = None
    network_sha256: str | None = None

    @classmethod
    def of(cls, network: CostNetwork, choice: Sequence[int]) -> Strategies:
        """Return the strategies of a network's nodes."""
        return cls(
            choice=tuple(choice),
            network_name=network.name,
            network_source=network.source,
            network_sha256=network.sha256,
        )
