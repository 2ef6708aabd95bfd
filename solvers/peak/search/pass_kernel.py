"""Compiled steps of an exhaustive pass or beam over executed sets: the rules of `beam`, on flat arrays.

A set, and what may be next from it, are rows of 64-bit words (bit v of the row: op v). A *term* of an op v
is one of its groups, its other ops as words and masks: the bytes of the group are taken off the increase of v
once all of them have been walked (forward), or any of them (backward).

The sets of a step are a `Level`. `expand` follows its sets in their order and fills the next level, whose
sets a hash table tells apart: the hash of a set is the exclusive or of random keys of its ops, an entry of
the table the upper half of the hash and the number of the set. A call ends when the level is done, after
a given number of steps (so that limits are obeyed), or where the next level has no room for the children of
one more set; the next call goes on.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engines.kernels import inner, kernel

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
WordRows = Annotated[NDArray[np.uint64], 2]

# Scalars of a pass, in `counters`: the next set of the level, and how many it has; the sets of the next
# level, and its room; steps looked at; the limit, and the least cost above it that was cut off; memory and
# peak from which on a child is not kept; whether `extra` is added to the memory before a step (else to that
# after it); whether a term needs all its ops (else any).
NEXT, SIZE, COUNT, ROOM, LOOKED_AT, LIMIT, LEAST = range(7)
WORST_MEMORY, WORST_PEAK, EXTRA_BEFORE, NEEDS_ALL = range(7, 11)
COUNTERS = 11
"""Entries of `counters`, which the two lines above name."""
DONE, PAUSED, FULL = range(3)  # what a call returns
NONE = 2**62
"""More than any number of bytes: no cost was cut off."""
EMPTY = -1
"""Stands in the hash table of children where there is none."""


class Tables(NamedTuple):
    """A state space as flat arrays; kernels take it as one argument.

    Attributes
    ----------
    increase, extra
        By op, as in `StateSpace`.
    after_begin, after
        The ops that walks visit after v are ``after[after_begin[v]:after_begin[v + 1]]``.
    need_begin, need_word, need_mask
        In the same way, what must have been visited before v: a word of a set, and bits of it.
    term_begin, term_bytes
        In the same way the terms of v.
    part_begin, part_word, part_mask
        In the same way the other ops of a term.
    key
        By op: random bits.
    """

    increase: Ints
    extra: Ints
    after_begin: Ints
    after: Ints
    need_begin: Ints
    need_word: Ints
    need_mask: Words
    term_begin: Ints
    term_bytes: Ints
    part_begin: Ints
    part_word: Ints
    part_mask: Words
    key: Words


class Level(NamedTuple):
    """The sets of one step.

    Attributes
    ----------
    done, ready
        The set, and the ops that may be next; one row of words each.
    memory, peak
        M of the set, and the peak so far.
    hash
        Of the set.
    parent, op
        How it was reached: the number of a set of the level before, and the op.
    free
        The only op that is followed from it, -1 if all are; known when it has been followed.
    """

    done: WordRows
    ready: WordRows
    memory: Ints
    peak: Ints
    hash: Words
    parent: NDArray[np.int32]
    op: NDArray[np.int32]
    free: NDArray[np.int32]


_ONE = np.uint64(1)
_FACTOR = np.uint64(0x03F79D71B4CB0A89)  # a de Bruijn sequence: 6 bits that differ for every single bit
_SHIFT = np.uint64(58)
_SIX, _LOW = np.uint64(6), np.uint64(63)
_PLACES = np.zeros(64, dtype=np.int64)
for _k in range(64):
    _PLACES[((0x03F79D71B4CB0A89 << _k) & (2**64 - 1)) >> 58] = _k


@kernel
def expand(tables: Tables, level: Level, children: Level, slots: Ints, counters: Ints, budget: int) -> int:
    """Follow the sets of a level until it is done, or for about `budget` steps; see the module.

    Parameters
    ----------
    tables
        The state space.
    level
        The sets to follow.
    children
        The next level; the first ``counters[COUNT]`` rows are in use.
    slots
        The hash table of `children`, a power of two of entries above its room, `EMPTY` where unused.
    counters
        The scalars of the pass.
    budget
        Steps to look at.
    """
    limit, before, needs_all = counters[LIMIT], counters[EXTRA_BEFORE], counters[NEEDS_ALL]
    size = counters[SIZE]
    words = level.done.shape[1]
    room, last = counters[ROOM], np.uint64(len(slots) - 1)
    ops = np.empty(len(tables.extra), np.int64)
    costs, memories = np.empty_like(ops), np.empty_like(ops)
    i = counters[NEXT]
    spent = 0
    while i < size:
        if spent > budget:
            counters[NEXT] = i
            return PAUSED
        now, peak = level.memory[i], level.peak[i]
        found, free, least = 0, -1, counters[LEAST]
        looked_at = 0
        for k in range(words):
            word = level.ready[i, k]
            while word:
                low = word & (~word + _ONE)
                word ^= low
                v = 64 * k + _PLACES[(low * _FACTOR) >> _SHIFT]
                looked_at += 1
                after = now + tables.increase[v]
                for t in range(tables.term_begin[v], tables.term_begin[v + 1]):
                    complete = needs_all
                    for p in range(tables.part_begin[t], tables.part_begin[t + 1]):
                        mask = tables.part_mask[p]
                        inside = level.done[i, tables.part_word[p]] & mask
                        if needs_all:
                            if inside != mask:
                                complete = 0
                                break
                        elif inside:
                            complete = 1
                            break
                    if complete:
                        after -= tables.term_bytes[t]
                cost = tables.extra[v] + (now if before else after)
                if cost > limit:
                    least = min(least, cost)
                else:
                    ops[found], costs[found], memories[found] = v, cost, after
                    if after <= now and (free < 0 or after < memories[free]):
                        free = found
                    found += 1
        first, end = 0, found
        level.free[i] = -1
        if free >= 0:
            first, end = free, free + 1
            level.free[i] = ops[free]
        if counters[COUNT] + end - first > room:
            counters[NEXT] = i
            return FULL
        if free < 0:
            counters[LEAST] = least
        counters[LOOKED_AT] += looked_at
        spent += looked_at
        for m in range(first, end):
            v, after = ops[m], memories[m]
            high = max(peak, costs[m])
            if after > counters[WORST_MEMORY] or (
                after == counters[WORST_MEMORY] and high >= counters[WORST_PEAK]
            ):
                continue
            key = level.hash[i] ^ tables.key[v]
            tag = np.int64(key >> np.uint64(33))
            place = key & last
            target, bit = v >> 6, _ONE << np.uint64(v & 63)
            while True:
                entry = slots[place]
                if entry == EMPTY:
                    c = counters[COUNT]
                    counters[COUNT] = c + 1
                    slots[place] = tag << 32 | c
                    children.hash[c] = key
                    children.memory[c] = after
                    children.peak[c] = high
                    children.parent[c] = i
                    children.op[c] = v
                    for k in range(words):
                        children.done[c, k] = level.done[i, k]
                        children.ready[c, k] = level.ready[i, k]
                    children.done[c, target] |= bit
                    children.ready[c, target] ^= bit
                    for a in range(tables.after_begin[v], tables.after_begin[v + 1]):
                        w = tables.after[a]
                        enabled = True
                        for p in range(tables.need_begin[w], tables.need_begin[w + 1]):
                            mask = tables.need_mask[p]
                            if children.done[c, tables.need_word[p]] & mask != mask:
                                enabled = False
                                break
                        if enabled:
                            children.ready[c, w >> 6] |= _ONE << np.uint64(w & 63)
                    break
                if entry >> 32 == tag:
                    c = entry & 0xFFFFFFFF
                    same = children.hash[c] == key
                    if same:
                        for k in range(words):
                            other = level.done[i, k]
                            if k == target:
                                other |= bit
                            if children.done[c, k] != other:
                                same = False
                                break
                    if same:
                        if high < children.peak[c]:
                            children.peak[c] = high
                            children.parent[c] = i
                            children.op[c] = v
                        break
                place = (place + _ONE) & last
        i += 1
    counters[NEXT] = i
    return DONE


@inner
def enter(level: Level, count: int, slots: Any) -> None:
    """Fill an empty hash table with the first `count` sets of a level."""
    last = np.uint64(len(slots) - 1)
    for c in range(count):
        key = level.hash[c]
        place = key & last
        while slots[place] != EMPTY:
            place = (place + _ONE) & last
        slots[place] = np.int64(key >> np.uint64(33)) << 32 | c
