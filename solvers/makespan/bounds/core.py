r"""The core of a makespan problem: a few heavy ops alone, whose makespan bounds that of the whole.

Keep a set K of ops. A schedule of the whole within the memory gives one of K by leaving out the other ops:
it is no longer, at most as many processors are busy, and the order of ops of K, through others too, is kept
as control edges. At no instant are more bytes live (accounting ``coexist``), if

* a tensor that is initial, or whose first writer is in K, lives to the end of its last access in K (to the
  makespan, if it is final);
* any other tensor that some op of K accesses counts while one of them runs, the longest one;
* the rest is left out, but what is kept throughout.

So the least makespan of the core is a lower bound. The heaviest ops are those with the most bytes times
duration: a few of them decide the makespan of assembly trees with little memory.

Source: the suite's own; leaving out activities is a common relaxation in project scheduling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.graph import Accounting, Graph, Op, Tensor
from ....models.problems.makespan import Makespan
from ...context import Context, Outcome

CORES = (12, 16, 20, 24, 28, 32, 40)
"""Ops of the cores that bound a graph, one after another."""


def no_cores(problem: Makespan) -> str:
    """Return why the problem is not bounded by cores; empty if it is."""
    if problem.memory is not None and problem.graph.accounting is Accounting.COEXIST and problem.identical:
        return ""
    return "expected a memory limit, accounting 'coexist' and identical processors"


def bound_by_cores(
    problem: Makespan, context: Context, *, solve: Callable[[Makespan, Context], Outcome]
) -> Outcome:
    """Raise the bound by those of larger and larger cores, until one is not solved in time."""
    outcome = Outcome()
    for count in CORES:
        if count >= len(problem.graph.ops):
            break
        core = core_problem(problem, count)
        inner = context.inner(core, prefix=f"core of {count} ops: ")

        def hand_on(inner: Context = inner) -> None:
            if inner.bound is not None:
                context.raise_bound(inner.bound, inner.proof or "exact", kind="core")

        inner.changed = hand_on
        outcome = solve(core, inner)
        if context.closed or not inner.closed:
            break
    return outcome


def core_problem(problem: Makespan, count: int) -> Makespan:
    """Return the problem of the heaviest ops; accounting ``coexist``, identical processors.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Makespan(lt.load("gen:assembly?grid=15x15"), processors=2)
    >>> len(problem.graph.ops), len(core_problem(problem, 9).graph.ops)
    (63, 9)
    """
    graph = problem.relaxed
    weight = [
        op.all_modes[0].duration_ns
        * (op.all_modes[0].workspace + sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}))
        for op in graph.ops
    ]
    heaviest = sorted(range(len(weight)), key=lambda i: (-weight[i], i))[:count]
    return replace(problem, graph=restricted(graph, sorted(heaviest)), source=None)


def restricted(graph: Graph, kept: Sequence[int]) -> Graph:
    """Return the graph of some ops, ascending, with the tensors of the module's page."""
    number = {v: k for k, v in enumerate(kept)}
    workspace = {v: graph.ops[v].all_modes[0].workspace for v in kept}
    reads: dict[int, list[int]] = {v: [] for v in kept}
    writes: dict[int, list[int]] = {v: [] for v in kept}
    tensors: list[Tensor] = []
    for tensor, accessors in zip(graph.tensors, sequential_memory(graph).accessors, strict=True):
        inside = [v for v in accessors if v in number]
        if tensor.initial and (inside or tensor.final):
            for v in inside:
                reads[v].append(len(tensors))
            tensors.append(tensor)
        elif inside and inside[0] == accessors[0]:
            writes[inside[0]].append(len(tensors))
            for v in inside[1:]:
                reads[v].append(len(tensors))
            tensors.append(tensor)
        elif inside:
            longest = max(inside, key=lambda v: graph.ops[v].all_modes[0].duration_ns)
            workspace[longest] += tensor.nbytes
    ancestors = precedence(graph).ancestors
    ops = tuple(
        Op(
            name=graph.ops[v].name,
            duration_ns=graph.ops[v].all_modes[0].duration_ns,
            workspace=workspace[v],
            reads=tuple(reads[v]),
            writes=tuple(writes[v]),
            after=tuple(number[u] for u in kept if ancestors[v] >> u & 1),
        )
        for v in kept
    )
    return Graph(name=f"core of {graph.name}", tensors=tuple(tensors), ops=ops, accounting=graph.accounting)
