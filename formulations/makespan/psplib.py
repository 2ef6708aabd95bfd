r"""Makespan as a project of PSPLIB: jobs with modes, precedence and renewable resources.

Data: see `data`. Times are in ticks of `tick` ns. Job 1 is the source and job n + 2 the sink, both without
duration and demand; job i + 2 is op i. The modes of a job are the alternatives of its op, in their order.

Renewable resources. A job holds what it demands of one from its start to its end, and nothing else does:

1. for each kind of processors one with :math:`p_k` units; a mode demands one unit of its kind;
2. where the memory can bind, one with M - `base` units. A mode demands its workspace and the lifetimes that
   are live exactly while its op runs: born with it, held, and accessed by no other op.

A tensor that is there before or after the op that writes it is no demand of a job, so a question in which it
counts is refused. It does not count where all tensors and all workspaces fit at once.

Source: R. Kolisch and A. Sprecher, PSPLIB - a project scheduling problem library, 1996; files ``.sm`` have
one mode of each job, files ``.mm`` several.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add

from ...models.derived.memory import sequential_memory
from ...models.errors import UsageError
from ...models.problems.makespan import Makespan
from ...models.texts import printable
from ...models.units import exact_bytes
from .data import MakespanData, makespan_data

RULE = "*" * 72


def text(problem: Makespan) -> str:
    """Return the file ``.sm`` of a problem.

    Raises
    ------
    UsageError
        If an op has a choice, or the memory is no renewable resource.
    """
    for i, (op, modes) in enumerate(zip(problem.graph.ops, problem.alternatives, strict=True)):
        if len(modes) > 1:
            raise UsageError(
                f"export to .sm: found {len(modes)} modes of op {i} {op.name!r}, expected one of each op; "
                ".mm states several"
            )
    return text_of_modes(problem)


def text_of_modes(problem: Makespan) -> str:
    """Return the file ``.mm`` of a problem.

    Raises
    ------
    UsageError
        If the memory is no renewable resource.
    """
    data = makespan_data(problem)
    held = _held(problem, data)
    capacities, memory = [*data.counts], ""
    if held is not None:
        capacities.append(data.memory - data.bytes.base)
        memory = f", R {len(capacities)} in units of {data.bytes.unit} bytes"
    idle = [[0] * (1 + len(capacities))]
    modes = [idle, *([] for _ in range(data.n)), idle]
    for i, choices in enumerate(data.alternatives):
        for a in choices:
            processors = [int(kind == a.kind) for kind in range(len(data.counts))]
            modes[i + 1].append([a.duration, *processors, *([] if held is None else [held[i] + a.workspace])])
    names = "".join(f"{f'R {k + 1}':>12}" for k in range(len(capacities)))
    return f"""\
{RULE}
file with basedata            : {printable(problem.graph.name)}, time in ticks of {data.tick} ns{memory}
initial value random generator: 0
{RULE}
projects                      :  1
jobs (incl. supersource/sink ):  {data.n + 2}
horizon                       :  {data.horizon}
RESOURCES
  - renewable                 :  {len(capacities)}   R
  - nonrenewable              :  0   N
  - doubly constrained        :  0   D
{RULE}
PROJECT INFORMATION:
pronr.  #jobs rel.date duedate tardcost  MPM-Time
{_row([1, data.n, 0, data.horizon, 0, max(map(add, data.head, data.duration))])}
{RULE}
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
{_rows([job, len(modes[job - 1]), len(after), *after] for job, after in enumerate(_successors(data), 1))}
{RULE}
REQUESTS/DURATIONS:
jobnr. mode duration{names}
{"-" * 72}
{_rows([job, number, *mode] for job, own in enumerate(modes, 1) for number, mode in enumerate(own, 1))}
{RULE}
RESOURCEAVAILABILITIES:
{names}
{_row(capacities)}
{RULE}
"""


def _held(problem: Makespan, data: MakespanData) -> list[int] | None:
    """Return the units that each op holds beside its workspace; None if the memory cannot bind.

    Raises
    ------
    UsageError
        If what it holds is no demand of a job, or what is kept does not fit.
    """
    lives, base = data.bytes.lifetimes, data.bytes.base
    most = sum(max(a.workspace for a in choices) for choices in data.alternatives)
    if problem.memory is None or data.memory >= base + sum(x.nbytes for x in lives) + most:
        return None
    if base > data.memory:
        kept, memory = exact_bytes(base * data.bytes.unit), exact_bytes(problem.memory)
        raise UsageError(
            f"export to PSPLIB: found {kept} that are kept throughout, expected at most {memory}"
        )
    held = [0] * data.n
    for x in lives:
        if x.born is None or x.last != (x.born,):
            raise UsageError(
                f"export to PSPLIB: found {_longer(problem)} and a memory of {exact_bytes(problem.memory)} "
                "that may not hold all at once, expected none: a renewable resource is held by a job from "
                "its start to its end only; .mzn states such a memory"
            )
        held[x.born] += x.nbytes
    return held


def _longer(problem: Makespan) -> str:
    """Return a tensor that is live before or after an op that accesses it, in words."""
    accessors = sequential_memory(problem.graph).accessors
    return next(
        f"tensor {tensor.name!r} of {exact_bytes(tensor.nbytes)}, live between ops,"
        for tensor, ops in zip(problem.graph.tensors, accessors, strict=True)
        if tensor.nbytes and ops and (tensor.initial != tensor.final or (not tensor.final and len(ops) > 1))
    )


def _successors(data: MakespanData) -> list[list[int]]:
    """Return the numbers of the direct successors of each job, the source first and the sink last."""
    after: list[list[int]] = [[] for _ in range(data.n + 2)]
    for i, before in enumerate(data.bytes.predecessors):
        for j in before or (-1,):
            after[j + 1].append(i + 2)
    for successors in after[1:-1]:
        if not successors:
            successors.append(data.n + 2)
    return after


def _row(numbers: Iterable[int]) -> str:
    return " ".join(f"{number:>8}" for number in numbers)


def _rows(rows: Iterable[Iterable[int]]) -> str:
    return "\n".join(map(_row, rows))
