"""The queues of the simulator: transfers that are asked for; compiled."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.kernels import inner
from .tables import (
    CHUNK_FIRST,
    COPY,
    DEVICE,
    FLIGHT,
    GONE,
    HEAD,
    HOST_IN,
    LEAVING,
    LEAVING_TO,
    OWNER,
    PRESENT,
    QUEUE,
    QUEUE_USE,
    SLOW_IN,
    TAIL,
    VALID,
)


@inner
def enqueue(s: Integers, queue: int, i: int, use: int) -> bool:
    """Append a transfer to a queue; return False if it is full."""
    length = s.shape[1]
    if s[TAIL, queue] - s[HEAD, queue] >= length:
        return False
    at = s[TAIL, queue] % length
    s[QUEUE + queue, at] = i
    s[QUEUE_USE + queue, at] = use
    s[TAIL, queue] += 1
    return True


@inner
def is_asked(d: Integers, s: Integers, i: int, use: int) -> bool:
    """Return whether the return of a tensor is queued or under way."""
    for c in (HOST_IN, SLOW_IN):
        if s[FLIGHT, c] >= 0 and d[OWNER, s[FLIGHT, c]] == i:
            return True
        for queue in (c, c + 4):
            for at in range(s[HEAD, queue], s[TAIL, queue]):
                place = at % s.shape[1]
                if s[QUEUE + queue, place] == i and s[QUEUE_USE + queue, place] == use:
                    return True
    return False


@inner
def ask_back(d: Integers, s: Integers, i: int, use: int, urgent: int) -> bool:
    """Queue the return of what is away or leaving, behind the copies where they are; `urgent`: 0 or 4."""
    wanted_1 = wanted_2 = False
    for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
        if s[DEVICE, c] == PRESENT and s[LEAVING, i] >= 0:
            wanted_1 |= s[LEAVING_TO, i] == 1
            wanted_2 |= s[LEAVING_TO, i] == 2
        elif s[DEVICE, c] == GONE:
            wanted_1 |= s[COPY, c] == VALID
            wanted_2 |= s[COPY, c] != VALID
    queued = False
    if wanted_1:
        queued |= enqueue(s, HOST_IN + urgent, i, use)
    if wanted_2:
        queued |= enqueue(s, SLOW_IN + urgent, i, use)
    return queued
