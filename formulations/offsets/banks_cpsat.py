r"""Buffers in banks in CP-SAT: for each buffer a bank and an address in it, in one model.

Data. Buffers :math:`i \in I` with traffic :math:`t_i`, size :math:`s_i`, alignment :math:`A_i`, perhaps a
bank that it must lie in, and rectangles :math:`r \in R_i`: times :math:`[f_r, l_r)`, bytes :math:`[a_r, b_r)`
of the buffer. Banks :math:`k \in K`, the fastest is 0, with capacities :math:`C_k`; the last one may have
none. Sizes, capacities and offsets are in units: see `banks_data`.

Sets. :math:`R(\tau)`: the rectangles at time :math:`\tau`. Only the last time at which a rectangle begins
before one ends is needed: at every other time a subset of the rectangles of one of these is there.

Variables. :math:`x_{ik} \in \{0, 1\}`: i lies in bank k; 0 if :math:`s_i > C_k` or i must lie in another one.
:math:`o_{ik} \in [0, C_k - s_i]`: its offset there, for banks with a capacity (below :math:`C_k` where
:math:`s_i = 0`). :math:`m_{ik}`: the multiple of the alignment, for :math:`A_i > 1`.

Objective. Minimize :math:`\sum_i t_i (1 - x_{i0})` subject to

1. :math:`\sum_k x_{ik} = 1`: every buffer lies in one bank;
2. :math:`o_{ik} = A_i m_{ik}`, if :math:`A_i > 1`;
3. for each bank k with a capacity the rectangles :math:`[f_r, l_r) \times [o_{ik} + a_r, o_{ik} + b_r)` of
   the buffers in it do not overlap;
4. (redundant) :math:`\sum_{r \in R(\tau)} (b_r - a_r) x_{i(r) k} \le C_k` for each bank with a capacity and
   time: by 3 the rectangles there at one time are disjoint within :math:`C_k`.

A bank without a capacity needs no offsets: `lowtide.solvers.offsets.banks` places what lies in it.

Source: ours; the banks are those of ExecuTorch's memory planning (``exir/banked_memory_planning.py``, read).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Any

from ...models.buffers import Bank, Buffer, Buffers, Rectangle, bank_at
from ..model import CPSAT_BYTES, ModelSize, ticker

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


@dataclass(frozen=True, kw_only=True)
class BanksData:
    """Buffers and banks; all sizes, offsets and capacities are in units.

    Attributes
    ----------
    buffers, banks
        As they were given, in bytes.
    unit
        In bytes.
    size, alignment
        By buffer.
    rectangles
        By buffer, ``(first time, last time, low byte, high byte)``, half-open.
    allowed
        By buffer, the numbers of the banks that it may lie in.
    capacity
        By bank; None if unlimited.
    """

    buffers: Sequence[Buffer]
    banks: Sequence[Bank]
    unit: int
    size: Sequence[int]
    alignment: Sequence[int]
    rectangles: Sequence[Sequence[Rectangle]]
    allowed: Sequence[Sequence[int]]
    capacity: Sequence[int | None]

    @cached_property
    def sections(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """By time that is needed: buffer and height of each rectangle there; see Sets."""
        events = sorted(
            (time, begins, i, high - low)
            for i, pieces in enumerate(self.rectangles)
            for first, last, low, high in pieces
            for time, begins in ((first, 1), (last, 0))
        )
        alive: dict[int, int] = {}
        sections, grew = [], False
        for _, begins, i, height in events:
            if begins:
                alive[i], grew = height, True
            else:
                if grew:
                    sections.append(tuple(sorted(alive.items())))
                del alive[i]
                grew = False
        return tuple(sections)


def banks_data(buffers: Buffers, banks: Sequence[Bank]) -> BanksData:
    r"""Return the data.

    The unit g is the greatest common divisor of sizes, edges of windows and alignments above 1. Capacities
    are rounded down to units. Nothing is lost: rounding all offsets of a solution down to multiples of g
    keeps it one, for the edges of rectangles are multiples of g behind an offset, so the floors of two of
    them keep their order, and an aligned offset does not move.
    """
    listed = buffers.buffers
    numbers = {bank.name: k for k, bank in enumerate(banks)}
    edges = [x for b in listed for _, _, low, high in b.rectangles for x in (low, high)]
    unit = gcd(*edges, *(b.size for b in listed), *(b.alignment for b in listed if b.alignment > 1)) or 1
    capacity = [None if bank.size is None else bank.size // unit for bank in banks]
    allowed = []
    for b in listed:
        chosen = (numbers[b.pool],) if b.pool else range(len(banks))
        limits = ((k, capacity[k]) for k in chosen)
        allowed.append(tuple(k for k, most in limits if most is None or b.size <= most * unit))
    return BanksData(
        buffers=listed,
        banks=banks,
        unit=unit,
        size=[b.size // unit for b in listed],
        alignment=[max(1, b.alignment // unit) for b in listed],
        rectangles=[
            [(first, last, low // unit, high // unit) for first, last, low, high in b.rectangles]
            for b in listed
        ],
        allowed=allowed,
        capacity=capacity,
    )


@dataclass(kw_only=True)
class BanksModel:
    """The CP-SAT model; ``inside`` is x and ``offset`` is o, both by buffer and bank."""

    model: Any
    data: BanksData
    inside: dict[tuple[int, int], Any] = field(default_factory=dict)
    offset: dict[tuple[int, int], Any] = field(default_factory=dict)
    multiple: dict[tuple[int, int], Any] = field(default_factory=dict)


def size(data: BanksData) -> ModelSize:
    """Return about the counts of the model."""
    pairs = sum(map(len, data.allowed))
    rows = sum(map(len, data.sections)) * len(data.banks)
    return ModelSize(3 * pairs, 2 * pairs + len(data.sections), 6 * pairs + rows)


def bound(data: BanksData) -> int:
    r"""Return a lower bound on the traffic outside of the first bank.

    Proof. At a time :math:`\tau` of `BanksData.sections` the buffers in the first bank have disjoint bytes
    (3), so their heights there add up to at most :math:`C_0`. The traffic of a set with at most this height
    is at most that of the fractional knapsack, which takes buffers by falling traffic per byte and a part of
    the last one (Dantzig, 1957), rounded down, for traffic is an integer. What is alive at :math:`\tau` and
    not in this set is outside. Buffers that may not lie in the first bank are outside, too, and are no part
    of the knapsack. So each time has a bound, and the greatest of them holds.
    """
    never = {i for i, banks in enumerate(data.allowed) if 0 not in banks}
    outside = sum(data.buffers[i].moved for i in never)
    most = data.capacity[0]
    if most is None:
        return outside
    best = 0
    for section in data.sections:
        free = [(height, data.buffers[i].moved) for i, height in section if i not in never]
        room, rest = most, sum(traffic for _, traffic in free)
        for height, traffic in sorted(free, key=lambda pair: Fraction(-pair[1], pair[0])):
            part = min(height, room)
            rest -= traffic * part // height if part < height else traffic
            room -= part
        best = max(best, rest)
    return outside + best


def build(
    data: BanksData,
    *,
    hint: Mapping[str, int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> BanksModel:
    """Return the model.

    Parameters
    ----------
    hint
        Addresses by id, as answers of `Offsets` with banks have them.
    """
    from ortools.sat.python.cp_model import CpModel

    tick = ticker(expired)
    model = CpModel()
    model.name = "traffic_outside"
    built = BanksModel(model=model, data=data)
    for i, banks in enumerate(data.allowed):
        tick()
        for k in banks:
            built.inside[i, k] = model.new_bool_var(f"x[{i},{k}]")
            most = data.capacity[k]
            if most is None:
                continue
            high = most - max(1, data.size[i])  # else a buffer without bytes lies in the next bank
            built.offset[i, k] = model.new_int_var(0, high, f"o[{i},{k}]")
            if data.alignment[i] > 1:
                built.multiple[i, k] = model.new_int_var(0, high // data.alignment[i], f"m[{i},{k}]")
    for constrain in CONSTRAINTS:
        constrain(built, tick)
    inside = [built.inside.get((i, 0), 0) for i in range(len(data.buffers))]
    model.minimize(sum(b.moved * (1 - x) for b, x in zip(data.buffers, inside, strict=True)))
    if hint is not None:
        _hint(built, hint)
    return built


def one_bank(built: BanksModel, tick: Callable[[], None]) -> None:
    """Constraint 1."""
    tick()
    for i, banks in enumerate(built.data.allowed):
        built.model.add_exactly_one([built.inside[i, k] for k in banks])


def aligned(built: BanksModel, tick: Callable[[], None]) -> None:
    """Constraint 2."""
    tick()
    for (i, k), multiple in built.multiple.items():
        built.model.add(built.offset[i, k] == built.data.alignment[i] * multiple)


def apart(built: BanksModel, tick: Callable[[], None]) -> None:
    """Constraint 3."""
    data, model = built.data, built.model
    for k in range(len(data.banks)):
        times, windows = [], []
        for (i, bank), offset in built.offset.items():
            if bank != k:
                continue
            tick()
            inside = built.inside[i, k]
            for first, last, low, high in data.rectangles[i]:
                times.append(model.new_optional_fixed_size_interval_var(first, last - first, inside, ""))
                windows.append(
                    model.new_optional_fixed_size_interval_var(offset + low, high - low, inside, "")
                )
        model.add_no_overlap_2d(times, windows)


def loads(built: BanksModel, tick: Callable[[], None]) -> None:
    """Constraint 4."""
    for k, most in enumerate(built.data.capacity):
        for section in built.data.sections if most is not None else ():
            tick()
            built.model.add(
                sum(height * built.inside[i, k] for i, height in section if (i, k) in built.inside) <= most
            )


CONSTRAINTS = (one_bank, aligned, apart, loads)
"""The numbered constraints, in order."""


def _hint(built: BanksModel, addresses: Mapping[str, int]) -> None:
    data = built.data
    for (i, k), inside in built.inside.items():
        b = data.buffers[i]
        chosen = bank_at(data.banks, addresses[b.id]) == k
        built.model.add_hint(inside, chosen)
        if (i, k) in built.offset:
            offset = (addresses[b.id] - data.banks[k].begin) // data.unit if chosen else 0
            built.model.add_hint(built.offset[i, k], offset)
            if (i, k) in built.multiple:
                built.model.add_hint(built.multiple[i, k], offset // data.alignment[i])


def decode(built: BanksModel, value: Callable[[Any], int]) -> dict[int, tuple[int, int | None]]:
    """Return the bank of each buffer, and its offset there in units, None in a bank without a capacity."""
    chosen = {i: k for (i, k), inside in built.inside.items() if value(inside)}
    return {i: (k, value(built.offset[i, k]) if (i, k) in built.offset else None) for i, k in chosen.items()}
