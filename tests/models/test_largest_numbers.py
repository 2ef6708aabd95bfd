"""Numbers and sums of 2**62 are refused when an instance or a question is made, whoever makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt

LIMIT = 2**62


def two_ops(nbytes: int = 1, duration: int = 1, workspace: int = 0, mode: lt.Mode | None = None) -> lt.Graph:
    """One op writes a tensor, another one reads it; numbers of the first, half of all."""
    ops = (
        lt.Op(
            name="a", writes=(0,), duration_ns=duration, workspace=workspace, modes=(mode,) if mode else ()
        ),
        lt.Op(name="b", reads=(0,)),
    )
    return lt.Graph(name="two", tensors=(lt.Tensor(name="x", nbytes=nbytes),), ops=ops)


def buffers(**fields: Any) -> lt.Buffers:
    """One buffer of 1 byte."""
    return lt.Buffers(buffers=(lt.Buffer(id="x", **{"lower": 0, "upper": 1, "size": 1, **fields}),))


def machine(**fields: int) -> lt.Machine:
    """Two tiers with a channel."""
    number = {"capacity": 8, "bytes_per_s": 1, "latency_ns": 0, **fields}
    return lt.Machine(
        tiers=(lt.Tier(name="fast", capacity=number["capacity"]), lt.Tier(name="slow")),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="fast"),)),),
        channels=tuple(
            lt.Channel(src=a, dst=b, bytes_per_s=number["bytes_per_s"], latency_ns=number["latency_ns"])
            for a, b in (("fast", "slow"), ("slow", "fast"))
        ),
    )


MADE: dict[str, tuple[Callable[[int], object], int]] = {
    "bytes": (lambda most: two_ops(nbytes=most), LIMIT - 1),
    "bytes and workspace": (lambda most: two_ops(nbytes=LIMIT // 2, workspace=most), LIMIT // 2 - 1),
    "bytes and workspace of a mode": (
        lambda most: two_ops(nbytes=LIMIT // 2, mode=lt.Mode(workspace=most)),
        LIMIT // 2 - 1,
    ),
    "durations": (lambda most: two_ops(duration=most), LIMIT - 2),
    "duration of a mode": (lambda most: two_ops(mode=lt.Mode(duration_ns=most)), LIMIT - 2),
    "size": (lambda most: buffers(size=most), LIMIT - 2),
    "size and offset": (lambda most: buffers(size=LIMIT // 2, offset=most), LIMIT // 2 - 2),
    "alignment": (lambda most: buffers(alignment=most), LIMIT - 2),
    "end of a lifetime": (lambda most: buffers(upper=most), LIMIT - 1),
    "hint of an address": (lambda most: buffers(hint=most), LIMIT - 1),
    "pool": (lambda most: replace(buffers(), pools={"": most}), LIMIT - 1),
    "capacity": (lambda most: machine(capacity=most), LIMIT - 1),
    "bytes per second": (lambda most: machine(bytes_per_s=most), LIMIT - 1),
    "latency": (lambda most: machine(latency_ns=most), LIMIT - 1),
    "makespan": (lambda most: lt.Makespan(two_ops(), processors=1, memory=most), LIMIT - 1),
    "memory-edges": (lambda most: lt.MemoryEdges(two_ops(), most), LIMIT - 1),
    "minio": (lambda most: lt.MinIO(two_ops(), memory=most), LIMIT - 1),
    "recompute": (lambda most: lt.Recompute(two_ops(), memory=most), LIMIT - 1),
}


@pytest.mark.parametrize("what", MADE)
def test_the_largest_is_taken_and_one_more_is_refused(what: str) -> None:
    make, most = MADE[what]
    make(most)
    for more in (most + 1, 2**63, 10**30):
        with pytest.raises(lt.InstanceError, match=r"expected less than 2\*\*62"):
            make(more)


def test_all_of_the_numbers_are_added_up() -> None:
    graph = two_ops(nbytes=LIMIT - 2)
    with pytest.raises(lt.InstanceError, match="nbytes: found the sum 4611686018427387904, expected less"):
        replace(graph, tensors=(*graph.tensors, lt.Tensor(name="y", nbytes=2)))
    slow = replace(graph, ops=(*graph.ops, lt.Op(name="c", duration_ns=LIMIT - 3)))
    with pytest.raises(
        lt.InstanceError, match="duration_ns: found the sum 4611686018427387904, expected less"
    ):
        replace(slow, ops=(*slow.ops, lt.Op(name="d")))
    box = buffers(size=LIMIT // 2 - 1).buffers[0]
    lt.Buffers(buffers=(box,))
    with pytest.raises(lt.InstanceError, match="size, offset and alignment: found the sum"):
        lt.Buffers(buffers=(box, replace(box, id="y")))
