"""CUDA memory snapshots of PyTorch, as ``torch.cuda.memory._dump_snapshot`` writes them.

A file holds the segments that the caching allocator has at its end, with their blocks, and for each device a
trace: one entry for each action. The entries ``alloc`` and ``free_completed`` are the clock here: the k-th of
them, from 1, happens at time k. A block lives from its ``alloc`` to its ``free_completed``. What was there
before the trace lives from 0, what is there after it to the last entry + 1. ``free_requested`` ends nothing:
another stream may still use the block. Entries state the bytes that were asked for; the allocator rounds them
up (`rounded`).

Each device, stream and private pool is a memory of its own, since the allocator never gives a block of one to
another: ``gpu0/stream0``, ``gpu0/stream7/pool1.0``. Entries of files before 2026 have no ``pool_id``: theirs
is that of the segment in which they lie at the end, else the default pool.

Sources: torch 2.13 ``torch/cuda/memory.py`` (`_snapshot`) [read]; pytorch/pytorch
``torch/csrc/cuda/memory_snapshot.cpp``, ``c10/cuda/CUDACachingAllocator.cpp`` (rounding, order of entries)
[read].
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...models.buffers import Buffer, Buffers
from ...models.errors import InstanceError
from ..options import Parameter
from .plain_pickle import parse_pickle
from .repetition import repetition_of
from .strict_json import read_bytes, show

PARAMETERS = {
    "device": Parameter(-1, "number of the device, -1: any", least=-1),
    "stream": Parameter(-1, "stream as the file calls it, -1: any", least=-1),
    "pool": Parameter("any", "private pool, 0.0 for the default one, or any", pattern=r"any|\d+\.\d+"),
    "sizes": Parameter(
        "rounded", "bytes as the allocator rounds them, or as asked for", choices=("rounded", "requested")
    ),
    "iteration": Parameter(0, "one of the equal iterations of the trace, from 1; 0: all of it", least=0),
}

SMALLEST = 512
"""Bytes of a block at least, and what sizes are rounded up to: ``kMinBlockSize`` of the allocator."""

_MOST_BYTES = 2**50
"""Bytes of a block or a segment that no device reaches; sums of them stay within 62 bits."""

_MOST_ADDRESS = 2**64
"""End of the addresses and identifiers, which have 64 bits."""

_ACTIONS = {
    *(
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
    ),
    *("oom", "snapshot", "annotate", "user_defined"),
}
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class SnapshotBlock(NamedTuple):
    """A block: address, memory, lifetime in alloc and free entries, bytes, and the code that asked for it."""

    address: int
    pool: str
    lower: int
    upper: int
    requested: int
    rounded: int
    frame: str


class DeviceTrace(NamedTuple):
    """What happened on one device.

    Attributes
    ----------
    events
        For each alloc and free entry: whether it is an alloc, the bytes asked for, the memory.
    reserved
        Largest sum of the bytes of segments: under an empty name of the device, else of each memory.
    before
        Number of allocations that were made before the trace.
    """

    device: int
    allocations: tuple[SnapshotBlock, ...]
    events: tuple[tuple[bool, int, str], ...]
    reserved: Mapping[str, int]
    before: int

    def iterations(self) -> tuple[range, ...]:
        """Return the times of the longest part of the trace that is equal iterations, of each one.

        They begin where they hold the fewest bytes, which is where programs begin an iteration.
        """
        repeated = repetition_of(self.events)
        if repeated is None:
            return ()
        start, period, length = repeated
        live, least = 0, []
        for step, (is_alloc, size, _) in enumerate(self.events[start : start + period]):
            least.append((live, step))
            live += size if is_alloc else -size
        first = start + min(least)[1]
        return tuple(range(at, at + period) for at in range(first, start + length - period + 1, period))


def read_snapshot(
    path: str | os.PathLike[str],
    *,
    device: int = -1,
    stream: int = -1,
    pool: str = "any",
    sizes: str = "rounded",
    iteration: int = 0,
) -> Buffers:
    """Return the blocks of a snapshot as buffers, in a pool for each device, stream and private pool.

    Parameters
    ----------
    device, stream, pool
        Only blocks of these; -1 and ``any``: of all.
    sizes
        ``rounded`` as the allocator does, or ``requested``.
    iteration
        Only what is alive in one iteration, cut to its time; 0: the whole trace. It needs a single device.

    Raises
    ------
    InstanceError
        If the file is no such snapshot, or has no such blocks or iteration.
    """
    where = os.fspath(path)
    traces = [x for x in read_traces(path) if device in (-1, x.device)]
    if iteration and len(traces) != 1:
        fault = f"found {len(traces)} devices, expected device=NUMBER of the one whose iteration it is"
        raise InstanceError(f"{where}: {fault}")
    private = {"any": r"(/pool\d+\.\d+)?", "0.0": ""}.get(pool, f"/pool{re.escape(pool)}")
    pattern = re.compile(rf"gpu\d+/stream{stream if stream >= 0 else '-?[0-9]+'}{private}")
    buffers = []
    for trace in traces:
        times = range(len(trace.events) + 1)
        if iteration:
            equal = trace.iterations()
            if iteration > len(equal):
                fault = (
                    f"found {iteration}, expected at most {len(equal)}, the number of equal ones in the trace"
                )
                raise InstanceError(f"{where}, option iteration: {fault}")
            times = equal[iteration - 1]
        for a in trace.allocations:
            if pattern.fullmatch(a.pool) and a.lower < times.stop and a.upper > times.start:
                buffers.append(_buffer(a, trace.device, times, getattr(a, sizes)))
    if not buffers:
        known = (
            ", ".join(sorted({a.pool for trace in traces for a in trace.allocations})) or "no blocks at all"
        )
        raise InstanceError(f"{where}: found no such blocks, expected some; the file has {known}")
    name = re.sub(r"\.(pickle|pkl)(\.gz)?$", "", os.path.basename(where), flags=re.IGNORECASE)
    return Buffers(buffers=tuple(buffers), name=name)


def _buffer(a: SnapshotBlock, device: int, times: range, size: int) -> Buffer:
    lower, upper = max(a.lower, times.start), min(a.upper, times.stop)
    return Buffer(
        id=f"gpu{device}:{a.lower}@{a.address:#x}",
        lower=lower - times.start,
        upper=upper - times.start,
        size=size,
        pool=a.pool,
    )


def read_traces(path: str | os.PathLike[str]) -> list[DeviceTrace]:
    """Return what happened on each device that has segments or entries.

    Raises
    ------
    InstanceError
        If the file is no snapshot, or contradicts itself.
    """
    where, content = os.fspath(path), read_bytes(path)
    data = parse_pickle(content, where)
    if type(data) is not dict or not {"segments", "device_traces"} <= {*data}:
        fault = "found no keys 'segments' and 'device_traces', expected what _dump_snapshot of torch writes"
        raise InstanceError(f"{where}: {fault}")
    segments = _rows(data["segments"], f"{where}, segments")
    traces = [_rows(x, f"{where}, device {k}") for k, x in enumerate(_list(data["device_traces"], where))]
    places = [f"{where}, segment {k}" for k in range(len(segments))]
    blocks = [_rows(s.get("blocks"), f"{place}, blocks") for s, place in zip(segments, places, strict=True)]
    # What a small file refers to from many places must not be looked at more often than the file is long.
    if sum(map(len, (*traces, *blocks))) > len(content):
        raise InstanceError(f"{where}: found more entries than bytes, expected each entry once")
    settings, frames = data.get("allocator_settings"), _Frames(where)
    divisions = settings.get("roundup_power2_divisions") if type(settings) is dict else None
    divided = divisions if type(divisions) is dict else {}
    owners = [_number(s, "device", 1000, place, 0) for s, place in zip(segments, places, strict=True)]
    count = max(len(traces), 1 + max(owners, default=-1))
    readers = [_Device(k, where, divided, frames) for k in range(count)]
    for owner, segment, parts, place in zip(owners, segments, blocks, places, strict=True):
        readers[owner].add_segment(segment, parts, place)
    found = [reader.trace(traces[k] if k < len(traces) else []) for k, reader in enumerate(readers)]
    return [trace for trace in found if trace.allocations or trace.reserved.get("")]


class _Frames:
    """The line of code of each list of frames; entries share the lists."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.known: dict[int, str] = {}

    def of(self, row: Mapping[str, Any]) -> str:
        """Return the innermost frame of Python outside of torch, else the innermost; empty without one."""
        frames = row.get("frames")
        if type(frames) is not list or not frames:
            return ""
        if id(frames) not in self.known:
            self.known[id(frames)] = self._text(frames)
        return self.known[id(frames)]

    def _text(self, frames: list[Any]) -> str:
        first = ""
        for frame in frames:
            if type(frame) is not dict:
                raise InstanceError(f"{self.where}, frames: found {brief(frame)}, expected an object")
            file, line, name = (frame.get(key) for key in ("filename", "line", "name"))
            text = f"{_word(file)}:{_word(line)} {_word(name)}"
            if type(file) is str and file.endswith(".py") and not re.search(r"/torch/|<", file):
                return text
            first = first or text
        return first


class _Device:
    """What is read of one device: its segments, then its trace."""

    def __init__(self, device: int, where: str, divisions: Mapping[str, Any], frames: _Frames) -> None:
        self.device, self.where, self.divisions, self.frames = device, where, divisions, frames
        self.ranges: list[tuple[int, int, tuple[int, int]]] = []
        self.reserved: Counter[str] = Counter()
        self.live: dict[int, tuple[str, int, str]] = {}

    def memory(self, stream: int, pool: tuple[int, int]) -> str:
        """Return the name of the memory of a stream and a private pool; (0, 0) is the default pool."""
        private = "" if pool == (0, 0) else f"/pool{pool[0]}.{pool[1]}"
        return f"gpu{self.device}/stream{stream}{private}"

    def add_segment(self, segment: Mapping[str, Any], blocks: list[Any], where: str) -> None:
        """Note a segment of the file's end, and its active blocks."""
        address, total = (
            _number(segment, "address", _MOST_ADDRESS, where),
            _number(segment, "total_size", _MOST_BYTES, where),
        )
        pool = _pair(segment.get("segment_pool_id", (0, 0)), where)
        memory = self.memory(_stream(segment, where), pool)
        self.ranges.append((address, address + total, pool))
        self.reserved[memory] += total
        for k, block in enumerate(blocks):
            place = f"{where}, block {k}"
            size = _number(block, "size", _MOST_BYTES, place)
            start = _number(block, "address", _MOST_ADDRESS, place, address)
            address = start + size
            if _field(block, "state", str, place).startswith("active"):
                asked = _number(block, "requested_size", _MOST_BYTES, place, size)
                self.live[start] = (memory, asked, self.frames.of(block))

    def trace(self, entries: Sequence[Any]) -> DeviceTrace:
        """Return the device's trace; all segments were added."""
        self.ranges.sort()
        firsts = [first for first, _, _ in self.ranges]
        open_at: dict[int, tuple[int, int, str, str]] = {}
        done: list[SnapshotBlock] = []
        events: list[tuple[bool, int, str]] = []
        changes: list[tuple[str, int]] = []
        for k, entry in enumerate(entries):
            place = f"{self.where}, device {self.device}, entry {k}"
            action = _field(entry, "action", str, place)
            if action not in _ACTIONS:
                raise InstanceError(
                    f"{place}, action: found {show(action)}, expected one of {', '.join(sorted(_ACTIONS))}"
                )
            if action not in _RESERVES and action not in ("alloc", "free_completed"):
                continue
            address, size = (
                _number(entry, "addr", _MOST_ADDRESS, place),
                _number(entry, "size", _MOST_BYTES, place),
            )
            pool = _pair(entry["pool_id"], place) if "pool_id" in entry else self._pool_of(address, firsts)
            memory = self.memory(_stream(entry, place), pool)
            if action in _RESERVES:
                changes.append((memory, size * _RESERVES[action]))
                continue
            events.append((action == "alloc", size, memory))
            if action == "alloc":
                if address in open_at:
                    raise InstanceError(
                        f"{place}: found alloc at {address:#x} again, expected free_completed before it"
                    )
                open_at[address] = (len(events), size, memory, self.frames.of(entry))
                continue
            lower, asked, owner, frame = open_at.pop(address, (0, size, memory, ""))
            if asked != size:
                raise InstanceError(
                    f"{place}: found free_completed of {size} bytes, expected {asked} as in its alloc"
                )
            done.append(self._allocation(address, owner, (lower, len(events)), size, frame))
        end = len(events) + 1
        for address, (lower, size, memory, frame) in open_at.items():
            done.append(self._allocation(address, memory, (lower, end), size, frame))
        for address, (memory, size, frame) in self.live.items():
            if address not in open_at:
                done.append(self._allocation(address, memory, (0, end), size, frame))
        done.sort(key=lambda a: (a.lower, a.address))
        return DeviceTrace(
            device=self.device,
            allocations=tuple(done),
            events=tuple(events),
            reserved=self._reserved(changes),
            before=sum(a.lower == 0 for a in done),
        )

    def _pool_of(self, address: int, firsts: list[int]) -> tuple[int, int]:
        """Return the pool of the segment that holds an address at the end of the file."""
        at = bisect_right(firsts, address) - 1
        if at >= 0 and address < self.ranges[at][1]:
            return self.ranges[at][2]
        return (0, 0)

    def _allocation(
        self, address: int, memory: str, times: tuple[int, int], size: int, frame: str
    ) -> SnapshotBlock:
        return SnapshotBlock(address, memory, *times, size, rounded(size, self.divisions), frame)

    def _reserved(self, changes: list[tuple[str, int]]) -> dict[str, int]:
        """Return the most bytes of segments, of the device and of each memory, backwards from the end."""
        now, total = Counter(self.reserved), sum(self.reserved.values())
        most = {"": total, **now}
        for memory, change in reversed(changes):
            now[memory] -= change
            total -= change
            if now[memory] < 0:
                fault = f"found segments of {memory} that the trace makes and the file lacks, expected both"
                raise InstanceError(f"{self.where}: {fault}")
            most[""] = max(most[""], total)
            most[memory] = max(most.get(memory, 0), now[memory])
        return most


def rounded(size: int, divisions: Mapping[str, Any] | None = None) -> int:
    """Return the bytes of the block that the allocator looks for.

    Parameters
    ----------
    size
        Bytes asked for.
    divisions
        ``roundup_power2_divisions`` of the file: into how many steps the range between two powers of two is
        divided, by its lower end in MiB ("1" to "32768"; smaller and larger ones as the nearest).

    Examples
    --------
    >>> from lowtide.instances.formats.cuda_snapshot import rounded
    >>> rounded(1), rounded(513), rounded(1200 * 2**20, {"1024": 4}) // 2**20
    (512, 1024, 1280)
    """
    steps = (divisions or {}).get(str(2 ** min(max(size.bit_length() - 21, 0), 15)), 0)
    if type(steps) is int and 1 < steps < 2**20 and size > SMALLEST * steps:
        floor = 1 << (size.bit_length() - 1)
        step = floor >> (steps.bit_length() - 1)
        return -(-size // step) * step
    return max(1, -(-size // SMALLEST)) * SMALLEST


def brief(value: object) -> str:
    """Return a value of a pickle as it goes into a message; containers by their type."""
    if type(value) is int and value.bit_length() > 70:
        return f"an integer of {value.bit_length()} bits"
    return (
        show(value) if value is None or isinstance(value, int | float | str) else f"a {type(value).__name__}"
    )


def _word(value: object) -> str:
    return value[:200] if type(value) is str else brief(value)


def _list(value: object, where: str) -> list[Any]:
    if type(value) is not list:
        raise InstanceError(f"{where}: found {brief(value)}, expected a list")
    return value


def _rows(value: object, where: str) -> list[dict[str, Any]]:
    rows = _list(value, where)
    if {*map(type, rows)} - {dict}:
        wrong = next(x for x in rows if type(x) is not dict)
        raise InstanceError(f"{where}: found {brief(wrong)}, expected a list of objects")
    return rows


def _field(row: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = row.get(key)
    if type(value) is not kind:
        raise InstanceError(f"{where}, {key}: found {brief(value)}, expected a {kind.__name__}")
    return value


def _number(row: Mapping[str, Any], key: str, most: int, where: str, default: int | None = None) -> int:
    value = row.get(key, default)
    if type(value) is not int or not 0 <= value < most:
        raise InstanceError(f"{where}, {key}: found {brief(value)}, expected an integer >= 0 and < {most}")
    return value


def _stream(row: Mapping[str, Any], where: str) -> int:
    value = row.get("stream", 0)
    if type(value) is not int or not -_MOST_ADDRESS < value < _MOST_ADDRESS:
        raise InstanceError(f"{where}, stream: found {brief(value)}, expected an integer of 64 bits")
    return value


def _pair(value: object, where: str) -> tuple[int, int]:
    if isinstance(value, tuple | list) and len(value) == 2:
        first, second = value
        if {*map(type, value)} == {int} and min(value) >= 0 and max(value) < _MOST_ADDRESS:
            return first, second
    raise InstanceError(f"{where}, pool: found {brief(value)}, expected two integers >= 0")
