"""What a CUDA memory snapshot of PyTorch says: peaks, fragmentation, and which code holds the bytes.

`snapshot_report` is what ``lowtide show snapshot.pickle`` prints.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ...instances.formats.cuda_snapshot import DeviceTrace, SnapshotBlock, read_traces
from ...models.buffers import Buffer, Buffers
from ...models.problems.offsets import Offsets
from ...solvers.solve import solve


def snapshot_report(
    path: str | os.PathLike[str], *, time_limit: float = 10.0, threads: int | None = None
) -> list[dict[str, Any]]:
    """Return for each device of a snapshot how many bytes were needed, and why not fewer were reserved.

    Parameters
    ----------
    path
        What ``torch.cuda.memory._dump_snapshot`` wrote.
    time_limit
        Seconds for the least heights of all memories together.
    threads
        Of the solver; None: the cores of this process.

    Returns
    -------
    list
        An object for each device, bytes if not said otherwise: ``requested`` and ``rounded`` are the largest
        sums of bytes alive at once, ``reserved`` that of all segments. Each of ``memories`` (a stream, or a
        private pool of it) has its own ``rounded`` and ``reserved``, and ``least``, the least height that
        addresses can give it, with ``bound`` and ``status``. ``fragmentation`` is reserved - least; it is
        negative if the least is not proved, or if segments went back to the driver in between. ``holders``
        are the blocks at the rounded peak by the code that asked for them. ``iterations`` are None or the
        number of equal ones, the events of each and the number of events before them. ``before`` blocks were
        there before the trace began.

    Raises
    ------
    InstanceError
        If the file is no snapshot, or contradicts itself.

    Examples
    --------
    >>> import pickle, tempfile
    >>> from lowtide.adapters import cuda_snapshots
    >>> entries = [("segment_alloc", 2097152), ("alloc", 1000)]
    >>> trace = [{"action": action, "addr": 4096, "size": size, "stream": 0} for action, size in entries]
    >>> block = {"size": 1024, "requested_size": 1000, "state": "active_allocated"}
    >>> segment = {"address": 4096, "total_size": 2097152, "stream": 0, "blocks": [block]}
    >>> with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
    ...     pickle.dump({"segments": [segment], "device_traces": [trace]}, file)
    ...     file.flush()
    ...     (device,) = cuda_snapshots.snapshot_report(file.name)
    >>> [device[key] for key in ("requested", "rounded", "least", "reserved")]
    [1000, 1024, 1024, 2097152]
    """
    deadline = time.monotonic() + time_limit
    return [_of_device(trace, deadline, threads) for trace in read_traces(path)]


def _of_device(trace: DeviceTrace, deadline: float, threads: int | None) -> dict[str, Any]:
    rounded, at = _peak(trace.allocations, lambda a: a.rounded)
    names = sorted({a.pool for a in trace.allocations} | {*trace.reserved} - {""})
    memories = [_of_memory(trace, name, deadline, threads) for name in names]
    return {
        "device": trace.device,
        "events": len(trace.events),
        "blocks": len(trace.allocations),
        "before": trace.before,
        "requested": _peak(trace.allocations, lambda a: a.requested)[0],
        "rounded": rounded,
        "peak_event": at,
        "least": sum(m["least"] for m in memories),
        "reserved": trace.reserved[""],
        "fragmentation": trace.reserved[""] - sum(m["least"] for m in memories),
        "memories": memories,
        "holders": _holders(a for a in trace.allocations if a.lower <= at < a.upper),
        "iterations": _iterations(trace),
    }


def _of_memory(trace: DeviceTrace, name: str, deadline: float, threads: int | None) -> dict[str, Any]:
    own = [a for a in trace.allocations if a.pool == name]
    buffers = tuple(
        Buffer(id=str(k), lower=a.lower, upper=a.upper, size=a.rounded, pool=name) for k, a in enumerate(own)
    )
    left = max(0.1, deadline - time.monotonic())
    result = solve(Offsets(Buffers(buffers=buffers, name=name)), time_limit=left, threads=threads)
    least, reserved = result.objective or 0, trace.reserved.get(name, 0)
    return {
        "memory": name,
        "blocks": len(own),
        "rounded": _peak(own, lambda a: a.rounded)[0],
        "least": least,
        "bound": result.bound,
        "status": str(result.status),
        "reserved": reserved,
        "fragmentation": reserved - least,
    }


def _peak(blocks: Iterable[SnapshotBlock], size: Callable[[SnapshotBlock], int]) -> tuple[int, int]:
    """Return the largest sum of sizes alive at one time, and the first such time."""
    changes: defaultdict[int, int] = defaultdict(int)
    for a in blocks:
        changes[a.lower] += size(a)
        changes[a.upper] -= size(a)
    live = most = at = 0
    for moment in sorted(changes):
        live += changes[moment]
        if live > most:
            most, at = live, moment
    return most, at


def _holders(blocks: Iterable[SnapshotBlock]) -> list[dict[str, Any]]:
    """Return the bytes and numbers of blocks by their frames, most bytes first."""
    held: defaultdict[str, list[int]] = defaultdict(list)
    for a in blocks:
        held[a.frame].append(a.rounded)
    rows = sorted(held.items(), key=lambda row: (-sum(row[1]), row[0]))
    return [{"frame": frame, "blocks": len(sizes), "nbytes": sum(sizes)} for frame, sizes in rows]


def _iterations(trace: DeviceTrace) -> dict[str, int] | None:
    equal = trace.iterations()
    return {"count": len(equal), "events": len(equal[0]), "first": equal[0].start} if equal else None
