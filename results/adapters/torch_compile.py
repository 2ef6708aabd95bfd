"""The order of kernels in torch.compile: a pass of inductor that takes the order with the least peak memory.

`order_pass` returns a pass for ``torch._inductor.config._post_fusion_custom_pass``, which inductor calls with
the kernels of each graph after fusion. The graph of the kernels is that of
`lowtide.instances.formats.inductor_graph`, so that the verified peak of an order is inductor's own estimate:
a buffer lives from the kernel that makes it to its last user, inclusive. Kernels run after all those that
their ``unmet_dependencies`` name, mutations and fake dependences included.

Inductor's own pass ``reorder_for_peak_memory`` comes later. It keeps the order that it gets unless one of its
heuristics has a lower estimate, so it may stay on.

Tried with torch 2.13.0. Source: ``pytorch/pytorch:torch/_inductor/{scheduler,memory,custom_graph_pass}.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..._version import __version__
from ...instances.formats.inductor_graph import kernel_graph
from ...instances.torch_import.tracing import require_torch
from ...models.checks import check_integer, check_seconds
from ...models.graph import Graph
from ...models.problems.peak import Peak
from ...solvers.solve import solve


@dataclass(frozen=True, kw_only=True)
class KernelOrder:
    """What the pass did with one graph.

    Parameters
    ----------
    graph
        As inductor calls it: model, forward or backward, number.
    kernels
        Their number.
    given, peak
        Peak in bytes by inductor's estimate of the order that came, and of the order that left.
    bound
        Bytes that every order of these kernels needs; None if nothing was solved.
    status
        Of the result: ``optimal`` is proved. ``streams`` or ``collectives``: the order was left alone,
        because kernels run on several streams, or because all ranks must take the same order.
    order
        Names of the kernels as they left.
    """

    graph: str
    kernels: int
    given: int
    peak: int
    bound: int | None
    status: str
    order: tuple[str, ...]


@dataclass(kw_only=True)
class OrderPass:
    """A pass of inductor, as `order_pass` makes it; a virtual subclass of ``CustomSchedulerPass``.

    Parameters
    ----------
    time_limit
        Seconds for each graph.
    seed
        Of the search.
    reports
        One for each graph that was compiled since; none for graphs that come from inductor's cache.
    """

    time_limit: float
    seed: int
    reports: list[KernelOrder] = field(default_factory=list)

    def __call__(self, nodes: list[Any]) -> list[Any]:
        """Return the nodes in the order with the least peak that is known, at best the one that came."""
        from torch._inductor.utils import contains_collective, contains_wait
        from torch._inductor.virtualized import V

        planning = planned(nodes)
        leave = ""
        if getattr(V.graph.scheduler, "_multi_stream_nodes", False):
            leave = "streams"
        elif any(contains_collective(node) or contains_wait(node) for node in nodes):
            leave = "collectives"
        order, peak, bound, status = nodes, planning.given, None, leave
        if not leave and nodes:
            result = solve(
                Peak(scheduled_graph(nodes)), time_limit=self.time_limit, seed=self.seed, threads=1
            )
            bound, status = result.bound, str(result.status)
            better = [nodes[k] for k in result.order or ()]
            if better and (least := planning.estimate(better)) < peak:
                order, peak = better, least
        self.reports.append(
            KernelOrder(
                graph=graph_name(),
                kernels=len(nodes),
                given=planning.given,
                peak=peak,
                bound=bound,
                status=status,
                order=tuple(node.get_name() for node in order),
            )
        )
        return order

    def uuid(self) -> bytes:
        """Return what tells this pass from others in inductor's cache: version and options."""
        return hashlib.sha256(f"lowtide {__version__} {self.time_limit} {self.seed}".encode()).digest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return version and options: inductor's cache keys must not depend on the reports."""
        return _order_pass, (__version__, self.time_limit, self.seed)


def order_pass(*, time_limit: float = 5.0, seed: int = 0) -> OrderPass:
    """Return a pass that orders the kernels of each graph for the least peak memory.

    An order is never worse than the one that came, by inductor's own estimate. Where kernels run on several
    streams or communicate, the order stays.

    Parameters
    ----------
    time_limit
        Seconds for each graph; most graphs are proved optimal in less.
    seed
        Of the search; each search uses one thread.

    Raises
    ------
    UsageError
        If an option is out of range.
    BackendUnavailable
        If torch is not installed.

    Examples
    --------
    >>> import torch
    >>> from lowtide.adapters import torch_compile
    >>> orders = torch_compile.order_pass(time_limit=2)
    >>> from torch._inductor import config
    >>> with config.patch(_post_fusion_custom_pass=orders, fx_graph_cache=False):
    ...     _ = torch.compile(torch.nn.Linear(4, 4))(torch.zeros(2, 4))
    >>> orders.reports[0].peak <= orders.reports[0].given
    True
    """
    check_seconds(time_limit, "order_pass, time_limit")
    check_integer(seed, 0, "order_pass, seed")
    require_torch("order_pass")
    from torch._inductor.custom_graph_pass import CustomSchedulerPass

    CustomSchedulerPass.register(OrderPass)
    return OrderPass(time_limit=time_limit, seed=seed)


def _order_pass(version: str, time_limit: float, seed: int) -> OrderPass:
    return order_pass(time_limit=time_limit, seed=seed)


class KernelGraph(NamedTuple):
    """What inductor knows of the memory of the graph that it compiles.

    Attributes
    ----------
    given
        Estimate of the peak in bytes, in the order that came.
    inputs
        Name -> input that can be freed.
    outputs
        Names of the buffers that the graph returns.
    """

    given: int
    inputs: Any
    outputs: Any

    def estimate(self, order: Sequence[Any]) -> int:
        """Return inductor's estimate of the peak in bytes, in another order."""
        from torch._inductor import memory

        return int(memory.estimate_peak_memory(order, self.inputs, self.outputs)[0])


def planned(nodes: Sequence[Any]) -> KernelGraph:
    """Give every node and buffer inductor's planning information (``mpi_node``, ``mpi_buffer``)."""
    from torch._inductor import memory
    from torch._inductor.virtualized import V
    from torch.utils._ordered_set import OrderedSet

    scheduler, outputs = V.graph.scheduler, OrderedSet(V.graph.get_output_names())
    given, inputs = memory.prepare_planning_info(
        nodes, scheduler.name_to_buf, scheduler.name_to_fused_node, OrderedSet(V.graph.graph_inputs), outputs
    )
    return KernelGraph(int(given), inputs, outputs)


def scheduled_graph(nodes: Sequence[Any]) -> Graph:
    """Return the graph of nodes that have inductor's planning information (`planned`)."""
    from torch._inductor.virtualized import V

    outputs, place = set(V.graph.get_output_names()), {node: k for k, node in enumerate(nodes)}
    made = {buffer.get_name() for node in nodes for buffer in node.get_outputs()}
    inputs = {
        buffer.get_name(): buffer
        for node in nodes
        for buffer in node.mpi_node.pred_buffers
        if buffer.get_name() not in made
    }
    rows = [_row(name, buffer, True, [], outputs) for name, buffer in inputs.items()]
    for node in nodes:
        used = [buffer.get_name() for buffer in node.mpi_node.pred_buffers]
        for buffer in node.get_outputs():
            rows.append(_row(buffer.get_name(), buffer, False, used, outputs))
    names = [
        {"name": node.get_name(), "buffer_names": [x.get_name() for x in node.get_outputs()]}
        for node in nodes
    ]
    before = [[place[x] for x in node.mpi_node.pred_nodes] for node in nodes]
    return kernel_graph({"nodes": names, "buffers": rows}, graph_name(), "torch.compile", before)


def _row(name: str, buffer: Any, is_input: bool, used: list[str], outputs: set[str]) -> dict[str, Any]:
    sizes = buffer.mpi_buffer
    return {
        "name": name,
        "size_alloc": int(sizes.size_alloc),
        "size_free": int(sizes.size_free),
        "is_input": is_input,
        "is_output": name in outputs,
        "deps": used,
    }


def graph_name() -> str:
    """Return what inductor calls the graph that it compiles."""
    from torch._functorch.aot_autograd import get_graph_being_compiled

    return str(get_graph_being_compiled())
