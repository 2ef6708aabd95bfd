"""Buffers: what an allocation places in memory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from .checks import as_bytes, check_integer, check_sums, check_type, set_bytes
from .errors import InstanceError, UsageError
from .units import format_bytes, parse_bytes

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
    traffic
        Bytes that are read and written over its life, where memories differ; None: as many as its size.

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
    traffic: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gaps", tuple(Gap(*gap) for gap in self.gaps))
        where = f"buffer {self.id!r}"
        if not isinstance(self.id, str) or not isinstance(self.pool, str):
            raise InstanceError(f"{where}: expected texts as id and pool, found pool {self.pool!r}")
        check_integer(self.lower, 0, f"{where}, lower")
        check_integer(self.upper, self.lower + 1, f"{where}, upper")
        set_bytes(self, "size", 0, f"{where}, size")
        check_integer(self.alignment, 1, f"{where}, alignment")
        for value, name in ((self.offset, "offset"), (self.hint, "hint"), (self.traffic, "traffic")):
            if value is not None:
                check_integer(value, 0, f"{where}, {name}")
        reached = self.lower
        for gap in self.gaps:
            check_integer(gap.lower, reached, f"{where}, gaps")
            check_integer(gap.upper, gap.lower + 1, f"{where}, gaps")
            check_integer(gap.low, 0, f"{where}, gaps, window")
            check_integer(gap.high, gap.low, f"{where}, gaps, window")
            if gap.high > self.size:
                raise InstanceError(
                    f"{where}, gaps, window: found end {gap.high}, expected at most the size {self.size}"
                )
            reached = gap.upper
        if reached > self.upper or (self.size and not self.rectangles):
            expected = "intervals within its lifetime, not all of it"
            raise InstanceError(f"{where}, gaps: found {[tuple(g) for g in self.gaps]}, expected {expected}")

    @property
    def moved(self) -> int:
        """The bytes of its traffic."""
        return self.size if self.traffic is None else self.traffic

    @property
    def rectangles(self) -> tuple[Rectangle, ...]:
        """What it occupies; neighbours in time differ in their bytes or do not touch."""
        if not self.gaps:
            return ((self.lower, self.upper, 0, self.size),) if self.size else ()
        parts: list[Rectangle] = []
        reached = self.lower
        for lower, upper, low, high in (*self.gaps, Gap(self.upper, self.upper)):
            for a, b, c, d in ((reached, lower, 0, self.size), (lower, upper, low, high)):
                if a == b or c == d:
                    continue
                if parts and parts[-1][1:] == (a, c, d):
                    parts[-1] = (parts[-1][0], b, c, d)
                else:
                    parts.append((a, b, c, d))
            reached = upper
        return tuple(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the native format; what has its default value is left out."""
        data: dict[str, Any] = {"id": self.id, "lower": self.lower, "upper": self.upper, "size": self.size}
        if self.alignment != 1:
            data["alignment"] = self.alignment
        if self.offset is not None:
            data["offset"] = self.offset
        if self.hint is not None:
            data["hint"] = self.hint
        if self.gaps:
            data["gaps"] = [list(g if g.high else g[:2]) for g in self.gaps]
        if self.pool:
            data["pool"] = self.pool
        if self.traffic is not None:
            data["traffic"] = self.traffic
        return data


def _check_sums(buffers: Buffers) -> None:
    """Check that 64-bit arithmetic on addresses is exact.

    No allocation that puts each buffer at the first place for it reaches higher than the sum of all sizes,
    fixed offsets and alignments.
    """
    top = sum(b.size + (b.offset or 0) + b.alignment for b in buffers.buffers)
    check_sums({"buffers, size, offset and alignment": top})
    check_sums({"buffers, traffic": sum(b.moved for b in buffers.buffers)})


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
        If ids repeat, a pair dangles, a capacity is out of range, or sizes, fixed offsets and alignments add
        up to 2**62 or more.

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
    _repr_html_: ClassVar[Callable[[Any], str]]

    def __post_init__(self) -> None:
        check_type(self.name, str, "buffers, name")
        check_type(self.buffers, Iterable, "buffers, buffers", "a tuple of Buffer")
        object.__setattr__(self, "buffers", tuple(self.buffers))
        for b in self.buffers:
            check_type(b, Buffer, "buffers, buffers")
        check_type(self.pools, Mapping, "buffers, pools", "a mapping of pools to bytes or None")
        object.__setattr__(self, "inplace", tuple((a, b) for a, b in self.inplace))
        counts = Counter(b.id for b in self.buffers)
        for name, count in counts.items():
            if count > 1:
                raise InstanceError(f"buffers: found id {name!r} {count} times, expected once")
        pools: dict[str, int | None] = {b.pool: None for b in self.buffers}
        for pool, capacity in self.pools.items():
            pools[pool] = as_bytes(capacity, 0, f"buffers, pool {pool!r}, capacity", optional=True)
        object.__setattr__(self, "pools", pools)
        for pair in self.inplace:
            if pair[0] == pair[1] or not all(name in counts for name in pair):
                raise InstanceError(
                    f"buffers, inplace: found {pair}, expected the ids of two different buffers"
                )
        _check_sums(self)

    def __repr__(self) -> str:
        pools = "" if len(self.pools) < 2 else f" in {len(self.pools)} pools"
        size = format_bytes(sum(b.size for b in self.buffers))
        return f"Buffers({self.name!r}, {len(self.buffers)} buffers{pools}, {size})"

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


class Bank(NamedTuple):
    """A memory, as a range of the addresses of all banks, which lie one behind the other.

    Attributes
    ----------
    name
        Unique among the banks.
    begin
        Its first address in bytes.
    size
        In bytes; None if unlimited, which only the last one may be.
    """

    name: str
    begin: int
    size: int | None


def read_banks(text: str) -> tuple[Bank, ...]:
    """Return the banks of a text such as ``sram=64KiB/dram``.

    Raises
    ------
    UsageError
        If it is none: fewer than two banks, a name twice, no bytes, or a bank without bytes before the last.

    Examples
    --------
    >>> from lowtide.models.buffers import read_banks
    >>> read_banks("sram=64KiB/dram")
    (Bank(name='sram', begin=0, size=65536), Bank(name='dram', begin=65536, size=None))
    """
    banks: list[Bank] = []
    begin: int | None = 0
    for part in text.split("/"):
        name, equals, amount = part.partition("=")
        try:
            size = parse_bytes(amount) if equals else None
        except UsageError:
            size = 0
        if begin is None or not name or size == 0 or name in (bank.name for bank in banks):
            break
        banks.append(Bank(name, begin, size))
        begin = None if size is None else begin + size
    else:
        if len(banks) > 1:
            return tuple(banks)
    expected = "names with bytes such as sram=64KiB/dram; only the last may lack them"
    raise UsageError(f"banks: found {text!r}, expected {expected}")


def bank_at(banks: Sequence[Bank], address: int) -> int:
    """Return the number of the bank that an address is in; the last one from its first address on."""
    return max(k for k, bank in enumerate(banks) if k == 0 or bank.begin <= address)
