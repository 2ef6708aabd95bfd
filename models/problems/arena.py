"""The arena problem: order and addresses together, so that the least memory suffices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from ..buffers import Buffers
from ..checks import check_integer, check_sums, check_type
from ..derived.memory import sequential_memory
from ..derived.precedence import check_order
from ..errors import InstanceError
from ..graph import A_GRAPH, Graph
from ..lowering.buffers import buffers_from_plan
from ..lowering.order import lower_order
from ..parameter import Parameter
from ..plan import Plan
from ..setting import ArenaSetting
from ..units import exact_bytes, format_gap
from ..verifier.allocation import verify_allocation
from ..verifier.verify import verify
from .problem import Judgement, Problem


class Addressed(NamedTuple):
    """An order of the ops, and addresses that hold while they run so.

    Attributes
    ----------
    order
        The ops by index.
    addresses
        In bytes, of each tensor, then of the workspace of each op; None where there is nothing to place: no
        bytes, or never there.
    """

    order: tuple[int, ...]
    addresses: tuple[int | None, ...]


@dataclass(frozen=True)
class Arena(Problem):
    """Least memory with fixed addresses: an order of the ops, and one address for each tensor and workspace.

    Every op runs once, one after another, on one memory, under the graph's precedence and accounting. What is
    there at one time has disjoint addresses, but for in-place pairs (`Op.inplace`), which may share theirs
    where the read dies with the op. The objective is the end of the highest buffer in bytes: the *tensor
    arena* of TensorFlow Lite Micro, the workspace pool of TVM.

    Parameters
    ----------
    graph
        No op's mode may name tiers: there is one memory.
    alignment
        All addresses are multiples of so many bytes.
    source
        What the problem was loaded from.

    Raises
    ------
    InstanceError
        If the alignment is below 1, sizes and alignments add up to 2**62 or more, or a mode names tiers.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Arena(lt.load("catalogue:diamond")))
    >>> result.status, result.objective
    (<Status.OPTIMAL: 'optimal'>, 8)
    """

    graph: Graph
    alignment: int = 1
    source: str | None = None
    name: ClassVar[str] = "arena"
    unit: ClassVar[str] = "bytes"
    picture: ClassVar[str] = "allocations"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "alignment": Parameter(1, "every address is a multiple of so many bytes", least=1),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "arena, graph", A_GRAPH)
        check_integer(self.alignment, 1, "arena, alignment")
        check_type(self.source, (str, type(None)), "arena, source", "a str or None")
        sizes = [*(t.nbytes for t in self.graph.tensors), *(op.least_workspace for op in self.graph.ops)]
        check_sums({"arena, sizes and alignments": sum(sizes) + len(sizes) * self.alignment})
        for i, op in enumerate(self.graph.ops):
            if any(mode.operands for mode in op.modes):
                raise InstanceError(
                    f"arena, graph {self.graph.name!r}, op {i} {op.name!r}: found operands in stated tiers, "
                    "expected none (an arena is one memory)"
                )

    def called(self) -> tuple[str, str | None]:
        """Return the graph's name, the alignment, and the source."""
        aligned = f", alignment {self.alignment}" if self.alignment > 1 else ""
        return f"{self.graph.name}{aligned}", self.source or self.graph.source

    def said(self) -> dict[str, Any]:
        """Return the graph's hash and the alignment."""
        return {"arena": self.graph.sha256, "alignment": self.alignment}

    def read(self, item: object) -> Addressed:
        """Return an `Addressed`, or that of a plan with an allocation.

        Raises
        ------
        InstanceError
            If it is neither, or the order is invalid, or the plan keeps a tensor at several addresses.
        """
        if isinstance(item, Plan):
            item = self._of_plan(item)
        if not isinstance(item, Addressed):
            raise InstanceError(
                f"found {type(item).__name__}, expected a Plan with an allocation, or Addressed"
            )
        check_order(self.graph, item.order)
        many = len(self.graph.tensors) + len(self.graph.ops)
        if len(item.addresses) != many:
            raise InstanceError(f"found {len(item.addresses)} addresses, expected {many}")
        return Addressed(
            tuple(map(int, item.order)), tuple(None if x is None else int(x) for x in item.addresses)
        )

    def _of_plan(self, plan: Plan) -> Addressed:
        verdict = verify(self.graph, plan)
        if not verdict.valid:
            raise InstanceError(f"found an invalid plan, {verdict.violations[0].message}")
        if plan.allocation is None or len(plan.machine.tiers) != 1 or plan.period is not None:
            raise InstanceError("found a plan that is none with an allocation in one memory, without period")
        bare = replace(plan, allocation=None)
        addresses: list[int | None] = [None] * (len(self.graph.tensors) + len(self.graph.ops))
        for k, name in self._pieces(plan.order, buffers_from_plan(self.graph, bare)):
            if addresses[k] is not None:
                raise InstanceError(f"found several buffers of tensor {k}, expected one address")
            addresses[k] = plan.allocation[name]
        return Addressed(plan.order, tuple(addresses))

    def _pieces(self, order: Sequence[int], buffers: Buffers) -> list[tuple[int, str]]:
        """Return, for each buffer of a plan, its place among the addresses, and its id."""
        many = sum(1 for i in order if self.graph.ops[i].least_workspace)
        count = len(buffers.buffers) - many
        first = len(self.graph.tensors)
        return [
            ((first if n >= count else 0) + int(b.id.partition(":")[0]), b.id)
            for n, b in enumerate(buffers.buffers)
        ]

    def evaluate(self, answer: Addressed) -> int:
        """Return the end of the highest buffer in bytes."""
        sizes = (*(t.nbytes for t in self.graph.tensors), *(op.least_workspace for op in self.graph.ops))
        pairs = zip(answer.addresses, sizes, strict=True)
        return max((x + size for x, size in pairs if x is not None), default=0)

    def judge(self, answer: Addressed) -> Judgement:
        """Lower the order to a plan; verify its allocation with the alignment, then both together."""
        plan = lower_order(self.graph, answer.order)
        buffers = buffers_from_plan(self.graph, plan)
        placed = {name: answer.addresses[k] for k, name in self._pieces(answer.order, buffers)}
        allocation = {name: x for name, x in placed.items() if x is not None}
        aligned = tuple(replace(b, alignment=self.alignment) for b in buffers.buffers)
        verdict = verify_allocation(replace(buffers, buffers=aligned), allocation)
        if not verdict.valid:
            return Judgement(objective=None, verification=verdict)
        plan = replace(plan, allocation=allocation)
        whole = verify(self.graph, plan, rerun=False)
        return Judgement(
            objective=sum(verdict.heights.values()) if whole.valid else None,
            verification=whole,
            plan=plan,
        )

    def setting(self, edges: tuple[tuple[int, int], ...] = ()) -> ArenaSetting:
        """Return the alignment."""
        return ArenaSetting(alignment=self.alignment)

    def facts(self, judgement: Judgement) -> list[tuple[str, str]]:
        """Return the peak of the answer's order, and how much the addresses add to it."""
        if judgement.plan is None or judgement.objective is None:
            return []
        peak = sequential_memory(self.graph).peak(judgement.plan.order)
        text = exact_bytes(peak)
        if 0 < peak != judgement.objective:
            change = (judgement.objective - peak) / peak
            text += f", the height is {format_gap(abs(change))} {'more' if change > 0 else 'less'}"
        return [("peak of the order", text)]
