"""A model of a CUDA device for tests: streams, events, an allocator, a clock, and who may know of what.

Inside ``with FakeCuda() as fake:`` what torch offers in ``torch.cuda`` is replaced, tensors of the device and
of pinned memory are tensors of the CPU, and operators compute at once. What is modelled is what a device does
later, in which order, and where:

* Each stream, and the host, has a vector clock: of every other one the last action that surely is over. A
  launch knows what the host knows; an event takes the clock of its stream along, and whoever waits for it
  learns that.
* Each read and write of bytes by a stream is held against all others of these bytes: two of them, one a
  write, must be known to be in order. Else `Race` is raised.
* Memory of the device comes from the pool of the current stream, in blocks of 512 bytes. A block is free as
  soon as nothing on the host refers to it; which of the free blocks is handed out is drawn at random. So
  whoever gets bytes that somebody may still use is a race as well.
* Pinned memory is never handed out twice: torch keeps what a stream still uses.
* Each launch takes `cost` nanoseconds of its stream, and a little of the host's, so that there are times to
  measure.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402  (needs torch)
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

BLOCK = 512
HOST = -1
CALL_NS = 7_000
"""What the host takes to issue something."""

LARGE = 2**21
"""Elements from which on nothing is computed."""

Clock = dict[int, int]


class Race(AssertionError):
    """Two uses of bytes that nothing keeps in order, or a time that is read before it is there."""


def join(one: Clock, other: Clock) -> None:
    for who, n in other.items():
        one[who] = max(n, one.get(who, 0))


class Stream:
    def __init__(self, fake: FakeCuda) -> None:
        self.fake, self.number, self.clock, self.time = fake, len(fake.streams), Clock(), 0
        fake.streams.append(self)

    def wait_event(self, event: Event) -> None:
        if not self.fake.ignored("wait_event", self, event):
            join(self.clock, event.clock)
            self.time = max(self.time, event.time)

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def record_event(self) -> Event:
        event = Event(self.fake)
        event.record(self)
        return event


class Event:
    def __init__(self, fake: FakeCuda, enable_timing: bool = False) -> None:
        self.fake, self.timing, self.clock, self.time = fake, enable_timing, Clock(), 0
        self.stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.stream = stream or self.fake.current
        self.fake.host_time += CALL_NS
        self.fake.begin(self.stream)
        self.clock, self.time = dict(self.stream.clock), self.stream.time

    def synchronize(self) -> None:
        if not self.fake.ignored("event.synchronize", None, self):
            self.fake.told(self.clock, self.time)

    def elapsed_time(self, end: Event) -> float:
        if not (self.timing and end.timing):
            raise RuntimeError("events without timing")
        if any(self.fake.host.get(who, 0) < n for who, n in end.clock.items()):
            raise Race("a time is read before the host knows that it is there")
        return (end.time - self.time) / 1e6


class Pool:
    """The memory of a stream: a range of addresses, of which blocks are handed out."""

    def __init__(self, nbytes: int, rng: Random | None) -> None:
        self.memory = bytearray(nbytes + BLOCK)
        base = torch.frombuffer(self.memory, dtype=torch.uint8).data_ptr()
        self.base, self.rng, self.nbytes = base + -base % BLOCK, rng, nbytes
        self.shift = self.base - base
        self.given: dict[int, tuple[int, Any]] = {}
        self.used = 0

    def take(self, nbytes: int) -> Any:
        size = -(-nbytes // BLOCK) * BLOCK
        self.given = {a: entry for a, entry in self.given.items() if not entry[1].expired()}
        gaps: list[tuple[int, int]] = []
        at = 0
        for start, (stop, _) in sorted(self.given.items()):
            gaps, at = [*gaps, (at, start)], stop
        gaps.append((at, max(self.used, at + size)))
        fits = [x for a, b in gaps if b - a >= size for x in (a, b - size)]
        start = self.rng.choice(fits) if self.rng else fits[0]
        self.used = max(self.used, start + size)
        assert start + size <= self.nbytes, "the pool is too small for the test"
        view = memoryview(self.memory)[self.shift + start : self.shift + start + nbytes]
        found = torch.frombuffer(view, dtype=torch.uint8)
        self.given[start] = start + size, StorageWeakRef(found.untyped_storage())
        return found


class FakeCuda:
    """The device; see the module.

    Parameters
    ----------
    seed
        Of what the allocator hands out; None: always the lowest addresses.
    cost
        Nanoseconds of a launch: of what (``h2d``, ``d2h``, or an operator's name), its bytes, and the device.
    ignore
        Whether a call is left out that orders something: ``wait_event``, ``event.synchronize`` or
        ``synchronize``, with the stream that waits and the event, where there are some.
    total
        Bytes of the device.
    pool
        Addresses of each stream's memory.
    """

    def __init__(
        self,
        seed: int | None = None,
        cost: Callable[[str, int, FakeCuda], int] = lambda what, nbytes, fake: 1000,
        ignore: Callable[[str, Stream | None, Event | None], bool] = lambda *_: False,
        total: int = 2**34,
        pool: int = 2**20,
    ) -> None:
        self.cost, self.ignored, self.total, self.pool_bytes = cost, ignore, total, pool
        self.rng = None if seed is None else Random(seed)
        self.streams: list[Stream] = []
        self.host: Clock = {HOST: 1}
        self.host_time = 0
        self.current = Stream(self)
        self.pools: dict[int, Pool] = {}
        self.uses: list[tuple[int, int, bool, int, int, str]] = []
        self.pinned: list[tuple[int, int, Any]] = []
        self.busy: list[tuple[int, int, str]] = []
        self.fraction = 1.0
        self.allocations = 0
        self.live: dict[Any, int] = {}
        self.peak = 0
        self.deterministic: list[str | None] = []

    # -- order -------------------------------------------------------------------------------------

    def begin(self, stream: Stream) -> None:
        """What a stream gets now comes after all that the host knows."""
        join(stream.clock, self.host)
        stream.time = max(stream.time, self.host_time)

    def told(self, clock: Clock, time: int) -> None:
        join(self.host, clock)
        self.host_time = max(self.host_time, time)

    def synchronize(self) -> None:
        if not self.ignored("synchronize", None, None):
            for stream in self.streams:
                self.told(stream.clock, stream.time)
            self.uses = [use for use in self.uses if self.host.get(use[3], 0) < use[4]]  # all others may know

    def launch(self, what: str, reads: list[Any], writes: list[Any], stream: Stream | None = None) -> None:
        """Note what a stream does with storages, and that it takes time."""
        stream = stream or self.current
        self.host_time += CALL_NS
        self.begin(stream)
        stream.clock[stream.number] = stream.clock.get(stream.number, 0) + 1
        begun = stream.time
        stream.time += self.cost(what, sum(x.nbytes() for x in (writes or reads)), self)
        self.busy.append((begun, stream.time, what))
        self.use(stream.number, stream.clock, what, reads, writes)

    def use(self, who: int, clock: Clock, what: str, reads: list[Any], writes: list[Any]) -> None:
        for storages, write in ((reads, False), (writes, True)):
            for storage in storages:
                a, b = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
                for start, stop, wrote, whose, n, other in self.uses:
                    if a < stop and start < b and (write or wrote) and clock.get(whose, 0) < n:
                        raise Race(f"{what} on {who} uses what {other} on {whose} uses too")
                self.uses.append((a, b, write, who, clock[who], what))

    def on_host(self, what: str, reads: list[Any], writes: list[Any]) -> None:
        self.host[HOST] += 1
        self.use(HOST, self.host, what, reads, writes)

    # -- memory ------------------------------------------------------------------------------------

    def empty(self, nbytes: int) -> Any:
        """Return memory of the device from the pool of the current stream."""
        self.allocations += 1
        if not nbytes:
            return torch.frombuffer(bytearray(1), dtype=torch.uint8)[:0].clone()
        pool = self.pools.setdefault(self.current.number, Pool(self.pool_bytes, self.rng))
        return self.counted(pool.take(nbytes))

    def counted(self, found: Any) -> Any:
        storage = found.untyped_storage()
        self.live[StorageWeakRef(storage)] = storage.nbytes()
        if self.held() > self.fraction * self.total:
            raise torch.OutOfMemoryError
        self.peak = max(self.peak, self.held())
        return found

    def held(self) -> int:
        self.live = {ref: nbytes for ref, nbytes in self.live.items() if not ref.expired()}
        return sum(self.live.values())

    def is_pinned(self, storage: Any) -> bool:
        return any(a <= storage.data_ptr() < b for a, b, _ in self.pinned)

    def is_near(self, storage: Any) -> bool:
        return StorageWeakRef(storage) in self.live

    def statistics(self) -> dict[str, int]:
        return {
            "requested_bytes.all.current": self.held(),
            "requested_bytes.all.peak": self.peak,
            "allocation.all.allocated": self.allocations,
        }

    def reset_peak(self) -> None:
        self.peak = self.held()

    # -- what replaces torch.cuda ------------------------------------------------------------------

    def names(self) -> dict[str, Any]:
        return {
            "is_available": lambda: True,
            "Stream": lambda: Stream(self),
            "Event": lambda enable_timing=False: Event(self, enable_timing),
            "current_stream": lambda: self.current,
            "stream": lambda stream: _Current(self, stream),
            "synchronize": self.synchronize,
            "memory_stats": self.statistics,
            "reset_peak_memory_stats": self.reset_peak,
            "memory_allocated": self.held,
            "max_memory_allocated": lambda: self.peak,
            "max_memory_reserved": lambda: self.peak,
            "empty_cache": lambda: None,
            "_sleep": lambda cycles: self.launch("sleep", [], []),
            "get_rng_state": torch.get_rng_state,
            "set_rng_state": torch.set_rng_state,
            "get_device_name": lambda device: "Model of a GPU",
            "get_device_properties": lambda device: SimpleNamespace(total_memory=self.total),
            "set_per_process_memory_fraction": lambda fraction: setattr(self, "fraction", fraction),
        }

    def __enter__(self) -> FakeCuda:
        self.patch = pytest.MonkeyPatch()
        for name, value in self.names().items():
            self.patch.setattr(torch.cuda, name, value)
        self.patch.setattr(torch.backends.cudnn, "version", lambda: None)  # asks the driver
        self.modes: list[Any] = [_Factories(self), _Uses(self)]
        for mode in self.modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self.modes):
            mode.__exit__(*error)
        self.patch.undo()


class _Current:
    def __init__(self, fake: FakeCuda, stream: Stream) -> None:
        self.fake, self.stream = fake, stream

    def __enter__(self) -> None:
        self.before, self.fake.current = self.fake.current, self.stream

    def __exit__(self, *error: Any) -> None:
        self.fake.current = self.before


class _Factories(TorchFunctionMode):  # type: ignore[misc]
    """Tensors that are asked for on the device, or in pinned memory."""

    def __init__(self, fake: FakeCuda) -> None:
        super().__init__()
        self.fake = fake

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func is torch.Tensor.to:
            args = (args[0], *("cpu" if str(x).startswith("cuda") else x for x in args[1:]))
        if str(options.get("device", "")).startswith("cuda"):
            options["device"] = "cpu"
            if func is torch.empty and options.get("dtype") is torch.uint8 and args[0] < self.fake.pool_bytes:
                return self.fake.empty(args[0])
            return self.fake.counted(func(*args, **options))
        if options.pop("pin_memory", False) and args[0]:
            memory = torch.frombuffer(bytearray(args[0] + 1), dtype=torch.uint8)
            self.fake.pinned.append((memory.data_ptr(), memory.data_ptr() + args[0] + 1, memory))
            return torch.frombuffer(memory.numpy().data[: args[0]], dtype=torch.uint8)
        return func(*args, **options)


class _Uses(TorchDispatchMode):  # type: ignore[misc]
    """What operators do with bytes: copies between host and device, and whatever else computes."""

    def __init__(self, fake: FakeCuda) -> None:
        super().__init__()
        self.fake = fake

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        fake, name = self.fake, func.overloadpacket.__name__
        given = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if (name in ("mm",) and given[0].numel() >= LARGE) or (name == "copy_" and given[0].numel() >= LARGE):
            found = args[0]
        else:
            found = func(*args, **kwargs)
        storages = [x.untyped_storage() for x in given]
        if name == "copy_":
            self.copied(
                storages[0], storages[1], bool(args[2]) if len(args) > 2 else kwargs.get("non_blocking")
            )
        elif name in ("_to_copy", "clone") and fake.is_near(storages[0]) and kwargs.get("device") is not None:
            fake.launch("d2h", storages, [])
            fake.told(fake.current.clock, fake.current.time)
        elif (
            any(map(fake.is_near, storages))
            and not func.is_view
            and name not in ("set_", "detach", "_to_copy")
        ):
            self.computed(name, func, args, kwargs, storages, found)
        return found

    def copied(self, target: Any, source: Any, non_blocking: bool) -> None:
        fake = self.fake
        near = [fake.is_near(x) for x in (target, source)]
        if not any(near):
            fake.on_host("copy", [source], [target])
            return
        what = "kernel" if all(near) else "h2d" if near[0] else "d2h"
        fake.launch(what, [source], [target])
        pageable = not all(near) and not fake.is_pinned(source if near[0] else target)
        if not non_blocking or pageable:
            fake.told(fake.current.clock, fake.current.time)

    def computed(self, name: str, func: Any, args: Any, kwargs: Any, storages: list[Any], found: Any) -> None:
        """Note reads of what is given, writes of what is changed and of what is new."""
        fake = self.fake
        before = {StorageWeakRef(x) for x in storages}
        made = [x for x in torch.utils._pytree.tree_leaves(found) if isinstance(x, torch.Tensor)]
        new = [x for x in made if StorageWeakRef(x.untyped_storage()) not in before]
        changed = []
        for i, argument in enumerate(func._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            if argument.alias_info is not None and argument.alias_info.is_write:
                changed += [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]
        for x in new:  # torch's own memory: no other than new bytes, as far as this model goes
            fake.allocations += 1
            fake.counted(x)
            a, b = (
                x.untyped_storage().data_ptr(),
                x.untyped_storage().data_ptr() + x.untyped_storage().nbytes(),
            )
            fake.uses = [use for use in fake.uses if not (use[0] < b and a < use[1])]
        writes = [x.untyped_storage() for x in (*changed, *new)]
        fake.launch(name, storages, writes)
