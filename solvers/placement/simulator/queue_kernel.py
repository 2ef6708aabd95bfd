"""The queues of the simulator: transfers that are asked for; compiled."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.kernels import inner
from ..world.channels import ABSENT, HOST_IN, PRESENT, SLOW_IN, VALID
from .tables import URGENT_QUEUES, D, S


@inner
def enqueue(s: Integers, queue: int, i: int, use: int) -> bool:
    """Append a transfer to a queue; return False if it is full."""
    length = s.shape[1]
    if s[S.tail, queue] - s[S.head, queue] >= length:
        return False
    at = s[S.tail, queue] % length
    s[S.queue + queue, at] = i
    s[S.queue_use + queue, at] = use
    s[S.tail, queue] += 1
    return True


@inner
def is_asked(d: Integers, s: Integers, i: int, use: int) -> bool:
    """Return whether the return of a tensor is queued or under way."""
    for c in (HOST_IN, SLOW_IN):
        if s[S.flight, c] >= 0 and d[D.owner, s[S.flight, c]] == i:
            return True
        for queue in (c, c + URGENT_QUEUES):
            for at in range(s[S.head, queue], s[S.tail, queue]):
                place = at % s.shape[1]
                if s[S.queue + queue, place] == i and s[S.queue_use + queue, place] == use:
                    return True
    return False


@inner
def ask_back(d: Integers, s: Integers, i: int, use: int, urgent: int) -> bool:
    """Queue the return of what is away or leaving, behind the copies where they are; `urgent`: 0 or 4."""
    wanted_1 = wanted_2 = False
    for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
        if s[S.on_device, c] == PRESENT and s[S.leaving, i] >= 0:
            wanted_1 |= s[S.leaving_to, i] == 1
            wanted_2 |= s[S.leaving_to, i] == 2
        elif s[S.on_device, c] == ABSENT:
            wanted_1 |= s[S.on_host, c] == VALID
            wanted_2 |= s[S.on_host, c] != VALID
    queued = False
    if wanted_1:
        queued |= enqueue(s, HOST_IN + urgent, i, use)
    if wanted_2:
        queued |= enqueue(s, SLOW_IN + urgent, i, use)
    return queued
