"""The machine: memory tiers, processors, and the channels that move bytes between tiers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from .checks import check_flag, check_integer, check_type, set_bytes
from .errors import InstanceError
from .measurement import Measurement
from .texts import nearest
from .units import format_bytes
from .work import Rates
from .written import Written

CONTENTIONS = ("none", "proportional", "fluid", "half-serial")
"""The models of `Contention`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier(Written):
    """A memory of the machine; `capacity` in bytes, None if unlimited."""

    name: str
    capacity: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.capacity, str):
            set_bytes(self, "capacity", 0, f"machine, tier {self.name!r}, capacity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(Written):
    """A tier that a processor's runs may read and write.

    Parameters
    ----------
    tier
        Name of the tier.
    bytes_per_s
        None: operands there cost nothing extra. Otherwise each operand of ``b`` bytes that a run
        reads or writes there lengthens the run, and the run takes exactly
        ``duration_ns + ceil(sum of b * 10**9 / bytes_per_s)`` (the additive model: no overlap of
        compute and slow access; one tensor both read and written counts once).
    """

    tier: str
    bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor(Written):
    """Runs one op at a time; the first tier listed is its *home*: workspace and new writes go there."""

    name: str
    kind: str = "any"
    tiers: tuple[Access, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Written):
    """Moves `bytes_per_s` from tier `src` to tier `dst`, each copy after `latency_ns`; one a pair.

    Copies at the same time share these bytes; if it is not `shared`, each has them for itself.
    """

    src: str
    dst: str
    bytes_per_s: int
    latency_ns: int = 0
    shared: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object; channels are shared unless it says otherwise."""
        data = Written.to_dict(self)
        if self.shared:
            del data["shared"]
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelGroup(Written):
    """Channels, as ``(src, dst)`` pairs, whose rates together stay within `bytes_per_s`."""

    name: str
    channels: tuple[tuple[str, str], ...]
    bytes_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention(Written):
    r"""What happens to ops that run side by side: processors with the same home are streams of one device.

    Of ops i that run together, :math:`w_i` is the time alone, :math:`u_i` the share of the device.

    Parameters
    ----------
    model
        ``none``: each takes its time. ``proportional``: all advance at the rate
        :math:`\min(1, 1/\sum_i u_i)`. The others price *stages*, in which groups of ops run side by side and
        the ops of a group one after another: with :math:`l` the longest sum of times of a group and
        :math:`a = \sum_i u_i w_i`, ``fluid`` stages take :math:`\max(l, a)` and ``half-serial`` ones
        :math:`(\sum_i w_i + \max(l, a)) / 2` (the model of HIOS's published code), rounded up.
    parts
        Of the device, which shares are stated in (`Mode.share`), such as its multiprocessors.
    sync_ns
        What it takes until an op sees that one in another stream has ended; of stages, what each adds that
        has several groups.
    """

    model: str = "none"
    parts: int = 1
    sync_ns: int = 0

    def __post_init__(self) -> None:
        if self.model not in CONTENTIONS:
            expected = ", ".join(CONTENTIONS)
            raise InstanceError(f"contention, model: found {self.model!r}, expected one of {expected}")
        check_integer(self.parts, 1, "contention, parts")
        check_integer(self.sync_ns, 0, "contention, sync_ns")

    @property
    def staged(self) -> bool:
        """Whether it prices stages."""
        return self.model in ("fluid", "half-serial")


@dataclass(frozen=True, kw_only=True)
class Machine(Written):
    """Tiers (innermost first, outermost last), processors, channels and their joint caps.

    With `contention` processors that have the same home are streams of one device. `provenance` says where
    the numbers were measured, and `compute` how fast its devices compute, from which durations follow
    (`lowtide.load`, option ``durations``); neither is part of what machines are compared by.

    Raises
    ------
    InstanceError
        If names repeat or dangle, or a number is out of range.

    Examples
    --------
    >>> from lowtide import Machine
    >>> Machine.single(capacity=1024).tiers[0].capacity
    1024
    """

    name: str = "machine"
    tiers: tuple[Tier, ...]
    processors: tuple[Processor, ...]
    channels: tuple[Channel, ...] = ()
    groups: tuple[ChannelGroup, ...] = ()
    contention: Contention | None = None
    provenance: Measurement | None = field(default=None, compare=False)
    compute: Rates | None = field(default=None, compare=False)
    _repr_html_: ClassVar[Callable[[Any], str]]

    def __post_init__(self) -> None:
        kinds = (("tiers", Tier), ("processors", Processor), ("channels", Channel), ("groups", ChannelGroup))
        check_type(self.name, str, "machine, name")
        for key, kind in kinds:
            expected = f"a tuple of {kind.__name__}"
            check_type(getattr(self, key), Iterable, f"machine, {key}", expected)
            object.__setattr__(self, key, tuple(getattr(self, key)))
            for item in getattr(self, key):
                check_type(item, kind, f"machine, {key}")
        check_type(self.contention, (Contention, type(None)), "machine, contention", "a Contention or None")
        check_type(self.provenance, (Measurement, type(None)), "machine, provenance", "a Measurement or None")
        check_type(self.compute, (Rates, type(None)), "machine, compute", "Rates or None")
        _check(self)

    def __repr__(self) -> str:
        sizes = ("unlimited" if t.capacity is None else format_bytes(t.capacity) for t in self.tiers)
        tiers = ", ".join(f"{t.name} {size}" for t, size in zip(self.tiers, sizes, strict=True))
        items = ((len(self.processors), "processor"), (len(self.channels), "channel"))
        counts = ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in items)
        return f"Machine({self.name!r}: {tiers}; {counts})"

    @classmethod
    def single(cls, capacity: int | None = None, kinds: Iterable[str] = ("any",)) -> Machine:
        """Return one memory with one processor of each kind, all of which use it."""
        access = (Access(tier="memory"),)
        return cls(
            name="single",
            tiers=(Tier(name="memory", capacity=capacity),),
            processors=tuple(Processor(name=f"{k}0", kind=k, tiers=access) for k in kinds),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the plan format's ``machine``; without what is None.

        It is without `compute`, too: plans and questions have the durations themselves.
        """
        found = super().to_dict()
        return {key: value for key, value in found.items() if value is not None and key != "compute"}

    @property
    def device(self) -> str:
        """What results call the device that computes."""
        return (self.compute and self.compute.device) or self.name


def part_of(machine: Machine, processors: Collection[str]) -> Machine:
    """Return the machine of some of its processors, without the tiers that only others use."""
    left = {a.tier for p in machine.processors if p.name in processors for a in p.tiers}
    gone = {a.tier for p in machine.processors for a in p.tiers} - left
    groups = (
        replace(g, channels=tuple(pair for pair in g.channels if not gone & {*pair})) for g in machine.groups
    )
    return replace(
        machine,
        tiers=tuple(t for t in machine.tiers if t.name not in gone),
        processors=tuple(p for p in machine.processors if p.name in processors),
        channels=tuple(c for c in machine.channels if not gone & {c.src, c.dst}),
        groups=tuple(g for g in groups if g.channels),
    )


def check_no_contention(machine: Machine, where: str, *, shared: bool = True) -> None:
    """Raise `InstanceError` if processors are streams of a device, or, with `shared`, a channel is not."""
    stated = f"contention {machine.contention.model!r}" if machine.contention is not None else ""
    for c in machine.channels if shared else ():
        stated = stated or ("" if c.shared else f"channel {c.src!r} to {c.dst!r} that copies do not share")
    if stated:
        raise InstanceError(
            f"{where}, machine {machine.name!r}: found {stated}, expected none (a question of streams)"
        )


def _unique(names: list[Any], what: str) -> None:
    if len(set(names)) != len(names):
        twice = next(x for x in names if names.count(x) > 1)
        raise InstanceError(f"machine, {what}: found {twice!r} twice, expected unique names")


def _check_ends(what: str, src: str, dst: str, tiers: list[str]) -> str:
    where = f"machine, {what} {src!r} to {dst!r}"
    if src not in tiers or dst not in tiers or src == dst:
        raise InstanceError(f"{where}: expected two different tiers of {tiers}")
    return where


def _check(machine: Machine) -> None:
    tiers = [t.name for t in machine.tiers]
    _unique(tiers, "tiers")
    _unique([p.name for p in machine.processors], "processors")
    _unique([(c.src, c.dst) for c in machine.channels], "channels")
    _unique([g.name for g in machine.groups], "groups")
    if not tiers or not machine.processors:
        raise InstanceError("machine: found no tier or no processor, expected at least one of each")
    for tier in machine.tiers:
        check_integer(tier.capacity, 0, f"machine, tier {tier.name!r}, capacity", optional=True)
    for p in machine.processors:
        if not p.tiers:
            raise InstanceError(f"machine, processor {p.name!r}: found no tier, expected one")
        _unique([a.tier for a in p.tiers], f"processor {p.name!r}, tiers")
        for a in p.tiers:
            if a.tier not in tiers:
                raise InstanceError(
                    f"machine, processor {p.name!r}: found tier {a.tier!r}, {nearest(a.tier, tiers)}"
                )
            if a.bytes_per_s is not None:
                check_integer(a.bytes_per_s, 1, f"machine, processor {p.name!r}, bytes_per_s")
    pairs = {(c.src, c.dst) for c in machine.channels}
    for t in machine.provenance.transfers if machine.provenance else ():
        _check_ends("provenance, transfer", t.src, t.dst, tiers)
    for c in machine.channels:
        where = _check_ends("channel", c.src, c.dst, tiers)
        check_integer(c.bytes_per_s, 1, f"{where}, bytes_per_s")
        check_integer(c.latency_ns, 0, f"{where}, latency_ns")
        check_flag(c.shared, f"{where}, shared")
    for g in machine.groups:
        check_integer(g.bytes_per_s, 1, f"machine, group {g.name!r}, bytes_per_s")
        _unique(list(g.channels), f"group {g.name!r}, channels")
        for pair in g.channels:
            if pair not in pairs:
                raise InstanceError(
                    f"machine, group {g.name!r}: found channel {pair!r}, expected one of {sorted(pairs)}"
                )
