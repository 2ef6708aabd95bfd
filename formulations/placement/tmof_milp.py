r"""Tensor placement by TMOF's MILP: which intervals between accesses are swapped on each GPU, and when.

Source: Lin, Chen, Cheng and Yang, "Tensor movement orchestration in multi-GPU training systems", HPCA 2023.
*Inferred*: of the paper only the abstract was at hand (data-parallel GPUs share a channel to the host; swaps
are interleaved by disjoint swapped-out tensors, and their commands orchestrated), that swaps out take a
token, and that its program is AutoTM's (Hildebrand et al., ASPLOS 2020) with "kernels and tensor accesses
separated". All rows below are our reading: a swap belongs to an interval between two accesses, and may be
spread over any kernels in it. One host; the exchange of gradients is left out.

Data: GPUs g (lanes, see `lanes`), for each `data` (ops k, durations :math:`d_{gk}`, bytes
:math:`W_{gk}` that op k needs, lives l of :math:`z_l` bytes, :math:`M_g` bytes on the device), rates
:math:`B^o_g, B^i_g` of the own links in bytes/ns, and groups of channels, such as the shared host link, with
joint rates. Everything starts on the device; a life that may start on the host as well has its copy there.
Intervals j of a life lie between consecutive accesses (from the birth, from time 0; to the end, if it is
kept); :math:`K_j`: the ops inside. The GPUs go in step: op k + 1 starts everywhere when all that belongs to
op k ends.

Variables. :math:`f_{gjk}, p_{gjk} \in \{0,1\}, k \in K_j`: the tensor has left, has its room again, when op k
starts. :math:`O_{glk}, N_{gjk} \ge 0`: bytes swapped out and in beside op k. :math:`\sigma_k \ge d_{gk}`: ns
from the start of op k to that of the next one. With tokens, :math:`a_{gk} \in \{0,1\}`: GPU g holds the token
of swaps out beside op k.

Objective. Minimize :math:`\sum_k \sigma_k` subject to

1. f and p do not decrease in k, :math:`p_{gjk} \le f_{gjk}`;
2. :math:`z_l f_{gjk} \le \sum_{k' < k} O_{glk'}` unless there is a copy from the start;
   :math:`\sum_{k'} O_{glk'} \le z_l`;
3. :math:`\sum_{k' \le k} N_{gjk'} \le z_l p_{gjk}`, and :math:`\sum_{k'} N_{gjk'} = z_l f_{gj,\max K_j}`
   unless j ends at the end;
4. :math:`W_{gk} + \sum_{j: k \in K_j} z_l (1 - f_{gjk} + p_{gjk}) \le M_g`;
5. :math:`\sum_l O_{glk} \le B^o_g \sigma_k`, :math:`\sum_j N_{gjk} \le B^i_g \sigma_k`, and the sum over the
   channels of each group at most its rate times :math:`\sigma_k`;
6. *disjoint swapping* with limit D (the same graph on every GPU): :math:`\sum_g f_{gj,\max K_j} \le D`;
7. *bidirectional overlapping*: :math:`\sum_g a_{gk} \le 1`, :math:`O_{glk} \le z_l a_{gk}`,
   :math:`N_{gjk} \le z_l (1 - a_{gk})`: one GPU at a time swaps out, and only others swap in meanwhile.

A plan follows op by op: op k starts, and beside it its swaps run; when all are through, the next one starts.
The optimum bounds only plans of this form: nothing leaves between consecutive ops, everything waits for the
end of an op. Tensors leave and return as wholes, but in parts that are spread over ops. 6 and 7 only restrict
a program that knows the shared link by 5: what they are worth shows against GPUs that plan each for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...models.errors import UsageError
from ...models.machine import ChannelGroup
from ..linear_program import SECOND
from .data import Cap, Lifetime, PlacementData
from .lanes import Lane
from .slots_lp import instants
from .walks import Bytes, Walk

ENGINE = "milp"
BYTES_PER_TERM = 1500

Value = Callable[[Any], float]


@dataclass(frozen=True)
class Interval:
    """An interval between accesses: its life, the ops inside, and whether the life is used behind."""

    life: int
    ops: range
    returns: bool


@dataclass(frozen=True)
class TmofModel:
    """The Pyomo model, in units of the first GPU's memory and ns; variables by GPU, interval or life, op."""

    model: Any
    data: tuple[PlacementData, ...]
    intervals: tuple[tuple[Interval, ...], ...]

    @property
    def unit(self) -> int:
        """Bytes of a unit; a memory of none is that of tensors of no bytes."""
        return max(1, self.data[0].memory)


def check(data: Sequence[PlacementData]) -> None:
    """Raise `UsageError` for a problem that the model does not cover."""
    found = None
    if any(len(x.outer) != 1 or x.outer[0].capacity is not None for x in data):
        found = "another hierarchy, expected a device and one host without limit"
    elif any(life.born < 0 and not life.device for x in data for life in x.lives):
        found = "a tensor that may not start on the device, expected all of them there"
    elif len({x.n for x in data}) > 1:
        found = f"{[x.n for x in data]} ops on the processors, expected the same number on each"
    if found:
        raise UsageError(f"TMOF: found {found}")


def alike(data: Sequence[PlacementData]) -> bool:
    """Whether all GPUs have the same graph, memory and links."""
    return all(
        (x.duration, x.need, x.memory, x.lives, x.outer) == (y.duration, y.need, y.memory, y.lives, y.outer)
        for x, y in pairwise(data)
    )


def shares(lanes: Sequence[Lane], data: Sequence[PlacementData], groups: Sequence[ChannelGroup]) -> list[Cap]:
    """Return what each of several GPUs has of the groups that treat all alike, rounded up to bytes/s."""
    found = []
    for group in groups:
        pairs = [
            ((lane.device, x.outer[0].name), (x.outer[0].name, lane.device))
            for lane, x in zip(lanes, data, strict=True)
        ]
        ways = {(out in group.channels, into in group.channels) for out, into in pairs}
        if len(ways) == 1 and ways != {(False, False)}:
            ((out, into),) = ways
            rate = -(-group.bytes_per_s // len(lanes))
            found.append(Cap(out=(0,) if out else (), into=(0,) if into else (), rate=rate))
    return found


def joint_rate(
    lanes: Sequence[Lane], data: Sequence[PlacementData], groups: Sequence[ChannelGroup], outward: bool
) -> int | None:
    """Return the least rate of a group that counts a direction of every GPU; None if none does."""
    rates = []
    for group in groups:
        pairs = [
            (lane.device, x.outer[0].name) if outward else (x.outer[0].name, lane.device)
            for lane, x in zip(lanes, data, strict=True)
        ]
        if set(pairs) <= set(group.channels):
            rates.append(group.bytes_per_s)
    return min(rates, default=None)


def intervals(data: PlacementData) -> tuple[Interval, ...]:
    """Return the intervals that have ops inside."""
    found = []
    for number, life in enumerate(data.lives):
        uses = [life.born, *life.accesses, *([data.n] if life.kept else [])]
        for before, behind in pairwise(uses):
            if behind - before > 1:
                found.append(Interval(number, range(before + 1, behind), behind < data.n))
    return tuple(found)


def is_clean(life: Lifetime) -> bool:
    """Whether the host has a copy from the start."""
    return life.born < 0 and life.outer[0]


def build(
    data: Sequence[PlacementData],
    lanes: Sequence[Lane] = (),
    groups: Sequence[ChannelGroup] = (),
    *,
    disjoint: int | None = None,
    token: bool = False,
) -> TmofModel:
    """Return the model; its objective is the makespan in ns.

    Parameters
    ----------
    data
        Per GPU.
    lanes, groups
        Where joint rates count: the lanes of the GPUs, and the groups of the machine.
    disjoint
        D, the most GPUs that swap the same interval; None for no limit.
    token
        Whether swaps out take a token.

    Examples
    --------
    >>> from lowtide.formulations.placement.data import placement_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:skipchain?n=10&machine=v100-16g-pcie3&start=gpu")
    >>> [list(interval.ops) for interval in build([placement_data(problem)]).intervals[0]]
    [[3, 4, 5, 6], [3, 4, 5, 6], [4, 5]]
    """
    import pyomo.environ as pyo

    check(data)
    absences = tuple(intervals(x) for x in data)
    gpus = range(len(data))
    model = pyo.ConcreteModel(name="tmof")
    inside = [(g, j, k) for g in gpus for j, absence in enumerate(absences[g]) for k in absence.ops]
    out = [
        (g, number, k)
        for g in gpus
        for number, end in _last(absences[g]).items()
        if not is_clean(data[g].lives[number])
        for k in range(data[g].lives[number].born + 1, end + 1)
    ]
    model.left = pyo.Var(inside, domain=pyo.Binary)
    model.back = pyo.Var(inside, domain=pyo.Binary)
    model.out = pyo.Var(out, domain=pyo.NonNegativeReals)
    model.into = pyo.Var(
        [(g, j, k) for g, j, k in inside if absences[g][j].returns], domain=pyo.NonNegativeReals
    )
    model.slot = pyo.Var(range(data[0].n), domain=pyo.NonNegativeReals)
    model.rows = pyo.ConstraintList()
    model.objective = pyo.Objective(expr=sum(model.slot[k] for k in range(data[0].n)))
    built = TmofModel(model, tuple(data), absences)
    for g in gpus:
        _swaps(built, g)
        _memory(built, g)
    _links(built, lanes, groups)
    if disjoint is not None:
        _disjoint(built, disjoint)
    if token:
        _tokens(built)
    return built


def _last(absences: Sequence[Interval]) -> dict[int, int]:
    """Return the last op of the last interval of each life that has any."""
    return {absence.life: absence.ops[-1] for absence in absences}


def _size(built: TmofModel, g: int, number: int) -> float:
    return built.data[g].lives[number].nbytes / built.unit


def _swaps(built: TmofModel, g: int) -> None:
    """(1-3) What has left was swapped out before; what has its room again is swapped in."""
    model, add, data = built.model, built.model.rows.add, built.data[g]
    for j, absence in enumerate(built.intervals[g]):
        z, clean = _size(built, g, absence.life), is_clean(data.lives[absence.life])
        begin = data.lives[absence.life].born + 1
        for k in absence.ops:
            if k > absence.ops[0]:
                add(model.left[g, j, k] >= model.left[g, j, k - 1])  # (1)
                add(model.back[g, j, k] >= model.back[g, j, k - 1])  # (1)
            add(model.back[g, j, k] <= model.left[g, j, k])  # (1)
            if not clean:
                moved = sum((model.out[g, absence.life, i] for i in range(begin, k)), 0.0)
                add(z * model.left[g, j, k] <= moved)  # (2)
            if absence.returns:
                moved = sum(model.into[g, j, i] for i in range(absence.ops[0], k + 1))
                add(moved <= z * model.back[g, j, k])  # (3)
        if absence.returns:
            add(sum(model.into[g, j, k] for k in absence.ops) == z * model.left[g, j, absence.ops[-1]])  # (3)
    for number, end in _last(built.intervals[g]).items():
        life = data.lives[number]
        if not is_clean(life):
            moved = sum(model.out[g, number, k] for k in range(life.born + 1, end + 1))
            add(moved <= _size(built, g, number))  # (2)


def _memory(built: TmofModel, g: int) -> None:
    """(4) Beside each op everything fits."""
    model, data = built.model, built.data[g]
    spanning: list[list[tuple[int, int]]] = [[] for _ in range(data.n)]
    for j, absence in enumerate(built.intervals[g]):
        for k in absence.ops:
            spanning[k].append((j, absence.life))
    for k, some in enumerate(spanning):
        base = data.need[k] / built.unit + sum(_size(built, g, number) for _, number in some)
        short = base - data.memory / built.unit
        if short > 0:
            away = sum(
                (_size(built, g, number) * (model.left[g, j, k] - model.back[g, j, k]) for j, number in some),
                0.0,
            )
            if not some:
                raise UsageError(f"TMOF: found op {k} that does not fit by itself, expected room for it")
            model.rows.add(away >= short)


def _links(built: TmofModel, lanes: Sequence[Lane], groups: Sequence[ChannelGroup]) -> None:
    """(5) Links and groups of links carry their rate times the length of the slot."""
    model = built.model
    flows: dict[tuple[int, bool], list[list[Any]]] = {}
    for g, data in enumerate(built.data):
        for outward, table in ((True, model.out), (False, model.into)):
            some: list[list[Any]] = [[] for _ in range(data.n)]
            for key in table:
                if key[0] == g:
                    some[key[2]].append(table[key])
            flows[g, outward] = some
    for g, data in enumerate(built.data):
        for k in range(data.n):
            model.rows.add(model.slot[k] >= data.duration[k])
            for outward, link in ((True, data.outer[0].out), (False, data.outer[0].into)):
                if flows[g, outward][k]:
                    scale = built.unit * SECOND / link.rate
                    model.rows.add(sum(flows[g, outward][k]) * scale <= model.slot[k])
    for group in groups:
        members = []
        for g, lane in enumerate(lanes):
            host = built.data[g].outer[0].name
            pairs = {(lane.device, host): True, (host, lane.device): False}
            members += [flows[g, pairs[pair]] for pair in group.channels if pair in pairs]
        scale = built.unit * SECOND / group.bytes_per_s
        for k in range(built.data[0].n):
            moved = [column for member in members for column in member[k]]
            if moved:
                model.rows.add(sum(moved) * scale <= model.slot[k])


def _disjoint(built: TmofModel, limit: int) -> None:
    """(6) At most so many GPUs swap the same interval."""
    for j, absence in enumerate(built.intervals[0]):
        swapped = [built.model.left[g, j, absence.ops[-1]] for g in range(len(built.data))]
        if len(swapped) > limit:
            built.model.rows.add(sum(swapped) <= limit)


def _tokens(built: TmofModel) -> None:
    """(7) One GPU at a time swaps out, and only others swap in."""
    import pyomo.environ as pyo

    model = built.model
    gpus, ops = range(len(built.data)), range(built.data[0].n)
    model.token = pyo.Var([(g, k) for g in gpus for k in ops], domain=pyo.Binary)
    for k in ops:
        model.rows.add(sum(model.token[g, k] for g in gpus) <= 1)
    for g, number, k in model.out:
        model.rows.add(model.out[g, number, k] <= _size(built, g, number) * model.token[g, k])
    for g, j, k in model.into:
        z = _size(built, g, built.intervals[g][j].life)
        model.rows.add(model.into[g, j, k] <= z * (1 - model.token[g, k]))


def decode(built: TmofModel, value: Value, g: int) -> list[Walk]:
    """Return what each life of a GPU does: all of an op's swaps from its start to its end, none before."""
    data, model, absences = built.data[g], built.model, built.intervals[g]
    inside: list[dict[int, int]] = [{} for _ in data.lives]
    for j, absence in enumerate(absences):
        inside[absence.life].update(dict.fromkeys(absence.ops, j))
    walks = []
    for number, life in enumerate(data.lives):
        absent, held = dict[int, Bytes](), dict[int, Bytes]()
        copied = life.nbytes if is_clean(life) else 0
        moved = 0.0
        for e in instants(data, life):
            k, behind = max(e - 1, 0) // 2, e > 0 and e % 2 == 0  # time 0 is like the start of op 0
            away = 0
            if behind and (g, number, k) in model.out and k > life.born:
                moved += value(model.out[g, number, k]) * built.unit
            if k in inside[number]:
                j = inside[number][k]
                away = life.nbytes if value(model.left[g, j, k]) > 0.5 else 0
                if away and absences[j].returns:
                    ops = range(absences[j].ops[0], k + 1 if behind else k)
                    back = sum(value(model.into[g, j, i]) for i in ops) * built.unit
                    away = max(0, life.nbytes - round(back))
            if away:
                copied = life.nbytes
            if not is_clean(life):
                copied = max(copied, min(life.nbytes, round(moved)))
            absent[e], held[e] = (away,), (max(copied, away),)
        walks.append(Walk(life, absent, held))
    return walks
