"""What the compiled pass works on: the tables of a state space, levels that grow, hash tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .pass_kernel import EMPTY, Ints, Level, Tables, Words
from .state_space import StateSpace

WORD = 64
"""Bits of a word: a set of ops is a row of words."""
KEYS_SEED = 0
"""Of the random keys: any bits do, the same ones give the same pass."""


def tables(space: StateSpace) -> Tables:
    """Return the tables of a state space (computed once, kept with it)."""
    kept: Tables | None = space.__dict__.get("_tables")
    if kept is None:
        kept = space.__dict__["_tables"] = _tables(space)
    return kept


def _tables(space: StateSpace) -> Tables:
    ops = range(space.n)
    needs = [_parts(some) for some in space.before]
    groups = [_parts(some) for some in space.groups]
    others = [_without(groups[g], v) for v in ops for g in space.groups_of[v]]
    return Tables(
        increase=_ints(space.increase),
        extra=_ints(space.extra),
        after_begin=_begins(space.after),
        after=_ints([w for some in space.after for w in some]),
        need_begin=_begins(needs),
        need_word=_ints([word for some in needs for word, _ in some]),
        need_mask=_words([mask for some in needs for _, mask in some]),
        term_begin=_begins(space.groups_of),
        term_bytes=_ints([space.group_bytes[g] for some in space.groups_of for g in some]),
        part_begin=_begins(others),
        part_word=_ints([word for some in others for word, _ in some]),
        part_mask=_words([mask for some in others for _, mask in some]),
        key=np.random.default_rng(KEYS_SEED).integers(0, 2**64, space.n, dtype=np.uint64),
    )


def new_level(words: int, capacity: int) -> Level:
    """Return a level with room for `capacity` sets."""
    return Level(
        done=np.empty((capacity, words), dtype=np.uint64),
        ready=np.empty((capacity, words), dtype=np.uint64),
        memory=np.empty(capacity, dtype=np.int64),
        peak=np.empty(capacity, dtype=np.int64),
        hash=np.empty(capacity, dtype=np.uint64),
        parent=np.empty(capacity, dtype=np.int32),
        op=np.empty(capacity, dtype=np.int32),
        free=np.empty(capacity, dtype=np.int32),
    )


def first_level(space: StateSpace) -> Level:
    """Return the level of the set from which walks start."""
    level = new_level(words_of(space.n), 1)
    level.done[:], level.ready[:] = 0, 0
    for word, mask in _parts([v for v, some in enumerate(space.before) if not some]):
        level.ready[0, word] = mask
    level.memory[:], level.peak[:], level.hash[:] = space.start, 0, 0
    return level


def grown(level: Level, count: int, capacity: int) -> Level:
    """Return a larger level with the same first `count` sets."""
    larger = new_level(level.done.shape[1], capacity)
    copy_sets(level, slice(count), larger)
    return larger


def copy_sets(source: Level, rows: slice | NDArray[np.intp], target: Level) -> None:
    """Copy some sets of a level into the first rows of another one, or of the same."""
    columns: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(source, target, strict=True))
    for old, new in columns:
        chosen = old[rows]
        new[: len(chosen)] = chosen


def new_slots(capacity: int) -> Ints:
    """Return an empty hash table for `capacity` sets: at most half of it will be in use."""
    return np.full(1 << (2 * capacity - 1).bit_length(), EMPTY, dtype=np.int64)


def words_of(n: int) -> int:
    """Return how many words hold n bits, at least 1."""
    return max(1, -(-n // WORD))


def row_bytes(n: int) -> int:
    """Return the bytes of one set of a level."""
    return 16 * words_of(n) + 36


def _parts(ops: Sequence[int]) -> list[tuple[int, int]]:
    """Return ops as pairs (word, mask), by word."""
    masks: dict[int, int] = {}
    for v in ops:
        masks[v // WORD] = masks.get(v // WORD, 0) | 1 << v % WORD
    return sorted(masks.items())


def _without(parts: list[tuple[int, int]], v: int) -> list[tuple[int, int]]:
    """Return the parts of a group without one of its ops."""
    word, bit = v // WORD, 1 << v % WORD
    return [(w, mask ^ bit if w == word else mask) for w, mask in parts if w != word or mask != bit]


def _begins(lists: Sequence[Sequence[object]]) -> Ints:
    return _ints(list(accumulate(map(len, lists), initial=0)))


def _ints(values: Sequence[int]) -> Ints:
    return np.asarray(values, dtype=np.int64)


def _words(values: Sequence[int]) -> Words:
    return np.asarray(values, dtype=np.uint64)
