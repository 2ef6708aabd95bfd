r"""The arena in CP-SAT: positions of the ops, and rectangles of positions and addresses, in one model.

Data: see `data` (ops :math:`i \in I` at positions 0..n-1; pieces p with :math:`s_p`, born :math:`F_p`, ends
:math:`E_p`, starts :math:`B_p`, final; pairs (a, b, i); alignment). All bytes are in units of `unit`, as in
`lowtide.formulations.offsets.data`; A is the alignment in units, 1 if it divides the unit.

Variables.
:math:`\pi_i \in [|anc(i)|, n - 1 - |desc(i)|]`: the position of op i.
:math:`D_p`: when piece p is gone, at least 1 behind its first position unless its starts alone hold it; n if
it is final.
:math:`o_p = A k_p`: its address.
:math:`x_q \in \{0, 1\}`: pair q = (a, b, i) shares its address.
:math:`h_g`: the height of pool g; :math:`H = \sum_g h_g`, between the known bounds.

Piece p occupies its bytes from :math:`\pi_{F_p}` (:math:`-1`, before the first op, if it is initial) to
:math:`D_p - \sum x_q` over its pairs as a. A pair that shares and whose :math:`s_a > s_b` has a rectangle of
its own for the upper :math:`s_a - s_b` bytes of a at :math:`\pi_i`.

Objective. Minimize H subject to

1. all :math:`\pi_i` are different;
2. :math:`\pi_j + 1 \le \pi_i` for each direct predecessor j of i;
3. :math:`D_p \ge \pi_i + 1` for :math:`i \in E_p`, :math:`D_p \ge \pi_i` for :math:`i \in B_p`;
4. if :math:`x_q`, then :math:`o_a = o_b` and :math:`D_a = \pi_i + 1`: a dies with i;
5. :math:`\sum_q x_q \le 1` over the pairs of one a;
6. rectangles of one pool do not overlap;
7. :math:`o_p + s_p \le h_{g_p}`.
8. At each position the bytes of a pool's rectangles there add up to at most its height (implied by 6 and 7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...models.derived.precedence import precedence
from ...models.problems.arena import Addressed
from ..model import CPSAT_BYTES, ModelSize, ticker
from .data import ArenaData, PlacedPiece

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


@dataclass(kw_only=True)
class ArenaModel:
    """The CP-SAT model and what its variables mean."""

    model: Any
    data: ArenaData
    heights: list[Any]
    position: list[Any]
    gone: list[Any]
    address: list[Any]
    multiple: list[Any]
    shares: list[Any]
    boxes: dict[int, list[tuple[Any, Any, int]]] = field(default_factory=dict)
    """By pool: interval of positions, interval of addresses, units."""

    def start(self, p: PlacedPiece) -> Any:
        """Return the first position of a piece."""
        return -1 if p.born is None else self.position[p.born]


def size(data: ArenaData) -> ModelSize:
    """Return about the counts of the model as CP-SAT expands it: positions and pairs of rectangles."""
    n, m, q = data.n, len(data.pieces), len(data.pairs)
    return ModelSize(n * n + 3 * m + q, 3 * n + 4 * m + 3 * q, 2 * n * n + 4 * m * m)


def build(
    data: ArenaData,
    *,
    lower: int = 0,
    upper: int | None = None,
    hint: Addressed | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> ArenaModel:
    """Return the model; its objective is the height in units.

    Parameters
    ----------
    lower, upper
        Bounds that are known, in units; a solution of `upper` exists.
    hint
        A known answer.
    """
    from ortools.sat.python.cp_model import CpModel

    model, unit, step, n = CpModel(), data.unit, data.step, data.n
    model.name = f"height_in_units_of_{unit}_bytes"
    most = data.stacked if upper is None else min(data.stacked, upper)
    order = precedence(data.graph)
    lives = hint and data.lifetimes(hint.order)

    def variable(name: str, low: int, high: int, value: int | None = None) -> Any:
        found = model.new_int_var(low, max(low, high), name)
        if value is not None:
            model.add_hint(found, value)
        return found

    at = {i: k for k, i in enumerate(hint.order)} if hint else {}
    built = ArenaModel(
        model=model,
        data=data,
        heights=[variable("H", lower, most)],
        position=[
            variable(
                f"pi{i}", order.ancestors[i].bit_count(), n - 1 - order.descendants[i].bit_count(), at.get(i)
            )
            for i in range(n)
        ],
        gone=[],
        address=[],
        multiple=[],
        shares=[model.new_bool_var(f"x{q}") for q in range(len(data.pairs))],
    )
    for k, p in enumerate(data.pieces):
        known = None if lives is None else lives[k][1]
        built.gone.append(n if p.final else variable(f"D{k}", 0, n, known))
        place = None if hint is None else hint.addresses[p.number]
        multiple = None if place is None else place // unit // step
        built.multiple.append(variable(f"k{k}", 0, (most - p.size // unit) // step, multiple))
        built.address.append(built.multiple[-1] * step)
    total = built.heights[0]
    if data.pools > 1:
        built.heights = [variable(f"h{g}", 0, most) for g in range(data.pools)]
        model.add(sum(built.heights) == total)
    tick = ticker(expired)
    for add in CONSTRAINTS:
        tick()
        add(built)
    model.minimize(total)
    return built


def different(built: ArenaModel) -> None:
    """Constraint 1."""
    built.model.add_all_different(built.position)


def precedences(built: ArenaModel) -> None:
    """Constraint 2."""
    for i, before in enumerate(precedence(built.data.graph).predecessors):
        for j in before:
            built.model.add(built.position[j] + 1 <= built.position[i])


def stays(built: ArenaModel) -> None:
    """Constraint 3."""
    for p, gone in zip(built.data.pieces, built.gone, strict=True):
        if not p.final:
            for i in p.ends:
                built.model.add(gone >= built.position[i] + 1)
            for i in p.starts:
                built.model.add(gone >= built.position[i])


def sharing(built: ArenaModel) -> None:
    """Constraint 4."""
    for (a, b, i), x in zip(built.data.pairs, built.shares, strict=True):
        built.model.add(built.address[a] == built.address[b]).only_enforce_if(x)
        built.model.add(built.gone[a] == built.position[i] + 1).only_enforce_if(x)


def one_partner(built: ArenaModel) -> None:
    """Constraint 5."""
    by_read: dict[int, list[Any]] = {}
    for (a, _, _), x in zip(built.data.pairs, built.shares, strict=True):
        by_read.setdefault(a, []).append(x)
    for some in by_read.values():
        built.model.add_at_most_one(some)


def apart(built: ArenaModel) -> None:
    """Constraint 6, and make the rectangles."""
    model, data, n = built.model, built.data, built.data.n
    for k, p in enumerate(data.pieces):
        units = p.size // built.data.unit
        start = built.start(p)
        used = [x for (a, _, _), x in zip(data.pairs, built.shares, strict=True) if a == k]
        y = model.new_fixed_size_interval_var(built.address[k], units, "")
        length = model.new_int_var(0, n + 1, f"length{k}")
        end = built.gone[k]
        if used:
            end = model.new_int_var(0, n, f"end{k}")
            model.add(end == built.gone[k] - sum(used))
        x_axis = model.new_interval_var(start, length, end, "")
        built.boxes.setdefault(p.pool, []).append((x_axis, y, units))
    for (a, b, i), x in zip(data.pairs, built.shares, strict=True):
        above, units = data.pieces[b].size // built.data.unit, data.pieces[a].size // built.data.unit
        if above < units:
            time = model.new_optional_fixed_size_interval_var(built.position[i], 1, x, "")
            low = built.address[a] + above
            upper = model.new_optional_fixed_size_interval_var(low, units - above, x, "")
            built.boxes[data.pieces[a].pool].append((time, upper, units - above))
    for boxes in built.boxes.values():
        model.add_no_overlap_2d([box[0] for box in boxes], [box[1] for box in boxes])


def below_height(built: ArenaModel) -> None:
    """Constraint 7."""
    for p, address in zip(built.data.pieces, built.address, strict=True):
        built.model.add(address + p.size // built.data.unit <= built.heights[p.pool])


def loads(built: ArenaModel) -> None:
    """Constraint 8."""
    for pool, boxes in built.boxes.items():
        built.model.add_cumulative([box[0] for box in boxes], [box[2] for box in boxes], built.heights[pool])


CONSTRAINTS = (different, precedences, stays, sharing, one_partner, apart, below_height, loads)
"""The numbered constraints, in order."""


def decode(built: ArenaModel, value: Callable[[Any], int]) -> Addressed:
    """Return the answer of a solution."""
    position = [value(x) for x in built.position]
    order = sorted(range(built.data.n), key=position.__getitem__)
    offsets = {str(k): value(address) * built.data.unit for k, address in enumerate(built.address)}
    return built.data.answer(order, offsets)
