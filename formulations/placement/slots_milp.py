r"""Tensor placement in a single run with whole tensors, as a MILP over pieces of time: bounds, and orders.

Two tiers, the outer one without limit; a tensor is in the fast memory wholly or not, and copies move whole
tensors. Data: see `data` (ops k, durations :math:`d_k`, bytes :math:`W_k` that op k needs, lives l
of :math:`z_l` bytes, M bytes of fast memory, rates :math:`B^o, B^i` in bytes/ns and joint caps).

Sets. *Pieces* x = 0..P-1 follow each other: for each op k some of its stall, then some of its run. Those of a
run have lengths that add up to :math:`d_k`. Those of a stall have lengths of at most :math:`\delta_x`, the
last of them any. *Instants* e = 0..P: piece x lies between instants x and x + 1. *Absences* g of a life lie
between consecutive uses (birth, accesses; the end, if it is kept); :math:`E_g`: the instants from the end of
the use before to the start of the one behind, that one excluded (unless it is the end).

Variables. :math:`f_{ge}, p_{ge} \in \{0,1\}, e \in E_g`: the life has been released, its return has begun.
:math:`o_{le}, i_{ge} \in [0,1]`: the parts of it copied out, and back in the absence, by then, 0 at the birth
and at the first instant of the absence. :math:`s_x \ge 0`: ns of a piece of a stall. :math:`y_x \in \{0,1\}`:
the piece behind x in the same stall has a length.

Objective. Minimize :math:`\sum_x s_x` subject to

1. f, p, o and i do not decrease in e, :math:`p_{ge} \le f_{ge}`;
2. :math:`f_{ge} \le o_{le}` unless the life may start outside; :math:`f_{g0} = 1` where it may not start in
   the fast memory;
3. :math:`i_{ge} \le p_{ge}` (*lower*) or :math:`i_{g,e+1} \le p_{ge}` (*upper*), and i at the start of the
   use behind is as much as f at the last instant, unless g leads to the end;
4. with :math:`V_x` the bytes by which what is needed or alive in piece x exceeds M, the sum of
   :math:`\min(z_l, V_x)(f_{gx} - p_{gx})` is at least :math:`V_x`; *lower*: also with f and p at instant x +
   1;
5. :math:`\sum_l z_l (o_{l,x+1} - o_{lx}) \le B^o s_x`, :math:`\sum_g z_l (i_{g,x+1} - i_{gx}) \le B^i s_x`,
   and the same for joint caps (for pieces of runs, their lengths);
6. :math:`s_{x+1} \le U y_x` and :math:`s_x \ge \delta_x y_x` for a piece x of a stall and the next one of the
   same stall, with :math:`U \ge` the whole stall of any plan of interest.

*Lower is a bound.* Take any plan of the problem whose stall is at most U, and cut it: a stall fills its
pieces one after the other (6). Read off at the instants: f = 1 if the life has been released by then, p = 1
if the last copy in before the use behind began before it; o and i are the parts of the last copy out that
ended before the first release and of that copy in, at its constant rate. What was released by e had been
copied out by e, and until then no byte had left (2). What arrived before e belongs to a copy that began
before e (3). At the ends of a piece the memory holds what is needed, all that was not released, and all whose
return has begun, whole (4; where the true sum is at most M, so is that with V_x for larger sizes, because f -
p is 0 or 1). Channels carry no more than 5. Latencies, the order on a channel and everything between instants
are dropped. If the stall is more than U, it is at least U: the least of the two is reported. A life that
comes and goes several times within an absence counts as away from the first release to the last return, which
only helps.

*Upper gives orders.* Bytes that arrive in a piece have their room from its beginning on, so copies in parts
make it a plan; whole copies in the order of its solution are timed by `whole`, which loses nothing
but what an uninterrupted copy costs.

As pieces get shorter the two come together; `finer` cuts those in which a solution of the lower model has
more in memory than fits. Source: this suite. Binaries of stalls and
6 are what make shorter pieces of stalls count, and absences between adjacent ops what makes them
valid. Sums up to an instant are variables: the rows stay short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...models.errors import UsageError
from ..linear_program import SECOND
from .data import PlacementData
from .whole import Absence, Order, absences, is_clean

ENGINE = "milp"
BYTES_PER_TERM = 2000
"""Per coefficient of the slot model in bytes; measured for a model of 150 ops."""

Value = Callable[[Any], float]

EPSILON = 1e-6
"""Parts of a tensor that count as none."""


@dataclass(frozen=True)
class Piece:
    """A piece of the run of an op, or of the stall before it: ns at most (exactly, in a run); None: any."""

    op: int
    run: bool
    length: int | None


@dataclass(frozen=True)
class Cut:
    """How time is cut."""

    data: PlacementData
    pieces: tuple[Piece, ...]

    @cached_property
    def start(self) -> list[int]:
        """Instant at which each op starts; behind the last one, the end."""
        found = [-1] * self.data.n
        for x in reversed(range(len(self.pieces))):
            if self.pieces[x].run:
                found[self.pieces[x].op] = x
        return [*found, len(self.pieces)]

    def end(self, k: int) -> int:
        """Return the instant at which an op ends; -1: time 0."""
        if k < 0:
            return 0
        return 1 + max(x for x in range(self.start[k], len(self.pieces)) if self.pieces[x].op == k)

    @cached_property
    def absences(self) -> tuple[Absence, ...]:
        """The absences of the lives."""
        return absences(self.data)

    @cached_property
    def instants(self) -> tuple[range, ...]:
        """Per absence, its instants."""
        ends = [self.end(k) for k in range(-1, self.data.n)]
        last = len(self.pieces)
        return tuple(
            range(
                ends[absence.before + 1],
                last + 1 if absence.behind == self.data.n else self.start[absence.behind],
            )
            for absence in self.absences
        )


def coarse(data: PlacementData) -> Cut:
    """Return the cut into one piece for each run and one for each stall.

    Examples
    --------
    >>> from lowtide.formulations.placement.data import placement_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&machine=v100-16g-pcie3&start=gpu&whole=1")
    >>> cut = coarse(placement_data(problem))
    >>> len(cut.pieces), cut.start, [len(some) for some in cut.instants]
    (6, [1, 3, 5, 6], [1, 1, 1])
    """
    pieces = []
    for k in range(data.n):
        pieces += [Piece(k, False, None), Piece(k, True, data.duration[k])]
    return Cut(data, tuple(pieces))


@dataclass(frozen=True)
class SlotMilp:
    """The Pyomo model, in bytes over those of the fast memory and ns; variables by absence, life, piece."""

    model: Any
    cut: Cut
    upper: bool


def build(cut: Cut, *, most: int, upper: bool, caps: bool = True) -> SlotMilp:
    """Return the model; its objective is the sum of the stalls in ns.

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
    """
    import pyomo.environ as pyo

    data = cut.data
    model = pyo.ConcreteModel(name="slot-milp")
    every = [(g, e) for g, some in enumerate(cut.instants) for e in some]
    model.left = pyo.Var(every, domain=pyo.Binary)
    model.back = pyo.Var([(g, e) for g, e in every if cut.absences[g].behind < data.n], domain=pyo.Binary)
    last = {absence.life: cut.instants[g][-1] for g, absence in enumerate(cut.absences)}
    first = {n: cut.end(data.lives[n].born) for n in last if not is_clean(data.lives[n])}
    model.out = pyo.Var([(n, e) for n in first for e in range(first[n] + 1, last[n] + 1)], bounds=(0, 1))
    model.into = pyo.Var([(g, e + 1) for g, e in model.back], bounds=(0, 1))
    stalls = [x for x, piece in enumerate(cut.pieces) if not piece.run]
    model.stall = pyo.Var(stalls, domain=pyo.NonNegativeReals, bounds=(0, most))
    model.more = pyo.Var([x for x in stalls if cut.pieces[x].length is not None], domain=pyo.Binary)
    model.rows = pyo.ConstraintList()
    model.objective = pyo.Objective(expr=sum(model.stall[x] for x in stalls))
    built = SlotMilp(model, cut, upper)
    _trips(built)
    _copies_out(built)
    _memory(built)
    _channels(built, caps)
    _stalls(built, most)
    return built


def _trips(built: SlotMilp) -> None:
    """(1, 3) What leaves once returns once, in the time that it takes."""
    model, cut = built.model, built.cut
    add = model.rows.add
    for g, some in enumerate(cut.instants):
        returns = cut.absences[g].behind < cut.data.n
        for e in some:
            if e > some[0]:
                add(model.left[g, e] >= model.left[g, e - 1])  # (1)
            if returns:
                add(model.back[g, e] <= model.left[g, e])  # (1)
                if e > some[0]:
                    add(model.back[g, e] >= model.back[g, e - 1])  # (1)
                    add(model.into[g, e + 1] >= model.into[g, e])  # (1)
                if built.upper:
                    add(model.into[g, e + 1] <= model.back[g, e])  # (3)
                elif e > some[0]:
                    add(model.into[g, e] <= model.back[g, e])  # (3)
        if returns:
            add(model.into[g, some[-1] + 1] == model.left[g, some[-1]])  # (3)


def _copies_out(built: SlotMilp) -> None:
    """(1, 2) What is released has a copy."""
    model, cut = built.model, built.cut
    for number, e in model.out:
        if (number, e - 1) in model.out:
            model.rows.add(model.out[number, e] >= model.out[number, e - 1])  # (1)
    for g, some in enumerate(cut.instants):
        number = cut.absences[g].life
        life = cut.data.lives[number]
        if not is_clean(life):
            for e in some:
                if (number, e) in model.out:
                    model.rows.add(model.left[g, e] <= model.out[number, e])  # (2)
                else:
                    model.left[g, e].setub(0)  # (2)
        if cut.absences[g].before < 0 and not life.device:
            model.left[g, 0].setlb(1)  # (2)


def _demands(cut: Cut) -> list[tuple[int, list[int]]]:
    """Return for each piece what it needs: bytes that cannot be away, and the absences that it is in."""
    data = cut.data
    inside: list[list[int]] = [[] for _ in cut.pieces]
    for g, absence in enumerate(cut.absences):
        behind = cut.start[absence.behind]
        for x in range(cut.instants[g][0], behind):
            inside[x].append(g)
    return [
        (data.need[piece.op] if piece.run else 0, some)
        for piece, some in zip(cut.pieces, inside, strict=True)
    ]


def _memory(built: SlotMilp) -> None:
    """(4) In each piece enough is away."""
    model, cut = built.model, built.cut
    size = [cut.data.lives[absence.life].nbytes for absence in cut.absences]
    for x, (fixed, some) in enumerate(_demands(cut)):
        short = fixed + sum(size[g] for g in some) - cut.data.memory
        if short <= 0:
            continue
        for e in (x,) if built.upper else (x, x + 1):
            away = []
            for g in some:
                if (g, e) in model.left:
                    returned = [model.back[g, e]] if (g, e) in model.back else []
                    away.append(min(size[g], short) / short * (model.left[g, e] - sum(returned)))
            if not away:
                raise UsageError(
                    f"slot-milp: found op {cut.pieces[x].op} that does not fit alone, expected room for it"
                )
            model.rows.add(sum(away) >= 1)


def _channels(built: SlotMilp, caps: bool) -> None:
    """(5) Channels and joint caps carry at most their rate times the length of the piece."""
    model, cut = built.model, built.cut
    data, unit = cut.data, cut.data.memory
    flows: list[tuple[list[Any], list[Any]]] = [([], []) for _ in cut.pieces]
    for number, e in model.out:
        flows[e - 1][0].append(data.lives[number].nbytes / unit * _change(model.out, number, e))
    for g, e in model.into:
        flows[e - 1][1].append(data.lives[cut.absences[g].life].nbytes / unit * _change(model.into, g, e))
    host = data.outer[0]
    for x, (out, into) in enumerate(flows):
        length = cut.pieces[x].length if cut.pieces[x].run else model.stall[x]
        shared = [(out, host.out.rate), (into, host.into.rate)]
        if caps:
            shared += [(out * bool(cap.out) + into * bool(cap.into), cap.rate) for cap in data.caps]
        for moved, rate in shared:
            if moved:
                model.rows.add(sum(moved) * (unit * SECOND / rate) <= length)


def _change(table: Any, index: int, e: int) -> Any:
    """Return what comes to a sum in the piece before an instant."""
    if (index, e - 1) not in table:
        return table[index, e]
    return table[index, e] - table[index, e - 1]


def _stalls(built: SlotMilp, most: int) -> None:
    """(6) A stall fills its pieces one after the other."""
    model = built.model
    for x in model.more:
        length = built.cut.pieces[x].length
        model.stall[x].setub(min(most, length))
        model.rows.add(model.stall[x + 1] <= most * model.more[x])
        if length <= most:
            model.rows.add(model.stall[x] >= length * model.more[x])
        else:
            model.more[x].setub(0)


def _moved(table: Any, index: int, e: int, value: Value) -> float:
    """Return the value of `_change`."""
    before = value(table[index, e - 1]) if (index, e - 1) in table else 0.0
    return value(table[index, e]) - before


def order(built: SlotMilp, value: Value) -> Order:
    """Return the order of a solution: copies out by their ends, room by its beginning."""
    model, cut = built.model, built.cut
    away = [value(model.left[g, some[-1]]) > 0.5 for g, some in enumerate(cut.instants)]
    used = {absence.life for g, absence in enumerate(cut.absences) if away[g]}
    done: dict[int, float] = {}
    for n, e in model.out:
        part = _moved(model.out, n, e, value)
        if n in used and part > EPSILON:
            done[n] = e + part / 2
    room = [((cut.start[k], -1.0, k), (k, -1)) for k in range(cut.data.n)]
    for g, some in enumerate(cut.instants):
        absence = cut.absences[g]
        if away[g] and absence.behind < cut.data.n:
            moving = [x for x in some if _moved(model.into, g, x + 1, value) > EPSILON]
            begin = moving[0] if moving else some[-1]
            end = moving[-1] if moving else some[-1]
            room.append(((begin, float(end), absence.behind), (absence.behind, g)))
    return Order(
        away=away,
        out=sorted(done, key=lambda n: (done[n], n)),
        room=[what for _, what in sorted(room)],
    )


def crowded(built: SlotMilp, value: Value) -> dict[int, int]:
    """Return the pieces in which a solution of the lower model holds too much, and by how many bytes."""
    model, cut = built.model, built.cut
    size = [cut.data.lives[absence.life].nbytes for absence in cut.absences]
    found = {}
    for x, (fixed, some) in enumerate(_demands(cut)):
        held = fixed
        for g in some:
            arriving = (g, x + 1) in model.into and _moved(model.into, g, x + 1, value) > EPSILON
            left = value(model.left[g, x]) > 0.5
            back = (g, x) in model.back and value(model.back[g, x]) > 0.5
            held += size[g] * (not left or back or arriving)
        if held > cut.data.memory:
            found[x] = held - cut.data.memory
    return found


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

    def length(x: int) -> int:
        piece = cut.pieces[x]
        return piece.length or 0 if piece.run else round(value(built.model.stall[x]))

    some = sorted(crowded(built, value), key=lambda x: (-length(x), x))
    chosen = {x for x in some[:most] if length(x) >= 2 * shortest}
    pieces: list[Piece] = []
    for x, piece in enumerate(cut.pieces):
        if x not in chosen:
            pieces.append(piece)
            continue
        half = length(x) // 2
        if piece.length is None:
            pieces += [replace(piece, length=half), piece]
        else:
            pieces += [replace(piece, length=half), replace(piece, length=piece.length - half)]
    return Cut(cut.data, tuple(pieces))
