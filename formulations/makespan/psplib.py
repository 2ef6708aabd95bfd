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

from ...models.errors import UsageError
from ...models.problems.makespan import Makespan
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
    if problem.has_choice:
        several = next(i for i, choices in enumerate(problem.alternatives) if len(choices) > 1)
        name = problem.graph.ops[several].name
        raise UsageError(
            f"export to .sm: found {len(problem.alternatives[several])} modes of op {several} {name!r}, "
            "expected one of each op; .mm states several"
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
    room = data.memory - data.bytes.base
    held = _held(problem, data)
    capacities = [*data.counts, *([] if held is None else [room])]
    demands = [
        [
            [
                *(int(kind == a.kind) for kind in range(len(data.counts))),
                *([] if held is None else [held[i] + a.workspace]),
            ]
            for a in choices
        ]
        for i, choices in enumerate(data.alternatives)
    ]
    none = [0] * len(capacities)
    modes = [[(0, none)], *([] for _ in range(data.n)), [(0, none)]]
    for i, choices in enumerate(data.alternatives):
        modes[i + 1] = [(a.duration, demand) for a, demand in zip(choices, demands[i], strict=True)]
    names = "".join(f"{f'R {k + 1}':>12}" for k in range(len(capacities)))
    successors = _successors(data)
    return "\n".join(
        [
            RULE,
            f"file with basedata            : {_word(problem.graph.name)}, time in ticks of {data.tick} ns"
            + ("" if held is None else f", R {len(capacities)} in units of {data.bytes.unit} bytes"),
            "initial value random generator: 0",
            RULE,
            "projects                      :  1",
            f"jobs (incl. supersource/sink ):  {data.n + 2}",
            f"horizon                       :  {data.horizon}",
            "RESOURCES",
            f"  - renewable                 :  {len(capacities)}   R",
            "  - nonrenewable              :  0   N",
            "  - doubly constrained        :  0   D",
            RULE,
            "PROJECT INFORMATION:",
            "pronr.  #jobs rel.date duedate tardcost  MPM-Time",
            _row([1, data.n, 0, data.horizon, 0, max(map(add, data.head, data.duration))]),
            RULE,
            "PRECEDENCE RELATIONS:",
            "jobnr.    #modes  #successors   successors",
            *(
                _row([job + 1, len(modes[job]), len(after), *(k + 1 for k in after)])
                for job, after in enumerate(successors)
            ),
            RULE,
            "REQUESTS/DURATIONS:",
            f"jobnr. mode duration{names}",
            "-" * 72,
            *(
                _row([job + 1, number + 1, duration, *demand])
                for job, own in enumerate(modes)
                for number, (duration, demand) in enumerate(own)
            ),
            RULE,
            "RESOURCEAVAILABILITIES:",
            names,
            _row(capacities),
            RULE,
            "",
        ]
    )


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
        if x.born is None or x.last != (x.born,) or not x.held:
            raise UsageError(
                f"export to PSPLIB: found {_longer(problem, data)} and a memory of "
                f"{exact_bytes(problem.memory)} that may not hold all at once, expected none: a renewable "
                "resource is held by a job from its start to its end only; .mzn states such a memory"
            )
        held[x.born] += x.nbytes
    return held


def _longer(problem: Makespan, data: MakespanData) -> str:
    """Return a tensor that is live before or after an op that accesses it, in words."""
    graph = problem.graph
    for t, tensor in enumerate(graph.tensors):
        accessors = [i for i, op in enumerate(graph.ops) if t in (*op.reads, *op.writes)]
        kept = tensor.initial and tensor.final
        if tensor.nbytes and accessors and not kept and (tensor.initial or tensor.final or accessors[1:]):
            return f"tensor {tensor.name!r} of {exact_bytes(tensor.nbytes)}, live between ops,"
    raise AssertionError("a lifetime of no tensor")


def _successors(data: MakespanData) -> list[list[int]]:
    """Return the direct successors of each job, the source first and the sink last."""
    after: list[list[int]] = [[] for _ in range(data.n + 2)]
    for i, before in enumerate(data.bytes.predecessors):
        for j in before or (-1,):
            after[j + 1].append(i + 1)
    for job in range(1, data.n + 1):
        if not after[job]:
            after[job].append(data.n + 1)
    return after


def _row(numbers: Iterable[int]) -> str:
    return " ".join(f"{number:>8}" for number in numbers)


def _word(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name) or "a graph"
