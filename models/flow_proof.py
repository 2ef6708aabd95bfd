"""Proofs that bound the memory of every parallel schedule: flows, one or one for each of several cases.

`lowtide.models.verifier.flow` says what they mean and why they prove it, and checks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .written import Written

SOURCE, SINK = -1, -2
"""Events that every other one follows, and that never happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCase(Written):
    """A flow that bounds the memory of the moments at which some events have happened and others have not.

    Attributes
    ----------
    arcs
        ``(tail, head, flow)``, no arc twice; the unit of the flow is a byte over `scale`.
    decisions
        (event, whether it has happened) at the moments of the case.
    price
        What a running op pays, in the unit of the flow.
    scale
        Denominator of flow and price.
    """

    decisions: tuple[tuple[int, bool], ...] = ()
    price: int = 0
    scale: int = 1
    arcs: tuple[tuple[int, int, int], ...]

    def value(self, processors: int | None = None) -> int:
        """Return the bytes that the case proves, if at most `processors` ops run at one time."""
        left = sum(flow for u, _, flow in self.arcs if u == SOURCE)
        back = sum(flow for _, v, flow in self.arcs if v == SOURCE)
        return (left - back + self.price * (processors or 0)) // self.scale

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        decisions = [[event, int(happened)] for event, happened in self.decisions]
        return {**Written.to_dict(self), "decisions": decisions}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProof(Written):
    """One case, or several that leave no moment out."""

    kind: ClassVar[str] = "flow"
    cases: tuple[FlowCase, ...]

    def value(self, processors: int | None = None) -> int:
        """Return the bytes that it proves: the most of its cases."""
        return max((case.value(processors) for case in self.cases), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelSetting(Written):
    """The question of `parallel-memory` beside its graph: how many ops run at most, and further precedence.

    Attributes
    ----------
    processors
        None: any number.
    edges
        Pairs of ops: the first one must end before the second one starts.
    """

    problem: ClassVar[str] = "parallel-memory"
    unit: ClassVar[str] = "bytes"
    processors: int | None
    edges: tuple[tuple[int, int], ...] = ()
