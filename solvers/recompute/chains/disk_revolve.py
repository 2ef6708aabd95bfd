"""Disk-Revolve: c slots in memory and as many checkpoints on a disk as wanted.

*Statement* (Aupy, Herrmann, Hovland and Robert, "Optimal multistage algorithm for adjoint computation", SIAM
J. Sci. Comput. 38, 2016). l forwards of uf each, l + 1 backwards of ub each; a checkpoint is written to the
disk in w and read in r, and nothing else happens meanwhile. With Opt_0(l) = (l + 1) ub + t(l + 1, c) uf
(`revolve`), the least times with x_0 in work, and with x_0 on the disk as well as in work:

(1)  Opt_inf(l) = min of Opt_0(l) and over j of  w + j uf + Opt_inf(l - j) + r + Opt_1(j - 1)
(2)  Opt_1(l) = min of Opt_0(l) and over j of  j uf + Opt_0(l - j) + r + Opt_1(j - 1)

In the paper, and in the package checkpoint_schedules 1.0.4, what is on the disk is read once: Opt_1 = Opt_0
(`read_once`). To read it again is cheaper for few slots and slow disks (n = 50, c = 1, w = r = 5: 279 instead
of 285), and (1) and (2) are then H-Revolve's programs with slots enough.

*Periodic* (after Aupy and Herrmann, "Periodicity in optimal hierarchical checkpointing schemes for adjoint
computations", Optim. Methods Softw. 32, 2017). k checkpoints on the disk, p places apart, and what is behind
them from memory: k (w + p uf + r + Opt_1(p - 1)) + Opt_0(l - k p). The paper states the period that is best
for long chains; here p and k are the best for this chain, by trying all: O(l) values of p, l / p of k.

*Codes*: those of `h_revolve` with K = 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...engines.kernels import kernel
from .revolve import revolve
from .segments import Codes

Times = NDArray[np.int64]


def disk_revolve(
    l: int,  # noqa: E741
    slots: int,
    write: int,
    read: int,
    forward: int = 1,
    backward: int = 1,
    *,
    read_once: bool = False,
) -> tuple[int, Codes]:
    """Return the least time in ns and a schedule that takes it, if wanted of those that read nothing twice.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.disk_revolve import disk_revolve
    >>> disk_revolve(9, 1, 1, 1)[0], disk_revolve(49, 5, 5, 5)[0]
    (31, 172)
    >>> disk_revolve(49, 1, 5, 5)[0], disk_revolve(49, 1, 5, 5, read_once=True)[0]
    (279, 285)
    """
    memory = _memory_times(l, slots, forward, backward)
    once = memory if read_once else _from_disk_times(l, memory, read, forward)
    many = _with_disk_times(l, memory, once, write, read, forward)
    sweep: list[Codes] = []
    pending: list[tuple[int, int]] = []  # (start, forwards) of what is reversed from the disk
    start = 0
    while many[l - start] != memory[l - start]:
        n = l - start
        j = np.arange(1, n + 1)
        costs = write + j * forward + many[n - j] + read + once[j - 1]
        split = int(costs.argmin()) + 1
        sweep += [_transfer(l, start, read=False), np.arange(start, start + split)]
        pending.append((start, split - 1))
        start += split
    parts = [*sweep, _from_memory(l, start, l - start, slots)]
    segments = {n: _from_disk(l, n, slots, memory, once, read, forward) for _, n in pending}
    parts += [_shifted(l, segments[n], start) for start, n in reversed(pending)]
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
    >>> from lowtide.solvers.recompute.chains.disk_revolve import periodic_disk_revolve
    >>> cost, _, period = periodic_disk_revolve(49, 1, 1, 1)
    >>> cost, period
    (171, 2)
    """
    memory = _memory_times(l, slots, forward, backward)
    once = _from_disk_times(l, memory, read, forward)
    cost, period, count = (int(v) for v in _best_period(l, memory, once, write + read, forward))
    parts: list[Codes] = []
    if count:
        sweep = np.concatenate([_transfer(l, 0, read=False), np.arange(period)])
        segment = _from_disk(l, period - 1, slots, memory, once, read, forward)
        parts = [_shifted(l, sweep, k * period) for k in range(count)]
    parts.append(_from_memory(l, count * period, l - count * period, slots))
    parts += [_shifted(l, segment, k * period) for k in reversed(range(count))]
    return cost, np.concatenate(parts), period


def _memory_times(l: int, slots: int, forward: int, backward: int) -> Times:  # noqa: E741
    """Return Opt_0 by forwards: t(n, s) - t(n - 1, s) is the least r with beta(s, r) >= n."""
    times = np.empty(l + 1, np.int64)
    total, r, beta = 0, 0, 1
    for n in range(1, l + 2):
        if beta < n:
            r += 1
            beta = beta * (slots + r) // r
        total += backward + r * forward
        times[n - 1] = total
    return times


def _transfer(l: int, i: int, *, read: bool) -> Codes:  # noqa: E741
    return np.array([2 * l + 1 + 2 * (2 * i + 1) + read], dtype=np.int64)


def _shifted(l: int, codes: Codes, start: int) -> Codes:  # noqa: E741
    """Return the schedule of a part of the chain of l, moved so many places."""
    forwards, backwards = codes < l, (codes >= l) & (codes <= 2 * l)
    return codes + np.where(forwards, start, np.where(backwards, -start, 4 * start))


def _from_memory(l: int, start: int, n: int, slots: int) -> Codes:  # noqa: E741
    """Return Revolve's schedule of n forwards from `start` within the chain of l."""
    ops = revolve(n, slots)
    return np.where(ops < n, ops + start, ops - 2 * n + 2 * l - start)


def _from_disk(
    l: int,  # noqa: E741
    n: int,
    slots: int,
    memory: Times,
    once: Times,
    read: int,
    forward: int,
) -> Codes:
    """Return the schedule of (2) for the first n forwards of the chain of l, x_0 read from the disk first."""
    parts = []
    while True:
        parts.append(_transfer(l, 0, read=True))
        if once[n] == memory[n]:
            return np.concatenate([*parts, _from_memory(l, 0, n, slots)])
        j = np.arange(1, n + 1)
        split = int((j * forward + memory[n - j] + read + once[j - 1]).argmin()) + 1
        parts += [np.arange(split), _from_memory(l, split, n - split, slots)]
        n = split - 1


@kernel
def _from_disk_times(l: int, memory: Codes, read: int, forward: int) -> Codes:  # noqa: E741
    """Return Opt_1 by forwards."""
    once = memory.copy()
    for n in range(1, l + 1):
        for j in range(1, n + 1):
            once[n] = min(once[n], j * forward + memory[n - j] + read + once[j - 1])
    return once


@kernel
def _with_disk_times(
    l: int,  # noqa: E741
    memory: Codes,
    once: Codes,
    write: int,
    read: int,
    forward: int,
) -> Codes:
    """Return Opt_inf by forwards."""
    many = memory.copy()
    for n in range(1, l + 1):
        for j in range(1, n + 1):
            many[n] = min(many[n], write + j * forward + many[n - j] + read + once[j - 1])
    return many


@kernel
def _best_period(
    l: int,  # noqa: E741
    memory: Codes,
    once: Codes,
    transfers: int,
    forward: int,
) -> tuple[int, int, int]:
    """Return the least time, its period and how many checkpoints on the disk it has."""
    best, best_period, best_count = memory[l], 0, 0
    for period in range(1, l + 1):
        each = transfers + period * forward + once[period - 1]
        for count in range(1, l // period + 1):
            cost = count * each + memory[l - count * period]
            if cost < best:
                best, best_period, best_count = cost, period, count
    return best, best_period, best_count
