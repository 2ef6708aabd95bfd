"""`offsets` with banks: what lies in the fast memory, and where, so that the least traffic is outside.

1. The bound of the fullest time (`lowtide.formulations.offsets.banks_cpsat.bound`).
2. Buffers one by one, in several orders, each into the first bank that has a hole for it, at the lowest one.
3. CP-SAT with all banks in one model, from the best of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...formulations.offsets import banks_cpsat
from ...formulations.offsets.banks_cpsat import BanksData, BanksModel, banks_data
from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..engines.logs import check_log, logged
from ..engines.model import solve_model
from ..method import Value


def solve_banks(problem: Offsets, context: Context) -> Outcome:
    """Offer allocations by first fit, then solve the model."""
    if context.log is not None:
        check_log(context.log)
    data = banks_data(problem.buffers, problem.bank_list)
    context.raise_bound(banks_cpsat.bound(data), kind="load")
    for banks, offsets in _first_fits(data):
        context.offer(_addresses(data, banks, offsets))
        if context.closed or context.expired:
            return Outcome(reason=None if context.closed else "time")

    def decode(built: BanksModel, value: Value) -> dict[str, int]:
        chosen = banks_cpsat.decode(built, value)
        banks = [chosen[i][0] for i in range(len(data.buffers))]
        placed = {i: offset for i, (_, offset) in chosen.items() if offset is not None}
        for i in sorted(chosen, key=lambda i: -data.size[i]):
            if i not in placed:
                placed[i] = _hole(data, i, [j for j in placed if banks[j] == banks[i]], placed)
        return _addresses(data, banks, placed)

    return logged(
        context,
        lambda: solve_model(
            context,
            banks_cpsat,
            lambda: banks_cpsat.build(data, hint=context.answer, expired=lambda: context.expired),
            what="the model of banks",
            size=banks_cpsat.size(data),
            decode=decode,
            to_objective=lambda traffic: traffic,
        ),
    )


def _first_fits(data: BanksData) -> Iterator[tuple[list[int], dict[int, int]]]:
    """Yield allocations: the bank of each buffer, and its offset there in units."""
    area = [sum((b - a) * (d - c) for a, b, c, d in pieces) or 1 for pieces in data.rectangles]
    traffic = [b.moved for b in data.buffers]
    keys: tuple[Callable[[int], float], ...] = (
        lambda i: -traffic[i] / area[i],
        lambda i: -traffic[i] / (data.size[i] or 1),
        lambda i: -traffic[i],
        lambda i: -area[i],
    )
    for key in keys:
        order = sorted(range(len(data.buffers)), key=lambda i: (len(data.allowed[i]), key(i)))
        inside: list[list[int]] = [[] for _ in data.banks]
        banks = [0] * len(order)
        offsets: dict[int, int] = {}
        for i in order:
            for k in data.allowed[i]:
                offset, most = _hole(data, i, inside[k], offsets), data.capacity[k]
                if most is None or offset + data.size[i] <= most:
                    banks[i], offsets[i] = k, offset
                    inside[k].append(i)
                    break
        if len(offsets) == len(order):
            yield banks, offsets


def _hole(data: BanksData, i: int, others: Sequence[int], offsets: dict[int, int]) -> int:
    """Return the lowest offset at which a buffer overlaps none of the others."""
    taken = sorted(
        (offsets[j] + low - high_i + 1, offsets[j] + high - low_i)
        for j in others
        for first, last, low, high in data.rectangles[j]
        for first_i, last_i, low_i, high_i in data.rectangles[i]
        if first < last_i and first_i < last
    )
    step, offset = data.alignment[i], 0
    for low, high in taken:  # offsets that are not possible
        if low <= offset < high:
            offset = -(-high // step) * step
    return offset


def _addresses(data: BanksData, banks: Sequence[int], offsets: dict[int, int]) -> dict[str, int]:
    return {b.id: data.banks[banks[i]].begin + data.unit * offsets[i] for i, b in enumerate(data.buffers)}
