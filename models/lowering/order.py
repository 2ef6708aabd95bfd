"""Lowering: from an order of the ops, or their runs, to the plan that executes them on one memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from ..checks import check_type
from ..derived.precedence import check_order
from ..errors import InstanceError
from ..graph import Accounting, Graph
from ..machine import Machine
from ..plan import Plan, Resident, Run
from .builder import PlanBuilder

if TYPE_CHECKING:
    from ..graph import Mode


def lower_order(graph: Graph, order: Sequence[int], machine: Machine | None = None) -> Plan:
    """Return the plan that runs the ops back to back in the given order, with the implied frees.

    Each op runs in its mode of least workspace (ties: the shortest), on the first processor whose kind
    the mode allows. A tensor that is not final is freed at the end of its last access; under
    ``replace`` at the start of its last access, if that access only reads it. Initial tensors that
    are accessed or final are resident from time 0.

    Parameters
    ----------
    graph
        Its accounting decides where frees stand.
    order
        A permutation of the op indices that obeys the precedence.
    machine
        One-tier machine; default: one unlimited memory and a processor of each kind that is needed.

    Raises
    ------
    InstanceError
        If the order is invalid, the machine has several tiers, or no processor can run an op.

    Examples
    --------
    >>> import lowtide as lt
    >>> lt.Plan.from_order(lt.load("catalogue:diamond"), (0, 2, 1, 3)).order
    (0, 2, 1, 3)
    """
    check_type(graph, Graph, "plan, graph")
    check_type(order, Iterable, "plan, order", "a sequence of op indices")
    check_type(machine, (Machine, type(None)), "plan, machine", "a Machine or None")
    check_order(graph, order)
    return lower_ops(graph, order, machine)


def lower_ops(graph: Graph, order: Iterable[int], machine: Machine | None = None) -> Plan:
    """Return the plan of `lower_order` without a look at the order, which may be invalid."""
    modes = [_least_mode(graph, i) for i in range(len(graph.ops))]
    if machine is None:
        kinds = sorted({kind for _, mode in modes for kind in mode.processors[:1]})
        machine = Machine.single(kinds=kinds or ("any",))
    if len(machine.tiers) != 1:
        raise InstanceError(
            f"machine {machine.name!r}: found {len(machine.tiers)} tiers, "
            "expected 1 (an order says nothing about movement between tiers)"
        )
    runs = []
    now = 0
    names: dict[tuple[str, ...], str] = {}
    for i in order:
        number, mode = modes[i]
        name = names.get(mode.processors)
        if name is None:
            name = names[mode.processors] = _first_processor(graph, i, mode, machine)
        begun, now = now, now + mode.duration_ns
        runs.append(Run(i, number, begun, now, name))
    return lower_runs(graph, runs, machine)


def lower_runs(graph: Graph, runs: Sequence[Run], machine: Machine) -> Plan:
    """Return the plan of a schedule on one memory: its runs, and what is live by the graph's accounting.

    A tensor that is not final is freed at the end of its last access; under ``replace`` at the start of the
    access that starts last, if that one only reads it. Initial tensors that are accessed or final are
    resident from time 0. The runs are not checked.

    Parameters
    ----------
    graph
        Its accounting decides where frees stand.
    runs
        One of each op.
    machine
        With one tier.
    """
    tier = machine.tiers[0].name
    replace = graph.accounting is Accounting.REPLACE
    last: dict[int, Run] = {}
    for run in sorted(runs, key=attrgetter("start" if replace else "end", "op")):
        op = graph.ops[run.op]
        for t in op.reads:
            last[t] = run
        for t in op.writes:
            last[t] = run
    out = PlanBuilder(graph, machine, runs=list(runs))
    out.residents += [
        Resident(t, tier) for t, x in enumerate(graph.tensors) if x.initial and (x.final or t in last)
    ]
    for t in sorted(last):
        if not graph.tensors[t].final:
            run = last[t]
            released = replace and t not in graph.ops[run.op].writes
            out.free(t, tier, run.start if released else run.end)
    return out.plan()


def _first_processor(graph: Graph, i: int, mode: Mode, machine: Machine) -> str:
    """Return the name of the first processor that can run the op in that mode."""
    for processor in machine.processors:
        if not mode.processors or processor.kind in mode.processors:
            return processor.name
    raise InstanceError(
        f"op {i} {graph.ops[i].name!r}: found no processor on machine {machine.name!r}, "
        f"expected one of kind {', '.join(mode.processors)}"
    )


def _least_mode(graph: Graph, i: int) -> tuple[int, Mode]:
    """Return number and mode of least workspace, then shortest, among those on one unnamed memory."""
    op = graph.ops[i]
    if not op.modes:
        return 0, op.all_modes[0]
    modes = [(k, m) for k, m in enumerate(op.modes) if not m.operands]
    if not modes:
        raise InstanceError(
            f"op {i} {op.name!r}, modes: found operands bound to tiers in every mode, "
            "expected one mode without (an order runs on one memory)"
        )
    return min(modes, key=lambda item: (item[1].workspace, item[1].duration_ns, item[0]))


# Here, since a plan is raw data that knows no lowering.
Plan.from_order = staticmethod(lower_order)
