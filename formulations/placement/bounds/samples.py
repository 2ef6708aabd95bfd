r"""What bounds on the time of a placement are computed from: ops, tensors, tiers, and sample instants.

Ops :math:`k = 0..n-1` run one after another in a fixed order, cyclically if the problem is periodic; op k
lasts :math:`d_k`. Instant :math:`2k` is the start of op k, :math:`2k + 1` the moment before its end, and
-1, in a single run only, the time 0, before any stall. Without stalls instant s is at the time
:math:`T_s = \sum_{j < \lfloor (s+1)/2 \rfloor} d_j`.

*What a byte does.* Each byte of a tensor is live from the start of the first op that writes it (from time
0, if it is initial) to the end of the last op that accesses it (to the end of the run, if it is final);
always, if the tensor outlives the iterations of a periodic problem. At each instant it is in the fast
memory, or in some outer tiers, or in both: that is its *state*, a non-empty set of tiers that hold its
current version. A byte passes a channel at one instant within its copy, because copies take constant rates;
its destination was allocated before. Hence every plan yields a state of each byte at each instant such that

1. at an instant of op k, bytes that k accesses are in the fast memory;
2. at the moment before the end of an op, bytes that it writes are only there, and so is a new byte when
   its first op starts;
3. a byte enters an outer tier's part of its state by passing the channel from the fast memory while it is
   there, and the fast memory by passing the channel from a tier of its state; it may leave a part at any
   time, but not the last;
4. at each instant the bytes in the fast memory, and the workspace of the op that runs, are at most the
   capacity M; those in outer tier x at most :math:`C_x`;
5. what passes a channel, or several with a joint cap, between two instants is at most its rate times the
   time between them: the durations and the stalls. There is no stall between the start and the end of one
   op.

An op with several modes lasts :math:`d_k`, with its workspace, in the mode that it runs in. It may count with
the least of its durations and the least of its workspaces instead: let it end so much sooner in the plan;
what it writes is there from its start on, copies of that start behind the old end, what it reads may stay.

(4 and 5 hold with "allocated" for "in", which is more.) Tensors that are left out, small ones and the
inputs that reappear with each period, only free memory and channels; they are counted at the instants of the
ops that access them, where they must be present.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Outer:
    """An outer tier: rates in bytes/s (0: no channel), capacity in bytes or None."""

    out_rate: int
    in_rate: int
    capacity: int | None


@dataclass(frozen=True, kw_only=True)
class Cap:
    """What some channels carry together, in bytes/s: out of the fast memory or into it, by outer tiers."""

    outward: bool
    tiers: tuple[int, ...]
    rate: int


@dataclass(frozen=True, kw_only=True)
class SampleData:
    """What is placed.

    Attributes
    ----------
    duration, workspace
        Per op, ns and bytes; of an op with several modes the least of each.
    modes
        Per op, what each of its modes has above these: ns and bytes.
    size, accesses, writes
        Per tensor: bytes; ops that access and that write it, ascending.
    cyclic, initial, final
        Per tensor: whether it outlives a periodic problem's iterations (then it is neither of the others);
        whether it exists at time 0, and at the end of the run.
    start
        Per initial tensor the tiers where it may be at time 0 (0 is the fast memory, x + 1 outer tier x).
    everywhere
        Per tensor, whether it counts wherever it is live (else only at instants of ops that access it).
    memory
        Bytes of the fast memory.
    outer, joint_out, joint_in
        The outer tiers, and caps (bytes/s) over all channels out of and into the fast memory, or None.
    periodic
        Whether the ops repeat.
    """

    duration: tuple[int, ...]
    workspace: tuple[int, ...]
    modes: tuple[tuple[tuple[int, int], ...], ...]
    size: tuple[int, ...]
    accesses: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    cyclic: tuple[bool, ...]
    initial: tuple[bool, ...]
    final: tuple[bool, ...]
    start: tuple[tuple[int, ...], ...]
    everywhere: tuple[bool, ...]
    memory: int
    outer: tuple[Outer, ...]
    joint_out: int | None
    joint_in: int | None
    periodic: bool

    @cached_property
    def clock(self) -> tuple[int, ...]:
        """Return the start of each op without stalls, and the sum of the durations: n + 1 times in ns."""
        times = [0]
        for d in self.duration:
            times.append(times[-1] + d)
        return tuple(times)

    @cached_property
    def caps(self) -> tuple[Cap, ...]:
        """Return what the channels carry, one by one and together."""
        caps = []
        for outward, joint in ((True, self.joint_out), (False, self.joint_in)):
            rates = [o.out_rate if outward else o.in_rate for o in self.outer]
            caps += [Cap(outward=outward, tiers=(x,), rate=rate) for x, rate in enumerate(rates) if rate]
            if joint is not None:
                tiers = tuple(x for x, rate in enumerate(rates) if rate)
                caps.append(Cap(outward=outward, tiers=tiers, rate=joint))
        return tuple(caps)

    @cached_property
    def counted(self) -> tuple[int, ...]:
        """Return the tensors that count wherever they are live."""
        return tuple(t for t, some in enumerate(self.everywhere) if some and self.size[t])

    @cached_property
    def fixed(self) -> tuple[int, ...]:
        """Return per op the bytes that are there beside those tensors: workspace, others that it accesses."""
        load = list(self.workspace)
        for nbytes, some, everywhere in zip(self.size, self.accesses, self.everywhere, strict=True):
            if not everywhere:
                for k in some:
                    load[k] += nbytes
        return tuple(load)

    def time(self, instant: int) -> int:
        """Return the time of an instant without stalls, beyond the period if the instant is."""
        whole, rest = divmod((instant + 1) // 2, len(self.duration))
        return self.clock[rest] + whole * self.clock[-1]

    def live(self, t: int) -> tuple[int, int]:
        """Return the first and the last instant at which tensor t is live."""
        if self.cyclic[t]:
            return 0, 2 * len(self.duration) - 1
        some = self.accesses[t]
        first = -1 if self.initial[t] else 2 * some[0]
        return first, 2 * len(self.duration) - 1 if self.final[t] else 2 * some[-1] + 1

    def epochs(self, samples: Sequence[int]) -> list[tuple[int, bool]]:
        """Return for each sample the ns to the next one, without stalls, and whether an op may wait between.

        Cyclic if the problem is periodic; else the last sample has no next one.
        """
        followers = list(samples[1:])
        if self.periodic:
            followers.append(samples[0] + 2 * len(self.duration))
        return [
            (self.time(b) - self.time(a), not (a % 2 == 0 and b == a + 1))
            for a, b in zip(samples, followers, strict=False)
        ]
