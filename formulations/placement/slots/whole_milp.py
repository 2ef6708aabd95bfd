r"""Tensor placement with whole tensors on any tiers, as a MILP over pieces of time: bounds, and orders.

A tensor is copied as a whole; single runs and periods, any channels, joint caps and capacities. Data: see
`states` (ops k, durations :math:`d_k`, bytes :math:`W_k` that op k needs, lives l of :math:`z_l` bytes,
capacities :math:`C_x` of tiers x, ops run in tier 0, rates :math:`B_w` in bytes/ns of channels w and of
joint caps).

Sets. *Pieces* p = 0..P-1 and *instants* e = 0..P: see `pieces`. The pieces of a run have lengths that add up
to :math:`d_k`. Those of a stall have lengths of at most :math:`\delta_p`, the last of them any. :math:`E_l`:
the instants of a life, from its birth to the start of its last access, or the end if that comes later.

Variables. :math:`a^x_{le} \in \{0,1\}`, x with a capacity: tier x has room for the life. :math:`v^x_{le} \in
[0,1]`: the part of it that is there. :math:`s^x_{le} \in \{0,1\}`: all of it is (with one outer tier :math:`s
= v`). :math:`c^w_{lp} \in [0,1]`: the part of it that passes channel w in piece p, of which the instants p
and p + 1 are in :math:`E_l`. :math:`t_p \ge 0`: ns of a piece of a stall. :math:`y_p \in \{0,1\}`: the piece
behind p in the same stall has a length. From the start to the end of an op that accesses it, a life is in
tier 0: a, v and s are 1 there.

Objective. Minimize :math:`\sum_p t_p` subject to

1. :math:`\sum_x s^x_{le} \ge 1`, :math:`s^x_{le} \le v^x_{le}`;
2. :math:`v^x_{le} \le a^x_{le}` (*lower*), or :math:`v^x_{l,p+1} \le a^x_{lp}` (*upper*);
3. :math:`v^x_{l,p+1} \le v^x_{lp} + \sum_{w \to x} c^w_{lp}`;
4. for w from x to y: :math:`c^w_{lp} \le v^x_{lp} + \sum_{u \to x} c^u_{lp}` over channels u that are not
   from y (*lower*), or :math:`c^w_{lp} \le v^x_{lp}` and :math:`c^w_{lp} \le a^x_{lp}` (*upper*);
5. at the birth of a life :math:`v^0 = 1` and :math:`v^x = 0`, x > 0; at time 0 :math:`v^x = 0` where it may
   not start in x;
6. with :math:`V` the bytes by which what is needed or alive in piece p exceeds :math:`C_0`, the sum of
   :math:`\min(z_l, V)(1 - a^0_{lp})` over the lives in the piece that are not among what its op needs is at
   least V; *lower*: also with a at instant p + 1; likewise for each other tier with a capacity, over all
   lives; not in moments; likewise at time 0 of a period over the lives then and those that go on at its end
   though nobody accesses them then;
7. :math:`\sum_l z_l c^w_{lp} \le B_w t_p`, and the same for joint caps (for pieces of runs, their lengths);
8. :math:`t_{p+1} \le U y_p` and :math:`t_p \ge \delta_p y_p` for a piece p of a stall and the next one of the
   same stall, with :math:`U \ge` the whole stall of any plan of interest.

*Lower is a bound.* Take any plan of the problem whose stall is at most U, and cut it: a stall fills its
pieces one after the other (8). Read off at the instants: a = 1 if the life is allocated in x, or what comes
there began before; v is the part of it that has come, all of it where it was made or started; s = 1 where it
is whole; c is the part of it that was not in y at the beginning of the piece and comes there in it on w for
the first time, at the constant rates of the copies. Somewhere it is whole (1), because a copy's source stays
to its end. What is there has room (2) and was there or came (3); what comes from x was there at the beginning
of the piece or came there in it, but not from y, where it was not before (4). At both ends of a piece the
memory holds what is needed and what is allocated, at time 0 also what is released then (6: where the sum is
at most C, so is that with V for larger sizes, because a is 0 or 1). Channels carry no more than 7. Latencies
and everything between instants are dropped. If the stall is more than U, it is at least U: the least of the
two is reported.

*Upper gives orders.* What arrives in a piece has its room from its beginning on, and its source stays, so
copies in parts make it a plan; whole copies in the order of its solution are timed by `sequence`.

As pieces get shorter the two come together; `finer` cuts those in which a solution of the lower model has
more in a tier than fits. Source: this suite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ....models.errors import UsageError
from ....models.units import SECOND
from ...model import ModelSize
from .pieces import Cut, Piece

ENGINE = "milp"
BYTES_PER_TERM = 2000
"""Per coefficient of the slot model in bytes; measured for a model of 150 ops."""

Value = Callable[[Any], float]

EPSILON = 1e-6
"""Parts of a tensor that count as none."""


def size(cut: Cut) -> ModelSize:
    """Return about the counts of the model without building it."""
    tiers, ways = len(cut.data.capacity), len(cut.data.ways)
    states = sum(len(cut.instants(life)) for life in cut.data.lives)
    return ModelSize(
        variables=states * (2 * tiers + ways),
        constraints=states * (2 * tiers + ways),
        terms=states * 6 * ways,
    )


@dataclass(frozen=True)
class SlotMilp:
    """The Pyomo model, in ns and in parts of lives; variables by life, instant or piece, and tier or channel.

    A life's instants and pieces go on from P in the next iteration; those of a ring do not.
    """

    model: Any
    cut: Cut
    upper: bool

    def key(self, number: int, e: int, x: int) -> tuple[int, int, int]:
        """Return the index of a variable at an instant of a life."""
        return number, e % len(self.cut.pieces) if self.cut.data.lives[number].ring else e, x

    def room(self, number: int, e: int, x: int) -> Any:
        """Return a, 1 where there is no such variable."""
        return self.model.room[key] if (key := self.key(number, e, x)) in self.model.room else 1

    def part(self, number: int, e: int, x: int) -> Any:
        """Return v, 1 where the life is accessed."""
        return self.model.part[key] if (key := self.key(number, e, x)) in self.model.part else 1

    @property
    def whole(self) -> Any:
        """The variables s, which are v with one outer tier."""
        return self.model.whole if len(self.cut.data.capacity) > 2 else self.model.part

    def flow(self, number: int, p: int, ways: list[int]) -> list[Any]:
        """Return what passes some channels in a piece."""
        return [self.model.flow[number, p, w] for w in ways if (number, p, w) in self.model.flow]


def build(cut: Cut, *, most: int, upper: bool, caps: bool = True, base: int = 0) -> SlotMilp:
    """Return the model; its objective is the sum of the stalls in ns, and `base`.

    Parameters
    ----------
    cut
        The pieces.
    most
        U, ns.
    upper
        Which of the two.
    caps
        Whether joint caps count.
    base
        ns that are added to the objective, such as those of all ops.
    """
    import pyomo.environ as pyo

    data, tiers = cut.data, range(len(cut.data.capacity))
    limited = [x for x in tiers if data.capacity[x] is not None]
    model = pyo.ConcreteModel(name="slot-milp")
    states, flows = [], []
    for number, life in enumerate(data.lives):
        for e in cut.instants(life)[: -1 if life.ring else None]:
            states += [(number, e, x) for x in tiers if x or e not in cut.busy[number]]
        flows += [
            (number, e, w)
            for e in cut.instants(life)[:-1]
            for w, way in enumerate(data.ways)
            if not cut.pieces[e % len(cut.pieces)].moment and (way.dst or not cut.used(number, e))
        ]
    model.room = pyo.Var([key for key in states if key[2] in limited], domain=pyo.Binary)
    model.part = pyo.Var(states, bounds=(0, 1))
    if len(tiers) > 2:
        model.whole = pyo.Var(states, domain=pyo.Binary)
    model.flow = pyo.Var(flows, bounds=(0, 1))
    stalls = [p for p, piece in enumerate(cut.pieces) if not piece.run]
    model.stall = pyo.Var(stalls, domain=pyo.NonNegativeReals, bounds=(0, most))
    model.more = pyo.Var([p for p in stalls if cut.pieces[p].length is not None], domain=pyo.Binary)
    model.rows = pyo.ConstraintList()
    model.objective = pyo.Objective(expr=base + sum(model.stall[p] for p in stalls))
    built = SlotMilp(model, cut, upper)
    _somewhere(built)
    _places(built)
    _moves(built)
    _starts(built)
    _memory(built)
    _channels(built, caps)
    _stalls(built, most)
    return built


def _add(built: SlotMilp, row: Any) -> None:
    """Add a row, unless it holds without variables."""
    if row is not True:
        built.model.rows.add(row)


def _somewhere(built: SlotMilp) -> None:
    """(1) A life is whole somewhere."""
    model = built.model
    tiers = range(len(built.cut.data.capacity))
    for number, e in dict.fromkeys((number, e) for number, e, _ in model.part):
        if (number, e, 0) in model.part:
            model.rows.add(sum(built.whole[number, e, x] for x in tiers) >= 1)  # (1)
    if len(tiers) > 2:
        for key in model.whole:
            model.rows.add(model.whole[key] <= model.part[key])  # (1)


def _places(built: SlotMilp) -> None:
    """(2) What is there, or comes, has room."""
    for number, e, x in built.model.part:
        if not built.upper:
            _add(built, built.part(number, e, x) <= built.room(number, e, x))  # (2)
    if built.upper:
        for number, p, x in _steps(built):
            _add(built, built.part(number, p + 1, x) <= built.room(number, p, x))  # (2)


def _steps(built: SlotMilp) -> list[tuple[int, int, int]]:
    """Return the pieces of lives in each tier, without those in which its op accesses them in tier 0."""
    cut = built.cut
    tiers = range(len(cut.data.capacity))
    return [
        (number, p, x)
        for some in cut.inside
        for number, p in some
        for x in tiers
        if x or not cut.used(number, p)
    ]


def _moves(built: SlotMilp) -> None:
    """(3, 4) What is there was there or came; what leaves is there."""
    model, ways = built.model, built.cut.data.ways
    tiers = range(len(built.cut.data.capacity))
    into = [[w for w, way in enumerate(ways) if way.dst == x] for x in tiers]
    for number, p, x in _steps(built):
        come = sum(built.flow(number, p, into[x]))
        _add(built, built.part(number, p + 1, x) <= built.part(number, p, x) + come)  # (3)
    for number, p, w in model.flow:
        x, flow = ways[w].src, model.flow[number, p, w]
        if built.upper:
            _add(built, flow <= built.part(number, p, x))  # (4)
            _add(built, flow <= built.room(number, p, x))  # (4)
        else:
            come = [u for u in into[x] if ways[u].src != ways[w].dst]
            _add(built, flow <= built.part(number, p, x) + sum(built.flow(number, p, come)))  # (4)


def _starts(built: SlotMilp) -> None:
    """(5) Where lives are at their birth and at time 0."""
    cut = built.cut
    for number, life in enumerate(cut.data.lives):
        first = cut.instants(life)[0]
        for x in range(len(cut.data.capacity)):
            here, around = (built.part(number, e, x) for e in (first, len(cut.pieces) * life.lasting))
            if life.born >= 0 and not isinstance(here, int):
                (here.setub if x else here.setlb)(0 if x else 1)  # (5)
            if not life.starts[x] and (life.lasting or life.born < 0) and not isinstance(around, int):
                around.setub(0)  # (5)


def _memory(built: SlotMilp) -> None:
    """(6) In each piece enough is away."""
    cut = built.cut
    for x, capacity in enumerate(cut.data.capacity):
        if capacity is None:
            continue
        for piece, lives in zip(cut.pieces, cut.inside, strict=True):
            if piece.moment:
                continue
            unused = [(number, e) for number, e in lives if x or not cut.used(number, e)]
            needed = cut.data.need[piece.op] if piece.run and not x else 0
            for later in (0,) if built.upper else (0, 1):
                at = [(number, e + later) for number, e in unused]
                if not _enough_away(built, x, needed, at):
                    raise UsageError(
                        f"slot-milp: found op {piece.op} that does not fit, expected room for it"
                    )
        unread = [(number, len(cut.pieces)) for number in cut.data.unread]
        if unread:
            _enough_away(built, x, 0, [*cut.inside[0], *unread])


def _enough_away(built: SlotMilp, x: int, needed: int, lives: list[tuple[int, int]]) -> bool:
    """(6) Enough of some lives, at an instant of each, is not in tier x; return whether it can be."""
    size, capacity = [built.cut.data.lives[number].nbytes for number, _ in lives], built.cut.data.capacity[x]
    if capacity is None or (short := needed + sum(size) - capacity) <= 0:
        return True
    gaps = [
        min(z, short) / short * (1 - room)
        for z, (number, e) in zip(size, lives, strict=True)
        if not isinstance(room := built.room(number, e, x), int)
    ]
    if gaps:
        built.model.rows.add(sum(gaps) >= 1)  # (6)
    return bool(gaps)


def _channels(built: SlotMilp, caps: bool) -> None:
    """(7) Channels and joint caps carry at most their rate times the length of the piece."""
    model, cut = built.model, built.cut
    data = cut.data
    unit = max((life.nbytes for life in data.lives), default=1)
    moved: list[dict[int, list[Any]]] = [{} for _ in cut.pieces]
    for number, p, w in model.flow:
        part = data.lives[number].nbytes / unit * model.flow[number, p, w]
        moved[p % len(cut.pieces)].setdefault(w, []).append(part)
    shared = [((w,), way.rate) for w, way in enumerate(data.ways)] + [*data.caps] * caps
    for p, flows in enumerate(moved):
        length = cut.pieces[p].length if cut.pieces[p].run else model.stall[p]
        for ways, rate in shared:
            some = [part for w in ways for part in flows.get(w, ())]
            if some:
                model.rows.add(sum(some) * (unit * SECOND / rate) <= length)  # (7)


def _stalls(built: SlotMilp, most: int) -> None:
    """(8) A stall fills its pieces one after the other."""
    model = built.model
    for p in model.more:
        length = built.cut.pieces[p].length
        model.stall[p].setub(min(most, length))
        model.rows.add(model.stall[p + 1] <= most * model.more[p])  # (8)
        if length <= most:
            model.rows.add(model.stall[p] >= length * model.more[p])  # (8)
        else:
            model.more[p].setub(0)  # (8)


def crowded(built: SlotMilp, value: Value) -> dict[int, int]:
    """Return the pieces in which a solution of the lower model holds too much, and by how many bytes."""
    cut, excess = built.cut, dict[int, int]()
    into = [[w for w, way in enumerate(cut.data.ways) if way.dst == x] for x in range(len(cut.data.capacity))]
    for x, capacity in enumerate(cut.data.capacity):
        if capacity is None:
            continue
        for p, (piece, lives) in enumerate(zip(cut.pieces, cut.inside, strict=True)):
            if piece.moment:
                continue
            held = cut.data.need[piece.op] if piece.run and not x else 0
            for number, e in lives:
                if x or not cut.used(number, e):
                    there = any(_number(built.room(number, i, x), value) > 0.5 for i in (e, e + 1))
                    came = any(value(flow) > EPSILON for flow in built.flow(number, e, into[x]))
                    held += cut.data.lives[number].nbytes * (there or came)
            if held > capacity:
                excess[p] = max(held - capacity, excess.get(p, 0))
    return excess


def _number(item: Any, value: Value) -> float:
    return float(item) if isinstance(item, int) else value(item)


def finer(built: SlotMilp, value: Value, *, shortest: int, most: int) -> Cut:
    """Return a cut whose crowded pieces are halved, the longest first.

    Parameters
    ----------
    built, value
        A solution of the lower model.
    shortest
        ns; no piece gets shorter.
    most
        Pieces that are cut.
    """
    cut = built.cut

    def length(p: int) -> int:
        piece = cut.pieces[p]
        return piece.length or 0 if piece.run else round(value(built.model.stall[p]))

    some = sorted(crowded(built, value), key=lambda p: (-length(p), p))
    chosen = {p for p in some[:most] if length(p) >= 2 * shortest}
    pieces: list[Piece] = []
    for p, piece in enumerate(cut.pieces):
        if p not in chosen:
            pieces.append(piece)
            continue
        half = length(p) // 2
        rest = None if piece.length is None else piece.length - half
        pieces += [replace(piece, length=half), replace(piece, length=rest)]
    return Cut(cut.data, tuple(pieces))
