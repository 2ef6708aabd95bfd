r"""Tensor placement by TMOF's MILP: which intervals between accesses are swapped on each GPU, and when.

Source: Lin, Chen, Cheng and Yang, "Tensor movement orchestration in multi-GPU training systems", HPCA 2023.
*Inferred*: of the paper only the abstract was at hand (data-parallel GPUs share a channel to the host; swaps
are interleaved by disjoint swapped-out tensors, and their commands orchestrated), that swaps out take a
token, and that its program is AutoTM's (Hildebrand et al., ASPLOS 2020) with "kernels and tensor accesses
separated". All rows below are our reading: a swap belongs to an interval between two accesses, and may be
spread over any kernels in it. One host; the exchange of gradients is left out.

Data: GPUs g (lanes, see `lanes`), for each `states` (ops k, durations :math:`d_{gk}`, bytes :math:`W_{gk}`
that op k needs, lives l of :math:`z_l` bytes, capacities :math:`C_{gx}` of tier x, the device's is x = 0),
rates :math:`B_w` in bytes/ns of the own links w, and joint caps, such as those of a shared host link. A swap
takes the link between the device and an outer tier x; links between outer tiers stay idle. What may start on
the device does; what may start in an outer tier without limit has its copy there, in one with a limit where
:math:`e_{glx} = 1`. *Slots* k are the ops, and before the first one a slot of no length if something may not
start on the device, behind the last one another if an op writes something of that kind that outlives the
iterations of a period. What may not be on the device between these has left by then, and comes in behind; no
life that goes on is swapped to where it may not be then.
Intervals j of a life lie between consecutive accesses (from the birth, from time 0; to
the end, if it is kept; in a period, to the first access of the next iteration); :math:`K_j`: the slots
inside. The GPUs go in step: slot k + 1 starts everywhere when all that belongs to slot k ends.

Variables. :math:`f_{gjk}, p_{gjk} \in \{0,1\}, k \in K_j`: the tensor has left, has its room again, when slot
k starts. :math:`y_{gjx} \in \{0,1\}`: it is swapped to x. :math:`O^x_{glk}, N^x_{gjk} \ge 0`: bytes swapped
out to x, and in from there, beside slot k. :math:`e_{glx} \in \{0,1\}`. :math:`\sigma_k \ge d_{gk}`: ns from
the start of slot k to that of the next one. With tokens, :math:`a_{gk} \in \{0,1\}`: GPU g holds the token of
swaps out beside slot k.

Objective. Minimize :math:`\sum_k \sigma_k` subject to

1. f and p do not decrease in k, :math:`p_{gjk} \le f_{gjk}`; f = 1 from time 0 on where the life may not
   start on the device; :math:`\sum_x y_{gjx} = f_{gj,\max K_j}`;
2. :math:`z_l (f_{gjk} + y_{gjx} - 1) \le z_l e_{glx} + \sum_{k' < k} O^x_{glk'}`, and :math:`\sum_{k'}
   O^x_{glk'} \le z_l (1 - e_{glx})`, 0 for a ring; e = 0 but for what may start in x;
3. :math:`\sum_x \sum_{k' \le k} N^x_{gjk'} \le z_l p_{gjk}`, and :math:`\sum_{k'} N^x_{gjk'} = z_l y_{gjx}`
   unless j ends at the end;
4. :math:`W_{gk} + \sum_{j: k \in K_j} z_l (1 - f_{gjk} + p_{gjk}) \le C_{g0}`; under ``replace`` with what
   op k reads, does not write, and somebody needs later; in an outer tier of finite capacity :math:`\sum_{gl}
   z_l e_{glx} + \sum_{k' \le k} O^x_{glk'} \le C_x` over the lives that have an interval at k or later; at
   time 0 what op 0 reads replaces :math:`W_{g0}`, and what nobody accesses behind a period's end is still
   where it was;
5. :math:`\sum_l O^x_{glk} \le B_w \sigma_k`, :math:`\sum_j N^x_{gjk} \le B_w \sigma_k` on the links w, and
   the sum over the channels of each joint cap at most its rate times :math:`\sigma_k`;
6. *disjoint swapping* with limit D (the same graph on every GPU): :math:`\sum_g f_{gj,\max K_j} \le D`;
7. *bidirectional overlapping*: :math:`\sum_g a_{gk} \le 1`, :math:`O^x_{glk} \le z_l a_{gk}`,
   :math:`N^x_{gjk} \le z_l (1 - a_{gk})`: one GPU at a time swaps out, and only others swap in meanwhile.

A plan follows slot by slot: op k starts, and beside it its swaps run; when all are through, the next one
starts. The optimum bounds only plans of this form: nothing leaves between consecutive ops, everything waits
for the end of an op, copies in outer tiers stay. Tensors leave and return as wholes, but in parts that are
spread over slots. 6 and 7 only restrict a program that knows the shared link by 5: what they are worth shows
against GPUs that plan each for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ....models.machine import ChannelGroup
from ....models.units import SECOND
from ...model import MILP_BYTES, ModelSize, Tick, ticker
from ..lanes import Lane
from ..states import StateData
from .slots import Slots, pairs_of, slots_of

ENGINE = "milp"
BYTES_PER_TERM = MILP_BYTES


@dataclass(frozen=True)
class TmofModel:
    """The Pyomo model; variables by GPU, life or interval.

    O and N are in parts of their life: in bytes, or parts of the memory, small ones are lost in the
    tolerances of solvers. Rows of memory are in units of the first GPU's, times in ns.
    """

    model: Any
    slots: tuple[Slots, ...]
    unit: int
    row: Tick

    def size(self, g: int, number: int) -> float:
        """Return the units of a life."""
        nbytes: int = self.slots[g].data.lives[number].nbytes
        return nbytes / self.unit

    def copied(self, g: int, number: int, x: int) -> Any:
        """Return e."""
        life = self.slots[g].data.lives[number]
        if life.born >= 0 or not life.starts[x]:
            return 0
        return 1 if self.slots[g].data.capacity[x] is None else self.model.copied[g, number, x]

    def out(self, g: int, number: int, x: int, below: int) -> list[Any]:
        """Return the parts that are copied to a tier before a slot."""
        begin = self.slots[g].of(self.slots[g].data.lives[number].born) + 1
        table = self.model.out
        return [table[g, number, x, i] for i in range(begin, below) if (g, number, x, i) in table]

    def to(self, g: int, j: int, x: int) -> Any:
        """Return y, where there are several tiers."""
        some = self.slots[g]
        last = some.intervals[j].slots[-1]
        return self.model.to[g, j, x] if len(some.outer) > 1 else self.model.left[g, j, last]


def size(data: Sequence[StateData]) -> ModelSize:
    """Return about the counts of the model, at least, without building it."""
    slots = slots_of(data)
    inside = sum(len(some.slots) * (2 + len(x.outer)) for x in slots for some in x.intervals)
    return ModelSize(variables=inside, constraints=inside, terms=4 * inside)


def _may_start(data: StateData) -> Iterator[tuple[int, int]]:
    """Yield the lives, and the outer tiers of limited room where they may be at time 0."""
    for number, life in enumerate(data.lives):
        for x in range(1, len(data.capacity)):
            if life.born < 0 and life.starts[x] and data.capacity[x] is not None:
                yield number, x


def build(
    data: Sequence[StateData],
    lanes: Sequence[Lane] = (),
    groups: Sequence[ChannelGroup] = (),
    *,
    disjoint: int | None = None,
    token: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> TmofModel:
    """Return the model; its objective is the makespan or the period in ns.

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
    >>> from lowtide.formulations.placement.states import state_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:skipchain?n=10&machine=v100-16g-pcie3&start=gpu")
    >>> [list(interval.slots) for interval in build([state_data(problem)]).slots[0].intervals]
    [[3, 4, 5, 6], [3, 4, 5, 6], [4, 5]]
    """
    import pyomo.environ as pyo

    slots = slots_of(data)
    gpus = range(len(data))
    model = pyo.ConcreteModel(name="tmof")
    inside = [(g, j, k) for g in gpus for j, some in enumerate(slots[g].intervals) for k in some.slots]
    unit = max(1, min((c for c in [data[0].capacity[0]] if c is not None), default=_total(data[0])))
    built = TmofModel(model, slots, unit, ticker(expired))
    model.left = pyo.Var(inside, domain=pyo.Binary)
    model.back = pyo.Var(inside, domain=pyo.Binary)
    model.to = pyo.Var(
        [
            (g, j, x)
            for g in gpus
            for j in range(len(slots[g].intervals))
            for x in slots[g].outer
            if len(slots[g].outer) > 1
        ],
        domain=pyo.Binary,
    )
    model.copied = pyo.Var([(g, *key) for g in gpus for key in _may_start(data[g])], domain=pyo.Binary)
    out = [
        (g, number, x, k)
        for g in gpus
        for number, end in _last(slots[g]).items()
        for x, (way, _) in slots[g].outer.items()
        if way is not None and _may_copy(built, g, number, x)
        for k in range(slots[g].of(data[g].lives[number].born) + 1, end + 1)
    ]
    model.out = pyo.Var(out, bounds=(0, 1))
    model.into = pyo.Var(
        [(g, j, x, k) for g, j, k in inside if slots[g].intervals[j].returns for x in slots[g].outer],
        bounds=(0, 1),
    )
    model.slot = pyo.Var(range(slots[0].count), domain=pyo.NonNegativeReals)
    model.never = pyo.Var(bounds=(0, 0))
    model.rows = pyo.ConstraintList()
    model.objective = pyo.Objective(expr=sum(model.slot[k] for k in range(slots[0].count)))
    for g in gpus:
        _swaps(built, g)
        _memory(built, g)
    _capacities(built)
    _links(built, lanes, groups)
    if disjoint is not None:
        _disjoint(built, disjoint)
    if token:
        _tokens(built)
    return built


def _total(data: StateData) -> int:
    return sum(life.nbytes for life in data.lives)


def _may_copy(built: TmofModel, g: int, number: int, x: int) -> bool:
    """Whether a life may be copied to a tier.

    No ring, none that surely has its copy there, and none that may not be there as a period ends.
    """
    copied, life = built.copied(g, number, x), built.slots[g].data.lives[number]
    return not life.ring and not (isinstance(copied, int) and copied) and (not life.lasting or life.starts[x])


def _last(slots: Slots) -> dict[int, int]:
    """Return the last slot of the last interval of each life that has any."""
    return {some.life: some.slots[-1] for some in slots.intervals}


def _swaps(built: TmofModel, g: int) -> None:
    """(1-3) What has left was swapped out before; what has its room again is swapped in."""
    model, add, slots = built.model, built.model.rows.add, built.slots[g]
    for j, interval in enumerate(slots.intervals):
        life = slots.data.lives[interval.life]
        first, last = interval.slots[0], interval.slots[-1]
        if life.born < 0 and not first and not life.starts[0]:
            model.left[g, j, first].setlb(1)  # (1)
        if interval.life in slots.barred and slots.count in interval.slots:
            model.left[g, j, slots.count].setlb(1)  # (1)
            for k in range(first, slots.count) if interval.returns else ():
                for x in slots.outer:
                    model.into[g, j, x, k].setub(0)  # (3)
        if life.ring and not life.accesses:
            add(model.left[g, j, first] >= model.left[g, j, last])
        if len(slots.outer) > 1:
            add(sum(model.to[g, j, x] for x in slots.outer) == model.left[g, j, last])  # (1)
        elif not slots.outer:
            model.left[g, j, last].setub(0)  # (1)
        for k in interval.slots:
            if k > first:
                add(model.left[g, j, k] >= model.left[g, j, k - 1])  # (1)
                add(model.back[g, j, k] >= model.back[g, j, k - 1])  # (1)
            add(model.back[g, j, k] <= model.left[g, j, k])  # (1)
            built.row()
            for x in slots.outer:
                copied = built.copied(g, interval.life, x)
                if not isinstance(copied, int) or not copied:
                    there = copied + sum(built.out(g, interval.life, x, k), 0.0)
                    gone = model.left[g, j, k] + (built.to(g, j, x) - 1 if len(slots.outer) > 1 else 0)
                    add(gone <= there)  # (2)
            if interval.returns and slots.outer:
                moved = sum(model.into[g, j, x, i] for x in slots.outer for i in range(first, k + 1))
                add(moved <= model.back[g, j, k])  # (3)
        if interval.returns:
            for x in slots.outer:
                add(sum(model.into[g, j, x, k] for k in interval.slots) == built.to(g, j, x))  # (3)
    for number, end in _last(slots).items():
        for x in slots.outer:
            if moved := built.out(g, number, x, end + 1):
                add(sum(moved) <= 1 - built.copied(g, number, x))  # (2)


def _memory(built: TmofModel, g: int) -> None:
    """(4) Beside each op everything fits."""
    model, slots = built.model, built.slots[g]
    data = slots.data
    capacity = data.capacity[0]
    if capacity is None:
        return
    spanning: list[list[tuple[int, int]]] = [[] for _ in range(slots.count)]
    for j, some in enumerate(slots.intervals):
        for k in some.slots:
            spanning[k % slots.count].append((j, k))
    held = [0] * slots.before + list(data.need) + [0] * slots.behind
    for life in data.lives if data.replace else ():
        for k in life.accesses[: None if life.kept and life.accesses[-1:] < (data.n,) else -1]:
            if life.tensor not in data.keeps[k % data.n]:
                held[k % data.n + slots.before] += life.nbytes
    rows = [(held[k], inside, 0) for k, inside in enumerate(spanning)]
    if data.unread or (data.replace and not slots.before):
        start = [x for x in data.lives if (x.born < 0 or x.lasting) and not slots.before]
        base = sum(x.nbytes for x in start if {0, data.n} & {*x.accesses})
        last = {some.life: j for j, some in enumerate(slots.intervals) if not some.returns}
        base += sum(data.lives[number].nbytes for number in data.unread if number not in last)
        stay = [number for number in data.unread if number in last and number not in slots.barred]
        gone = [(last[number], slots.count - 1) for number in stay]
        rows.append((base, [*spanning[0], *gone], 1))
    for base, inside, earlier in rows:
        lives = [slots.intervals[j].life for j, _ in inside]
        short = (base + sum(data.lives[number].nbytes for number in lives) - capacity) / built.unit
        if short > 0:
            away = 0.0
            for (j, i), number in zip(inside, lives, strict=True):
                back = model.back[key] if (key := (g, j, i - earlier)) in model.back else 0
                away += built.size(g, number) * (model.left[g, j, i] - back)
            model.rows.add(away >= short if inside else model.never >= short)


def _capacities(built: TmofModel) -> None:
    """(4) What is copied to an outer tier with a limit fits there."""
    model, slots = built.model, built.slots
    for x, capacity in enumerate(slots[0].data.capacity):
        if not x or capacity is None:
            continue
        for k in range(slots[0].count):
            held, most = 0.0, 0
            for g, lane_slots in enumerate(slots):
                last = _last(lane_slots)
                for number, life in enumerate(lane_slots.data.lives):
                    copied = built.copied(g, number, x)
                    begin = lane_slots.of(life.born) + 1
                    end = last.get(number, -2) + (
                        number in lane_slots.data.unread and number not in lane_slots.barred
                    )
                    at = [i for i in (k, k + lane_slots.count) if begin <= i <= end]
                    if life.ring:
                        at = at[:1] or ([k] if number in last else [])
                    for i in at:
                        held += built.size(g, number) * (copied + sum(built.out(g, number, x, i + 1)))
                        most += life.nbytes
            if most > capacity and not isinstance(held, float):
                model.rows.add(held <= capacity / built.unit)


def _links(built: TmofModel, lanes: Sequence[Lane], groups: Sequence[ChannelGroup]) -> None:
    """(5) Links and groups of links carry their rate times the length of the slot.

    A slot of an optimum is as long as one of its rows asks for, which bounds it.
    """
    model, count = built.model, built.slots[0].count
    longest = [0.0] * count

    def carry(k: int, moved: list[tuple[int, Any]], rate: int) -> None:
        ns = SECOND / rate
        model.rows.add(sum(nbytes * ns * x for nbytes, x in moved) <= model.slot[k])
        longest[k] = max(longest[k], sum(nbytes * x.ub for nbytes, x in moved) * ns)

    flows: dict[tuple[int, int], list[list[tuple[int, Any]]]] = {}
    for g, lane_slots in enumerate(built.slots):
        for outward, table in ((True, model.out), (False, model.into)):
            for key in table:
                if key[0] == g:
                    channel = lane_slots.outer[key[2]][not outward]
                    assert channel is not None
                    life = lane_slots.data.lives[key[1] if outward else lane_slots.intervals[key[1]].life]
                    flow = flows.setdefault((g, channel), [[] for _ in range(count)])
                    flow[key[3] % count].append((life.nbytes, table[key]))
    for g, lane_slots in enumerate(built.slots):
        for k in range(count):
            if 0 <= k - lane_slots.before < lane_slots.data.n:
                duration = lane_slots.data.duration[k - lane_slots.before]
                model.rows.add(model.slot[k] >= duration)
                longest[k] = max(longest[k], duration)
            own = [((w,), channel.rate) for w, channel in enumerate(lane_slots.data.ways)]
            for ways, rate in [*own, *(() if lanes else lane_slots.data.caps)]:
                moved = [x for w in ways for x in flows.get((g, w), [[]] * count)[k]]
                if moved:
                    carry(k, moved, rate)
    for group in groups if lanes else ():
        for k in range(count):
            moved = []
            for g, lane in enumerate(lanes):
                for w, pair in enumerate(pairs_of(lane, built.slots[g].data)):
                    if pair in group.channels:
                        moved += flows.get((g, w), [[]] * count)[k]
            if moved:
                carry(k, moved, group.bytes_per_s)
    for k in range(count):
        model.slot[k].setub(math.ceil(longest[k] * (1 + 1e-9)))


def _disjoint(built: TmofModel, limit: int) -> None:
    """(6) At most so many GPUs swap the same interval."""
    for j, some in enumerate(built.slots[0].intervals):
        swapped = [built.model.left[g, j, some.slots[-1]] for g in range(len(built.slots))]
        if len(swapped) > limit:
            built.model.rows.add(sum(swapped) <= limit)


def _tokens(built: TmofModel) -> None:
    """(7) One GPU at a time swaps out, and only others swap in."""
    import pyomo.environ as pyo

    model, count = built.model, built.slots[0].count
    gpus = range(len(built.slots))
    model.token = pyo.Var([(g, k) for g in gpus for k in range(count)], domain=pyo.Binary)
    for k in range(count):
        model.rows.add(sum(model.token[g, k] for g in gpus) <= 1)
    for g, number, x, k in model.out:
        model.rows.add(model.out[g, number, x, k] <= model.token[g, k % count])
    for g, j, x, k in model.into:
        model.rows.add(model.into[g, j, x, k] <= 1 - model.token[g, k % count])
