"""What models of `offsets` are stated of, where they are written for other solvers: one independent part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...formulations.offsets.data import OffsetsData, offsets_data
from ...models.errors import UsageError
from ...models.problems.offsets import Offsets
from ..method import Stated, Value


def stated(problem: Offsets, *, part: int | None = None) -> dict[str, Any]:
    """Return the data of a part, the only one if none is named.

    Raises
    ------
    UsageError
        If there is no such part, or none is named and there are several.
    """
    parts = offsets_data(problem.buffers)
    if part is None and len(parts) == 1:
        return {"data": parts[0]}
    if part is not None and 0 <= part < len(parts):
        return {"data": parts[part]}
    if not parts:
        raise UsageError("export: found no buffer with bytes, expected one")
    listed = [f"{k}: {_described(problem, data)}" for k, data in enumerate(parts[:8])]
    if len(parts) > 8:
        listed.append("…")
    found = "no part" if part is None else f"part {part}"
    raise UsageError(
        f"export: found {found}, expected one of {len(parts)} independent parts ({'; '.join(listed)})"
    )


def unordered(problem: Offsets, *, part: int | None = None) -> dict[str, Any]:
    """Return the same for a model to which rows may be added: buffers that are alike may lie in any order."""
    return {"data": replace(stated(problem, part=part)["data"], ordered=False)}


def _described(problem: Offsets, data: OffsetsData) -> str:
    own = [problem.buffers.buffers[i] for i in data.numbers.tolist()]
    times = f"times {min(b.lower for b in own)} to {max(b.upper for b in own)}"
    pool = f", pool {data.pool!r}" if data.pool else ""
    return f"{data.count} buffer{'s' * (data.count > 1)}, {times}{pool}"


def answer(problem: Offsets, stated: Stated, built: Any, value: Value) -> dict[str, int]:
    """Return the addresses of all buffers: of the part those of a solution, of others those of first fit."""
    from ...formulations.offsets.orders_milp import OffsetsMilp
    from ...formulations.offsets.orders_milp import decode as decode_milp
    from ...formulations.offsets.rectangles_cpsat import decode
    from .first_come import place_as_they_come

    ids = [b.id for b in problem.buffers.buffers]
    placed = {b.id: b.offset or 0 for b in problem.buffers.buffers if not b.size}
    own: OffsetsData = stated["data"]
    for data in offsets_data(problem.buffers):
        if data.numbers.tolist() == own.numbers.tolist():
            offsets = (decode_milp if isinstance(built, OffsetsMilp) else decode)(built, value)
        else:
            offsets = place_as_they_come(data).tolist()
        for i, offset in zip(data.numbers.tolist(), offsets, strict=True):
            placed[ids[i]] = offset * data.unit
    return placed
