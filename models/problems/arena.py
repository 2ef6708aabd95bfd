"""The arena problem: order and addresses together, so that the least memory suffices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from operator import index
from typing import Any, ClassVar, NamedTuple

from ..buffers import Buffers
from ..checks import check_integer, check_sums, check_type
from ..derived.memory import sequential_memory
from ..derived.precedence import check_order
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, KINDS, Graph
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
        In bytes, each in its pool, of each tensor, then of the workspace of each op; None where there is
        nothing to place: no bytes, or never there.
    """

    order: tuple[int, ...]
    addresses: tuple[int | None, ...]


@dataclass(frozen=True)
class Arena(Problem):
    """Least memory with fixed addresses: an order of the ops, and one address for each tensor and workspace.

    Every op runs once, one after another, on one memory, under the graph's precedence and accounting. What is
    there at one time has disjoint addresses, but for in-place pairs (`Op.inplace`), which may share theirs
    where the read dies with the op. The objective is the end of the highest buffer in bytes: the *tensor
    arena* of TensorFlow Lite Micro, the workspace pool of TVM. With several pools each has addresses of its
    own from 0, and the objective is the sum of their ends.

    Parameters
    ----------
    graph
        No op's mode may name tiers: there is one memory.
    alignment
        All addresses are multiples of so many bytes.
    source
        What the problem was loaded from.
    pools
        The kinds of tensors in each pool but the first one, such as ``weight+state/gradient`` for two more;
        all other kinds are in the first. Workspaces of ops are of kind ``workspace``. Empty: one pool.

    Raises
    ------
    InstanceError
        If the alignment is below 1, sizes and alignments add up to 2**62 or more, a mode names tiers, or
        pools have a kind that is none, or one twice.

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
    pools: str = ""
    name: ClassVar[str] = "arena"
    unit: ClassVar[str] = "bytes"
    picture: ClassVar[str] = "allocations"
    measure: ClassVar[str] = "height"
    optimum: ClassVar[str] = "no order and no addresses need less"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "alignment": Parameter(1, "every address is a multiple of so many bytes", least=1),
        "pools": Parameter("", "kinds of tensors that lie in pools of their own", kind="pools"),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "arena, graph", A_GRAPH)
        check_integer(self.alignment, 1, "arena, alignment")
        check_type(self.pools, str, "arena, pools")
        kinds = [kind for pool in self.pool_names[1:] for kind in pool.split("+")]
        for k, kind in enumerate(kinds):
            if kind not in KINDS or kind in kinds[:k]:
                expected = f"each at most once of {', '.join(KINDS)}, joined by +, pools by /"
                raise InstanceError(f"arena, pools: found {kind!r} in {self.pools!r}, expected {expected}")
        check_type(self.source, (str, type(None)), "arena, source", "a str or None")
        sizes = [*(t.nbytes for t in self.graph.tensors), *(op.least_workspace for op in self.graph.ops)]
        check_sums({"arena, sizes and alignments": sum(sizes) + len(sizes) * self.alignment})
        for i, op in enumerate(self.graph.ops):
            if any(mode.operands for mode in op.modes):
                raise InstanceError(
                    f"arena, graph {self.graph.name!r}, op {i} {op.name!r}: found operands in stated tiers, "
                    "expected none (an arena is one memory)"
                )

    @property
    def pool_names(self) -> tuple[str, ...]:
        """The kinds of each pool; the first one has an empty name."""
        return ("", *self.pools.split("/")) if self.pools else ("",)

    @cached_property
    def pool_of(self) -> tuple[int, ...]:
        """The pool of each tensor, then of the workspace of each op, as indices of `pool_names`."""
        kinds = {kind: k for k, pool in enumerate(self.pool_names) for kind in pool.split("+")}
        own = [kinds.get(tensor.kind, 0) for tensor in self.graph.tensors]
        return (*own, *[kinds.get("workspace", 0)] * len(self.graph.ops))

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name, alignment and pools, and the source."""
        aligned = f", alignment {self.alignment}" if self.alignment > 1 else ""
        apart = f", pools {self.pools}" if self.pools else ""
        return f"{self.graph.name}{aligned}{apart}", self.source or self.graph.source

    def payload(self) -> dict[str, Any]:
        """Return the graph's hash, the alignment, and the pools if there are some."""
        pools = {"pools": self.pools} if self.pools else {}
        return {"arena": self.graph.sha256, "alignment": self.alignment, **pools}

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
        try:
            addresses = tuple(None if x is None else index(x) for x in item.addresses)
        except TypeError:
            raise InstanceError("found addresses of other things, expected integers or None") from None
        return Addressed(tuple(map(int, item.order)), addresses)

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
        if self.pools:  # they lie one behind the other; each begins with its lowest buffer
            begin = [0] * len(self.pool_names)
            for pool in range(len(begin)):
                of_pool = zip(addresses, self.pool_of, strict=True)
                begin[pool] = min((x for x, p in of_pool if x is not None and p == pool), default=0)
            pairs = zip(addresses, self.pool_of, strict=True)
            addresses = [None if x is None else x - begin[pool] for x, pool in pairs]
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
        """Return the end of the highest buffer in bytes, of several pools the sum of these."""
        return sum(self.heights(answer))

    def heights(self, answer: Addressed) -> list[int]:
        """Return the end of the highest buffer of each pool."""
        sizes = (*(t.nbytes for t in self.graph.tensors), *(op.least_workspace for op in self.graph.ops))
        tops = [0] * len(self.pool_names)
        for x, size, pool in zip(answer.addresses, sizes, self.pool_of, strict=True):
            if x is not None:
                tops[pool] = max(tops[pool], x + size)
        return tops

    def judge(self, answer: Addressed) -> Judgement:
        """Lower the order to a plan; verify its allocation with alignment and pools, then both together.

        In the plan, whose memory is one, each pool begins at the first multiple of the alignment behind the
        one before.
        """
        plan = lower_order(self.graph, answer.order)
        buffers = buffers_from_plan(self.graph, plan)
        pieces = self._pieces(answer.order, buffers)
        placed = {name: answer.addresses[k] for k, name in pieces}
        allocation = {name: x for name, x in placed.items() if x is not None}
        if self.alignment > 1 or self.pools:
            pool_of = {name: self.pool_names[self.pool_of[k]] for k, name in pieces}
            stated = (replace(b, alignment=self.alignment, pool=pool_of[b.id]) for b in buffers.buffers)
            buffers = replace(buffers, buffers=tuple(stated), pools=dict.fromkeys(self.pool_names))
        verdict = verify_allocation(buffers, allocation)
        if not verdict.valid:
            return Judgement(objective=None, verification=verdict)
        if self.pools:
            ends = [-(-verdict.heights[name] // self.alignment) * self.alignment for name in buffers.pools]
            begin = dict(zip(buffers.pools, accumulate(ends, initial=0), strict=False))
            allocation = {b: x + begin[pool_of[b]] for b, x in allocation.items()}
        plan = replace(plan, allocation=allocation)
        whole = verify(self.graph, plan, rerun=False)
        return Judgement(
            objective=sum(verdict.heights.values()) if whole.valid else None,
            verification=whole,
            plan=plan,
        )

    def setting(self, edges: tuple[tuple[int, int], ...] = ()) -> ArenaSetting:
        """Return alignment and pools."""
        return ArenaSetting(alignment=self.alignment, pools=self.pool_names[1:])

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the peak of the answer's order, how much the addresses add to it, and each pool's height."""
        if judgement.plan is None or judgement.objective is None:
            return []
        peak = sequential_memory(self.graph).peak(judgement.plan.order)
        text = exact_bytes(peak)
        if 0 < peak != judgement.objective:
            change = (judgement.objective - peak) / peak
            text += f", the height is {format_gap(abs(change))} {'more' if change > 0 else 'less'}"
        rows = [Fact("peak of the order", peak, text)]
        if self.pools:
            heights = self.heights(self._of_plan(judgement.plan))
            for name, height in zip(self.pool_names, heights, strict=True):
                rows.append(Fact(f"pool {name or 'of the rest'}", height, exact_bytes(height)))
        return rows
