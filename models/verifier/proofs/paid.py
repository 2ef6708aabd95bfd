"""What a byte pays at least on its way through the samples, at given prices (`prices` has the words)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...machine import Machine
from ...setting import Setting
from .price_claims import PricesProof

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.int64]

ROOM = 2**60
"""No byte may pay more, in units of the denominator: sums fit in 64 bits."""

DEAD, NEEDED, USED, WRITTEN = 0, 1, 2, 3
"""A byte at a sample: nobody needs it, somebody will, the op of the sample reads it, or writes it."""


def way_through(
    samples: list[int], reads: list[int], writes: list[int], *, cyclic: bool, kept: bool
) -> NDArray[np.int8]:
    """Return per sample what a byte is, per epoch whether it is accessed and whether it is made anew."""
    import numpy as np

    c = np.array(samples)
    accesses = np.array(sorted({*reads, *writes}))
    is_read = np.isin(accesses, reads)
    later = np.append(is_read, is_read[0] if cyclic else kept)
    path = np.zeros((3, len(c)), dtype=np.int8)
    path[0] = np.where(later[np.searchsorted(accesses, c // 2, side="right")], NEEDED, DEAD)
    path[0][np.isin(c // 2, reads)] = USED
    path[0][np.isin(c // 2, writes)] = WRITTEN
    path[1][np.searchsorted(c, 2 * accesses, side="left") - 1] = 1
    path[2][np.searchsorted(c, 2 * np.array(writes, dtype=np.int64) + 1, side="right") - 1] = 1
    return path


def least_paid(setting: Setting, proof: PricesProof, ways: NDArray[np.int8], starts: Integers) -> list[int]:
    """Return for each way what a byte pays at least, around the cycle or from time 0 on.

    States: present and held by the tiers of a set h, number h; absent and held by h, number sets + h.
    """
    import numpy as np

    machine = setting.machine
    outer = [tier.name for tier in machine.tiers[1:]]
    count, sets = len(proof.samples), 1 << len(outer)
    out, into = _tolls(machine, proof, outer)
    capacity = dict(proof.capacities)
    rents = np.array([capacity.get(x, (0,) * count) for x in outer], dtype=np.int64).reshape(-1, count)
    members = [[h >> x & 1 for x in range(len(outer))] for h in range(sets)]
    member = np.array(members, dtype=np.int64).reshape(sets, len(outer))
    allowed = np.zeros((4, 2 * sets), dtype=bool)
    allowed[[DEAD, WRITTEN], 0] = True
    allowed[USED, :sets] = True
    allowed[NEEDED, :sets] = allowed[NEEDED, sets + 1 :] = True
    first = np.where(allowed[ways[:, 0, 0]], 0, ROOM)
    if setting.periodic:  # from each state at sample 0 to each state
        paid = np.where(np.eye(2 * sets, dtype=bool), first[:, :, None], ROOM)
    else:
        absent, h = np.divmod(np.arange(2 * sets), sets)
        needs = 2 * h + (1 - absent)  # the tiers where it is
        there = (needs & ~starts[:, None]) == 0
        paid = np.where(there | (ways[:, :1, 0] == DEAD), first, ROOM)[:, None, :]
    for e in range(count):
        rent = np.concatenate([member @ rents[:, e]] * 2)
        rent[:sets] += proof.memory[e]
        paid = paid + np.where((ways[:, 0, e] == DEAD)[:, None], 0, rent)[:, None, :]
        if e == count - 1 and not setting.periodic:
            return [int(x) for x in paid.min(axis=(1, 2))]
        step = _tolls_of_moves(out[:, e], into[:, e], member)[ways[:, 1, e], ways[:, 2, e]]
        paid = np.minimum((paid[:, :, :, None] + step[:, None, :, :]).min(axis=2), ROOM)
        paid = np.where(allowed[ways[:, 0, (e + 1) % count]][:, None, :], paid, ROOM)
    return [int(x) for x in np.einsum("wss->ws", paid).min(axis=1)]


def _tolls(machine: Machine, proof: PricesProof, outer: list[str]) -> tuple[Integers, Integers]:
    """Return per outer tier and epoch what a byte pays for passing out to it, and in from it.

    Where there is no channel it cannot pass.
    """
    import numpy as np

    device, count = machine.tiers[0].name, len(proof.samples)
    price_of = dict(proof.channels)
    pairs = {(c.src, c.dst) for c in machine.channels}
    group_price = dict(proof.groups)

    def toll(pair: tuple[str, str]) -> Integers:
        if pair not in pairs:
            return np.full(count, ROOM, dtype=np.int64)
        tolls = np.array(price_of.get(pair, (0,) * count), dtype=np.int64)
        for group in machine.groups:
            if pair in group.channels and group.name in group_price:
                tolls = tolls + np.array(group_price[group.name], dtype=np.int64)
        return tolls

    out = np.array([toll((device, x)) for x in outer], dtype=np.int64).reshape(len(outer), count)
    into = np.array([toll((x, device)) for x in outer], dtype=np.int64).reshape(len(outer), count)
    return out, into


def _tolls_of_moves(out: Integers, into: Integers, member: Integers) -> Integers:
    """Return what a byte pays in an epoch, shape (accessed, made anew, state before, state after)."""
    import numpy as np

    sets = len(member)
    new = member[None, :, :] * (1 - member[:, None, :])  # held after, not before
    copied = np.minimum(new @ out, ROOM)
    made = np.minimum(member @ out, ROOM)
    returned = np.array(
        [min((int(into[x]) for x in np.flatnonzero(member[h])), default=ROOM) for h in range(sets)]
    )
    steps = np.full((2, 2, 2 * sets, 2 * sets), ROOM, dtype=np.int64)
    for anew in (0, 1):
        outward = np.broadcast_to(made, (sets, sets)) if anew else copied
        both = np.minimum(returned[:, None] + outward, ROOM)
        for accessed in (0, 1):
            step = steps[accessed, anew]
            step[:sets, :sets] = step[:sets, sets:] = outward
            step[sets:, :sets] = step[sets:, sets:] = both
            if not accessed and not anew:
                stays = ~new.any(axis=2)  # held after only where it was before: it may just stay away
                step[sets:, sets:] = np.where(stays, 0, both)
    return steps
