r"""Tensor placement by TMOF's MILP for one GPU: which intervals between accesses are swapped, and when.

Source: Lin, Chen, Cheng and Yang, "Tensor movement orchestration in multi-GPU training systems", HPCA 2023.
*Inferred*: of the paper's program only the abstract was at hand, and that it is that of AutoTM (Hildebrand et
al., ASPLOS 2020) with "kernels and tensor accesses separated". What follows is our reading: a swap belongs to
an interval between two accesses, and may be spread over any kernels in it. One GPU, one host.

Data: see `placement_data` (ops k, durations :math:`d_k`, bytes :math:`W_k` that op k needs, lives l of
:math:`z_l` bytes, M bytes on the device), rates :math:`B^o, B^i` in bytes/ns. Everything starts on the
device; a life that may start on the host as well has its copy there. Intervals g of a life lie between
consecutive accesses (from the birth, from time 0; to the end, if it is kept); :math:`K_g`: the ops inside.

Variables. :math:`f_{gk}, p_{gk} \in \{0,1\}, k \in K_g`: the tensor has left, has its room again, when op
k starts. :math:`O_{lk}, N_{gk} \ge 0`: bytes swapped out and in beside op k. :math:`\sigma_k \ge d_k`: ns
from the start of op k to that of the next one.

Objective. Minimize :math:`\sum_k \sigma_k` subject to

1. f and p do not decrease in k, :math:`p_{gk} \le f_{gk}`;
2. :math:`z_l f_{gk} \le \sum_{k' < k} O_{lk'}` unless there is a copy from the start;
   :math:`\sum_{k'} O_{lk'} \le z_l`;
3. :math:`\sum_{k' \le k} N_{gk'} \le z_l p_{gk}`, and :math:`\sum_{k'} N_{gk'} = z_l f_{g,\max K_g}` unless
   g ends at the end;
4. :math:`W_k + \sum_{g: k \in K_g} z_l (1 - f_{gk} + p_{gk}) \le M`;
5. :math:`\sum_l O_{lk} \le B^o \sigma_k`, :math:`\sum_g N_{gk} \le B^i \sigma_k`.

A plan follows op by op: op k starts, and beside it its swaps run; when all are through, the next one starts.
The optimum bounds only plans of this form: nothing leaves between consecutive ops, everything waits for the
end of an op. Tensors leave and return as wholes, but in parts that are spread over ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..models.errors import UsageError
from .linear_program import SECOND
from .placement_data import Life, PlacementData
from .placement_slots import instants
from .placement_slots_plan import Bytes, Walk

Value = Callable[[Any], float]


@dataclass(frozen=True)
class Interval:
    """An interval between accesses: its life, the ops inside, and whether the life is used behind."""

    life: int
    ops: range
    returns: bool


@dataclass(frozen=True)
class TmofModel:
    """The Pyomo model, in units of M bytes and ns; variables by interval or life, and op."""

    model: Any
    data: PlacementData
    intervals: tuple[Interval, ...]


def check(data: PlacementData) -> None:
    """Raise `UsageError` for a problem that the model does not cover."""
    found = None
    if len(data.outer) != 1 or data.outer[0].capacity is not None:
        found = "another hierarchy, expected a device and one host without limit"
    elif any(life.born < 0 and not life.device for life in data.lives):
        found = "a tensor that may not start on the device, expected all of them there"
    if found:
        raise UsageError(f"TMOF: found {found}")


def intervals(data: PlacementData) -> tuple[Interval, ...]:
    """Return the intervals that have ops inside."""
    found = []
    for number, life in enumerate(data.lives):
        uses = [life.born, *life.accesses, *([data.n] if life.kept else [])]
        for before, behind in pairwise(uses):
            if behind - before > 1:
                found.append(Interval(number, range(before + 1, behind), behind < data.n))
    return tuple(found)


def is_clean(life: Life) -> bool:
    """Whether the host has a copy from the start."""
    return life.born < 0 and life.outer[0]


def build(data: PlacementData) -> TmofModel:
    """Return the model; its objective is the makespan in ns.

    Examples
    --------
    >>> from lowtide.formulations.placement_data import placement_data
    >>> from lowtide.instances.load_placement import load_placement
    >>> problem = load_placement("gen:skipchain?n=10&machine=v100-16g-pcie3&start=gpu")
    >>> [list(interval.ops) for interval in build(placement_data(problem)).intervals]
    [[3, 4, 5, 6], [3, 4, 5, 6], [4, 5]]
    """
    import pyomo.environ as pyo

    check(data)
    model = pyo.ConcreteModel(name="tmof")
    gaps = intervals(data)
    inside = [(g, k) for g, gap in enumerate(gaps) for k in gap.ops]
    last = {gap.life: gap.ops[-1] for gap in gaps}
    out = [
        (number, k)
        for number, end in last.items()
        if not is_clean(data.lives[number])
        for k in range(data.lives[number].born + 1, end + 1)
    ]
    returning = [(g, k) for g, k in inside if gaps[g].returns]
    size = {number: life.nbytes / data.memory for number, life in enumerate(data.lives)}
    model.left = pyo.Var(inside, domain=pyo.Binary)
    model.back = pyo.Var(inside, domain=pyo.Binary)
    model.out = pyo.Var(out, domain=pyo.NonNegativeReals)
    model.into = pyo.Var(returning, domain=pyo.NonNegativeReals)
    model.slot = pyo.Var(range(data.n), domain=pyo.NonNegativeReals)
    model.rows = pyo.ConstraintList()
    add = model.rows.add
    model.objective = pyo.Objective(expr=sum(model.slot[k] for k in range(data.n)))
    for g, gap in enumerate(gaps):
        z, clean = size[gap.life], is_clean(data.lives[gap.life])
        begin = data.lives[gap.life].born + 1
        for k in gap.ops:
            if k > gap.ops[0]:  # (1)
                add(model.left[g, k] >= model.left[g, k - 1])
                add(model.back[g, k] >= model.back[g, k - 1])
            add(model.back[g, k] <= model.left[g, k])
            if not clean:  # (2)
                add(z * model.left[g, k] <= sum((model.out[gap.life, j] for j in range(begin, k)), 0.0))
            if gap.returns:  # (3)
                add(sum(model.into[g, j] for j in range(gap.ops[0], k + 1)) <= z * model.back[g, k])
        if gap.returns:
            add(sum(model.into[g, k] for k in gap.ops) == z * model.left[g, gap.ops[-1]])
    for number, end in last.items():
        life = data.lives[number]
        if not is_clean(life):
            add(sum(model.out[number, k] for k in range(life.born + 1, end + 1)) <= size[number])
    for k in range(data.n):
        spanning = [(g, gap) for g, gap in enumerate(gaps) if k in gap.ops]
        base = data.need[k] / data.memory + sum(size[gap.life] for _, gap in spanning)
        if base > 1:  # (4)
            away = sum(size[gap.life] * (model.left[g, k] - model.back[g, k]) for g, gap in spanning)
            add(away >= base - 1)
        add(model.slot[k] >= data.duration[k])
        for moved, rate in (  # (5)
            ([model.out[key] for key in out if key[1] == k], data.outer[0].out.rate),
            ([model.into[key] for key in returning if key[1] == k], data.outer[0].into.rate),
        ):
            if moved:
                add(sum(moved) * (data.memory * SECOND / rate) <= model.slot[k])
    return TmofModel(model, data, gaps)


def decode(built: TmofModel, value: Value) -> list[Walk]:
    """Return what each life does: all of an op's swaps between its start and its end, none before it."""
    data, model = built.data, built.model
    walks = []
    for number, life in enumerate(data.lives):
        gap_of = {k: g for g, gap in enumerate(built.intervals) if gap.life == number for k in gap.ops}
        absent, held = dict[int, Bytes](), dict[int, Bytes]()
        copied = life.nbytes if is_clean(life) else 0
        moved = 0.0
        for e in instants(data, life):
            k, behind = (e - 1) // 2, e % 2 == 0
            away = 0
            if e and behind and (number, k) in model.out and k > life.born:
                moved += value(model.out[number, k]) * data.memory
            g = gap_of.get(k) if e else None
            if g is not None:
                away = life.nbytes if value(model.left[g, k]) > 0.5 else 0
                if away and built.intervals[g].returns:
                    until = k + 1 if behind else k
                    ops = range(built.intervals[g].ops[0], until)
                    back = sum(value(model.into[g, j]) for j in ops) * data.memory
                    away = max(0, life.nbytes - round(back))
            if away:
                copied = life.nbytes
            if not is_clean(life):
                copied = max(copied, min(life.nbytes, round(moved)))
            absent[e], held[e] = (away,), (max(copied, away),)
        walks.append(Walk(life, absent, held))
    return walks
