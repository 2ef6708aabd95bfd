"""Certificates by prices that are wrong in one thing each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import lowtide as lt
from lowtide.models.certificate import Certificate
from lowtide.models.setting import Setting
from lowtide.models.verifier.proofs.price_claims import PricesProof, WindowsProof
from lowtide.models.verifier.proofs.working_set import WorkingSetProof
from tests.problems.placement import machine

GRAPH = lt.Graph(
    name="pair",
    tensors=(lt.Tensor(name="x", nbytes=8, initial=True, kind="input"), lt.Tensor(name="y", nbytes=4)),
    ops=(
        lt.Op(name="a", reads=(0,), writes=(1,), duration_ns=50),
        lt.Op(name="b", reads=(1,), duration_ns=50),
    ),
)
BENCH = machine(16, 100)
SETTING = Setting(machine=BENCH, periodic=False, start={"input": ("host",)})
RATE = 6_000_000
"""Bytes per second from host to gpu: x comes in 8 / 6e6 s, 1333.3 ns, before the first op."""
PROOF = PricesProof(
    denominator=6,
    least=0,
    samples=(-1, 0),
    memory=(0, 0),
    channels=((("host", "gpu"), (1000, 0)),),
)
"""A byte that comes from the host in the first epoch pays 1000 / 6 ns: 1e9 / RATE."""
LEAST = 100 + 1334
TURNS = lt.Graph(
    name="turns",
    tensors=tuple(lt.Tensor(name=x, nbytes=8, initial=True, kind="input") for x in "xy"),
    ops=(lt.Op(name="a", reads=(0,), duration_ns=50), lt.Op(name="b", reads=(1,), duration_ns=50)),
)
NARROW = replace(SETTING, machine=machine(8, None, ssd=False))
WINDOWS = WindowsProof(
    windows=(
        PROOF,
        replace(
            PROOF,
            samples=(-1, 1, 2),
            memory=(0, 1000, 0),
            channels=((("host", "gpu"), (0, 1000, 0)),),
        ),
    )
)
"""x comes in before a, y only behind it, for x fills the memory: two stalls of 1333.3 ns each."""
SUM = 100 + 2 * 1334


def signed(
    proof: Any = PROOF, bound: int = 0, graph: lt.Graph = GRAPH, setting: Setting | None = SETTING
) -> Certificate:
    """Return a certificate of a graph."""
    return Certificate(
        bound=bound,
        proof=proof,
        graph_name=graph.name,
        graph_source=None,
        graph_sha256=graph.sha256,
        setting=setting,
    )


def bad_prices() -> Iterator[tuple[lt.Graph, Certificate]]:
    """Yield certificates that a rule refuses; most claim what is true."""
    yield GRAPH, signed(bound=LEAST + 1)
    yield GRAPH, signed(replace(PROOF, capacities=(("ssd", (1, 0)),)))  # a tier without limit
    yield GRAPH, signed(replace(PROOF, channels=((("host", "gpu"), (1001, 0)),)))  # stalls earn more
    for samples in ((0, -1), (-1, -1), (-1, 4), (-2, 0)):
        yield GRAPH, signed(replace(PROOF, samples=samples))
    yield GRAPH, signed(replace(PROOF, samples=(0, 1)))  # a single run without its beginning
    yield GRAPH, signed(replace(PROOF, denominator=0))
    yield GRAPH, signed(replace(PROOF, least=-1))
    yield GRAPH, signed(replace(PROOF, groups=(("no such group", (0, 0)),)))
    yield GRAPH, signed(replace(PROOF, channels=2 * PROOF.channels))
    yield GRAPH, signed(replace(PROOF, memory=(-1, 0)))
    yield GRAPH, signed(replace(PROOF, memory=(0,)))
    yield GRAPH, signed(replace(PROOF, memory=(2**61, 0)))
    yield TURNS, signed(WINDOWS, SUM + 1, TURNS, NARROW)
    yield TURNS, signed(WindowsProof(windows=2 * WINDOWS.windows[1:]), 0, TURNS, NARROW)
    yield GRAPH, signed(setting=None)
    yield GRAPH, signed(WorkingSetProof(at="op", op=0))
    yield GRAPH, replace(signed(), graph_sha256="0" * 64)
    for changed in other_machines():
        yield GRAPH, signed(setting=replace(SETTING, machine=changed))


def other_machines() -> Iterator[lt.Machine]:
    """Yield machines that the proof is not about."""
    second = lt.Processor(name="gpu1", tiers=(lt.Access(tier="gpu"),))
    yield replace(BENCH, processors=(*BENCH.processors, second))
    slowed = lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu", bytes_per_s=1000),))
    yield replace(BENCH, processors=(slowed,))
    both = lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"), lt.Access(tier="host")))
    yield replace(BENCH, processors=(both,))
    names = ("a", "b")
    more = [lt.Channel(src="gpu", dst=x, bytes_per_s=10) for x in names]
    more += [lt.Channel(src=x, dst="gpu", bytes_per_s=10) for x in names]
    tiers = tuple(lt.Tier(name=x) for x in names)
    yield replace(BENCH, tiers=(*BENCH.tiers, *tiers), channels=(*BENCH.channels, *more))


def in_parts(rng: Random, proof: PricesProof, count: int = 3) -> WindowsProof:
    """Return a proof by windows, each with the prices of channels of some epochs, and of memory near them."""
    owner = [rng.randrange(count) for _ in proof.samples]

    def passing(w: int, row: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(p if owner[e] == w else 0 for e, p in enumerate(row))

    def held(w: int, row: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(p if w in (owner[e], owner[e - 1]) else 0 for e, p in enumerate(row))

    return WindowsProof(
        windows=tuple(
            replace(
                proof,
                memory=held(w, proof.memory),
                capacities=tuple((name, held(w, row)) for name, row in proof.capacities),
                channels=tuple((pair, passing(w, row)) for pair, row in proof.channels),
                groups=tuple((name, passing(w, row)) for name, row in proof.groups),
            )
            for w in range(count)
        )
    )
