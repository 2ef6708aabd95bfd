"""Disk-Revolve: c slots in memory and as many checkpoints on a disk as wanted.

*Statement* (Aupy, Herrmann, Hovland and Robert, "Optimal multistage algorithm for adjoint computation", SIAM
J. Sci. Comput. 38, 2016). l forwards of uf each, l + 1 backwards of ub each; a checkpoint is written to the
disk in w and read in r, and nothing else happens meanwhile. With Opt_0(l) = (l + 1) ub + t(l + 1, c) uf
(`revolve`), the least times with x_0 in work, and with x_0 on the disk as well as in work:

(1)  Opt_inf(l) = min of Opt_0(l) and over j of  w + j uf + Opt_inf(l - j) + r + Opt_1(j - 1)
(2)  Opt_1(l) = min of Opt_0(l) and over j of  j uf + Opt_0(l - j) + r + Opt_1(j - 1)

*Periodic* (after Aupy and Herrmann, "Periodicity in optimal hierarchical checkpointing schemes for adjoint
computations", Optim. Methods Softw. 32, 2017). k checkpoints on the disk, p places apart, and what is behind
them from memory: k (w + p uf + r + Opt_1(p - 1)) + Opt_0(l - k p). The paper states the period that is best
for long chains; here p and k are the best for this chain, by trying all: O(l) values of p, l / p of k.

*Codes*: those of `h_revolve` with K = 2.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .revolve import least_forwards, revolve
from .segments import Codes

Times = NDArray[np.int64]


def disk_revolve(
    l: int,  # noqa: E741
    slots: int,
    write: int,
    read: int,
    forward: int = 1,
    backward: int = 1,
) -> tuple[int, Codes]:
    """Return the least time in ns and a schedule that takes it.

    Examples
    --------
    >>> from lowtide.solvers.algorithms.recompute.chains.disk_revolve import disk_revolve
    >>> disk_revolve(9, 1, 1, 1)[0], disk_revolve(49, 5, 5, 5)[0]
    (31, 172)
    """
    memory = _memory_times(l, slots, forward, backward)
    once, many = _tables(l, memory, write, read, forward)
    parts: list[Codes] = []
    pending: list[tuple[int, int]] = []  # (start, forwards) of what is reversed from the disk
    start = 0
    while many[l - start] != memory[l - start]:
        n = l - start
        split = next(
            j for j in range(1, n + 1) if many[n] == write + j * forward + many[n - j] + read + once[j - 1]
        )
        parts += [_transfer(l, start, read=False), np.arange(start, start + split)]
        pending.append((start, split - 1))
        start += split
    parts.append(_from_memory(l, start, l - start, slots))
    for start, n in reversed(pending):
        parts += _from_disk(l, start, n, slots, memory, once, read, forward)
    return int(many[l]), np.concatenate(parts)


def periodic_disk_revolve(
    l: int,  # noqa: E741
    slots: int,
    write: int,
    read: int,
    forward: int = 1,
    backward: int = 1,
) -> tuple[int, Codes, int]:
    """Return the least time of a periodic schedule in ns, a schedule that takes it, and its period.

    The period is 0 if the disk is not used.

    Examples
    --------
    >>> from lowtide.solvers.algorithms.recompute.chains.disk_revolve import periodic_disk_revolve
    >>> cost, _, period = periodic_disk_revolve(49, 1, 1, 1)
    >>> cost, period
    (171, 2)
    """
    memory = _memory_times(l, slots, forward, backward)
    once, _ = _tables(l, memory, write, read, forward)
    best = (int(memory[l]), 0, 0)
    for period in range(1, l + 1):
        counts = np.arange(1, l // period + 1)
        each = write + period * forward + read + once[period - 1]
        costs = counts * each + memory[l - counts * period]
        k = int(costs.argmin())
        best = min(best, (int(costs[k]), period, k + 1))
    cost, period, count = best
    parts: list[Codes] = []
    for k in range(count):
        start = k * period
        parts += [_transfer(l, start, read=False), np.arange(start, start + period)]
    parts.append(_from_memory(l, count * period, l - count * period, slots))
    for k in reversed(range(count)):
        parts += _from_disk(l, k * period, period - 1, slots, memory, once, read, forward)
    return cost, np.concatenate(parts), period


def _memory_times(l: int, slots: int, forward: int, backward: int) -> Times:  # noqa: E741
    """Return Opt_0 by forwards."""
    return np.array(
        [(n + 1) * backward + least_forwards(n + 1, slots) * forward for n in range(l + 1)], dtype=np.int64
    )


def _transfer(l: int, i: int, *, read: bool) -> Codes:  # noqa: E741
    return np.array([2 * l + 1 + 2 * (2 * i + 1) + read], dtype=np.int64)


def _from_memory(l: int, start: int, n: int, slots: int) -> Codes:  # noqa: E741
    """Return Revolve's schedule of n forwards from `start` within the chain of l."""
    ops = revolve(n, slots)
    return np.where(ops < n, ops + start, ops - 2 * n + 2 * l - start)


def _from_disk(
    l: int,  # noqa: E741
    start: int,
    n: int,
    slots: int,
    memory: Times,
    once: Times,
    read: int,
    forward: int,
) -> list[Codes]:
    """Return the schedule of (2) for n forwards from `start`, whose x is read from the disk first."""
    parts = []
    while True:
        parts.append(_transfer(l, start, read=True))
        if once[n] == memory[n]:
            return [*parts, _from_memory(l, start, n, slots)]
        split = next(
            j for j in range(1, n + 1) if once[n] == j * forward + memory[n - j] + read + once[j - 1]
        )
        parts += [np.arange(start, start + split), _from_memory(l, start + split, n - split, slots)]
        n = split - 1


@njit(cache=True, nogil=True)
def _tables(l, memory, write, read, forward):  # type: ignore[no-untyped-def]  # noqa: E741
    """Return Opt_1 and Opt_inf by forwards."""
    once, many = memory.copy(), memory.copy()
    for n in range(1, l + 1):
        for j in range(1, n + 1):
            once[n] = min(once[n], j * forward + memory[n - j] + read + once[j - 1])
        for j in range(1, n + 1):
            many[n] = min(many[n], write + j * forward + many[n - j] + read + once[j - 1])
    return once, many
