"""The peak problem: which order of the ops needs the least memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..checks import check_type
from ..derived.memory import sequential_memory
from ..derived.named_ops import ops_of
from ..derived.precedence import check_order
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, Graph
from ..plan import Plan
from ..units import exact_bytes, format_gap
from ..verifier.verify import verify
from .problem import Judgement, Problem


@dataclass(frozen=True)
class Peak(Problem):
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
    measure: ClassVar[str] = "peak"
    optimum: ClassVar[str] = "no order has a lower peak"

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "peak, graph", A_GRAPH)

    def name_and_source(self) -> tuple[str, str | None]:
        """Return name and source of the graph."""
        return self.graph.name, self.graph.source

    def payload(self) -> str:
        """Return the hash of the graph."""
        return self.graph.sha256

    def read(self, item: object) -> tuple[int, ...]:
        """Return the order of a plan, or of a sequence of ops by index or unique name.

        Raises
        ------
        InstanceError
            If it is neither, or invalid.
        """
        if isinstance(item, Plan):
            verdict = verify(self.graph, item, rerun=False)
            if not verdict.valid:
                raise InstanceError(f"found an invalid plan, {verdict.violations[0].message}")
            if len(item.machine.tiers) != 1 or item.period is not None:
                raise InstanceError("found a plan that is none for one memory, without period")
            order = item.order
        else:
            order = ops_of(self.graph, item)
        check_order(self.graph, order)
        return order

    def evaluate(self, answer: Sequence[int]) -> int:
        """Return the peak of a valid order in bytes."""
        return sequential_memory(self.graph).peak(answer)

    def judge(self, answer: Sequence[int]) -> Judgement:
        """Lower the order to a plan and verify it."""
        plan = Plan.from_order(self.graph, answer)
        verdict = verify(self.graph, plan, rerun=False)
        objective = max(verdict.peaks.values()) if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the peak of the reference order, and how much less the answer needs."""
        peak, reference = judgement.objective, self.evaluate(range(len(self.graph.ops)))
        text = f"{exact_bytes(reference)} in the reference order"
        if peak is not None and peak != reference != 0:
            change = (peak - reference) / reference
            text += f", {format_gap(abs(change))} {'less' if change < 0 else 'more'} here"
        return [Fact("reference", reference, text)]
