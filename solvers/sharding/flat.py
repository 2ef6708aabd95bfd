"""The arrays of the kernels of `sharding`, made of a problem's data."""

from __future__ import annotations

import numpy as np

from ...formulations.sharding.data import INFINITE, Numbers, ShardingData
from .message_kernel import FlatNetwork, Floats


def flat_network(data: ShardingData) -> FlatNetwork:
    """Return the arrays; equal matrices are kept once."""
    sizes = [len(row) for row in data.costs]
    place, message = 0, 0
    around: list[list[tuple[int, ...]]] = [[] for _ in sizes]
    places: dict[tuple[tuple[int, ...], bytes], int] = {}
    parts: list[Numbers] = []
    for (u, v), own in data.matrices.items():
        key = (own.shape, own.tobytes())
        if key not in places:
            places[key] = place
            parts += [own.ravel(), own.T.ravel()]
            place += 2 * own.size
        start, turned = places[key], places[key] + own.size
        to_u, to_v = message, message + sizes[u]
        around[u].append((v, start, turned, to_u, to_v))
        around[v].append((u, turned, start, to_v, to_u))
        message += sizes[u] + sizes[v]
    table = np.array([row for rows in around for row in sorted(rows)] or np.zeros((0, 5)), np.int64)
    pieces = [piece for rows in data.pieces for piece in rows]
    spans = np.array([[first, end, len(row)] for first, end, row in pieces] or np.zeros((0, 3)), np.int64)
    other, begins, turns, into, out = np.ascontiguousarray(table.T)
    begin, end, lengths = np.ascontiguousarray(spans.T)
    return FlatNetwork(
        first=np.cumsum([0, *sizes], dtype=np.int64),
        costs=_floats(data.costs),
        near=np.cumsum([0, *map(len, around)], dtype=np.int64),
        other=other,
        place=begins,
        turned=turns,
        into=into,
        out=out,
        pairs=_floats(parts),
        part=np.cumsum([0, *map(len, data.pieces)], dtype=np.int64),
        begin=begin,
        end=end,
        at=np.cumsum(lengths, dtype=np.int64) - lengths,
        weights=np.concatenate([np.zeros(0, np.int64), *(row for _, _, row in pieces)]),
        room=data.room,
    )


def _floats(rows: list[Numbers]) -> Floats:
    whole = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    return np.where(whole >= INFINITE, np.inf, whole.astype(np.float64))
