"""What a problem may demand of plans besides its own rules: addresses, or room for whole pages.

Both narrow what is valid, so bounds hold as they are, and methods need not know of them
(`Problem.demands`). A problem that has them has the fields `PARAMETERS`, a graph and a machine, and

- ``within(capacities)``: itself with tiers of so many bytes and no demands;
- ``plan_of(answer)``: the plan of an answer;
- ``allocated(answer, allocation)``: the answer with an offset for each of its buffers;
- ``in_pages()``: a problem without demands that has the same answers, where there is one, else None; and
  whether their objectives are the same, too, or may only be less here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..checks import check_flag, set_bytes
from ..errors import InstanceError
from ..graph import Graph
from ..parameter import Parameter
from ..plan import Plan
from ..verifier.pages import paged_peaks
from ..verifier.verdict import Violation

PARAMETERS = {
    "addresses": Parameter(False, "plans have an address for each buffer, within the capacities"),
    "page": Parameter("none", "tensors take whole pages of so many bytes, anywhere", kind="size"),
}


def check_demands(problem: Any) -> None:
    """Check the two settings of a problem.

    Raises
    ------
    InstanceError
        If they are ill-formed, or both given: pages lie anywhere, addresses are of whole buffers.
    """
    check_flag(problem.addresses, f"{problem.name}, addresses")
    set_bytes(problem, "page", 1, f"{problem.name}, page", optional=True)
    if problem.addresses and problem.page is not None:
        raise InstanceError(
            f"{problem.name}: found addresses (--addresses) and page={problem.page} (--page), expected one "
            "of them"
        )


def said_demands(problem: Any) -> dict[str, Any]:
    """Return the settings that are given."""
    found: dict[str, Any] = {"addresses": True} if problem.addresses else {}
    return found if problem.page is None else {"page": problem.page}


def demand_names(problem: Any) -> tuple[str, ...]:
    """Return the settings that are given, as people write them."""
    return tuple(k if v is True else f"{k}={v}" for k, v in said_demands(problem).items())


def broken_demands(problem: Any, plan: Plan, starts: Any) -> list[Violation]:
    """Return the violations of the demands, of a plan that is valid without them."""
    if problem.addresses and plan.allocation is None:
        said = "found a plan without an allocation, expected an address for each of its buffers"
        return [Violation(kind="allocation", message=said)]
    if problem.page is None:
        return []
    peaks = paged_peaks(problem.graph, plan, problem.page, starts)
    return [
        Violation(
            kind="pages",
            message=f"tier {tier.name!r}: found {peaks[tier.name]} bytes at a time, in pages of "
            f"{problem.page} bytes, expected at most {tier.capacity}",
            tier=tier.name,
        )
        for tier in problem.machine.tiers
        if tier.capacity is not None and peaks[tier.name] > tier.capacity
    ]


def whole_pages(graph: Graph, page: int) -> Graph:
    """Return the graph with all tensors and workspaces rounded up to whole pages."""

    def up(nbytes: int) -> int:
        return -(-nbytes // page) * page

    ops = []
    for op in graph.ops:
        modes = tuple(replace(m, workspace=up(m.workspace)) for m in op.modes)
        ops.append(replace(op, workspace=up(op.workspace), modes=modes))
    tensors = tuple(replace(t, nbytes=up(t.nbytes)) for t in graph.tensors)
    return replace(graph, tensors=tensors, ops=tuple(ops))
