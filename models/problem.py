"""Problem statements: graph, machine and question, frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .graph import Graph
from .memory import sequential_memory
from .plan import Plan


@dataclass(frozen=True)
class Peak:
    """Minimum peak memory: a topological order of the ops whose peak is least.

    Every op runs once, one after another, on one unlimited memory, under the graph's precedence and
    accounting; the objective is the peak of the memory profile in bytes.

    Examples
    --------
    >>> import lowtide as lt
    >>> lt.Peak(lt.load("gen:chain?n=4&seed=1")).name
    'peak'
    """

    graph: Graph
    name: ClassVar[str] = "peak"
    unit: ClassVar[str] = "bytes"

    def lower(self, order: Sequence[int]) -> Plan:
        """Return the plan of an order; raise `InstanceError` if the order is invalid."""
        return Plan.from_order(self.graph, order)

    def evaluate(self, order: Sequence[int]) -> int:
        """Return the peak of a valid order in bytes (fast; the verifier has the last word)."""
        return sequential_memory(self.graph).peak(order)


Problem = Peak
"""Any problem statement (one today)."""

PROBLEMS: dict[str, type[Problem]] = {Peak.name: Peak}
"""CLI name of each problem."""
