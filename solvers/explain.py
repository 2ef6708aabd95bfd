"""Why buffers do not fit: an irreducible set of them that cannot be placed within the capacity.

A set is **irreducible** if it has no allocation, and each set with one member less has one. Some causes are
seen at once, and irreducible by themselves: a buffer that does not fit alone, two that overlap at their fixed
offsets, buffers without gaps that are alive together and need more than the capacity, of which none can be
spared. Else a **deletion filter** does it: one by one (at first in groups), buffers are left out; if the rest
still has no allocation they stay out, else they are needed. What is needed in a set is needed in each of its
subsets that has no allocation, so one pass is enough. Every question is answered by an exact method; where it
has no answer in time, the buffer stays, and irreducibility is not claimed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..formulations.offsets.data import OffsetsData, offsets_data
from ..models.buffers import Buffer, Buffers
from ..models.problems.offsets import Offsets
from ..models.result import Status
from ..models.verifier.allocation import verify_allocation
from .context import available_cores
from .solve import solve

FIRST_ROUND = 1.0
"""Seconds for each part in the first round, before it is known which part is to blame."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What `explain` found.

    Attributes
    ----------
    status
        INFEASIBLE: there is no allocation, and the members are why; FEASIBLE: there is one; UNKNOWN: the
        time was up before either was proved.
    members
        Ids of a set without allocation, in the order of the buffers; empty unless infeasible.
    irreducible
        Whether it is proved that each member is needed.
    witnesses
        For each member that is proved to be needed, a verified allocation of the others, by id.
    allocation
        Of all buffers, if there is one.
    pool, capacity
        Of the members; no capacity if there is none or it is not to blame.
    detail
        Why the members do not fit, in words.
    seconds
        Taken.
    """

    status: Status
    members: tuple[str, ...] = ()
    irreducible: bool = False
    witnesses: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    allocation: Mapping[str, int] | None = field(default=None, repr=False)
    pool: str | None = None
    capacity: int | None = None
    detail: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "status": self.status.value,
            "members": list(self.members),
            "irreducible": self.irreducible,
            "witnesses": {member: dict(offsets) for member, offsets in self.witnesses.items()},
            "allocation": None if self.allocation is None else dict(self.allocation),
            "pool": self.pool,
            "capacity": self.capacity,
            "detail": self.detail,
            "seconds": round(self.seconds, 6),
        }


def explain(
    buffers: Buffers,
    *,
    method: str = "cpsat",
    time_limit: float | None = 60.0,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Explanation:
    """Return an irreducible set of buffers without allocation within its pool's capacity.

    Parameters
    ----------
    buffers
        With the capacities of their pools.
    method
        An exact method for `offsets`.
    time_limit
        Seconds, or None for no limit.
    seed, threads
        As for `solve`.
    progress
        Called with one line of text now and then.

    Examples
    --------
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> lives = {"a": (0, 2), "b": (1, 4), "c": (3, 5), "d": (4, 6)}
    >>> row = tuple(Buffer(id=k, lower=x, upper=y, size=4) for k, (x, y) in lives.items())
    >>> found = explain(Buffers(buffers=row, pools={"": 7}))
    >>> found.members, found.irreducible, found.detail
    (('a', 'b'), True, 'at time 1 they need 8 bytes, more than the capacity 7')
    """
    began = time.perf_counter()
    found = next(_at_once(buffers), None)
    if found is None:
        cores = available_cores() if threads is None else threads
        found = _by_search(buffers, _Asker(method, began, time_limit, seed, cores, progress))
    return replace(found, seconds=time.perf_counter() - began)


def subset(buffers: Buffers, ids: Iterable[str]) -> Buffers:
    """Return some of the buffers, with their in-place pairs and the capacities of their pools."""
    chosen = set(ids)
    members = tuple(b for b in buffers.buffers if b.id in chosen)
    return Buffers(
        buffers=members,
        pools={b.pool: buffers.pools[b.pool] for b in members},
        inplace=tuple(pair for pair in buffers.inplace if chosen.issuperset(pair)),
        name=buffers.name,
    )


def _at_once(buffers: Buffers) -> Iterator[Explanation]:
    """Yield causes that are seen without a search, the smallest first."""
    for b in buffers.buffers:
        least, capacity = b.offset or 0, buffers.pools[b.pool]
        if least % b.alignment:
            detail = f"its fixed offset {least} is no multiple of its alignment {b.alignment}"
            yield _proved(buffers, [b], {}, detail)
        elif capacity is not None and least + b.size > capacity:
            yield _proved(buffers, [b], {}, f"it ends at {least + b.size}, above the capacity {capacity}")
    fixed = {b.id: b.offset for b in buffers.buffers if b.offset is not None}
    for violation in verify_allocation(subset(buffers, fixed), fixed).violations:
        if violation.kind == "overlap":
            pair = [b for b in buffers.buffers if b.id in violation.buffers]
            yield _proved(buffers, pair, fixed, "they overlap at their fixed offsets")
    if not buffers.inplace:
        for data in offsets_data(buffers):
            if (found := _crowd(buffers, data)) is not None:
                yield found


def _crowd(buffers: Buffers, data: OffsetsData) -> Explanation | None:
    """Return buffers that are alive together and need too much, without one that could be spared."""
    capacity = data.capacity
    if capacity is None or int(data.load.max()) <= capacity:
        return None
    section = int(data.load.argmax())
    alive = np.flatnonzero((data.rect_first <= section) & (section < data.rect_last))
    length = (data.rect_high - data.rect_low)[alive]
    largest = np.argsort(-length, kind="stable")
    # Without the last one they fit; without another one they need no more.
    count = int(np.searchsorted(np.cumsum(length[largest]), capacity, side="right")) + 1
    owner = np.repeat(np.arange(data.count), np.diff(data.rectangles))[alive[largest[:count]]]
    chosen = [buffers.buffers[i] for i in sorted(data.numbers[owner].tolist())]
    if any(b.gaps or b.offset is not None or b.alignment > data.unit for b in chosen):
        return None  # there may be more to it
    stacks = {}
    for spared in chosen:
        top = 0
        for b in chosen:
            if b is not spared:
                stacks[spared.id, b.id] = top
                top += b.size
    offsets = {s.id: {b.id: stacks[s.id, b.id] for b in chosen if b is not s} for s in chosen}
    moment = max(b.lower for b in chosen)
    total, limit = sum(b.size for b in chosen), buffers.pools[data.pool]
    detail = f"at time {moment} they need {total} bytes, more than the capacity {limit}"
    return _with_witnesses(_of(buffers, chosen, detail), buffers, offsets)


def _proved(buffers: Buffers, members: list[Buffer], fixed: Mapping[str, int], detail: str) -> Explanation:
    """Return an explanation whose members have their fixed offsets as witnesses."""
    rest = {b.id: {c.id: fixed[c.id] for c in members if c is not b} for b in members} if fixed else {}
    return _with_witnesses(_of(buffers, members, detail), buffers, rest or {b.id: {} for b in members})


def _of(buffers: Buffers, members: list[Buffer], detail: str) -> Explanation:
    """Return an explanation without witnesses."""
    return Explanation(
        status=Status.INFEASIBLE,
        members=tuple(b.id for b in members),
        pool=members[0].pool,
        capacity=buffers.pools[members[0].pool],
        detail=detail,
    )


def _with_witnesses(
    found: Explanation, buffers: Buffers, offsets: Mapping[str, Mapping[str, int]]
) -> Explanation:
    """Return the explanation with those witnesses that the judge accepts."""
    accepted = {}
    for member in found.members:
        others = [x for x in found.members if x != member]
        if member in offsets:
            witness = {x: offsets[member][x] for x in others if x in offsets[member]}
            if verify_allocation(subset(buffers, others), witness).valid:
                accepted[member] = witness
    return replace(found, witnesses=accepted, irreducible=len(accepted) == len(found.members))


@dataclass
class _Asker:
    """Answers whether sets have an allocation, within the time."""

    method: str
    began: float
    time_limit: float | None
    seed: int
    threads: int
    progress: Callable[[str], None]
    asked: int = 0
    refuted: float = 0.0
    """Seconds of the longest refutation so far."""

    def left(self) -> float:
        """Return the seconds left."""
        if self.time_limit is None:
            return float("inf")
        return max(0.0, self.began + self.time_limit - time.perf_counter())

    def ask(self, buffers: Buffers, seconds: float) -> tuple[Status, Mapping[str, int] | None, str]:
        """Return FEASIBLE with an allocation, INFEASIBLE with the reason, or UNKNOWN."""
        seconds = min(seconds, self.left())
        if seconds <= 0:
            return Status.UNKNOWN, None, ""
        began = time.perf_counter()
        result = solve(
            Offsets(buffers, satisfy=True),
            self.method,
            time_limit=None if seconds == float("inf") else seconds,
            seed=self.seed,
            threads=self.threads,
        )
        self.asked += 1
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        if result.status is Status.INFEASIBLE:
            self.refuted = max(self.refuted, time.perf_counter() - began)
            return Status.INFEASIBLE, None, result.detail
        if result.allocation is not None and result.objective is not None:
            return Status.FEASIBLE, result.allocation, ""
        return Status.UNKNOWN, None, result.detail


def _by_search(buffers: Buffers, asker: _Asker) -> Explanation:
    """Find a part without allocation, and reduce it."""
    limited = [data for data in offsets_data(buffers) if data.capacity is not None]
    waiting = [tuple(buffers.buffers[i].id for i in data.numbers.tolist()) for data in limited]
    answers: dict[str, int] = {b.id: b.offset or 0 for b in buffers.buffers if not b.size}
    free = [b.id for b in buffers.buffers if buffers.pools[b.pool] is None and b.size]
    seconds = FIRST_ROUND
    while waiting and asker.left() > 0:
        rest = []
        for ids in waiting:
            share = asker.left() if len(waiting) == 1 else seconds
            asker.progress(f"is there an allocation of {len(ids)} buffers?")
            status, allocation, detail = asker.ask(subset(buffers, ids), share)
            if status is Status.INFEASIBLE:
                return _reduced(buffers, ids, asker, detail)
            if allocation is None:
                rest.append(ids)
            else:
                answers.update(allocation)
        waiting, seconds = rest, 2 * seconds
    if waiting:
        return Explanation(
            status=Status.UNKNOWN, detail="the time was up before it was known whether all fit"
        )
    if free:
        result = solve(
            Offsets(subset(buffers, free)), "greedy", threads=asker.threads, time_limit=asker.time_limit
        )
        answers.update(result.allocation or {})
    complete = verify_allocation(buffers, answers).valid
    return Explanation(
        status=Status.FEASIBLE,
        allocation=answers if complete else None,
        detail="there is an allocation within the capacities",
    )


def _reduced(buffers: Buffers, ids: tuple[str, ...], asker: _Asker, detail: str) -> Explanation:
    """Return the explanation of a set without allocation: the deletion filter."""
    kept = _least_crowded_first(buffers, ids)
    needed: dict[str, Mapping[str, int]] = {}
    group = max(1, len(kept) // 2)
    while True:
        position = 0
        while position < len(kept) and asker.left() > 0:
            out = [x for x in kept[position : position + group] if x not in needed]
            rest = [x for x in kept if x not in out]
            status, allocation, why = Status.UNKNOWN, None, ""
            if out and rest:
                patience = 1.0 + 3 * asker.refuted
                if group == 1:
                    patience = max(patience, asker.left() / (len(kept) - position))
                status, allocation, why = asker.ask(subset(buffers, rest), patience)
            if status is Status.INFEASIBLE:
                kept, detail = rest, why
                asker.progress(f"{len(kept)} buffers have no allocation")
                continue
            if allocation is not None and len(out) == 1:
                needed[out[0]] = allocation
            position += group
        if group == 1 or asker.left() <= 0:
            break
        group = max(1, min(group, len(kept)) // 2)
    order = set(kept)
    members = [b for b in buffers.buffers if b.id in order]
    if len(members) == 1:
        needed[members[0].id] = {}
    return _with_witnesses(_of(buffers, members, detail), buffers, needed)


def _least_crowded_first(buffers: Buffers, ids: tuple[str, ...]) -> list[str]:
    """Return the buffers that are likely not needed first: those that see little load, then small ones."""
    part = subset(buffers, ids)
    loads = {}
    for data in offsets_data(part):
        for i, first, last in zip(
            data.numbers.tolist(), data.first.tolist(), data.last.tolist(), strict=True
        ):
            loads[part.buffers[i].id] = int(data.load[first:last].max()) * data.unit
    return [b.id for b in sorted(part.buffers, key=lambda b: (loads[b.id], b.size, b.id))]
