"""Ops with several modes, for methods that know one duration and one workspace an op: a choice of modes.

A choice is the number of a mode for every op. Where a method does not choose, it takes the *reference* modes:
of those that the processor runs, the fastest in which the op by itself fits into the first tier; of equal
durations the one of less workspace; if none fits, the one of least workspace. The *fastest* modes are those
of least duration, whatever fits; the *smallest* ones those of least workspace, of equal ones the fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....models.errors import UsageError
from ....models.graph import Accounting, Mode
from ....models.plan import Plan
from ....models.problems.placement import Placement


def reference_modes(problem: Placement) -> list[int]:
    """Return the reference modes.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.solvers.placement.reductions.modes import reference_modes
    >>> ways = tuple(lt.Mode(duration_ns=ns, workspace=size) for ns, size in ((9, 0), (4, 8), (2, 64)))
    >>> tensors = (lt.Tensor(name="x", nbytes=16, initial=True),)
    >>> graph = lt.Graph(name="one", tensors=tensors, ops=(lt.Op(name="a", reads=(0,), modes=ways),))
    >>> machine = lt.load_machine("a100-40g-pcie3")
    >>> [reference_modes(lt.Placement.of(graph, machine=machine, device=size)) for size in (100, 79, 24, 17)]
    [[2], [1], [1], [0]]
    """
    graph, capacity = problem.graph, problem.machine.tiers[0].capacity
    numbers = []
    for k, op in enumerate(graph.ops):
        if len(op.modes) < 2:
            numbers.append(0)
            continue
        some = {*op.writes} if graph.accounting is Accounting.REPLACE else {*op.reads, *op.writes}
        room = None if capacity is None else capacity - sum(graph.tensors[t].nbytes for t in some)
        ways = runnable(problem, k)
        fitting = [(m, mode) for m, mode in ways if room is None or mode.workspace <= room]
        numbers.append(_fastest(fitting) if fitting else _smallest(ways))
    return numbers


def fastest_modes(problem: Placement) -> list[int]:
    """Return the modes of least duration."""
    return [_fastest(runnable(problem, k)) for k in range(len(problem.graph.ops))]


def smallest_modes(problem: Placement) -> list[int]:
    """Return the modes of least workspace."""
    return [_smallest(runnable(problem, k)) for k in range(len(problem.graph.ops))]


def next_smaller(problem: Placement, k: int, m: int) -> int | None:
    """Return the fastest mode of an op with less workspace than its mode m; None if there is none."""
    most = problem.graph.ops[k].all_modes[m].workspace
    smaller = [way for way in runnable(problem, k) if way[1].workspace < most]
    return _fastest(smaller) if smaller else None


def runnable(problem: Placement, k: int) -> list[tuple[int, Mode]]:
    """Return number and mode of the modes in which the first processor runs an op; all if it runs none."""
    kind, modes = problem.machine.processors[0].kind, [*enumerate(problem.graph.ops[k].all_modes)]
    return [(m, mode) for m, mode in modes if not mode.processors or kind in mode.processors] or modes


def in_modes(problem: Placement, chosen: Sequence[int]) -> tuple[Placement, Callable[[Plan], Plan]]:
    """Return the problem whose ops have the chosen modes only, and what makes a plan of it one of the first.

    The problem itself if no op has several modes.

    Raises
    ------
    UsageError
        If there are not as many numbers as ops, or an op has no mode of that number.
    """
    graph = problem.graph
    if len(chosen) != len(graph.ops) or any(
        not 0 <= m < len(op.all_modes) for m, op in zip(chosen, graph.ops, strict=True)
    ):
        raise UsageError(f"placement of {graph.name!r}: found modes {list(chosen)}, expected one of every op")
    if all(len(op.modes) < 2 for op in graph.ops):
        return problem, lambda plan: plan
    ops = tuple(
        replace(op, modes=op.modes[m : m + 1]) if op.modes else op
        for op, m in zip(graph.ops, chosen, strict=True)
    )

    def restored(plan: Plan) -> Plan:
        runs = tuple(replace(run, mode=chosen[run.op]) for run in plan.runs)
        return replace(plan, runs=runs, graph_sha256=graph.sha256)

    return replace(problem, graph=replace(graph, ops=ops)), restored


def _fastest(ways: Sequence[tuple[int, Mode]]) -> int:
    return min(ways, key=lambda way: (way[1].duration_ns, way[1].workspace, way[0]))[0]


def _smallest(ways: Sequence[tuple[int, Mode]]) -> int:
    return min(ways, key=lambda way: (way[1].workspace, way[1].duration_ns, way[0]))[0]
