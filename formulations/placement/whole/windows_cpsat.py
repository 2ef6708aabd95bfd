r"""A bound on placements of whole tensors on any tiers, in CP-SAT: what must pass in windows of time.

Data: see `states` (ops k, durations :math:`d_k`, bytes :math:`W_k` that op k needs, lives l of :math:`z_l`
bytes, capacities :math:`C_x` of tiers x, of which ops use tier 0) and `absences` (absences g of lives).

Sets. By :math:`V_k` the bytes of :math:`W_k` and of all other lives that are alive during op k exceed
:math:`C_0`. *Instants* c are the start and the end of each op with :math:`V_k > 0` that takes time, at
:math:`T_c`; those of an absence are those of the ops in it. :math:`X`: all outer tiers, and those without
capacity if others have one; :math:`R^+_X, R^-_X`: bytes per ns of all channels into X and out of it together,
under joint caps. In a period op n + k is op k of the next iteration, with instants of its own, and each life
and absence counts in every iteration, moved by as many ops.

Variables. :math:`S_k`: start of op k, in ns; in a period :math:`\Pi`, and :math:`S_{n+k} = S_k + \Pi`. For an
absence g of life l and its instants c, all of them 0 or 1: :math:`a_{gc}`: the life is not in tier 0;
:math:`u^x_{gc}`, x outer with capacity: it is in x. For each X: :math:`n^X_{gc}`: it is in X alone (a for all
outer tiers); :math:`h^X_{gc}, f^X_{gc}`: that holds at c or before in the life, at c or later in the absence.

Objective. Minimize :math:`S_{n-1} + d_{n-1}`, or :math:`\Pi`, subject to

1. :math:`S_k + d_k \le S_{k+1}`, :math:`S_{n-1} + d_{n-1} \le \Pi`;
2. :math:`\sum_g z_l a_{gc} \ge V_k` at both instants of op k, in whichever iteration; for each X, with the
   capacities of the other outer tiers taken off :math:`V_k`, the same of :math:`n, h` and :math:`f`, which
   tightens the relaxation; :math:`V_k`, of an op with one mode, rounded up to the next sum of some of the
   :math:`z_l` on the left (`attainable`): that is what the left side is, where variables are 0 or 1;
3. :math:`n^X_{gc} \ge a_{gc} - \sum_{x \notin X} u^x_{gc}`, :math:`\sum_g z_l u^x_{gc} \le C_x`, and
   :math:`\sum_x u^x_{gc} \ge a_{gc}` if every outer tier has a capacity;
4. :math:`n^X_{gc} \le h^X_{gc} \le h^X_{g'c'}` for later instants of the life, :math:`n^X_{gc} \le
   f^X_{gc} \le f^X_{gc'}` for earlier ones of the absence;
5. :math:`\sum z_l h^X_{gc} \le R^+_X (T_c - S_i - d_i)` for each instant c and op i, over the lives born at i
   or later (i = -1: at time 0), at the last of their instants up to c; rings and initial tensors that may
   start in X left out;
6. :math:`\sum z_l f^X_{gc} \le R^-_X (S_j - T_c)` for each instant c and op j, over the absences that end at
   j or before, at the first of their instants from c on; also at time 0. For lives that can start in X only
   :math:`f = 1` at instants before an iteration begins;
7. an op with several modes, of :math:`d_{km}` ns and :math:`w_{km}` bytes of workspace, has one of them,
   :math:`\sum_m m_{km} = 1`; :math:`d_k = \sum_m d_{km} m_{km}`, and :math:`W_k, V_k` contain
   :math:`\sum_m w_{km} m_{km}`; `data` has the least of both, V > 0 is meant of the greatest.

*This is a bound* on every plan. Take one and read off: a = 1 if nothing of tier 0 is allocated to the life at
that instant, u = 1 if something of x is, and n, h and f as they are defined. At the start of op k, and just
before its end, :math:`W_k` bytes and what is allocated are at most :math:`C_0` (2). Whoever is gone is whole
somewhere: in X alone, or in a tier with capacity (3). What is in X alone at c, or was before, came there
behind its birth, or started there (5); what is in X alone at c or later has to leave it before its next use
(6), all of it each time, and at any instant the channels carry no more than R. In the steady state windows
reach into the next iteration. Nothing is said about single copies: copies that share a channel, and several
trips in an absence, are covered.

Source: this suite; `windows` has the same rows for one window at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from math import gcd
from typing import Any

from ....models.units import SECOND
from ...model import CPSAT_BYTES, ModelSize, Tick
from ..states import StateData
from .absences import Absence, absences, carried, excess, instants

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES

LARGEST = 2**62
"""Coefficients from which CP-SAT takes none."""
EXACT_UNITS = 1000
"""Units of a ns up to which rates are exact in (5) and (6); beyond them `PARTS` units, rounded down."""
PARTS = 16
"""Units of a ns where no exact number of them is small: times of copies are rounded down to them."""

MOST_BITS = 2**26
"""Sums times sizes up to which (2) is rounded up to a sum; beyond, to a multiple of the divisor."""


@dataclass
class WindowModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: StateData
    start: list[Any]
    """Of ops; in a period, also those of the next iteration."""
    length: Sequence[Any]
    """Of ops; all times in units of `tick` ns."""
    finish: Any
    """The end of the single run, or the period."""
    tick: int = 1
    mode: dict[tuple[int, int], Any] = field(default_factory=dict)
    """m, by op with several modes and place of the mode in `StateData.modes`."""
    gone: dict[tuple[int, int], Any] = field(default_factory=dict)
    """a, by absence and instant."""
    inside: dict[tuple[int, int, int], Any] = field(default_factory=dict)
    """u, by absence, instant and tier."""

    @cached_property
    def absences(self) -> list[Absence]:
        """The absences, life by life."""
        return absences(self.data)

    @cached_property
    def instants(self) -> list[int]:
        """All instants."""
        return instants(self.data)

    @cached_property
    def within(self) -> list[list[int]]:
        """By absence, its instants."""
        there, n = {*self.instants}, self.data.n
        return [
            [c for k in g.ops(self.data) for c in (2 * k, 2 * k + 1) if c % (2 * n) in there]
            for g in self.absences
        ]

    def end(self, k: int) -> Any:
        """Return when op k ends (-1: time 0)."""
        return self.start[k] + self.length[k % self.data.n] if k >= 0 else 0

    def time(self, c: int) -> Any:
        """Return when an instant is (-1: time 0)."""
        return 0 if c < 0 else self.end(c // 2) if c % 2 else self.start[c // 2]


def size(data: StateData) -> ModelSize:
    """Return about the counts of the model without building it."""
    accesses, n = [0] * data.n, data.n
    for absence in absences(data):
        for k in absence.ops(data):
            accesses[k % n] += 1
    tight = [accesses[c // 2] for c in instants(data)]
    return ModelSize(
        variables=n + 3 * sum(tight),
        constraints=6 * sum(tight) + 2 * sum(min(n, m) for m in tight),
        terms=15 * sum(tight) + sum(min(n, m) * (m + len(data.lives)) for m in tight),
    )


def build(data: StateData, horizon: int, *, row: Tick = lambda: None) -> WindowModel:
    """Return the model; its objective is the makespan or the period in ns.

    Parameters
    ----------
    data
        See `states`.
    horizon
        No plan of interest takes longer, in ns.
    row
        Called for each row of (5) and (6).
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    mode, length = choices(model, data)
    start, finish = line(model, data, length, horizon)
    built = WindowModel(model, data, start, length, finish, mode=mode)
    model.add(finish <= horizon)
    add_windows(built, row)
    model.minimize(finish)
    return built


def choices(model: Any, data: StateData, tick: int = 1) -> tuple[dict[tuple[int, int], Any], list[Any]]:
    """(7) Return the modes, and the lengths of the ops in them, in ticks."""
    mode: dict[tuple[int, int], Any] = {}
    length: list[Any] = [-(-d // tick) for d in data.duration]
    for k, modes in data.modes.items():
        mode |= {(k, i): model.new_bool_var(f"mode {k} {i}") for i in range(len(modes))}
        model.add_exactly_one(mode[k, i] for i in range(len(modes)))  # (7)
        length[k] = sum(-(-(data.duration[k] + x.ns) // tick) * mode[k, i] for i, x in enumerate(modes))
    return mode, length


def line(model: Any, data: StateData, length: Sequence[Any], horizon: int) -> tuple[list[Any], Any]:
    """(1) Return the starts of ops of given lengths, and when the iteration ends."""
    start = [model.new_int_var(0, horizon, f"start {k}") for k in range(data.n)]
    for k in range(data.n - 1):
        model.add(start[k] + length[k] <= start[k + 1])  # (1)
    if not data.periodic and data.n - 1 not in data.modes:
        return start, start[-1] + length[-1]
    finish = model.new_int_var(1, horizon, "finish")
    model.add(start[-1] + length[-1] <= finish)  # (1)
    if not data.periodic:
        return start, finish
    for k in range(data.n):
        start.append(model.new_int_var(0, 2 * horizon, f"start {data.n + k}"))
        model.add(start[-1] == start[k] + finish)
    return start, finish


def add_windows(built: WindowModel, row: Tick) -> None:
    """(2 to 6) For each set of outer tiers, what is in it alone and has to pass its channels."""
    data, model = built.data, built.model
    for g, some in enumerate(built.within):
        for c in some:
            built.gone[g, c] = model.new_bool_var(f"gone {g} {c}")
    outer = range(1, len(data.capacity))
    free = [x for x in outer if data.capacity[x] is None]
    limited = [x for x in outer if data.capacity[x] is not None]
    _tiers(built, list(outer), built.gone, row)
    if not limited:
        return
    alone: dict[tuple[int, int], Any] = {}
    room: dict[tuple[int, int], list[tuple[int, Any]]] = {}
    for (g, c), gone in built.gone.items():
        for x in limited:
            built.inside[g, c, x] = there = model.new_bool_var(f"in {x} {g} {c}")
            nbytes = data.lives[built.absences[g].life].nbytes
            room.setdefault((x, c % (2 * data.n)), []).append((-nbytes, there))
        somewhere = [built.inside[g, c, x] for x in limited]
        if free:
            alone[g, c] = model.new_bool_var(f"alone {g} {c}")
            somewhere.append(alone[g, c])
        model.add_at_least_one(~gone, *somewhere)  # (3)
    for (x, _), terms in room.items():
        _at_least(model, terms, -(data.capacity[x] or 0))  # (3)
    if free:
        _tiers(built, free, alone, row)


def _tiers(built: WindowModel, tiers: list[int], alone: Mapping[tuple[int, int], Any], row: Tick) -> None:
    """(2, 4, 5, 6) Lives that are in some outer tiers alone."""
    data, model, n = built.data, built.model, built.data.n
    inward = carried(data, lambda way: way.src not in tiers and way.dst in tiers)
    outward = carried(data, lambda way: way.src in tiers and way.dst not in tiers)
    came: dict[int, dict[int, Any]] = {}
    leaves: dict[tuple[int, int], Any] = {}
    before: dict[int, Any] = {}
    for g, absence in enumerate(built.absences):
        for c in built.within[g]:
            came.setdefault(c, {})[absence.life] = h = model.new_bool_var(f"came {g} {c}")
            leaves[g, c] = f = model.new_bool_var(f"leaves {g} {c}")
            model.add_implication(alone[g, c], h)  # (4)
            model.add_implication(alone[g, c], f)  # (4)
            if absence.life in before:
                model.add_implication(before[absence.life], h)  # (4)
            before[absence.life] = h
        for c, later in pairwise(built.within[g]):
            model.add_implication(leaves[g, later], leaves[g, c])  # (4)
    _memory(built, tiers, alone, came, leaves)
    there = [life.born < 0 and (life.ring or any(life.starts[x] for x in tiers)) for life in data.lives]
    turns = (0, 1) if data.periodic else (0,)
    passed: dict[tuple[int, int], Any] = {}
    for c in [c + 2 * n * y for y in turns for c in built.instants]:
        for y in turns:
            some = came.get(c - 2 * n * y, {})
            passed |= {(number, y): h for number, h in some.items() if not there[number]}
        births = {(number, y): data.lives[number].born + n * y for number, y in passed}
        for i in sorted({*births.values()}):
            if i < n and c // 2 <= i + n:
                row()
                parts = [(data.lives[k[0]].nbytes, h) for k, h in passed.items() if births[k] >= i]
                _carry(built, inward, parts, built.time(c) - built.end(i))  # (5)
    ending = [g for g, absence in enumerate(built.absences) if absence.behind < data.end]
    for c in [-1, *built.instants]:
        rest = []
        for g, y in product(ending, (-1, 0, 1) if data.periodic else (0,)):
            behind = built.absences[g].behind + n * y
            part = _leaving(built, leaves, tiers, g, (c if c >= 0 else -0.5) - 2 * n * y)
            if part is not None and c // 2 < behind <= max(c, 0) // 2 + n:
                rest.append((behind, data.lives[built.absences[g].life].nbytes, part))
        for j in sorted({behind for behind, _, _ in rest}):
            row()
            parts = [(z, f) for behind, z, f in rest if behind <= j]
            _carry(built, outward, parts, built.start[j] - built.time(c))  # (6)


def _leaving(
    built: WindowModel, leaves: Mapping[tuple[int, int], Any], tiers: Sequence[int], g: int, c: float
) -> Any:
    """Return f of an absence at the first of its instants from c on, or 1 (6); None if there is none."""
    absence = built.absences[g]
    begins, life = absence.begins(built.data), built.data.lives[absence.life]
    if begins is not None and c < begins and not any(s for x, s in enumerate(life.starts) if x not in tiers):
        return 1
    return next((leaves[g, x] for x in built.within[g] if x >= c), None)


def _memory(
    built: WindowModel,
    tiers: Sequence[int],
    alone: Mapping[tuple[int, int], Any],
    came: Mapping[int, Mapping[int, Any]],
    leaves: Mapping[tuple[int, int], Any],
) -> None:
    """Constraint 2: enough is in some outer tiers alone at each instant."""
    data, model, loads = built.data, built.model, excess(built.data)
    others = [c for x, c in enumerate(data.capacity) if x and x not in tiers and c is not None]
    at: dict[int, list[tuple[int, int]]] = {c: [] for c in built.instants}
    for g, c in alone:
        at[c % (2 * data.n)].append((g, c))
    for c, keys in at.items():
        short = loads[c // 2] - sum(others)
        size = {key: data.lives[built.absences[key[0]].life].nbytes for key in keys}
        modes = [(-x.nbytes, built.mode[c // 2, i]) for i, x in enumerate(data.modes.get(c // 2, ()))]
        if not modes:
            short = attainable(size.values(), short)
        if modes or short > 0:
            _at_least(model, [*((size[key], alone[key]) for key in keys), *modes], short)  # (2)
            lives = [(size[g, c], came[c][built.absences[g].life]) for g, c in keys]
            _at_least(model, [*lives, *modes], short)  # (2)
            _at_least(model, [*((size[key], leaves[key]) for key in keys), *modes], short)  # (2)


def _at_least(model: Any, terms: Sequence[tuple[int, Any]], least: int) -> None:
    """Let bytes add up to a number, in units of their greatest common divisor: `engines.cpsat.NARROW`."""
    unit = gcd(*(nbytes for nbytes, _ in terms)) or 1
    model.add(sum(nbytes // unit * part for nbytes, part in terms) >= -(-least // unit))


def attainable(sizes: Iterable[int], least: int) -> int:
    """Return the smallest sum of some of these sizes from `least` on, or a number between the two.

    The other sizes add up to no more than all of them less `least`: the greatest such sum is the highest bit
    of a number that has one for each sum, in units of the greatest common divisor.

    Examples
    --------
    >>> attainable([50, 30, 20, 20], 60), attainable([50, 30, 20, 20], 91)
    (70, 100)
    """
    sizes = sorted(sizes)
    unit = gcd(*sizes) or 1
    room = (sum(sizes) - least) // unit
    if room < 0 or least <= 0:
        return least
    if room * len(sizes) <= MOST_BITS:
        sums, few = 1, (1 << (room + 1)) - 1
        for nbytes in sizes:
            sums |= (sums << (nbytes // unit)) & few
        room = sums.bit_length() - 1
    return sum(sizes) - room * unit


def _carry(built: WindowModel, rate: int, parts: Sequence[tuple[int, Any]], time: Any) -> None:
    """Let bytes pass in a time."""
    if not rate:
        built.model.add(sum(part for _, part in parts) <= 0)
        return
    unit = rate // gcd(rate, SECOND)  # of a ns: bytes take whole numbers of them
    if unit > EXACT_UNITS:
        unit = PARTS
    terms = [(z * SECOND * unit // rate, part) for z, part in parts]
    common = gcd(unit * built.tick, *(units for units, _ in terms))
    if max([unit * built.tick, *(units for units, _ in terms)]) // common >= LARGEST:
        return  # a bound without the row
    total = sum(units // common * part for units, part in terms)
    built.model.add(total <= unit * built.tick // common * time)
