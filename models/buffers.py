"""Buffers: what an allocation places in memory, and the buffers that a plan lowers to."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from .errors import InstanceError
from .graph import Graph
from .plan import Plan
from .residencies import Residency, inplace_pairs, residencies
from .verifier.actions import RunItem, well_formed
from .verifier.case import Case

Rectangle = tuple[int, int, int, int]
"""Half-open times, then half-open bytes counted from the offset."""


class Gap(NamedTuple):
    """A half-open time within a buffer's lifetime when it occupies only bytes ``[low, high)`` of its own."""

    lower: int
    upper: int
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Bytes that need one address for a half-open lifetime.

    Parameters
    ----------
    id
        Unique within its set.
    lower, upper
        Lifetime ``[lower, upper)`` in nanoseconds or steps.
    size
        Bytes, at least 0.
    alignment
        Its offset is a multiple of this.
    offset
        A fixed address, or None.
    hint
        A suggested address, or None; nothing is wrong with another one.
    gaps
        Times within the lifetime when it occupies nothing, or only a window of its bytes, in order.
    pool
        The memory it lies in.

    Raises
    ------
    InstanceError
        If a field is out of range.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    offset: int | None = None
    hint: int | None = None
    gaps: tuple[Gap, ...] = ()
    pool: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gaps", tuple(Gap(*gap) for gap in self.gaps))
        where = f"buffer {self.id!r}"
        if not isinstance(self.id, str) or not isinstance(self.pool, str):
            raise InstanceError(f"{where}: expected texts as id and pool, found pool {self.pool!r}")
        _check_int(self.lower, 0, f"{where}, lower")
        _check_int(self.upper, self.lower + 1, f"{where}, upper")
        _check_int(self.size, 0, f"{where}, size")
        _check_int(self.alignment, 1, f"{where}, alignment")
        for value, name in ((self.offset, "offset"), (self.hint, "hint")):
            if value is not None:
                _check_int(value, 0, f"{where}, {name}")
        reached = self.lower
        for gap in self.gaps:
            _check_int(gap.lower, reached, f"{where}, gaps")
            _check_int(gap.upper, gap.lower + 1, f"{where}, gaps")
            _check_int(gap.low, 0, f"{where}, gaps, window")
            _check_int(gap.high, gap.low, f"{where}, gaps, window")
            if gap.high > self.size:
                raise InstanceError(
                    f"{where}, gaps, window: found end {gap.high}, expected at most the size {self.size}"
                )
            reached = gap.upper
        if reached > self.upper or (self.size and not self.rectangles):
            expected = "intervals within its lifetime, not all of it"
            raise InstanceError(f"{where}, gaps: found {[tuple(g) for g in self.gaps]}, expected {expected}")

    @property
    def rectangles(self) -> tuple[Rectangle, ...]:
        """What it occupies; neighbours in time differ in their bytes or do not touch."""
        found: list[Rectangle] = []
        reached = self.lower
        for lower, upper, low, high in (*self.gaps, Gap(self.upper, self.upper)):
            for a, b, c, d in ((reached, lower, 0, self.size), (lower, upper, low, high)):
                if a == b or c == d:
                    continue
                if found and found[-1][1:] == (a, c, d):
                    found[-1] = (found[-1][0], b, c, d)
                else:
                    found.append((a, b, c, d))
            reached = upper
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the native format; what has its default value is left out."""
        values = {"id": self.id, "lower": self.lower, "upper": self.upper, "size": self.size}
        rest: dict[str, Any] = {
            "alignment": self.alignment if self.alignment != 1 else None,
            "offset": self.offset,
            "hint": self.hint,
            "gaps": [list(g if g.high else g[:2]) for g in self.gaps] or None,
            "pool": self.pool or None,
        }
        return {**values, **{key: value for key, value in rest.items() if value is not None}}


def _check_int(value: object, least: int, where: str) -> None:
    if type(value) is not int or value < least:
        raise InstanceError(f"{where}: found {value!r}, expected an integer >= {least}")


@dataclass(frozen=True, kw_only=True)
class Buffers:
    """A set of buffers to place.

    Parameters
    ----------
    buffers
        The buffers.
    pools
        Capacity in bytes by pool, None if unlimited; pools not named are unlimited.
    inplace
        ``(a, b)``: buffer `b` may lie at the address of `a` though their lifetimes overlap.
    name, source
        For people, and what `load_buffers` was given; not part of the content that `sha256` names.

    Raises
    ------
    InstanceError
        If ids repeat, a pair dangles, or a capacity is out of range.

    Examples
    --------
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> both = Buffers(
    ...     buffers=(Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=8)),
    ...     pools={"": 12},
    ... )
    >>> len(both.buffers)
    2
    """

    buffers: tuple[Buffer, ...]
    pools: Mapping[str, int | None] = field(default_factory=dict)
    inplace: tuple[tuple[str, str], ...] = ()
    name: str = ""
    source: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffers", tuple(self.buffers))
        object.__setattr__(self, "inplace", tuple((a, b) for a, b in self.inplace))
        counts = Counter(b.id for b in self.buffers)
        for name, count in counts.items():
            if count > 1:
                raise InstanceError(f"buffers: found id {name!r} {count} times, expected once")
        pools: dict[str, int | None] = {b.pool: None for b in self.buffers}
        object.__setattr__(self, "pools", {**pools, **self.pools})
        for pool, capacity in self.pools.items():
            if capacity is not None:
                _check_int(capacity, 0, f"buffers, pool {pool!r}, capacity")
        for pair in self.inplace:
            if pair[0] == pair[1] or not all(name in counts for name in pair):
                raise InstanceError(
                    f"buffers, inplace: found {pair}, expected the ids of two different buffers"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the native format."""
        return {
            "format": "lowtide/buffers",
            "version": 1,
            "name": self.name,
            "pools": dict(sorted(self.pools.items())),
            "inplace": [list(pair) for pair in self.inplace],
            "buffers": [b.to_dict() for b in self.buffers],
        }

    @cached_property
    def sha256(self) -> str:
        """The content's name: hash of the canonical JSON, without the name for people."""
        content = {key: value for key, value in self.to_dict().items() if key != "name"}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


def buffers_from_plan(graph: Graph, plan: Plan) -> Buffers:
    """Return the buffers of a plan: one per maximal residency, and one per run's workspace.

    A residency is a maximal range of a tensor's bytes that are allocated together in a tier and released
    together. What the plan never releases lives to its last event. In a periodic plan, a tensor that is
    both initial and final lives on across the period's end: one buffer with a gap where it is away.
    Nothing of 0 bytes is a buffer. Pools are the tiers.

    Ids name the tensor and its index, the bytes if not all, the tier, and the first nanosecond:
    ``3:conv1.weight[0:64]@gpu@1200``; workspaces ``7:conv1/workspace@gpu@1200``.

    Raises
    ------
    InstanceError
        If an action is malformed, or releases bytes that are not allocated.
    """
    if plan.period is not None:
        _check_int(plan.period, 1, "plan, period")
    case = Case(graph, plan.machine, plan.period)
    actions = well_formed(case, plan, {})
    for v in case.violations:
        if v.kind in ("shape", "start"):
            raise InstanceError(v.message)
    found = residencies(case, actions)
    return buffers_of(case, found, actions.runs, inplace_pairs(case, actions, found))


def buffers_of(
    case: Case, found: Sequence[Residency], runs: Iterable[RunItem], pairs: Iterable[tuple[int, int]]
) -> Buffers:
    """Return a buffer for each residency, then for each run's workspace by time.

    Parameters
    ----------
    case
        The graph and the machine.
    found, runs
        What lies in memory.
    pairs
        In-place pairs as positions in `found`.
    """
    names = Counter[str]()
    ids = [_unique(names, _residency_id(case, r)) for r in found]
    buffers = [
        Buffer(
            id=name,
            lower=r.lower,
            upper=r.upper,
            size=r.high - r.low,
            gaps=tuple(Gap(*gap) for gap in r.gaps),
            pool=case.tiers[r.tier],
        )
        for name, r in zip(ids, found, strict=True)
    ]
    for run in sorted(runs, key=attrgetter("start", "op", "position")):
        if run.workspace:
            tier = case.tiers[case.processors[run.processor].home]
            name = f"{run.op}:{case.graph.ops[run.op].name}/workspace@{tier}@{run.start}"
            buffers.append(
                Buffer(
                    id=_unique(names, name),
                    lower=run.start,
                    upper=run.end,
                    size=run.workspace,
                    pool=tier,
                )
            )
    return Buffers(
        buffers=tuple(buffers),
        pools={tier.name: tier.capacity for tier in case.machine.tiers},
        inplace=tuple((ids[a], ids[b]) for a, b in pairs),
        name=case.graph.name,
    )


def _residency_id(case: Case, r: Residency) -> str:
    whole = r.low == 0 and r.high == case.nbytes[r.tensor]
    part = "" if whole else f"[{r.low}:{r.high}]"
    name = case.graph.tensors[r.tensor].name
    return f"{r.tensor}:{name}{part}@{case.tiers[r.tier]}@{r.lower}"


def _unique(names: Counter[str], name: str) -> str:
    names[name] += 1
    return name if names[name] == 1 else _unique(names, f"{name}#{names[name]}")
