"""Kernel: the best stages behind each ideal, from those behind all larger ones."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engines.kernels import inner, kernel

WRITES, READS, KEEPS = 1, 2, 4
"""What a class does with an item, added up."""

STATIC, FORWARD = 1, 2
"""What an item is: an initial tensor, a value of forward ops; 0: another value."""

NEVER = 2**62
"""More than any load in ns or number of bytes: impossible or unlimited."""


class Items(NamedTuple):
    """Values and initial tensors, and what classes do with them.

    Attributes
    ----------
    first, item, role
        By class, where its rows begin; by row, the item and the role.
    time, nbytes, readers, kind
        By item: ns of a transfer, bytes, how many classes read it, what it is.
    """

    first: NDArray[np.int64]
    item: NDArray[np.int64]
    role: NDArray[np.int64]
    time: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    readers: NDArray[np.int64]
    kind: NDArray[np.int64]


class StageDevices(NamedTuple):
    """Devices and what is asked of a stage.

    Attributes
    ----------
    times
        By class and kind, ns; -1: it cannot run there.
    counts, stride, host
        By kind: devices, what one of them adds to a state, whether it belongs to the host.
    memory, micro
        Bytes of a device, NEVER if unlimited; micro-batches under way at most.
    sync_ns, sync_bytes
        An exchange of gradients takes so many ns for so many bytes.
    gpipe, again, summed
        Whether all micro-batches are under way; whether all forward ops run again; whether loads add up.
    replicate, most
        Devices of a stage at most; the largest load that is of interest.
    """

    times: Annotated[NDArray[np.int64], 2]
    counts: NDArray[np.int64]
    stride: NDArray[np.int64]
    host: NDArray[np.bool_]
    memory: int
    micro: int
    sync_ns: int
    sync_bytes: int
    gpipe: bool
    again: bool
    summed: bool
    replicate: int
    most: int


@inner
def _add(
    c: int,
    sign: int,
    items: Items,
    writes: NDArray[np.int64],
    reads: NDArray[np.int64],
    keeps: NDArray[np.int64],
    again: bool,
    total: NDArray[np.int64],
) -> None:
    """Put class c into the stage, or take it out.

    `total`: ns of transfers; bytes of initial tensors, for each micro-batch, and made again.
    """
    for row in range(items.first[c], items.first[c + 1]):
        x, role = items.item[row], items.role[row]
        for turn in range(2):
            by = 2 * turn - 1
            if (writes[x] and reads[x] < items.readers[x]) or (not writes[x] and reads[x]):
                total[0] += by * items.time[x]
            if items.kind[x] == STATIC:
                if keeps[x]:
                    total[1] += by * items.nbytes[x]
            elif not again:
                if keeps[x]:
                    total[2] += by * items.nbytes[x]
            elif writes[x]:
                if keeps[x]:
                    total[3] += by * items.nbytes[x]
            elif reads[x] and items.kind[x] == FORWARD:
                total[2] += by * items.nbytes[x]
            if not turn:
                if role & WRITES:
                    writes[x] += sign
                if role & READS:
                    reads[x] += sign
                if role & KEEPS:
                    keeps[x] += sign


@kernel
def fill(
    low: int,
    high: int,
    first: NDArray[np.int64],
    added: NDArray[np.int64],
    target: NDArray[np.int64],
    items: Items,
    devices: StageDevices,
    best: Annotated[NDArray[np.int64], 2],
    choice: Annotated[NDArray[np.int64], 2],
) -> int:
    """Fill in the ideals ``low`` to ``high - 1``, the last first; return how many stages were looked at.

    Parameters
    ----------
    first, added, target
        By ideal, where its rows begin; by row a class that can be added, ascending, and the ideal with it.
    best, choice
        By state (devices used, kind by kind) and ideal: the least largest load of the stages behind it; the
        end of the first of them, its kind and replicas as one number.
    """
    kinds, depth = len(devices.counts), len(items.first)
    count = len(items.time)
    writes, reads, keeps = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    total = np.zeros(4, np.int64)
    time, unable = np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)
    at, row, taken = (
        np.zeros(depth + 1, np.int64),
        np.zeros(depth + 1, np.int64),
        np.zeros(depth + 1, np.int64),
    )
    states, radix = best.shape[0], devices.replicate + 1
    looked = 0
    for start in range(high - 1, low - 1, -1):
        level = 0
        at[0], row[0] = start, first[start]
        while level >= 0:
            here = at[level]
            if row[level] == first[here + 1]:
                if level:
                    c = taken[level]
                    _add(c, -1, items, writes, reads, keeps, devices.again, total)
                    for k in range(kinds):
                        if devices.times[c, k] < 0:
                            unable[k] -= 1
                        else:
                            time[k] -= devices.times[c, k]
                level -= 1
                continue
            c, onto = added[row[level]], target[row[level]]
            row[level] += 1
            if level and c < taken[level]:
                continue
            looked += 1
            _add(c, 1, items, writes, reads, keeps, devices.again, total)
            useful = False
            for k in range(kinds):
                if devices.times[c, k] < 0:
                    unable[k] += 1
                else:
                    time[k] += devices.times[c, k]
                if unable[k] == 0 and time[k] <= devices.most * devices.replicate:
                    useful = True
            level += 1
            at[level], taken[level] = onto, c
            row[level] = first[onto] if useful else first[onto + 1]
            if not useful:
                continue
            for k in range(kinds):
                if unable[k]:
                    continue
                work = time[k] if devices.host[k] else time[k] + total[0]
                for r in range(1, min(devices.replicate, devices.counts[k]) + 1):
                    load = work
                    if r > 1:
                        extra = -(-4 * (r - 1) * total[1] * devices.sync_ns // (r * devices.sync_bytes))
                        load = -(-(work + extra) // r)
                    if load > devices.most:
                        continue
                    for s in range(states):
                        behind = best[s, onto]
                        used = s // devices.stride[k] % (devices.counts[k] + 1)
                        if behind == NEVER or used + r > devices.counts[k]:
                            continue
                        if not devices.host[k]:
                            stages = 1
                            for j in range(kinds):
                                stages += s // devices.stride[j] % (devices.counts[j] + 1)
                            under_way = devices.micro
                            if not devices.gpipe:
                                under_way = min(under_way, stages)
                            if total[1] + under_way * total[2] + total[3] > devices.memory:
                                continue
                        value = load + behind if devices.summed else max(load, behind)
                        to = s + r * devices.stride[k]
                        if value < best[to, start]:
                            best[to, start] = value
                            choice[to, start] = (onto * kinds + k) * radix + r
    return looked
