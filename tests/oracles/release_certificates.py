"""Certificates by release times that are wrong, each in one thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import lowtide as lt
from lowtide.models.certificate import Certificate
from lowtide.models.setting import Setting
from lowtide.models.verifier.proofs.release import ReleaseProof
from tests.problems.placement import machine

BENCH = machine(100, None)
SETTING = Setting(machine=BENCH, periodic=True, start={"input": ("ssd",)})
X = lt.Tensor(name="x", nbytes=12, kind="input", initial=True)
GRAPH = lt.Graph(
    name="one input", tensors=(X,), ops=(lt.Op(name="a"), lt.Op(name="b", reads=(0,), duration_ns=1000))
)
RIGHT = ReleaseProof(op=1, tiers=("ssd",))
"""12 bytes at 2 MB/s, then 1000 ns."""


def released(bound: int, proof: ReleaseProof, setting: Setting = SETTING) -> Certificate:
    return Certificate(
        bound=bound,
        proof=proof,
        graph_name=GRAPH.name,
        graph_source=None,
        graph_sha256=GRAPH.sha256,
        setting=setting,
    )


def bad_releases() -> Iterator[tuple[lt.Graph, Certificate]]:
    yield GRAPH, released(7001, RIGHT)
    yield GRAPH, released(1, replace(RIGHT, op=2))
    for tiers in ((), ("gpu", "ssd"), ("moon",)):
        yield GRAPH, released(1, replace(RIGHT, tiers=tiers))
    for groups in (("moon",), ("in", "in"), ("out",)):
        yield GRAPH, released(1, replace(RIGHT, groups=groups))
    closed = replace(BENCH, channels=BENCH.channels[:3], groups=())
    yield GRAPH, released(1, RIGHT, replace(SETTING, machine=closed))
    yield GRAPH, replace(released(1, RIGHT), setting=None)
